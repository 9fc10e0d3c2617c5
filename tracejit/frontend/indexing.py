"""The meaning of ``x[key]``, ``x[key] = value`` and ``np.add.at`` on traced arrays: NumPy's rules, as ops."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from tracejit.errors import BroadcastError, IntegerStoreError
from tracejit.frontend import symbolic
from tracejit.frontend.index_keys import (
    Array,
    Flag,
    Item,
    Span,
    broadcast_indices,
    mask_axes,
    parse,
    read_part,
)
from tracejit.frontend.registry import operand
from tracejit.frontend.views import Path, follow, put
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Undecided
from tracejit.ir.tape import Atom, Var, current
from tracejit.ops.base import as_atom
from tracejit.ops.broadcasting import (
    broadcast_shapes,
    broadcast_to,
    convert,
    expand_dims,
    lead,
    shape_text,
    squeeze,
)
from tracejit.ops.elementwise import add, select
from tracejit.ops.indexing import INDEX, gather, scatter_add, scatter_set
from tracejit.ops.linear import slice_, transpose
from tracejit.ops.reduction import size_of

__all__ = ["add_at", "fit", "index", "update"]


def index(atom: Atom, key: Any) -> Atom:
    """Return ``atom[key]``."""
    return _Plan(atom, _parsed(key, atom.shape)).read()


def update(atom: Atom, key: Any, value: Any) -> Atom:
    """Return ``atom`` after ``atom[key] = value`` (cast, broadcast; of equal places the last one wins)."""
    new = _storable(value, atom)
    masked = _masked_update(atom, key, new)
    return _Plan(atom, _parsed(key, atom.shape)).write(new) if masked is None else masked


def _parsed(key: Any, shape: Shape) -> list[Item]:
    """Return the items of a key.

    Where a loop counter as an index is negative in some iterations only, the running tape finds the entry.
    """
    try:
        return parse(key, shape)
    except Undecided:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != len(shape) or not all(
            hasattr(p, "_tracejit_dim") or isinstance(p, int) for p in parts
        ):
            raise
        values = (symbolic.wrapped(p.atom) if hasattr(p, "_tracejit_dim") else p for p in parts)
        return parse(tuple(values), shape)


def add_at(atom: Atom, key: Any, value: Any) -> Atom:
    """Return ``atom`` after ``np.add.at(atom, key, value)``: equal places add up."""
    return _Plan(atom, parse(key, atom.shape)).write(_storable(value, atom), adding=True)


def _storable(value: Any, target: Atom) -> Atom:
    new = operand(value)
    if isinstance(new, Var) and new.aval.inexact and target.dtype.kind in "iub":
        raise IntegerStoreError(
            f"A traced {new.dtype} value is written into an array of dtype {target.dtype}.",
            where=current().source(),
            hint="NumPy would cut the fraction and the gradient would vanish; make it with dtype=float.",
        )
    return convert(new, dtype=target.dtype)


def _masked_update(atom: Atom, key: Any, value: Atom) -> Atom | None:
    """Return ``atom`` with ``value`` where a mask holds, if the value does not depend on their number."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    mask = None if isinstance(mask, tuple) else read_part(mask)
    if not isinstance(mask, Var | np.ndarray) or mask.dtype.kind != "b" or len(mask.shape) > len(atom.shape):
        return None
    mask_axes(mask, atom.shape, 0)
    rest = atom.shape[len(mask.shape) :]
    value = _drop_leading_ones(value, len(rest))
    if len(value.shape) > len(rest):
        return None
    lifted = expand_dims(as_atom(mask), axes=tuple(range(len(mask.shape), len(atom.shape))))
    return select(broadcast_to(lifted, atom.shape), fit(value, (*mask.shape, *rest)), atom)


def _drop_leading_ones(value: Atom, ndim: int) -> Atom:
    """Return ``value`` without the leading axes of length one that it has beyond ``ndim``."""
    extra = value.shape[: max(len(value.shape) - ndim, 0)]
    return squeeze(value, axes=tuple(range(len(extra)))) if all(d == 1 for d in extra) else value


def fit(value: Atom, shape: Shape) -> Atom:
    """Return ``value`` broadcast for a store into ``shape``."""
    fitting = _drop_leading_ones(value, len(shape))
    try:
        fits = len(fitting.shape) <= len(shape) and broadcast_shapes(fitting.shape, shape) == shape
    except BroadcastError:
        fits = False
    if not fits:
        raise BroadcastError(
            f"Could not broadcast input array from shape {shape_text(value.shape)} "
            f"into shape {shape_text(shape)}.",
            where=current().source(),
            hint="Extents of the value must be equal to those of the place that it is written to, or 1.",
        )
    return broadcast_to(fitting, shape)


class _Plan:
    """How a key reads and writes: slices and integers, then arrays, then new axes, then the order of axes."""

    def __init__(self, atom: Atom, items: Sequence[Item]) -> None:
        items = _one_entry(items)
        self.atom = atom
        self.advanced = [i for i in items if isinstance(i, Array | Flag)]
        self.path = _slicing(atom.shape, items)
        self.axes = _array_axes(items)
        self.shape, self.indices = broadcast_indices(self.advanced)
        rest = [i for i in items if i is None or isinstance(i, Span)]
        self.new_axes = tuple(len(self.shape) + k for k, i in enumerate(rest) if i is None)
        self.perm = _order(len(self.shape), len(rest), _place(items) if self.advanced else 0)

    def read(self) -> Atom:
        inner = follow(self.atom, self.path)
        if self.indices:
            inner = gather(inner, *self.indices, axes=self.axes)
        elif self.advanced:
            inner = lead(inner, self.shape[0], False)
        return transpose(expand_dims(inner, axes=self.new_axes), perm=self.perm)

    def write(self, value: Atom, adding: bool = False) -> Atom:
        inner = follow(self.atom, self.path)
        value = self._canonical(value, inner.shape)
        if self.indices:
            if adding:
                inner = scatter_add(inner, value, *self.indices, axes=self.axes)
            else:
                unique = _unique(self.advanced, [inner.shape[a] for a in self.axes])
                inner = scatter_set(inner, value, *self.indices, axes=self.axes, unique=unique)
        elif self.shape == (0,):
            return self.atom
        else:
            if self.advanced:
                value = squeeze(value, axes=(0,))
            inner = add(inner, value) if adding else value
        return put(self.atom, self.path, inner) if self.path else inner

    def _canonical(self, value: Atom, inner: Shape) -> Atom:
        """Return ``value`` in the shape that the scatters want: arrays' axes first, no new axes."""
        rest = (*self.shape, *(d for a, d in enumerate(inner) if a not in self.axes))
        total = len(rest) + len(self.new_axes)
        old = iter(rest)
        full = tuple(1 if a in self.new_axes else next(old) for a in range(total))
        value = fit(value, tuple(full[p] for p in self.perm))
        inverse = tuple(sorted(range(total), key=self.perm.__getitem__))
        return squeeze(transpose(value, perm=inverse), axes=self.new_axes)


def _one_entry(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items with known integers as computed ones, where together they name one entry.

    ``x[i, j]`` with a computed ``j`` then is one look-up, and not one in a row that is taken out before; an update
    would put the whole row back.
    """
    arrays = [i for i in items if isinstance(i, Array)]
    if not arrays or any(a.atom.shape for a in arrays):
        return items
    found: list[Item] = []
    for item in items:
        if item is None or isinstance(item, Span | Flag):
            return items
        found.append(item if isinstance(item, Array | EllipsisType) else Array(size_of(item, INDEX)))
    return found


def _slicing(shape: Shape, items: Sequence[Item]) -> Path:
    """Return the ops for the slices and integers of a key; axes under arrays stay whole."""
    spans: list[Span] = []
    dropped = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, Flag):
            continue
        if isinstance(item, Span):
            spans.append(item)
        elif isinstance(item, Array):
            spans.append(Span(0, shape[len(spans)], 1))
        else:
            dropped.append(len(spans))
            spans.append(Span(item, 1, 1))
    path: list[Any] = []
    if any(s != Span(0, d, 1) for s, d in zip(spans, shape, strict=True)):
        start, size, step = zip(*((s.start, s.size, s.step) for s in spans), strict=True)
        path.append((slice_, {"start": start, "size": size, "step": step}))
    if dropped:
        path.append((squeeze, {"axes": tuple(dropped)}))
    return tuple(path)


def _array_axes(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the axes under arrays, counted after the integers' axes have gone."""
    left = [i for i in items if isinstance(i, Span | Array)]
    return tuple(a for a, i in enumerate(left) if isinstance(i, Array))


def _place(items: Sequence[Item]) -> int:
    """Return where NumPy puts the arrays' axes: at the first of them if they are adjacent, else in front.

    Integers count as arrays here, and an ellipsis separates them even where it stands for no axis.
    """
    apart = [i is None or i is Ellipsis or isinstance(i, Span) for i in items]
    first, last = apart.index(False), len(apart) - apart[::-1].index(False)
    return 0 if any(apart[first:last]) else sum(i is not Ellipsis for i in items[:first])


def _order(front: int, rest: int, place: int) -> tuple[int, ...]:
    """Return the permutation that moves the ``front`` first axes behind ``place`` of the others."""
    return (*range(front, front + place), *range(front), *range(front + place, front + rest))


def _unique(advanced: Sequence[Array | Flag], extents: Sequence[Dim]) -> bool:
    """Return whether the places are known to be distinct in every call."""
    arrays = [i for i in advanced if isinstance(i, Array)]
    if all(i.distinct for i in arrays):
        return True
    plain = [i.plain for i in arrays]
    if any(p is None for p in plain):
        return False
    if any((p < 0).any() and not isinstance(n, int) for p, n in zip(plain, extents, strict=True)):
        return False
    wrapped = [p % n if isinstance(n, int) else p for p, n in zip(plain, extents, strict=True)]
    places = np.stack([p.ravel() for p in np.broadcast_arrays(*wrapped)])
    return np.unique(places, axis=1).shape[1] == places.shape[1]
