"""Slices of slices are slices: reading or writing one entry through views touches that entry only.

Inside a loop this decides between one entry and a whole row of work, in the derivative even more than in the
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.tape import Atom, Eqn, Lit
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import broadcast, expand_dims, squeeze
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import reshape, slice_, transpose

__all__ = [
    "Region",
    "apart",
    "last_update",
    "merged_add",
    "merged_slice",
    "merged_update",
    "moved_update",
    "region_of",
    "written_back",
]

MadeBy = Callable[[Atom, Op], Eqn | None]
Params = Mapping[str, Any]
Steps = tuple[int, ...]
Region = tuple[Shape, Shape, Steps]  # start, size, step


def merged_slice(made_by: MadeBy, x: Atom, start: Shape, size: Shape, step: Steps) -> Atom | None:
    """slice(move(x)) -> move(slice(x)) for ops that move entries; slice(update(x, v)) -> v or slice(x)."""
    for op, rewrite in _SLICED.items():
        made = made_by(x, op)
        if made is not None:
            return rewrite(made, start, size, step)
    return None


def _of_slice(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom:
    (y,), how = made.operands, made.params
    first = tuple(a + s * d for a, s, d in zip(how["start"], start, how["step"], strict=True))
    return slice_(
        y, start=first, size=size, step=tuple(a * b for a, b in zip(how["step"], step, strict=True))
    )


def _of_squeeze(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom:
    (y,), axes = made.operands, made.params["axes"]
    full = [_spread(values, axes, len(y.shape), fill) for values, fill in ((start, 0), (size, 1), (step, 1))]
    return squeeze(slice_(y, start=full[0], size=full[1], step=full[2]), axes=axes)


def _spread(values: Sequence[Any], axes: Sequence[int], ndim: int, fill: int) -> tuple[Any, ...]:
    rest = iter(values)
    return tuple(fill if a in axes else next(rest) for a in range(ndim))


def _of_expand(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom | None:
    (y,), axes = made.operands, made.params["axes"]
    if any(size[a] != 1 for a in axes):
        return None
    kept = [a for a in range(len(size)) if a not in axes]
    part = [tuple(values[a] for a in kept) for values in (start, size, step)]
    return expand_dims(slice_(y, start=part[0], size=part[1], step=part[2]), axes=axes)  # type: ignore[arg-type]


def _of_transpose(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom:
    (y,), perm = made.operands, made.params["perm"]
    start, size, step = (_permuted(values, perm) for values in (start, size, step))
    return transpose(slice_(y, start=start, size=size, step=step), perm=perm)


def _permuted(values: Sequence[Any], perm: Sequence[int]) -> tuple[Any, ...]:
    """Return, per axis of what is transposed, the value for the axis of the result that it becomes."""
    return tuple(values[perm.index(a)] for a in range(len(perm)))


def _of_reshape(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom | None:
    """Return the slice where it is one stretch of a flat array: single entries, a part, then whole axes."""
    (y,), shape = made.operands, made.params["shape"]
    if len(y.shape) != 1 or any(d != 1 for d in step):
        return None
    whole = [s == 0 and n == d for s, n, d in zip(start, size, shape, strict=True)]
    lead = next((a for a, n in enumerate(size) if n != 1), len(size))
    if not all(whole[lead + 1 :]):
        return None
    first: dims.Dim = 0
    for place, extent in zip(start, shape, strict=True):
        first = first * extent + place
    return reshape(slice_(y, start=(first,), size=(dims.prod(size),), step=(1,)), shape=size)


def _of_literal(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom | None:
    (y,) = made.operands
    return broadcast(y, shape=size, axes=()) if isinstance(y, Lit) else None


def _of_update(made: Eqn, start: Shape, size: Shape, step: Steps) -> Atom | None:
    x, v = made.operands
    there, steps = made.params["start"], made.params["step"]
    if (there, v.shape, steps) == (start, size, step):
        return v
    distinct = apart((start, size, step), (there, v.shape, steps))
    return slice_(x, start=start, size=size, step=step) if distinct else None


def apart(left: Region, right: Region) -> bool:
    """Return whether two regions of an array are proved to have no entry in common."""
    axes = (one + other for one, other in zip(zip(*left, strict=True), zip(*right, strict=True), strict=True))
    return any(a == b == 1 and (_after(s, t + m) or _after(t, s + n)) for s, n, a, t, m, b in axes)


def _after(left: dims.Dim, right: dims.Dim) -> bool:
    """Return whether ``left >= right`` is proved."""
    low = dims.lower_bound(left - right)
    return low is not None and low >= 0


_SLICED: dict[Op, Callable[[Eqn, Shape, Shape, Steps], Atom | None]] = {
    slice_: _of_slice,
    squeeze: _of_squeeze,
    expand_dims: _of_expand,
    transpose: _of_transpose,
    reshape: _of_reshape,
    broadcast: _of_literal,
    slice_update: _of_update,
}


def merged_update(made_by: MadeBy, x: Atom, v: Atom, start: Shape, step: Steps) -> Atom | None:
    """update(x, update(slice(x), w)) -> update(x, w), where the inner one changes a part of the slice."""
    lifted = made_by(v, expand_dims)
    update = made_by(v if lifted is None else lifted.operands[0], slice_update)
    if update is None:
        return None
    old, new = update.operands
    dropped = made_by(old, squeeze)
    read = made_by(old if dropped is None else dropped.operands[0], slice_)
    axes = () if lifted is None else lifted.params["axes"]
    if (
        read is None
        or read.operands[0] is not x
        or axes != (() if dropped is None else dropped.params["axes"])
    ):
        return None
    if (read.params["start"], read.params["size"], read.params["step"]) != (start, v.shape, step):
        return None
    within = _spread(update.params["start"], axes, len(start), 0)
    steps = _spread(update.params["step"], axes, len(start), 1)
    first = tuple(s + w * d for s, w, d in zip(start, within, step, strict=True))
    apart = tuple(a * b for a, b in zip(step, steps, strict=True))
    return slice_update(x, expand_dims(new, axes=axes), start=first, step=apart)


def last_update(made_by: MadeBy, x: Atom, v: Atom, start: Shape, step: Steps) -> Atom | None:
    """update(update(x, v), w) -> update(x, w), where both write the same entries."""
    before = made_by(x, slice_update)
    if before is None or region_of(before) != (start, v.shape, step):
        return None
    return slice_update(before.operands[0], v, start=start, step=step)


def merged_add(
    made_by: MadeBy, once: Callable[[Atom], bool], x: Atom, w: Atom, start: Shape, step: Steps
) -> Atom | None:
    """add(update(x, 0), w) -> update(x, w), also if something was added elsewhere between.

    Cotangents begin as zeros, and what is added is what they are; the sign of a zero aside.
    """
    between: list[Eqn] = []
    region = (start, w.shape, step)
    while once(x) and (made := made_by(x, slice_add)) is not None and apart(region_of(made), region):
        between.append(made)
        x = made.operands[0]
    before = made_by(x, slice_update)
    if (
        before is None
        or not once(x)
        or region_of(before) != region
        or not _is_zero(made_by, before.operands[1])
    ):
        return None
    result: Atom = slice_update(before.operands[0], w, start=start, step=step)
    for made in reversed(between):
        result = slice_add(result, made.operands[1], start=made.params["start"], step=made.params["step"])
    return result


def region_of(eqn: Eqn) -> Region:
    """Return which entries of an array a slice reads, or an update of a slice writes."""
    size = eqn.params["size"] if eqn.op is slice_ else eqn.operands[1].shape
    return eqn.params["start"], size, eqn.params["step"]


def _is_zero(made_by: MadeBy, atom: Atom) -> bool:
    made = made_by(atom, broadcast)
    value = atom if made is None else made.operands[0]
    return isinstance(value, Lit) and value.is_value(0.0)


def written_back(made_by: MadeBy, x: Atom, v: Atom, start: Shape, step: Steps) -> Atom | None:
    """update(x, slice(x)) -> x, where that is the same slice."""
    lifted = made_by(v, expand_dims)
    dropped = None if lifted is None else made_by(lifted.operands[0], squeeze)
    if lifted is not None and (dropped is None or dropped.params["axes"] != lifted.params["axes"]):
        return None
    read = made_by(v if dropped is None else dropped.operands[0], slice_)
    if read is None or read.operands[0] is not x:
        return None
    return (
        x
        if (read.params["start"], read.params["size"], read.params["step"]) == (start, v.shape, step)
        else None
    )


def moved_update(made_by: MadeBy, x: Atom, perm: Steps) -> Atom | None:
    """transpose(update(transpose(x), v)) -> update(x, transpose(v))."""
    update = made_by(x, slice_update)
    turned = None if update is None else made_by(update.operands[0], transpose)
    if update is None or turned is None:
        return None
    (y,) = turned.operands
    if tuple(turned.params["perm"][p] for p in perm) != tuple(range(len(perm))):
        return None
    start, step = (tuple(update.params[k][p] for p in perm) for k in ("start", "step"))
    return slice_update(y, transpose(update.operands[1], perm=perm), start=start, step=step)
