"""What a function read besides its arguments while it was traced, and how to read it again.

Each `Read` knows the path on which the function found a value. A later call reads the numbers on the
same paths and passes them in; everything else that was read is compared, and the trace is used again
only if nothing differs. Paths are followed anew: ``self.state.u`` is found although ``self.state`` is
another object by now, if that is of the same class.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, Literal

import numpy as np

from tracejit.frontend.values import MISSING, is_constant, is_numeric, same

__all__ = ["Origin", "Place", "Read", "Reads", "Root"]

Getter = Callable[[], Any]
Test = Callable[[Any], bool]

# What belongs to modules, and keeps nothing else alive.
_LASTING = (ModuleType, BuiltinFunctionType, np.ufunc, type(np.sum))

# How a path fails that leads nowhere any more: attribute, key or index gone, another type, an emptied cell.
GONE = (AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Place:
    """A place that can be looked at without running Python.

    Parameters
    ----------
    kind
        "root": the traced function; "closure": the contents of cell ``at`` of the function that ``of()`` returns;
        "entry": ``of[at]`` of a dict; "cell": the contents of the cell ``of``.
    of, at
    """

    kind: Literal["root", "closure", "entry", "cell"]
    of: Any = None
    at: Any = None


class Root(threading.local):
    """The function that reads are made for, while they are made: one trace may serve many with the same code."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a captured value comes from.

    Parameters
    ----------
    path
        How messages name it: ``global params``.
    text
        How its parts are named in turn: ``params`` makes ``params.k``.
    get
        Reads it anew.
    fixed
        The object itself, where no path leads to another one; its parts are then read without detour.
    place
        Where machine code finds it without calling ``get``, if that is possible.
    rooted
        Whether the path begins at the traced function itself, and not at something that all of its code share.
    """

    path: str
    text: str
    get: Getter
    fixed: Any = MISSING
    place: Place | None = None
    rooted: bool = False

    @classmethod
    def constant(cls, path: str, value: Any) -> Origin:
        """The origin of an object that is known otherwise, such as a default of a function."""
        return cls(path, path, lambda: value, value)

    @classmethod
    def traced(cls, path: str, root: Root) -> Origin:
        """The origin of the traced function itself."""
        return cls(path, path, lambda: root.value, place=Place("root"), rooted=True)

    def closure(self, number: int, name: str, function: str) -> Origin:
        """The origin of a variable that the function found here closes over."""
        get = self.get
        origin = Origin(
            f"closure {name} of {function}", name, lambda: get().__closure__[number].cell_contents
        )
        return replace(origin, place=Place("closure", get, number), rooted=self.rooted)

    @classmethod
    def variable(cls, namespace: dict[str, Any], name: str) -> Origin:
        """The origin of a module's global."""
        place = Place("entry", namespace, name)
        return cls(f"global {name}", name, partial(namespace.get, name, MISSING), place=place)

    @classmethod
    def cell(cls, cell: CellType, name: str, function: str) -> Origin:
        """The origin of a variable that a function closes over."""
        path = f"closure {name} of {function}"
        return cls(path, name, lambda: cell.cell_contents, place=Place("cell", cell))

    def _part(self, text: str, read: Callable[[Any], Any]) -> Origin:
        get, owner = self.get, self.fixed
        if owner is not MISSING:
            return Origin(text, text, lambda: read(owner))
        return Origin(text, text, lambda: read(get()), rooted=self.rooted)

    def named(self, text: str) -> Origin:
        """The same origin under another name."""
        return replace(self, path=text, text=text)

    def attribute(self, name: str) -> Origin:
        """The origin of an attribute, as ``getattr`` finds it."""
        return self._part(f"{self.text}.{name}", operator.attrgetter(name))

    def entry(self, name: str) -> Origin:
        """The origin of an attribute that lies in the object's own ``__dict__``."""
        return self._part(f"{self.text}.{name}", lambda owner: owner.__dict__[name])

    def item(self, key: Any) -> Origin:
        """The origin of an element of a list or dict."""
        return self._part(f"{self.text}[{key!r}]", operator.itemgetter(key))


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """One value that a function read while it was traced.

    Parameters
    ----------
    path
        For the user: ``global K``, ``closure c of f``, ``m.a``.
    get
        Reads the value anew; returns `MISSING`, or raises one of `GONE`, if the path leads nowhere any more.
    kind
        ``"numeric"``: the value is an input of the tape.  ``"static"``: the tape holds for such a value only.
    value
        What was read while tracing; `MISSING` for what is not to be kept alive.
    holds
        Whether the tape holds for a value read anew.
    place
        Where the value is found without ``get``.
    test
        "same": ``holds`` is true of whatever is the same object as one that it was true of; "function": as long as
        that function's code and defaults are the same objects too; "other": it has to be asked each time.
    rooted
        Whether it is found by way of the traced function.
    """

    path: str
    get: Getter
    kind: Literal["numeric", "static"]
    value: Any
    holds: Test
    place: Place | None = None
    test: Literal["same", "function", "other"] = "other"
    rooted: bool = False

    def still_valid(self) -> bool:
        """Return whether the tape holds for what the path leads to now (for a number: any number)."""
        try:
            return self.holds(self.get())
        except GONE:
            return False


def _unchanged_function(function: FunctionType) -> Test:
    """An edited function may keep its identity: reloading tools replace ``__code__``."""
    code, defaults, kwdefaults = function.__code__, function.__defaults__, function.__kwdefaults__

    def holds(new: Any) -> bool:
        return (
            new is function
            and function.__code__ is code
            and function.__defaults__ is defaults
            and function.__kwdefaults__ is kwdefaults
        )

    return holds


def _same_code(function: FunctionType, reads: Reads) -> Test:
    """It may be another function with the same code, unless ``reads`` say that more than its code matters.

    A lambda is made anew in each turn of a loop; what it closes over is read by way of it.
    """
    known, code = weakref.ref(function), weakref.ref(function.__code__)
    names, defaults, kwdefaults = function.__globals__, function.__defaults__, function.__kwdefaults__

    def holds(new: Any) -> bool:
        return (
            type(new) is FunctionType
            and new.__code__ is code()
            and new.__globals__ is names
            and new.__defaults__ is defaults
            and new.__kwdefaults__ is kwdefaults
            and (not reads.entangled or new is known())
        )

    return holds


@dataclass
class Reads:
    """All that one trace has read.

    Parameters
    ----------
    root
        What the traced function is, in this thread, at present.
    reads
        In the order of reading; what a path passes through comes before its end.
    opaque
        Path of each object that the user's code got as it is, so that what it contains was not seen, and its
        type or what is special about it.
    entangled
        Whether the traced function, or one that it closes over, was found on several paths, has attributes or defaults
        with parts, or has a variable in common with another function that ran: what is true of it then need not be true
        of others with the same code.
    """

    root: Root = field(default_factory=Root)
    reads: list[Read] = field(default_factory=list)
    opaque: dict[str, str] = field(default_factory=dict)
    entangled: bool = False
    _separate: dict[type, list[Getter]] = field(default_factory=dict)
    _steps: list[tuple[Getter, Test, bool]] = field(default_factory=list)

    @property
    def numeric(self) -> list[Read]:
        """The reads that are inputs of the tape, in the order of lifting."""
        return [read for read in self.reads if read.kind == "numeric"]

    @contextmanager
    def of(self, function: Any) -> Iterator[None]:
        """Let reads begin at ``function``."""
        outer, self.root.value = self.root.value, function
        try:
            yield
        finally:
            self.root.value = outer

    def current(self, function: Any = None) -> list[Any] | None:
        """Return the present values of the numeric reads, or None if the trace does not hold for ``function`` now.

        This is the way of every call, so each path is followed once.
        """
        if len(self._steps) < len(self.reads):  # in the first call; threads may do so at once
            self._steps = [(read.get, read.holds, read.kind == "numeric") for read in self.reads]
        found = []
        outer, self.root.value = self.root.value, function
        try:
            for get, holds, numeric in self._steps:
                value = get()
                if not holds(value):
                    return None
                if numeric:
                    found.append(value)
        except GONE:
            return None
        finally:
            self.root.value = outer
        return found

    def still_valid(self) -> bool:
        """Return whether the trace holds for what stands on all the paths now."""
        return self.current() is not None

    @property
    def serves_others(self) -> bool:
        """Return whether the trace may be kept for other functions with the same code.

        It must not keep alive what belongs to one function only.
        """
        if self.entangled or not any(read.place == Place("root") for read in self.reads):
            return False
        mine = [read.value for read in self.reads if read.rooted and read.kind == "static"]
        return all(v is MISSING or isinstance(v, _LASTING) or is_constant(v) for v in mine)

    def first_changed(self) -> Read | None:
        """Return the first read for whose present value the trace does not hold, if there is one."""
        return next((read for read in self.reads if not read.still_valid()), None)

    def number(self, origin: Origin) -> None:
        """Record a number or array, read anew at each call."""
        self.reads.append(
            Read(origin.path, origin.get, "numeric", MISSING, is_numeric, origin.place, rooted=origin.rooted)
        )

    def guard(
        self, origin: Origin, value: Any, holds: Test, test: Literal["same", "function", "other"] = "other"
    ) -> None:
        """Record a value for which the trace holds as long as ``holds`` is true of it."""
        read = Read(origin.path, origin.get, "static", value, holds, origin.place, test, origin.rooted)
        self.reads.append(read)

    def identity(self, origin: Origin, value: Any) -> None:
        """Record a value that has to stay the same object."""
        self.guard(origin, value, partial(operator.is_, value), "same")

    def equality(self, origin: Origin, value: Any) -> None:
        """Record a constant that has to stay equal, unless no path leads to another one."""
        if origin.fixed is value:
            return
        self.guard(origin, value, partial(same, value), "same")

    def absence(self, origin: Origin) -> None:
        """Record that nothing was found on a path."""
        self.identity(origin, MISSING)

    def function(self, origin: Origin, function: FunctionType) -> None:
        """Record a function of the user's."""
        if not origin.rooted:
            self.guard(origin, function, _unchanged_function(function), "function")
            return
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self.entangled |= bool(function.__dict__) or not all(map(is_constant, defaults))
        self.guard(origin, MISSING, _same_code(function, self), "function")

    def structure(self, origin: Origin, value: Any, holds: Test) -> None:
        """Record a mutable object whose parts are read one by one, and which is no other's alias."""
        self.guard(origin, MISSING, holds)
        separate = self._separate.setdefault(type(value), [])
        separate.append(origin.get)
        if len(separate) == 2:
            # Objects that were several are not to be one now: a write into the one would show in the other.
            distinct = Origin("objects that are distinct", "", lambda: len({id(get()) for get in separate}))
            self.guard(distinct, None, lambda count: count == len(separate))

    def alias(self, origin: Origin, value: Any, first: Origin) -> None:
        """Record that a second path led to an object that was found before."""
        get = first.get
        self.guard(origin, MISSING, lambda new: new is get())

    def pass_through(self, origin: Origin, value: Any, unseen: str) -> None:
        """Record an object that the user's code got as it is, and what it is if its contents may change."""
        self.identity(origin, value)
        if unseen:
            self.opaque[origin.path] = unseen


def shape_test(value: Collection[Any]) -> Test:
    """Return the test that a container has the type and the keys or length that ``value`` has now."""
    cls = type(value)
    if isinstance(value, dict):
        keys = list(value)
        return lambda new: type(new) is cls and list(new) == keys
    length = len(value)
    return lambda new: type(new) is cls and len(new) == length
