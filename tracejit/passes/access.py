"""Where the entries of a result come from: the index maps through which loops read the operands of an
equation.

Every op is looked at through one of three forms: it reads all operands at its own index (elementwise), it
reads one of several operands at a computed index under conditions (`Read`), or it must be computed as a whole
(reductions, opaque ops).  Scheduling and emission know nothing else about ops that move entries.

An index is a tuple of sizes over the loop symbols of `loops`, or `Flat`: the place in C order.  A reshape
turns the one into the other, so that it costs nothing as long as what it reads is elementwise or in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracejit.errors import InternalError
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Poly, Symbol
from tracejit.ir.tape import Eqn
from tracejit.ops.base import Linear, Read
from tracejit.ops.broadcasting import Convert, ExpandDims, Squeeze
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.joining import Piecewise, SliceAdd
from tracejit.ops.linear import Reshape, inside

__all__ = [
    "Flat",
    "Index",
    "added",
    "flat_offset",
    "index_symbols",
    "is_pointwise",
    "keeps_order",
    "loop_symbols",
    "loops",
    "reads",
    "row_strides",
    "symbols_of",
]

_NAMES = ("i", "j", "k", "l")
_SYMBOLS = tuple(Symbol(_NAMES[d] if d < len(_NAMES) else f"i{d}", 0, 0) for d in range(64))
_LOOPS = tuple(dims.poly(s) for s in _SYMBOLS)


@dataclass(frozen=True, slots=True)
class Flat:
    """The place of an entry in C order."""

    offset: Dim


Index = tuple[Dim, ...] | Flat


def loops(ndim: int) -> tuple[Poly, ...]:
    """Return the index that visits an array of ``ndim`` dimensions entry by entry."""
    return _LOOPS[:ndim]


def loop_symbols(ndim: int) -> tuple[Symbol, ...]:
    """Return the symbols of `loops`, outermost first."""
    return _SYMBOLS[:ndim]


def index_symbols(index: Index) -> set[Symbol]:
    """Return all symbols in ``index``."""
    if isinstance(index, Flat):
        return set(dims.symbols(index.offset))
    return {s for dim in index for s in dims.symbols(dim)}


def symbols_of(value: Any) -> set[Symbol]:
    """Return all symbols in a size, or in a structure of parameters."""
    if isinstance(value, Poly):
        return set(dims.symbols(value))
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    return {s for part in parts for s in symbols_of(part)}


def row_strides(shape: Shape) -> tuple[Dim, ...]:
    """Return the strides, in entries, of a C-contiguous array."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def flat_offset(index: Index, shape: Shape) -> Dim:
    """Return the place in C order of the entry at ``index``."""
    if isinstance(index, Flat):
        return index.offset
    offset: Dim = 0
    for along, stride in zip(index, row_strides(shape), strict=True):
        offset = offset + along * stride
    return offset


def is_pointwise(eqn: Eqn) -> bool:
    """Return whether every operand is read at the index of the result."""
    return isinstance(eqn.op, Elementwise | Convert)


def keeps_order(eqn: Eqn) -> bool:
    """Return whether the result has the entries of its operand in the same C order."""
    return isinstance(eqn.op, Reshape | Squeeze | ExpandDims)


def reads(eqn: Eqn, index: Index) -> tuple[Read, ...]:
    """Return the alternatives for the entry at ``index``: the first one whose conditions hold is it.

    The index of a `Read` returned here can be `Flat`.  Of a `SliceAdd` they are the two parts of a sum.
    """
    op, avals = eqn.op, [a.aval for a in eqn.operands]
    if isinstance(op, Piecewise) and not isinstance(index, Flat):
        return op.reads(index, *avals, **eqn.params)
    if isinstance(op, SliceAdd) and not isinstance(index, Flat):
        return Read(0, index), added(eqn, index)
    if not isinstance(op, Linear):
        raise InternalError(f"No loop form is known for the op {op.name!r}.", where=eqn.source)
    if isinstance(index, Flat):
        assert keeps_order(eqn) or not avals[0].shape, f"{op.name} is not read in C order"
        return (_read(0, index if avals[0].shape else ()),)
    read = op.read(index, avals[0], **eqn.params)
    return (read or _read(0, Flat(flat_offset(index, eqn.results[0].shape))),)


def added(eqn: Eqn, index: tuple[Dim, ...]) -> Read:
    """Return where the entry of ``v`` that a `SliceAdd` adds at ``index`` comes from, if there is one."""
    x, v = eqn.operands
    return Read(1, *inside(index, eqn.params["start"], v.shape, eqn.params["step"], x.shape))


def _read(operand: int, index: Index) -> Read:
    return Read(operand, index)  # type: ignore[arg-type]
