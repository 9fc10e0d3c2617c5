"""Views: a chain of ops that only move entries, followed forward to read and backward to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.tape import Atom, Eqn
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import expand_dims, squeeze
from tracejit.ops.joining import slice_update
from tracejit.ops.linear import reshape, slice_, transpose

__all__ = ["Path", "follow", "is_basic", "path_between", "put"]

Path = tuple[tuple[Op, dict[str, Any]], ...]

_BIJECTIVE = (reshape, transpose, squeeze, expand_dims)


def is_basic(key: Any) -> bool:
    """Return whether indexing with ``key`` gives a view: slices, ints, ``None``, ``...``, and not only ints."""
    parts = key if isinstance(key, tuple) else (key,)
    basic = all(p is None or p is Ellipsis or type(p) is slice or _is_int(p) for p in parts)
    return basic and not all(_is_int(p) for p in parts) or basic and not isinstance(key, tuple)


def _is_int(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def path_between(base: Atom, result: Atom, eqns: Sequence[Eqn]) -> Path | None:
    """Return the ops that lead from ``base`` to ``result`` if all of them only move entries, else None.

    A scalar result is None too: NumPy gives a scalar there, not a view.
    """
    path, at = [], base
    for eqn in eqns:
        if eqn.operands != (at,) or not (eqn.op in _BIJECTIVE or eqn.op is slice_):
            return None
        if eqn.op is reshape and any(op is not reshape for op, _ in path):
            return None  # NumPy copies where strides do not fit the new shape
        path.append((eqn.op, dict(eqn.params)))
        (at,) = eqn.results
    return tuple(path) if at is result and result.shape else None


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
    for stage, (op, params) in zip(reversed(stages), reversed(path), strict=True):
        if op is slice_:
            value = slice_update(stage, value, start=params["start"], step=params["step"])
        else:
            value = op.transpose(value, stage.aval, **params)  # type: ignore[attr-defined]
    return value
