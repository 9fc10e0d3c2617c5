"""Proof that every output point depends on the same point of the inputs only.

Each variable that depends on a differentiated input carries a map from its axes to grid axes, counted from the right as
broadcasting does: ``x`` of shape (n, 1) and ``y`` of shape (1, m) on an open grid have the axes (-2, None) and
(None, -1).  An op keeps points apart if it treats grid axes as a batch: elementwise ops, broadcasts, transposes, and
anything along other axes only.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Reduction
from tracejit.ops.broadcasting import broadcast, convert, expand_dims, squeeze
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.indexing import gather
from tracejit.ops.joining import concatenate
from tracejit.ops.linear import slice_, transpose
from tracejit.ops.loop import Loop, While
from tracejit.ops.region import Region
from tracejit.ops.searching import search

__all__ = ["mixing_equation"]

Axes = tuple[int | None, ...]


def mixing_equation(tape: Tape, wrt: Sequence[int], output: object) -> Eqn | str | None:
    """Return None if the output is pointwise in the inputs ``wrt``, else the equation or reason that mixes points."""
    known: dict[Var, Axes] = {}
    for number in wrt:
        var = tape.inputs[number]
        ndim = len(var.shape)
        known[var] = tuple(None if d == 1 else a - ndim for a, d in enumerate(var.shape))
    mixing = _follow(tape, known)
    if mixing is not None:
        return mixing
    if not isinstance(output, int):
        return None
    result = tape.outputs[output]
    return _misplaced(known[result]) if isinstance(result, Var) and result in known else None


def _follow(tape: Tape, known: dict[Var, Axes]) -> Eqn | None:
    """Extend ``known`` to all variables; return the first equation that mixes points."""
    for eqn in tape.eqns:
        if not any(a in known for a in eqn.operands):
            continue
        maps = [known.get(a) if isinstance(a, Var) else None for a in eqn.operands]
        if isinstance(eqn.op, Region):
            mixing = _follow_region(eqn, maps, known)
            if mixing is not None:
                return mixing
            continue
        axes = _map_axes(eqn, maps)
        if axes is None:
            return eqn
        known.update(dict.fromkeys(eqn.results, axes))
    return None


def _follow_region(eqn: Eqn, maps: list[Axes | None], known: dict[Var, Axes]) -> Eqn | None:
    """The same through a loop or branch."""
    if isinstance(eqn.op, Loop | While):
        return _follow_loop(eqn, maps, known)
    if maps[0] is not None:
        return eqn  # the choice depends on all points that the condition was made of
    for branch in eqn.params["branches"]:
        inner = _given(branch, maps[1:])
        mixing = _follow(branch, inner)
        if mixing is not None:
            return mixing
        for var, axes in zip(eqn.results, _outputs(branch, inner), strict=True):
            both = _both(known.get(var), axes)
            if both == _CLASH:
                return eqn
            if both is not None:
                known[var] = both
    return None


def _follow_loop(eqn: Eqn, maps: list[Axes | None], known: dict[Var, Axes]) -> Eqn | None:
    """The same through a loop, with the maps of carries grown until an iteration leaves them alone."""
    body, nc = eqn.params["body"], eqn.params["carries"]
    start = len(maps) - eqn.params.get("xs", 0)
    if any(m is not None and m[0] is not None for m in maps[start:]):
        return eqn  # iterations go along a grid axis
    maps[start:] = [None if m is None else m[1:] for m in maps[start:]]
    while True:
        inner = _given(body, maps)
        mixing = _follow(body, inner)
        if mixing is not None:
            return mixing
        out = _outputs(body, inner)
        carried = [_both(a, b) for a, b in zip(maps[:nc], out[:nc], strict=True)]
        if _CLASH in carried:
            return eqn
        if carried == maps[:nc]:
            break
        maps[:nc] = carried
    if isinstance(eqn.op, While) and _decides(eqn.params["cond"], maps):
        return eqn
    rows = [None if m is None else (None, *m) for m in out[nc:]]
    pairs = zip(eqn.results, [*carried, *rows], strict=False)
    known.update((v, m) for v, m in pairs if m is not None)
    return None


_CLASH: Axes = (0,)
"""No map: places are counted from the right, so they are negative."""


def _both(left: Axes | None, right: Axes | None) -> Axes | None:
    """Return the map of what is one thing or the other."""
    present = [m for m in (left, right) if m is not None]
    merged = _merge(present) if present else None
    return _CLASH if present and merged is None else merged


def _given(body: Tape, maps: Sequence[Axes | None]) -> dict[Var, Axes]:
    return {v: m for v, m in zip(body.inputs, maps, strict=True) if m is not None}


def _outputs(body: Tape, inner: dict[Var, Axes]) -> list[Axes | None]:
    return [inner.get(a) if isinstance(a, Var) else None for a in body.outputs]


def _decides(test: Tape, maps: Sequence[Axes | None]) -> bool:
    """Return whether points have a say in when a loop ends."""
    inner = _given(test, maps)
    return _follow(test, inner) is not None or _outputs(test, inner) != [None]


def _misplaced(axes: Axes) -> str | None:
    for place, axis in enumerate(axes):
        if axis is not None and axis != place - len(axes):
            return "the grid axes of the output are not its last axes in the order of the inputs"
    return None


def _map_axes(eqn: Eqn, maps: Sequence[Axes | None]) -> Axes | None:  # noqa: PLR0911  # one line per kind of op
    """Return the axes of the result, or None if the equation mixes points."""
    op, params = eqn.op, eqn.params
    if isinstance(op, Elementwise) or op is convert:
        return _merge([m for m in maps if m is not None])
    first = next(m for m in maps if m is not None)
    if op is broadcast:
        at = dict(zip(params["axes"], first, strict=True))
        return tuple(at.get(a) for a in range(len(params["shape"])))
    if op is squeeze:
        return tuple(m for a, m in enumerate(first) if a not in params["axes"])
    if op is expand_dims:
        rest = iter(first)
        return tuple(None if a in params["axes"] else next(rest) for a in range(len(eqn.results[0].shape)))
    if op is transpose:
        return tuple(first[a] for a in params["perm"])
    if isinstance(op, Reduction):
        mixed = any(first[a] is not None for a in params["axes"])
        return None if mixed else tuple(m for a, m in enumerate(first) if a not in params["axes"])
    if op is concatenate:
        merged = _merge([m for m in maps if m is not None])
        return None if merged is None or merged[params["axis"]] is not None else merged
    if op is search:
        return first if maps[0] is None else None
    if op is gather:
        return _looked_up(eqn, maps)
    if op is slice_:
        return first if all(m is None or _whole(eqn, a) for a, m in enumerate(first)) else None
    return None


def _looked_up(eqn: Eqn, maps: Sequence[Axes | None]) -> Axes | None:
    """Return the axes of what is read from a table at places that depend on the point."""
    merged = None if maps[0] is not None else _merge([m for m in maps if m is not None])
    return None if merged is None else (*merged, *(None,) * (len(eqn.results[0].shape) - len(merged)))


def _merge(maps: Sequence[Axes]) -> Axes | None:
    """Return the common map of operands of one shape; None if an axis stands for two grid axes."""
    merged: list[int | None] = []
    for entries in zip(*maps, strict=True):
        found = {e for e in entries if e is not None}
        if len(found) > 1:
            return None
        merged.append(found.pop() if found else None)
    return tuple(merged)


def _whole(eqn: Eqn, axis: int) -> bool:
    (operand,) = eqn.operands
    return _shape(operand)[axis] == eqn.results[0].shape[axis] and eqn.params["step"][axis] == 1


def _shape(atom: Atom) -> tuple[object, ...]:
    return atom.shape
