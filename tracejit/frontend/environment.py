"""Run a user's function so that what it reads besides its arguments is seen.

Closure cells, globals, defaults, attributes of captured objects and the entries of captured containers
reach the function as it would find them by itself, except that numbers and arrays are *lifted* (the
tracer says how), and that some objects, ``np.zeros`` say, are *replaced* by what works on traced
values. Nothing outside is changed: functions, classes, objects and containers of the user's are
presented as shadows, and what the user's code stores lands in these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tracejit.frontend.reads import Origin, Read, Reads
from tracejit.frontend.registry import is_traced
from tracejit.frontend.shadow import (
    LRU_CACHE,
    ShadowGlobals,
    is_dispatcher,
    shadow_cached,
    shadow_dispatch,
    shadow_function,
    shadow_module,
)
from tracejit.frontend.shadow_classes import CannotShadow, can_shadow, shadow_class
from tracejit.frontend.shadow_containers import is_copied, shadow_container
from tracejit.frontend.shadow_instances import Instance, shadow_instance
from tracejit.frontend.values import (
    MISSING,
    changes_unseen,
    is_constant,
    is_library,
    is_numeric,
    is_user_class,
    is_user_function,
)

__all__ = ["Environment", "Read", "Reads", "Write", "shadow"]

Lift = Callable[[Any, str], Any]


@dataclass(frozen=True, eq=False)
class Write:
    """Something that the user's code stored, and that the user's object does not know of.

    Parameters
    ----------
    path
        ``m.count``, ``global total``, ``history[3]``.
    owner
        The user's object (for globals the module's namespace, for closures the cell).
    key
        Attribute, key, index or name.
    value
        What was stored; `MISSING` for something deleted.
    """

    path: str
    owner: Any
    key: Any
    value: Any


@dataclass(eq=False)
class _Tracked:
    """A place into which the user's code may store: what lies there now, and what was presented there."""

    path: Callable[[Any], str]
    owner: Any
    live: Callable[[], Mapping[Any, Any]]
    seen: dict[Any, Any]

    def writes(self) -> list[Write]:
        live = self.live()
        changed = {key: value for key, value in live.items() if self.seen.get(key, MISSING) is not value}
        changed.update((key, MISSING) for key in self.seen if key not in live)
        return [Write(self.path(key), self.owner, key, value) for key, value in changed.items()]


class Environment:
    """What one trace of a function sees of the world; to be used by one thread, for one trace.

    Parameters
    ----------
    lift
        Called with a captured number or array and its path; returns what the user's code is given for it.
    replace
        ``id`` of an object -> what the user's code is given for it.
    reads
        Filled while the user's code runs.
    """

    def __init__(self, lift: Lift, replace: Mapping[int, Any], reads: Reads) -> None:
        self.lift, self.replace, self.reads = lift, replace, reads
        self.instances: dict[int, Instance] = {}
        # By id, and together with the original, so that no id is used again.
        self._shadows: dict[int, tuple[Any, Any]] = {}
        self._originals: dict[int, Any] = {}
        self._found_at: dict[int, Origin] = {}
        self._rooted: set[int] = set()
        self._globals: dict[int, ShadowGlobals] = {}
        self._cells: dict[int, tuple[CellType, CellType]] = {}
        self._filled: set[int] = set()
        self._tracked: list[_Tracked] = []

    # What the tracer uses

    def shadow(self, function: Any) -> Any:
        """Return the callable to trace: the function, method, partial or callable object as it runs in here.

        What traced code made itself, to be traced within, is returned as it is.
        """
        if id(function) in self.replace:
            return self.replace[id(function)]
        if self._made_here(function):
            return function
        name = (
            "self" if can_shadow(type(function)) else getattr(function, "__name__", type(function).__name__)
        )
        is_root = function is self.reads.root.value
        origin = Origin.traced(name, self.reads.root) if is_root else Origin.constant(name, function)
        if isinstance(function, FunctionType) and not is_dispatcher(function):
            self.reads.function(origin, function)
            # What a library's function closes over is not seen.
            self.reads.entangled |= is_root and not is_user_function(function)
            self._rooted.add(id(function))
            known = self._shadows.get(id(function))
            return known[1] if known else shadow_function(self, function, origin, top=True)
        if isinstance(function, MethodType):
            whose = origin.attribute("__self__") if is_root else Origin.constant("self", function.__self__)
            owner = self.present(function.__self__, whose.named("self"))
            return MethodType(self.shadow(function.__func__), owner)
        if type(function) is functools.partial:
            return self._partial(function, origin, self.shadow(function.func), top=True)
        return self.present(function, origin)

    def _made_here(self, function: Any) -> bool:
        if isinstance(function, functools.partial):
            return id(function) in self._originals or self._made_here(function.func)
        if isinstance(function, (FunctionType, MethodType)):
            code = getattr(function, "__func__", function)
        else:
            code = type(function).__call__ if callable(function) else None
        names = getattr(code, "__globals__", None)
        return isinstance(names, ShadowGlobals) and names.environment is self

    def present(self, value: Any, origin: Origin) -> Any:
        """Return what the user's code is given for a value that it reads, and record the reading."""
        if id(value) in self.replace:
            self.reads.identity(origin, value)
            return self.replace[id(value)]
        if is_traced(value) or id(value) in self._originals:
            return value  # belongs to this trace or to one around it
        if is_numeric(value):
            lifted = self.lift(value, origin.path)
            self.reads.number(origin)
            return lifted
        if is_constant(value):
            self.reads.equality(origin, value)
            return value
        if id(value) in self._found_at:
            self.reads.alias(origin, value, self._found_at[id(value)])
            return self._shadows[id(value)][1]
        if isinstance(value, _CODE):
            return self._code(value, origin)
        return shadow_container(self, value, origin) if is_copied(value) else self._instance(value, origin)

    def original(self, value: Any) -> Any:
        """Return the user's object that a shadow stands for; any other value as it is."""
        if isinstance(value, MethodType):
            return MethodType(self.original(value.__func__), self.original(value.__self__))
        return self._originals.get(id(value), value)

    def written(self) -> list[Write]:
        """Return what the user's code has stored outside of its own variables."""
        return [write for tracked in self._tracked for write in tracked.writes()]

    def present_fixed(self, value: Any, origin: Origin, top: bool) -> Any:
        """Present a default or an argument of a partial: numbers cannot change there, since it is guarded."""
        if not top and isinstance(value, (float, complex, np.generic)):
            return value
        return self.present(value, origin)

    def made_for(self, owner: Any) -> Any:
        """Return what stands for a container, cell or namespace of the user's; None if nothing does."""
        if id(owner) in self._cells:
            return self._cells[id(owner)][1]
        if id(owner) in self._globals:
            return self._globals[id(owner)]
        return self._shadows[id(owner)][1] if id(owner) in self._shadows else None

    # Code: functions, classes and modules, each guarded as a whole

    def _code(self, value: Any, origin: Origin) -> Any:
        if isinstance(value, FunctionType) and (not origin.rooted or self._is_read_through(value)):
            self.reads.function(origin, value)
        else:
            self.reads.identity(origin, value)
        # A function that is found twice is not to be two.
        self.reads.entangled |= id(value) in self._shadows and (origin.rooted or id(value) in self._rooted)
        if origin.rooted:
            self._rooted.add(id(value))
        if isinstance(value, MethodType):
            owner = self.present(value.__self__, origin.attribute("__self__"))
            return MethodType(self.shadow_code(value.__func__), owner)
        if type(value) is functools.partial:
            known = self._shadows.get(id(value))
            return (
                known[1] if known else self._partial(value, origin, self.shadow_code(value.func), top=False)
            )
        if isinstance(value, type):
            return self._class(value, origin)
        return self.module(value) if isinstance(value, ModuleType) else self.shadow_code(value, origin)

    def _is_read_through(self, function: FunctionType) -> bool:
        """Return whether all that a function closes over is presented, so that others may stand for it."""
        return is_user_function(function) and not is_dispatcher(function)

    def shadow_code(self, value: Any, origin: Origin | None = None) -> Any:
        """Return the shadow of a function that is guarded already; anything else as it is."""
        if id(value) in self._shadows:
            return self._shadows[id(value)][1]
        if is_dispatcher(value):
            return shadow_dispatch(self, value)
        if isinstance(value, FunctionType):
            return shadow_function(self, value, origin)
        return shadow_cached(self, value) if isinstance(value, LRU_CACHE) else value

    def _partial(self, value: Any, origin: Origin, function: Any, top: bool) -> Any:
        positions, names = origin.attribute("args"), origin.attribute("keywords")
        positional = [self.present_fixed(item, positions.item(i), top) for i, item in enumerate(value.args)]
        keywords = {
            key: self.present_fixed(item, names.item(key), top) for key, item in value.keywords.items()
        }
        return self.remember(value, functools.partial(function, *positional, **keywords))

    def _class(self, cls: type, origin: Origin) -> type:
        if not can_shadow(cls):
            return cls
        if is_user_class(type(cls)):
            self.reads.opaque[f"class of {origin.path}"] = type(cls).__qualname__
        try:
            return self.shadow_class(cls)
        except CannotShadow as reason:
            self.reads.opaque[origin.path] = str(reason)
            return cls

    def shadow_class(self, cls: type) -> type:
        """Return the shadow of a class; raises `CannotShadow`."""
        known = self._shadows.get(id(cls))
        return known[1] if known else shadow_class(self, cls)

    def module(self, module: Any) -> Any:
        """Return what the user's code is given for a module."""
        if id(module) in self.replace:
            return self.replace[id(module)]
        if not isinstance(module, ModuleType) or is_library(module.__name__):
            return module
        known = self._shadows.get(id(module))
        return known[1] if known else self.remember(module, shadow_module(self, module))

    def _instance(self, value: Any, origin: Origin) -> Any:
        if can_shadow(type(value)) or _only_holds(type(value)):
            try:
                return shadow_instance(self, value, origin)
            except CannotShadow as reason:
                self.reads.pass_through(origin, value, str(reason))
        else:
            self.reads.pass_through(origin, value, type(value).__qualname__ if changes_unseen(value) else "")
        return value

    # What shadows have in common

    def remember(self, value: Any, made: Any, origin: Origin | None = None) -> Any:
        """Have ``made`` stand for ``value`` wherever else it is found; ``origin`` if it is mutable."""
        self._shadows[id(value)] = value, made
        self._originals[id(made)] = value
        if origin is not None:
            self._found_at[id(value)] = origin
        return made

    def track(
        self,
        path: Callable[[Any], str],
        owner: Any,
        live: Callable[[], Mapping[Any, Any]],
        seen: dict[Any, Any] | None = None,
    ) -> dict[Any, Any]:
        """Have `written` compare a place with what was presented there, which is returned to be completed."""
        seen = dict(live()) if seen is None else seen
        self._tracked.append(_Tracked(path, owner, live, seen))
        return seen

    def globals_of(self, real: dict[str, Any]) -> ShadowGlobals:
        """Return the globals that shadows of a module's functions have in common."""
        if isinstance(real, ShadowGlobals) and real.environment is self:
            return real
        if id(real) not in self._globals:
            names = self._globals[id(real)] = ShadowGlobals(self, real)
            self.track(lambda name: f"global {name}", real, names.written, names.seen)
        return self._globals[id(real)]

    def cell(self, cell: CellType) -> CellType:
        """Return the cell that stands for ``cell`` in all shadows; it is empty until `fill` or `keep`."""
        return self._cells.setdefault(id(cell), (cell, CellType()))[1]

    def cells_of(self, function: FunctionType) -> list[CellType]:
        """Return the cells of the shadow of a function."""
        closure = function.__closure__ or ()
        self.reads.entangled |= any(id(cell) in self._cells for cell in closure)
        return [self.cell(cell) for cell in closure]

    def keep(self, cell: CellType) -> None:
        """Let a library's function see what it closes over."""
        if id(cell) not in self._filled:
            self.cell(cell).cell_contents = cell.cell_contents

    def fill(self, cell: CellType, origin: Origin) -> None:
        """Present the contents of a cell; one that is still empty stays so."""
        if id(cell) in self._filled:
            return
        self._filled.add(id(cell))
        made = self.cell(cell)
        if (value := _contents(cell)) is not MISSING:
            made.cell_contents = self.present(value, origin)
        self.track(lambda _: origin.path, cell, lambda: {"cell_contents": _contents(made)})


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


_CODE = (FunctionType, MethodType, ModuleType, type, functools.partial, LRU_CACHE)


def _only_holds(cls: type) -> bool:
    """Return whether a class is a library's whose instances hold what the user puts there, and nothing else."""
    return cls is SimpleNamespace or (cls.__module__, cls.__qualname__) == ("argparse", "Namespace")


def shadow(function: Any, lift: Lift, replace: Mapping[int, Any], reads: Reads) -> Any:
    """Return ``function`` as it is to be traced, in an environment of its own."""
    return Environment(lift, replace, reads).shadow(function)
