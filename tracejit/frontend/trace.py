"""Run a user's function on traced values: a Python function and its arguments -> a tape.

A *root* trace starts from plain arguments; what the function reads besides them is seen by the shadow environment and
becomes an input (numbers, arrays) or a guard (everything else).  A *nested* trace runs inside another one (``grad`` of
a function that calls ``grad``); its inputs are atoms of the outer tape.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from tracejit.errors import InternalError, NonNumericError, SideEffectWarning, TracejitError, UnsupportedError
from tracejit.frontend.concrete import Values
from tracejit.frontend.environment import Environment
from tracejit.frontend.extents import known_extents
from tracejit.frontend.looping import unrolled
from tracejit.frontend.pytree import TreeDef, flatten
from tracejit.frontend.reads import Origin, Reads
from tracejit.frontend.regions import Specialise
from tracejit.frontend.registry import is_traced, operand
from tracejit.frontend.replacements import replacements
from tracejit.frontend.tracer import TracedArray
from tracejit.frontend.values import require_plain
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Symbol, Undecided, Unify
from tracejit.ir.source import here
from tracejit.ir.tape import Atom, Builder, Tape, ValueGuard, Var, current
from tracejit.tracebacks import warn_user

__all__ = [
    "Static",
    "SymbolTable",
    "Traced",
    "ZeroD",
    "abstract",
    "trace_nested",
    "trace_root",
    "with_symbols",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Static:
    """A leaf that is not a number: handed through as it is."""

    value: Any


@dataclass(frozen=True, slots=True)
class ZeroD:
    """A result leaf without axes that is an array all the same, as the argument was."""

    atom: Atom


@dataclass(frozen=True, eq=False)
class Traced:
    """What a trace found.

    Attributes
    ----------
    tape : Tape
        Its first inputs are the dynamic argument leaves, the others are captured.
    outputs : tuple of int or Static
        Per output leaf the number of the tape output, or the value itself.
    out_tree : TreeDef
    reads : Reads
        What a root trace read besides its arguments: the captured inputs, and what must be the same again.
    captured : tuple of Atom
        Of a nested trace, per captured input the atom outside.
    unrolled : tuple of (str, str)
        Loops that could not become regions: where, and why.
    written : tuple of (int, int)
        Inputs that the function wrote into: (number of the input, number of the tape output).
    """

    tape: Tape
    outputs: tuple[int | Static, ...]
    out_tree: TreeDef
    written: tuple[tuple[int, int], ...] = ()
    reads: Reads = field(default_factory=Reads)
    captured: tuple[Atom, ...] = ()
    unrolled: tuple[tuple[str, str], ...] = ()


class SymbolTable:
    """The size symbols of one root trace: equal extents share a symbol; `Unify` refines it.

    Attributes
    ----------
    constants : set of int
        The arguments, by their number, that are whole numbers and constants of this trace.
    known_extents : bool
        Whether no extent of this trace is found while it runs, since it asks for one: masks are constants then, and
        loops unrolled where slices differ.
    """

    _NAMES = "nmkpqrstuvw"

    def __init__(self) -> None:
        self._by_extent: dict[int, Symbol] = {}
        self._refinements: list[Mapping[Symbol, Dim]] = []
        self.constants: set[int] = set()
        self.known_extents = False

    def shape(self, extents: Sequence[int]) -> tuple[Dim, ...]:
        """Return the symbolic shape of an input with these extents."""
        return tuple(map(self._dim, extents))

    def refine(self, mapping: Mapping[Symbol, Dim]) -> None:
        self._refinements.append(mapping)

    def _dim(self, extent: int) -> Dim:
        if extent <= dims.SMALL:
            return int(extent)
        if extent not in self._by_extent:
            count = len(self._by_extent)
            letter, turn = self._NAMES[count % len(self._NAMES)], count // len(self._NAMES)
            self._by_extent[extent] = Symbol(letter + (str(turn) if turn else ""), int(extent))
        dim: Dim = dims.poly(self._by_extent[extent])
        for mapping in self._refinements:
            dim = dims.substitute(dim, mapping)
        return dim


def with_symbols(build: Callable[[SymbolTable], T]) -> T:
    """Return ``build(table)``, starting again with a refined table whenever sizes turn out to be tied or constant."""
    table = SymbolTable()
    while True:
        try:
            with known_extents(table.known_extents):
                return build(table)
        except Unify as tie:
            table.refine(tie.mapping)
        except Specialise as wish:
            if wish.integers <= table.constants:
                raise InternalError("A trace asks for constants that it has.") from None
            table.constants |= wish.integers
        except Undecided as question:
            if table.known_extents:
                raise UnsupportedError(
                    f"The trace has to know a size that only values decide: {question}.",
                    where=here(),
                    hint="Let shapes depend on shapes and on integers that are arguments.",
                ) from None
            table.known_extents = True


def abstract(value: Any, table: SymbolTable) -> Aval:
    """Return the aval of an input value; Python scalars are weak."""
    weak = isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)
    array = np.asarray(value)
    return Aval(table.shape(array.shape), array.dtype.newbyteorder("="), weak)


def _handle(var: Var, value: Any) -> TracedArray:
    """Return the handle of an input; one without axes may be an array all the same, which can be written."""
    return TracedArray(var, how="array" if isinstance(value, np.ndarray) else "shape")


class _Root:
    """The root trace of this thread: where captured values are lifted to."""

    def __init__(self, builder: Builder, table: SymbolTable) -> None:
        self.builder, self.table = builder, table
        self.reads = Reads()
        self.values = Values(builder)
        self.lifted: list[TracedArray] = []
        self.environment = Environment(self.lift, replacements(), self.reads)

    def lift(self, value: Any, path: str) -> TracedArray:
        """Make a captured value an input of the root tape (in the order of the numeric reads)."""
        name = path.removeprefix("global ").removeprefix("closure ").partition(" ")[0]
        var = self.builder.input(abstract(value, self.table), name)
        self.values.know(var, value)
        handle = _handle(var, value)
        handle._born = 0  # it was there before the loop whose body reads it first
        self.lifted.append(handle)
        return handle

    def run(self, function: Callable[..., Any], arguments: tuple[Any, Any], extra: int) -> Any:
        args, kwargs = arguments
        args = args[: len(args) - extra]
        try:
            return self.environment.shadow(function)(*args, **kwargs)
        except ValueError as error:
            if isinstance(error.__cause__, TracejitError):  # NumPy's store hides why the value did not fit
                raise error.__cause__.with_traceback(error.__traceback__) from None
            raise

    def static(self, leaf: Static, name: str) -> Any:
        """Return what user code gets for an argument that is no number: objects are seen through, as captured ones."""
        return self.environment.present(leaf.value, Origin.constant(name, leaf.value))


_FRAMES_PER_CALL = 5
"""How many Python frames a call in lifted code may take, with the doors between."""

_thread = threading.local()


def _root() -> _Root | None:
    return getattr(_thread, "root", None)


@contextmanager
def _rooted(root: _Root) -> Iterator[None]:
    outer, _thread.root = _root(), root
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit * _FRAMES_PER_CALL)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        _thread.root = outer


def trace_root(
    function: Callable[..., Any],
    tree: TreeDef,
    leaves: Sequence[Any],
    names: Sequence[str],
    table: SymbolTable,
    extra: int = 0,
    axes: Sequence[int | None] = (),
) -> Traced:
    """Trace ``function`` on plain arguments.

    Parameters
    ----------
    function : callable
    tree : TreeDef
        Structure of ``(args, kwargs)``.
    leaves : sequence
        `Static` leaves, and numbers or arrays.
    names : sequence of str
        The user's names of the leaves.
    table : SymbolTable
    extra : int
        Trailing arguments that the function does not see.
    axes : sequence of (int or None)
        Per dynamic leaf an axis that the function does not see.
    """
    with Builder() as builder:
        root = _Root(builder, table)
        handles: list[Any] = []
        statics: list[tuple[int, str]] = []
        constants: dict[int, Any] = {}
        for leaf, name in zip(leaves, names, strict=True):
            if isinstance(leaf, Static):
                statics.append((len(handles), name))
                handles.append(leaf)
                continue
            if len(builder.inputs) in table.constants:
                constants[len(handles)] = leaf
            axis = axes[len(builder.inputs)] if axes else None
            var = builder.input(without_axis(abstract(leaf, table), axis), name)
            root.values.know(var, leaf if axis is None else np.take(leaf, 0, axis))
            handles.append(_handle(var, leaf if axis is None else None))
        for place, name in statics:  # after the arguments, since what they hold becomes inputs behind these
            handles[place] = root.static(handles[place], name)
        unrolled().clear()
        with _rooted(root), root.reads.of(function):
            for place, value in constants.items():
                builder.guards.append(ValueGuard(handles[place].atom, value, builder.source()))
            given = [constants.get(place, handle) for place, handle in enumerate(handles)]
            result = root.run(function, tree.unflatten(given), extra)
        refuse_random(root.reads)
        _warn_of_stores(root.environment)
        return _finish(builder, root, result, [*handles, *root.lifted])


def without_axis(aval: Aval, axis: int | None) -> Aval:
    """Return the aval of one entry along ``axis``."""
    return aval if axis is None else aval.with_shape((*aval.shape[:axis], *aval.shape[axis + 1 :]))


def trace_nested(
    function: Callable[..., Any],
    tree: TreeDef,
    leaves: Sequence[Any],
    extra: int = 0,
    axes: Sequence[int | None] = (),
) -> Traced:
    """Trace ``function`` on leaves that are `Static` or atoms of the current builder."""
    outer, root = current(), _root()
    assert root is not None
    with Builder() as builder:
        handles: list[Any] = []
        links: dict[Var, Atom] = {}
        for leaf in leaves:
            if isinstance(leaf, Static):
                handles.append(leaf.value)
                continue
            axis = axes[len(builder.inputs)] if axes else None
            var = builder.input(without_axis(leaf.aval, axis))
            links[var] = leaf
            handles.append(TracedArray(var))
        Values(builder, outer, links)
        traced = _finish(builder, root, root.run(function, tree.unflatten(handles), extra), handles)
    captured = {inside: atom for atom, inside in builder.captured.items()}
    outside = tuple(captured[v] for v in traced.tape.inputs[len(links) :])
    return replace(traced, reads=Reads(), captured=outside)


_RANDOM = ("Generator", "RandomState", "Random")


def refuse_random(reads: Reads) -> None:
    """Raise if the function took a random number generator: what it draws would be the same in every call."""
    for path, kind in reads.opaque.items():
        if kind in _RANDOM:
            raise UnsupportedError(
                f"The traced function uses the random number generator {path!r}; "
                "compiled calls would repeat its numbers.",
                hint="Draw outside and pass the numbers as an argument.",
            )


def _warn_of_stores(environment: Environment) -> None:
    paths = sorted({write.path for write in environment.written()})
    if paths:
        warn_user(
            f"The traced function stores into {', '.join(paths)}; only the trace does so, on a copy, "
            "not the compiled calls. Return the value instead.",
            SideEffectWarning,
        )


def _finish(builder: Builder, root: _Root, result: Any, handles: Sequence[Any]) -> Traced:
    leaves, tree = flatten(result)
    atoms: list[Atom] = []
    outputs: list[int | Static] = []
    for leaf in leaves:
        if is_numeric(leaf):
            outputs.append(len(atoms))
            atoms.append(operand(leaf))
        else:
            outputs.append(Static(root.environment.original(leaf)))
    dynamic = [h for h in handles if isinstance(h, TracedArray)]
    written = []
    for number, handle in enumerate(dynamic):
        if handle.atom is not builder.inputs[number]:
            written.append((number, len(atoms)))
            atoms.append(handle.atom)
    reasons = tuple(dict.fromkeys(unrolled()))
    tape = builder.finish(atoms)
    return Traced(tape, tuple(outputs), tree, tuple(written), root.reads, unrolled=reasons)


def is_numeric(value: Any) -> bool:
    """Return whether ``value`` is a number or an array of numbers, traced or not.

    Raises
    ------
    NonNumericError
        For object arrays, which might hold numbers, and for arrays with masks or units.
    """
    if is_traced(value):
        return True
    if isinstance(value, np.ndarray):
        require_plain(value)
    if isinstance(value, bool | int | float | complex | np.generic | np.ndarray):
        dtype = np.asarray(value).dtype
        if dtype.kind == "O":
            raise NonNumericError(
                "An array of dtype object cannot be differentiated or compiled.",
                where=here(),
                hint="Convert it with `np.asarray(a, dtype=float)`, or pass a list or tuple of arrays.",
            )
        return dtype.kind in "biufc"
    return False
