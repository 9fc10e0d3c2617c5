"""Views: a chain of ops that only move entries, followed forward to read and backward to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracejit.frontend.registry import is_traced
from tracejit.ir.aval import real_dtype
from tracejit.ir.tape import Atom, Eqn
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import broadcast, broadcast_to, convert, expand_dims, full, squeeze
from tracejit.ops.complex_parts import from_parts, imag, real
from tracejit.ops.elementwise import select
from tracejit.ops.joining import slice_update
from tracejit.ops.linear import diagonal, reshape, slice_, transpose
from tracejit.ops.logic import not_equal

__all__ = [
    "VIEWS",
    "KeyStep",
    "Path",
    "follow",
    "has_ellipsis",
    "is_basic",
    "path_between",
    "picks",
    "put",
    "same_key",
    "with_part",
]

Path = tuple[tuple[Any, dict[str, Any]], ...]

_BIJECTIVE = (reshape, transpose, squeeze, expand_dims)
_MOVES = (*_BIJECTIVE, slice_, diagonal, broadcast, real, imag)

VIEWS: dict[Any, bool] = dict.fromkeys(
    [
        np.reshape, np.ravel, np.transpose, np.matrix_transpose, np.swapaxes, np.moveaxis, np.rollaxis,
        np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.flip, np.flipud, np.fliplr,
        np.rot90, np.split, np.array_split, np.vsplit, np.hsplit, np.dsplit, np.unstack, np.trim_zeros,
        np.einsum, np.real, np.imag,
    ],
    True,
) | dict.fromkeys(
    [np.diag, np.diagonal, np.linalg.diagonal, np.broadcast_to, np.broadcast_arrays], False
)  # fmt: skip
"""NumPy's functions whose results are views of arguments where they can be, and whether these may be written."""


class KeyStep:
    """A step of a path that a key with traced integers takes: the row that is found at run time is a view too."""

    def __init__(self, read: Callable[[Atom, Any], Atom], write: Callable[[Atom, Any, Any], Atom]) -> None:
        self._read, self._write = read, write

    def bind(self, base: Atom, *, key: Any) -> Atom:
        return self._read(base, key)

    def put(self, base: Atom, value: Atom, *, key: Any) -> Atom:
        return self._write(base, key, value)


def picks(key: Any) -> bool:
    """Return whether ``key`` is as a basic one, but that some of its integers are traced."""
    parts = key if isinstance(key, tuple) else (key,)
    traced = [p for p in parts if is_traced(p) and not hasattr(p, "_tracejit_dim")]
    rest = tuple(p for p in parts if not any(p is t for t in traced))
    return (
        bool(traced)
        and all(p.dtype.kind in "iu" and not p.ndim for p in traced)
        and (not rest or _is_plain(rest))
    )


def same_key(left: Any, right: Any) -> bool:
    """Return whether two keys are made of the same objects."""
    pairs = [k if isinstance(k, tuple) else (k,) for k in (left, right)]
    return len(pairs[0]) == len(pairs[1]) and all(a is b for a, b in zip(*pairs, strict=True))


def _is_plain(parts: tuple[Any, ...]) -> bool:
    return all(p is None or p is Ellipsis or type(p) is slice or _is_int(p) for p in parts)


def is_basic(key: Any) -> bool:
    """Return whether indexing with ``key`` gives a view: slices, ints, ``None``, ``...``, and not only ints."""
    parts = key if isinstance(key, tuple) else (key,)
    return _is_plain(parts) and not (isinstance(key, tuple) and all(_is_int(p) for p in parts))


def has_ellipsis(key: Any) -> bool:
    """Return whether ``key`` gives an array, if only one without axes, where it would else give a scalar."""
    return any(part is Ellipsis for part in (key if isinstance(key, tuple) else (key,)))


def _is_int(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def path_between(base: Atom, result: Atom, makers: Mapping[Atom, Eqn]) -> Path | None:
    """Return the ops that lead from ``base`` to ``result`` if all of them only move entries, else None."""
    path: list[tuple[Op, dict[str, Any]]] = []
    at = result
    while at is not base:
        eqn = makers.get(at)
        if eqn is None or eqn.op not in _MOVES:
            return None
        path.append((eqn.op, dict(eqn.params)))
        (at,) = eqn.operands
    path.reverse()
    return tuple(path)


def follow(base: Atom, path: Path) -> Atom:
    """Return the view of ``base`` along ``path``."""
    for op, params in path:
        base = op.bind(base, **params)
    return base


def put(base: Atom, path: Path, value: Atom) -> Atom:
    """Return ``base`` with its view along ``path`` replaced by ``value``."""
    if not path:
        return value
    stages = [base]
    for op, params in path[:-1]:
        stages.append(op.bind(stages[-1], **params))
    # (Without a path ``value`` itself is the result, and there is one stage more than steps.)
    for stage, (op, params) in zip(reversed(stages), reversed(path), strict=False):
        value = _put_one(op, params, stage, value)
    return value


def with_part(z: Atom, part: Op, value: Atom) -> Atom:
    """Return ``z`` with its real or imaginary part replaced."""
    value = broadcast_to(convert(value, dtype=real_dtype(z.dtype)), z.shape)
    if z.dtype.kind != "c":
        if part is imag:
            raise TypeError("array does not have imaginary part to set")
        return value
    return from_parts(value, imag(z)) if part is real else from_parts(real(z), value)


def _put_one(op: Any, params: dict[str, Any], stage: Atom, value: Atom) -> Atom:
    if isinstance(op, KeyStep):
        return op.put(stage, value, **params)
    if op is slice_:
        return slice_update(stage, value, start=params["start"], step=params["step"])
    if op in (real, imag):
        return with_part(stage, op, value)
    moved: Atom = op.transpose(value, stage.aval, **params)
    if op is diagonal:
        ones = full(1, value.shape, np.dtype(np.int8))
        marked = op.transpose(ones, stage.aval.with_dtype(ones.dtype), **params)
        return select(not_equal(marked, 0), moved, stage)
    return moved
