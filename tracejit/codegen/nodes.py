"""Scalar expressions: what an array value is at one index.

`Evaluator.value` follows the equations of a tape from a value at an index down to what is in memory.  Ops
that move entries only change the index on the way; so slices, transposes, broadcasts, concatenations and
gathers cost nothing but arithmetic on indices.  Equal values at equal indices are one node.

A condition that the ranges of the loops do not decide becomes a select, not a branch: both sides are
computed, the one that may lie outside with its index moved into the array, so that loops still vectorise.
Only where the array may be empty, and no index is inside, the load itself is guarded.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.text import converted, dtype_text, literal, needs_cast
from tracejit.errors import InternalError
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Eqn, Lit, Var
from tracejit.ops.base import Read
from tracejit.ops.broadcasting import Convert
from tracejit.ops.elementwise import Elementwise, add
from tracejit.ops.indexing import Gather, Indirect, Scatter
from tracejit.ops.joining import SliceAdd
from tracejit.ops.linear import Iota
from tracejit.ops.reduction import SizeOf
from tracejit.passes.access import Flat, Index, added, is_pointwise, reads
from tracejit.passes.ranges import Ranges

__all__ = ["Buffer", "Evaluator", "Memory", "Node"]

BOOLEAN = np.dtype(bool)
INTEGER = np.dtype(np.int64)

Wanted = tuple[Atom, Index]
Steps = Generator[Wanted, "Node", "Node"]


@dataclass(eq=False, slots=True)
class Buffer:
    """An array of the kernel.

    Attributes
    ----------
    array, name : str
        The variable, and what loads and stores call it.
    shape : tuple of int or Poly
    dtype : numpy.dtype
    contiguous : bool
        In C order.
    entries : str
        Not empty for one-dimensional memory that holds the array at its beginning, in C order, because the
        shape changes while the memory stays: the text of the number of entries.
    """

    array: str
    name: str
    shape: Shape
    dtype: np.dtype[Any]
    contiguous: bool
    entries: str = ""


@dataclass(eq=False, slots=True)
class Memory:
    """What is in memory, and the equations of what is not.

    Attributes
    ----------
    buffers : dict of Var to Buffer
    views : mapping of Var to Var
        Where to read the entries of a variable in C order, if not in its own buffer.
    defs : mapping of Var to Eqn
    """

    buffers: dict[Var, Buffer]
    views: Mapping[Var, Var]
    defs: Mapping[Var, Eqn]

    def find(self, var: Var, index: Index) -> Buffer | None:
        """Return the buffer to read ``var`` from at ``index``."""
        if isinstance(index, Flat):
            var = self.views.get(var, var)
        return self.buffers.get(var)


@dataclass(eq=False, slots=True)
class Node:
    """One scalar.

    Attributes
    ----------
    dtype : numpy.dtype
    template : str
        Expression with ``{0}`` for the nodes in ``args`` and ``{d0}`` for ``sizes``; of a load, what stands
        around it.
    buffer, index
        Of a load: from where.
    name : str
        What later expressions call it; literals have one from the start.
    """

    dtype: np.dtype[Any]
    template: str = ""
    args: tuple[Node, ...] = ()
    sizes: tuple[Dim, ...] = ()
    buffer: Buffer | None = None
    index: Index = ()
    name: str = ""
    zero: bool = False
    symbols: tuple[Symbol, ...] = field(init=False)

    def __post_init__(self) -> None:
        index = (self.index.offset,) if isinstance(self.index, Flat) else self.index
        self.symbols = tuple(dict.fromkeys(s for d in (*self.sizes, *index) for s in dims.symbols(d)))


class Evaluator:
    """Builds the nodes of one stretch of code.

    Parameters
    ----------
    memory : Memory
    ranges : Ranges
        Of the loops around.
    scalars : Evaluator, optional
        The evaluator of the code outside all loops, which 0-d values belong to.
    local : frozenset of Var
        Variables whose memory is written by the loops themselves, so that it cannot be read yet.
    """

    def __init__(
        self,
        memory: Memory,
        ranges: Ranges,
        scalars: Evaluator | None = None,
        local: frozenset[Var] = frozenset(),
    ) -> None:
        self.memory, self.ranges, self.scalars, self.local = memory, ranges, scalars, local
        self.nodes: list[Node] = []
        self.derived: dict[Symbol, Node] = {}
        self._literals: dict[tuple[np.dtype[Any], str], Node] = {}
        self.undecided: list[tuple[Any, ...]] = []
        self._memo: dict[Wanted, Node] = {}
        self._places: dict[tuple[Any, ...], Symbol] = {}
        self._guards: dict[Symbol, Node] = {}

    def define(self, var: Var, name: str) -> None:
        """Let the 0-d ``var`` be the Python variable ``name``."""
        self._memo[var, ()] = Node(var.dtype, name=name)

    def value(self, atom: Atom, index: Index) -> Node:
        """Return the node of ``atom`` at ``index``.  No recursion: tapes are longer than Python's stack."""
        stack: list[tuple[Wanted, Steps]] = []
        result, wanted = self._find(atom, index), (atom, index)
        while True:
            if result is None:
                stack.append((wanted, self._steps(*wanted)))
            elif not stack:
                return result
            try:
                wanted = stack[-1][1].send(result) if result is not None else next(stack[-1][1])
                result = self._find(*wanted)
            except StopIteration as stop:
                result = self._memo[stack.pop()[0]] = stop.value

    def address(self, eqn: Eqn, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return the place that a scatter writes the entry ``index`` of its values to."""
        assert isinstance(eqn.op, Scatter)
        place = eqn.op.address(index, *(a.aval for a in eqn.operands), **eqn.params)
        found: list[Dim] = []
        for along, extent in zip(place, eqn.operands[0].shape, strict=True):
            if isinstance(along, Indirect):
                number = self.value(eqn.operands[along.operand], along.index)
                found.append(dims.poly(self._wrapped(number, extent)))
            else:
                found.append(along)
        return tuple(found)

    def node(self, dtype: np.dtype[Any], template: str, *args: Node, **rest: Any) -> Node:
        made = Node(dtype, template, args, **rest)
        self.nodes.append(made)
        return made

    def _find(self, atom: Atom, index: Index) -> Node | None:
        if isinstance(atom, Lit):
            text = literal(atom.value, atom.dtype)  # one node each, so that equal indices are one place
            return self._literals.setdefault((atom.dtype, text), Node(atom.dtype, name=text))
        return self._memo.get((atom, index))

    def _steps(self, atom: Atom, index: Index) -> Steps:
        assert isinstance(atom, Var)
        buffer = None if atom in self.local else self.memory.find(atom, index)
        if buffer is not None:
            return self._load(buffer, index)
        if not atom.shape and self.scalars is not None:
            return self.scalars.value(atom, ())
        eqn = self.memory.defs.get(atom)
        if eqn is None:
            raise InternalError(f"{atom} is neither in memory nor computed.")
        if is_pointwise(eqn):
            return (yield from self._pointwise(eqn, index))
        if isinstance(eqn.op, Gather):
            return (yield from self._gather(eqn, index))
        if isinstance(eqn.op, Iota | SizeOf):
            return self._count(eqn, index)
        if isinstance(eqn.op, SliceAdd) and not isinstance(index, Flat):
            return (yield from self._with_added(eqn, index))
        return (yield from self._choice(eqn, reads(eqn, index)))

    def _load(self, buffer: Buffer, index: Index) -> Node:
        guards = tuple(self._guards[s] for s in self._symbols(index) if s in self._guards)
        template = ""
        if guards:
            condition = " and ".join(f"{{{n}}}" for n in range(len(guards)))
            template = f"{{load}} if {condition} else {literal(0, buffer.dtype)}"
        return self.node(buffer.dtype, template, *guards, buffer=buffer, index=index)

    @staticmethod
    def _symbols(index: Index) -> list[Symbol]:
        parts = (index.offset,) if isinstance(index, Flat) else index
        return list(dict.fromkeys(s for d in parts for s in dims.symbols(d)))

    def _pointwise(self, eqn: Eqn, index: Index) -> Steps:
        args: list[Node] = []
        for atom in eqn.operands:
            found = yield atom, index if atom.shape else ()
            args.append(found)
        result = eqn.results[0]
        if isinstance(eqn.op, Convert):
            template = converted("{0}", args[0].dtype, result.dtype)
            return args[0] if template == "{0}" else self.node(result.dtype, template, *args)
        assert isinstance(eqn.op, Elementwise)
        if eqn.op is add:
            # A part of a sum that is zero here because an `embed` put it elsewhere.
            for one, other in (args, args[::-1]):
                if one.zero and other.dtype == result.dtype:
                    return other
        template = eqn.op.expression([f"{{{n}}}" for n in range(len(args))], eqn.operands)
        if needs_cast(template, (a.dtype for a in args), result.dtype):
            template = f"{dtype_text(result.dtype)}({template})"
        return self.node(result.dtype, template, *args)

    def _with_added(self, eqn: Eqn, index: tuple[Dim, ...]) -> Steps:
        part = yield from self._choice(eqn, (added(eqn, index),))
        before = yield eqn.operands[0], index
        if part.zero or before.zero:
            return before if part.zero else part
        return self._sum(eqn, before, part)

    def _sum(self, eqn: Eqn, *args: Node) -> Node:
        dtype = eqn.results[0].dtype
        template = "{0} + {1}"
        if needs_cast(template, (a.dtype for a in args), dtype):
            template = f"{dtype_text(dtype)}({template})"
        return self.node(dtype, template, *args)

    def _count(self, eqn: Eqn, index: Index) -> Node:
        dtype = eqn.results[0].dtype
        if isinstance(eqn.op, Iota):
            assert not isinstance(index, Flat)
            size = eqn.op.entry(index, axis=eqn.params["axis"])
        else:
            size = eqn.params["size"]
        return self.node(dtype, converted("({d0})", INTEGER, dtype), sizes=(size,))

    def _gather(self, eqn: Eqn, index: Index) -> Steps:
        assert isinstance(eqn.op, Gather) and not isinstance(index, Flat)
        x = eqn.operands[0]
        place: list[Dim] = []
        for along, extent in zip(
            eqn.op.address(index, *(a.aval for a in eqn.operands), **eqn.params), x.shape, strict=True
        ):
            if isinstance(along, Indirect):
                number = yield eqn.operands[along.operand], along.index
                place.append(dims.poly(self._wrapped(number, extent)))
            else:
                place.append(along)
        return (yield x, tuple(place))

    def _wrapped(self, number: Node, extent: Dim) -> Symbol:
        """Return an index symbol for a computed index, which counts from the end if negative."""
        template = "where({0} < 0, {0} + {d0}, {0})"
        return self._place((number, extent), template, (extent,), (number,))

    def _place(
        self, key: tuple[Any, ...], template: str, sizes: tuple[Dim, ...], args: tuple[Node, ...] = ()
    ) -> Symbol:
        if key not in self._places:
            symbol = self._places[key] = Symbol("at", 0, 0)
            self.derived[symbol] = self.node(INTEGER, template, *args, sizes=sizes)
        return self._places[key]

    # --- alternatives under conditions ---

    def _choice(self, eqn: Eqn, alternatives: tuple[Read, ...]) -> Steps:
        """Return the first alternative whose conditions hold, zero if none does."""
        possible: list[tuple[Node | None, Read]] = []
        for read in alternatives:
            holds, condition = self._decide(read.conditions)
            if holds:
                possible.append((condition, read))
                if condition is None:
                    break
        dtype = eqn.results[0].dtype
        result: Node | None = None
        for number, (condition, read) in reversed(list(enumerate(possible))):
            operand = eqn.operands[read.operand]
            certain = condition is None and number == 0
            found = yield operand, read.index if certain else self._moved_inside(read.index, operand.shape)
            if condition is not None:
                rest = Node(dtype, name=literal(0, dtype)) if result is None else result
                found = self.node(dtype, "where({0}, {1}, {2})", condition, found, rest)
            result = found
        return Node(dtype, name=literal(0, dtype), zero=True) if result is None else result

    def _decide(self, conditions: tuple[tuple[Any, ...], ...]) -> tuple[bool, Node | None]:
        """Return (False, None) if they never hold, else (True, node of what remains to be asked)."""
        parts: list[str] = []
        sizes: list[Dim] = []
        for condition in conditions:
            holds, asked = self._ask(condition)
            if not holds:
                return False, None
            for text, *operands in asked:
                numbers = [f"{{d{len(sizes) + n}}}" for n in range(len(operands))]
                parts.append("(" + text.format(*numbers) + ")")
                sizes.extend(operands)
        if not parts:
            return True, None
        return True, self.node(BOOLEAN, " & ".join(parts), sizes=tuple(sizes))

    def _ask(self, condition: tuple[Any, ...]) -> tuple[bool, list[tuple[Any, ...]]]:
        if len(condition) == 2:
            step, value = condition
            if isinstance(value, int):
                return value % step == 0, []
            return True, [("({}) % {} == 0", value, step)]
        low, value, high = condition
        proved = self.ranges.nonnegative
        if proved(low - 1 - value) or proved(value - high):
            return False, []
        asked: list[tuple[Any, ...]] = []
        if not proved(value - low):
            asked.append(("{} >= {}", value, low))
        if not proved(high - 1 - value):
            asked.append(("{} < {}", value, high))
        if asked:
            self.undecided.append(condition)
        return True, asked

    def _moved_inside(self, index: Index, shape: Shape) -> Index:
        """Return ``index`` with every part that may lie outside moved to the nearest place inside."""
        if isinstance(index, Flat):
            return index
        return tuple(
            i if self.ranges.inside(i, extent) else dims.poly(self._clamped(i, extent))
            for i, extent in zip(index, shape, strict=True)
        )

    def _clamped(self, index: Dim, extent: Dim) -> Symbol:
        symbol = self._place((index, extent), "min(max({d0}, 0), {d1})", (index, extent - 1))
        if not self.ranges.nonnegative(extent - 1) and symbol not in self._guards:
            self._guards[symbol] = self.node(BOOLEAN, "({d0} >= 0) & ({d0} < {d1})", sizes=(index, extent))
        return symbol
