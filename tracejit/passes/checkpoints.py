"""Long loops whose iterations keep much: cut into segments, of which only the beginnings are kept.

The loop becomes a loop over segments with a loop inside, and nothing else: the inner one has a number of
trips that is known only while it runs, so what its iterations keep cannot leave the segment.  The backward
sweep therefore runs each segment again from its beginning (`tracejit.passes.needs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Builder, Eqn, Var
from tracejit.ops.arithmetic import ceil, floor_divide, sqrt, subtract
from tracejit.ops.broadcasting import convert, expand_dims, full, squeeze
from tracejit.ops.elementwise import add, mul
from tracejit.ops.extrema import maximum, minimum
from tracejit.ops.joining import slice_update
from tracejit.ops.linear import slice_
from tracejit.ops.loop import bind_size, counter, loop, runtime_size
from tracejit.ops.reduction import size_of
from tracejit.ops.region import close
from tracejit.passes.replay import replay
from tracejit.passes.resize import resized

__all__ = ["Segmented", "segmented"]


@dataclass(frozen=True)
class Segmented:
    """A loop over segments: its carries are those of the loop and the arrays that take what was stacked.

    Attributes
    ----------
    eqn : Eqn
    operands : tuple of atoms
        Of the current builder: carries, then arrays for the stacked results, then constants and rows.
    stacks : int
        How many such arrays there are.
    """

    eqn: Eqn
    operands: tuple[Atom, ...]
    stacks: int


def segmented(eqn: Eqn, operands: Sequence[Atom], ratio: float) -> Segmented:
    """Return a loop cut into segments.

    ``ratio`` is how much more the beginning of a segment costs to keep than one iteration.
    """
    nc, trips = eqn.params["carries"], eqn.params["trips"]
    ys = [v.aval for v in eqn.results[nc:]]
    length, count = _lengths(trips, ratio)
    stacks = [full(0, y.shape, y.dtype) for y in ys]
    given = (*operands[:nc], *stacks, *operands[nc:])
    segment = counter(dims.poly(count), "segment")
    with Builder() as builder:
        inputs = [builder.input(Aval(x.shape, x.dtype)) for x in given]
        outputs = _segment(eqn, inputs, nc + len(ys), dims.poly(length), dims.poly(segment))
    body, extra = close(builder, inputs, outputs)
    assert not extra
    params = {"body": body, "index": segment, "trips": dims.poly(count), "carries": nc + len(ys), "xs": 0}
    results = tuple(Var(Aval(x.shape, x.dtype)) for x in given[: nc + len(ys)])
    names = tuple(Var(Aval(x.shape, x.dtype)) for x in given)
    return Segmented(Eqn(eqn.op, names, {**params, "reverse": False}, results, eqn.source), given, len(ys))


def _lengths(trips: Dim, ratio: float) -> tuple[Symbol, Symbol]:
    """Append what computes the length and the number of segments; return both as sizes."""
    hint = max(dims.hint(trips), 1)
    expected = min(hint, max(1, int((hint * ratio) ** 0.5)))
    length, count = runtime_size(expected, "length"), runtime_size(-(-hint // expected), "count")
    total = size_of(trips)
    best = convert(ceil(sqrt(mul(convert(total, dtype=np.float64), float(ratio)))), dtype=np.int64)
    bound = bind_size(maximum(minimum(best, total), 1), symbol=length)
    bind_size(floor_divide(subtract(add(total, bound), 1), bound), symbol=count)
    return length, count


def _segment(eqn: Eqn, inputs: Sequence[Var], carries: int, length: Dim, segment: Dim) -> Sequence[Atom]:
    """Append one segment: a loop over what is left of the trips, at most ``length``."""
    params, trips = eqn.params, eqn.params["trips"]
    left = size_of(trips - length * segment)
    rest = runtime_size(dims.hint(length), "rest")
    bind_size(minimum(left, size_of(length)), symbol=rest)
    index = counter(dims.poly(rest))
    k = length * segment + dims.poly(index)
    k = trips - 1 - k if params["reverse"] else k
    nc, nx = params["carries"], params["xs"]
    with Builder() as builder:
        state = [builder.input(v.aval) for v in inputs]
        plain, rows = state[carries : len(state) - nx], state[len(state) - nx :]
        entries = [_entry(x, k) for x in rows]
        out = replay(resized(params["body"], {params["index"]: k}), [*state[:nc], *plain, *entries])
        stacks = [_placed(s, y, k) for s, y in zip(state[nc:carries], out[nc:], strict=True)]
    body, extra = close(builder, state, [*out[:nc], *stacks])
    assert not extra
    final, _ = loop(body, inputs[:carries], inputs[carries:], index=index, trips=dims.poly(rest))
    return final


def _entry(x: Atom, k: Dim) -> Atom:
    start, size = (k, *(0 for _ in x.shape[1:])), (1, *x.shape[1:])
    return squeeze(slice_(x, start=start, size=size, step=(1,) * len(x.shape)), axes=(0,))


def _placed(stack: Atom, y: Atom, k: Dim) -> Atom:
    start = (k, *(0 for _ in y.shape))
    return slice_update(stack, expand_dims(y, axes=(0,)), start=start, step=(1,) * len(start))
