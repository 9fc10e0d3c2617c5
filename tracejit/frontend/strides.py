"""Where NumPy's ``reshape`` copies: what strides a chain of views has, and whether a new shape fits them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Var
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import broadcast, expand_dims, squeeze
from tracejit.ops.contraction import Product
from tracejit.ops.linear import diagonal, reshape, slice_, transpose

__all__ = ["contiguous", "copies", "fits_any_layout", "in_c_order"]

Steps = list[tuple[Dim, Dim]]
"""Per axis its extent and its stride, counted in entries."""


def contiguous(shape: Sequence[Dim]) -> Steps:
    """Return the axes of an array in C order."""
    return [(n, dims.prod(tuple(shape[a + 1 :]))) for a, n in enumerate(shape)]


def copies(shape: Shape, path: Sequence[tuple[Op, dict[str, Any]]], how: str = "shape") -> bool:
    """Return whether NumPy copies somewhere along ``path`` that starts at an array in C order.

    ``how`` is what the last step does: ``"packed"`` copies unless the entries follow one another in memory
    (``ravel``), ``"flat"`` never copies (``ndarray.flat``).
    """
    return how != "flat" and not _fits(contiguous(shape), path, how)


def fits_any_layout(shape: Shape, path: Sequence[tuple[Op, dict[str, Any]]], how: str = "shape") -> bool:
    """Return whether ``path`` is a view whatever the strides of its base are."""
    if how == "flat" or (how == "shape" and all(op is not reshape for op, _ in path)):
        return True
    # Symbols of their own, so that no stride is found to fit another one.
    unknown: Steps = [(n, dims.poly(dims.Symbol(f"stride{a}", 1))) for a, n in enumerate(shape)]
    return _fits(unknown, path, how)


def _fits(axes: Steps, path: Sequence[tuple[Op, dict[str, Any]]], how: str) -> bool:
    found = _walk(axes, path)
    return found is not None and (
        how != "packed" or all(stride == 1 for n, stride in found if n not in (0, 1))
    )


def _walk(axes: Steps, path: Sequence[tuple[Op, dict[str, Any]]]) -> Steps | None:
    for op, params in path:
        rule = _RULES.get(op)
        moved = axes if rule is None else rule(axes, params)
        if moved is None:
            return None
        axes = moved
    return axes


def _sliced(axes: Steps, params: dict[str, Any]) -> Steps:
    return [(n, stride * k) for (_, stride), n, k in zip(axes, params["size"], params["step"], strict=True)]


def _transposed(axes: Steps, params: dict[str, Any]) -> Steps:
    return [axes[p] for p in params["perm"]]


def _squeezed(axes: Steps, params: dict[str, Any]) -> Steps:
    return [pair for a, pair in enumerate(axes) if a not in params["axes"]]


def _expanded(axes: Steps, params: dict[str, Any]) -> Steps:
    rest, new = iter(axes), params["axes"]
    return [(1, 0) if a in new else next(rest) for a in range(len(axes) + len(new))]


def _diagonal(axes: Steps, params: dict[str, Any]) -> Steps:
    rows, columns = params["axes"]
    rest = [pair for a, pair in enumerate(axes) if a not in (rows, columns)]
    return [*rest, (params["size"], axes[rows][1] + axes[columns][1])]


def _broadcast(axes: Steps, params: dict[str, Any]) -> Steps:
    own = dict(zip(params["axes"], axes, strict=True))
    return [(n, own[a][1] if a in own else 0) for a, n in enumerate(params["shape"])]


def _reshaped(axes: Steps, params: dict[str, Any]) -> Steps | None:
    """Return the axes in the new shape, or None if no strides give it, as NumPy decides."""
    shape = params["shape"]
    old = [pair for pair in axes if pair[0] != 1]
    if any(n == 0 for n in shape):
        return contiguous(shape)
    result: Steps = []
    for group, extents in _groups([n for n, _ in old], shape):
        inner = old[group]
        if any(first[1] != second[0] * second[1] for first, second in itertools.pairwise(inner)):
            return None
        result += [(n, inner[-1][1] * stride) for n, stride in contiguous(extents)]
    return result + [(1, 1)] * (len(shape) - len(result))


def _groups(old: Sequence[Dim], new: Shape) -> list[tuple[slice, Shape]]:
    """Return the runs of old axes and the runs of new ones that have equally many entries."""
    groups: list[tuple[slice, Shape]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, start = i, j
        left, right = dims.hint(old[i]), dims.hint(new[j])
        i, j = i + 1, j + 1
        while left != right:
            if right < left:
                right, j = right * dims.hint(new[j]), j + 1
            else:
                left, i = left * dims.hint(old[i]), i + 1
        groups.append((slice(first, i), tuple(new[start:j])))
    return groups


_RULES: dict[Op, Callable[[Steps, dict[str, Any]], Steps | None]] = {
    slice_: _sliced,
    transpose: _transposed,
    squeeze: _squeezed,
    expand_dims: _expanded,
    diagonal: _diagonal,
    broadcast: _broadcast,
    reshape: _reshaped,
}


def in_c_order(atom: Atom, makers: Mapping[Atom, Eqn], value: Callable[[Var], Any]) -> bool:
    """Return whether NumPy certainly keeps the array behind ``atom`` in C order.

    Results of elementwise functions take the order of their operands over; ``value`` gives the array behind
    an input.
    """
    stack, seen = [atom], {atom}
    while stack:
        at = stack.pop()
        eqn = makers.get(at)
        if isinstance(at, Var) and eqn is None and not np.asarray(value(at)).flags.c_contiguous:
            return False
        if eqn is None or isinstance(eqn.op, Product):
            continue
        if eqn.op is transpose:
            return False
        operands = [a for a in eqn.operands if len(a.shape) > 1 and a not in seen]
        stack += operands
        seen.update(operands)
    return True
