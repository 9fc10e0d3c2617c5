"""An entry: one compiled tape, the calls it fits, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.emit import Program
from tracejit.frontend.pytree import TreeDef
from tracejit.frontend.reads import Reads
from tracejit.frontend.trace import Static
from tracejit.ir import dims
from tracejit.ir.aval import Aval, compute_dtype
from tracejit.ir.dims import Symbol
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Tape, ValueGuard
from tracejit.runtime.kernel import Kernel

__all__ = ["Entry", "GuardMismatch", "Layouts", "Sizes", "layout_of", "native"]

Sizes = dict[Symbol, int]
Layouts = tuple[str, ...]


class GuardMismatch(Exception):
    """A run whose guard values are not those of the trace; carries them up to the first that differs."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        super().__init__(self.values)


def native(value: Any) -> Any:
    """Return an argument as compiled code takes it: an aligned array in native byte order, or a scalar."""
    if isinstance(value, np.ndarray):
        array = np.asarray(value)
        dtype = compute_dtype(array.dtype.newbyteorder("="))
        if array.dtype != dtype or not array.flags.aligned or array.dtype.byteorder not in "=|":
            array = array.astype(dtype)
        return array
    return value


def layout_of(value: Any) -> str:
    """Return ``C`` for contiguous arrays, ``A`` for others, ``S`` for scalars."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return "S"
    return "C" if value.flags.c_contiguous else "A"


@dataclass(eq=False)
class Entry:
    """A tape with its compiled form.

    Attributes
    ----------
    tape : Tape
        Inputs are the dynamic argument leaves, then captured values.
    reads : Reads
        What the function read besides its arguments.
    outputs : tuple of (int or Static)
        Per result leaf the number of the tape output.
    out_tree : TreeDef
    arrays : tuple of bool
        Per result leaf, whether a result without axes is a 0-d array (as the argument was) and not a scalar.
    written : tuple of (int, int)
        Arguments and captured arrays to write back: (input number, tape output number).
    layouts : tuple of str
    lower, compile : callable
        Make the generated code and its compiled form; called at the first compiled run.
    forward : Tape, optional
        The traced function.
    told : bool
        The user knows that the tape is too long to be compiled.
    warned : bool
        The trace has issued warnings, which other functions with the same code are to issue too.
    """

    tape: Tape
    reads: Reads
    outputs: tuple[int | Static, ...]
    out_tree: TreeDef
    arrays: tuple[bool, ...]
    written: tuple[tuple[int, int], ...]
    layouts: Layouts
    lower: Callable[[Entry], Program]
    compile: Callable[[Entry], Kernel]
    forward: Tape | None = None
    told: bool = False
    warned: bool = False
    _program: Program | None = None
    _compiled: tuple[Program, Kernel] | None = None
    _sizes: dict[tuple[tuple[int, ...], ...], Sizes | None] = field(default_factory=dict)

    def gather(self, leaves: Sequence[Any], function: Any) -> tuple[list[Any], list[Any], Sizes] | None:
        """Return all inputs as given (captured ones read anew) and as compiled code takes them, and the sizes.

        None if this entry does not fit ``function``, or these leaves.
        """
        captured = self.reads.current(function)
        if captured is None:
            return None
        given = [*leaves, *captured]
        values = [native(value) for value in given]
        for number in range(len(leaves), len(values)):
            if not _same_kind(values[number], self.tape.inputs[number].aval, self.layouts[number]):
                return None
        shapes = tuple(np.shape(v) for v in values)
        if shapes not in self._sizes:
            self._sizes[shapes] = self._match(shapes)
        sizes = self._sizes[shapes]
        return None if sizes is None else (given, values, sizes)

    def _match(self, shapes: Sequence[tuple[int, ...]]) -> Sizes | None:
        """Return the extents of the size symbols, or None if the shapes break what the trace relied on."""
        sizes: Sizes = {}
        for var, shape in zip(self.tape.inputs, shapes, strict=True):
            for dim, extent in zip(var.shape, shape, strict=True):
                symbol = dims.as_symbol(dim)
                if symbol is not None:
                    sizes.setdefault(symbol, extent)
        for var, shape in zip(self.tape.inputs, shapes, strict=True):
            if any(dims.evaluate(d, sizes) != extent for d, extent in zip(var.shape, shape, strict=True)):
                return None
        if any(extent < symbol.lower for symbol, extent in sizes.items()):
            return None
        tests = {"!=": lambda v: v != 0, ">=": lambda v: v >= 0, "<": lambda v: v < 0}
        if not all(tests[g.relation](dims.evaluate(g.size, sizes)) for g in self.tape.sizes):
            return None
        return sizes

    @property
    def name(self) -> str:
        """A name for generated code: the user's function."""
        sources = [e.source for e in self.tape.eqns if e.source is not None]
        return sources[-1].stack[-1][2] if sources else "constant"

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = self.lower(self)
        return self._program

    @property
    def compiled(self) -> tuple[Program, Kernel]:
        if self._compiled is None:
            self._compiled = self.program, self.compile(self)
        return self._compiled

    def run(self, values: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the tape's outputs on gathered inputs; raise `GuardMismatch` if Python would go another way."""
        program, compiled = self.compiled
        arrays = [
            np.empty(tuple(dims.evaluate(d, sizes) for d in output.shape), output.compute)
            for output in program.outputs
            if output.kind == "array"
        ]
        inputs = [v[()] if isinstance(v, np.ndarray) and not v.ndim else v for v in (*values, *self.consts())]
        try:
            scalars = compiled(*inputs, *arrays)
        except Exception:
            self._check(self._interpreted_guards(values, sizes))
            raise
        count = len(program.outputs) - len(arrays)
        self._check(scalars[count:])
        return [
            arrays[o.position] if o.kind == "array" else o.dtype.type(scalars[o.position])
            for o in program.outputs
        ]

    def consts(self) -> list[Any]:
        """Return the arrays that compiled code takes behind the inputs."""
        return [native(array) for _, array in self.tape.consts]

    def interpret(self, values: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the tape's outputs as NumPy computes them."""
        try:
            outputs, guards = interpret(self.tape, values, sizes)
        except Exception:
            self._check(self._interpreted_guards(values, sizes))
            raise
        self._check(guards)
        return [np.array(out) for out in outputs]

    def _interpreted_guards(self, values: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Return the values of the guards, computed without the rest of the tape, up to the first that differs.

        What made a run fail may belong to a path that Python would not have gone.
        """
        found = [guard.expected for guard in self.tape.guards]
        for place, guard in enumerate(self.tape.guards):
            try:
                found[place] = interpret(_only(self.tape, guard), values, sizes)[1][0]
            except Exception:
                break  # it depends on the failure itself, and so comes after it
            if not _equal(found[place], guard.expected):
                break
        return found

    def _check(self, found: Sequence[Any]) -> None:
        for place, (value, guard) in enumerate(zip(found, self.tape.guards, strict=True)):
            if not _equal(value, guard.expected):
                raise GuardMismatch([np.asarray(f).item() for f in found[: place + 1]])

    def agrees(self, found: Sequence[Any]) -> bool:
        """Return whether this entry's path can be the one that guard values of another entry point to."""
        return all(
            _equal(guard.expected, value) for guard, value in zip(self.tape.guards, found, strict=False)
        )

    def finish(self, outputs: Sequence[Any], given: Sequence[Any]) -> Any:
        """Return the user's result: leaves in their dtypes, scalars as scalars, inputs written back."""
        for number, output in self.written:
            given[number][...] = outputs[output]
        made: list[Any] = []
        for leaf, as_array in zip(self.outputs, self.arrays, strict=True):
            if isinstance(leaf, Static):
                made.append(leaf.value)
                continue
            value = np.asarray(outputs[leaf]).astype(self.tape.outputs[leaf].dtype, copy=False)
            made.append(value if value.ndim or as_array else value[()])
        return self.out_tree.unflatten(made)


def _only(tape: Tape, guard: ValueGuard) -> Tape:
    """Return the part of ``tape`` that computes one guard."""
    needed, kept = {guard.var}, []
    for eqn in reversed(tape.eqns):
        if any(v in needed for v in eqn.results) or eqn.op.name == "bind_size":
            kept.append(eqn)
            needed.update(eqn.operands)
    return Tape(tape.inputs, tape.consts, tuple(reversed(kept)), (), tape.sizes, (guard,))


def _same_kind(value: Any, aval: Aval, layout: str) -> bool:
    array = np.asarray(value)
    weak = isinstance(value, int | float | complex) and not isinstance(value, np.generic)
    if array.ndim != aval.ndim or weak != aval.weak or array.dtype != compute_dtype(aval.dtype):
        return False
    return layout in ("A", layout_of(value))


def _equal(found: Any, expected: Any) -> bool:
    return bool(found == expected) or bool(np.isnan(found) and np.isnan(expected))
