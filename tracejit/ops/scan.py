"""Running sums, products and extremes along an axis, and the linear recurrence that their derivatives are.

Everything but `cumsum` is *exclusive*: entry ``i`` of the result has seen only the entries before ``i``.
That form is closed under differentiation (the adjoint of an exclusive recurrence is the same run backwards),
and the inclusive one is elementwise: ``cumprod(x) = prefix_prod(x) * x``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom
from tracejit.ops.base import Opaque
from tracejit.ops.broadcasting import lead
from tracejit.ops.elementwise import Elementwise, absorb_mul, accumulate
from tracejit.ops.extrema import maximum, minimum

__all__ = ["cumsum", "linear_scan", "prefix_max", "prefix_min", "prefix_prod"]

Array = np.ndarray[Any, Any]


class Scan(Opaque):
    """A fold along ``axis`` that keeps what it has at every entry; ``reverse`` starts at the end."""

    loop: Callable[..., None]

    def infer(self, *avals: Aval, axis: int, reverse: bool) -> Aval:
        assert all(a.shape == avals[0].shape and a.dtype == avals[0].dtype for a in avals), avals
        return avals[0].with_shape(avals[0].shape)

    def impl(self, *arrays: Any, axis: int, reverse: bool) -> Any:
        front = [np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in arrays]
        return np.moveaxis(self.forward(*front)[:: -1 if reverse else 1], 0, axis)

    @abstractmethod
    def forward(self, *arrays: Array) -> Array:
        """Return the scan along the first axis."""

    def batch(self, size, operands, batched, *, axis, reverse):  # type: ignore[no-untyped-def]
        lifted = [lead(x, size, b) for x, b in zip(operands, batched, strict=True)]
        return self(*lifted, axis=axis + 1, reverse=reverse)

    def kernel(self, *avals: Aval, axis: int, reverse: bool) -> tuple[Callable[..., None], tuple[Any, ...]]:
        shape = avals[0].shape
        blocks = dims.prod(shape[:axis]), shape[axis], dims.prod(shape[axis + 1 :])
        return self.loop, (*blocks, int(reverse))


def _cumsum_loop(x, y, outer, n, inner, reverse):  # type: ignore[no-untyped-def]
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    first, step = (n - 1, -1) if reverse else (0, 1)
    for block in range(outer):
        for k in range(n):
            i = first + k * step
            for j in range(inner):
                target[block, i, j] = source[block, i, j]
                if k > 0:
                    target[block, i, j] += target[block, i - step, j]


class CumSum(Scan):
    """``np.cumsum``; the adjoint runs the other way."""

    name = "cumsum"
    loop = staticmethod(_cumsum_loop)

    def forward(self, *arrays: Array) -> Array:
        (x,) = arrays
        return np.cumsum(x, axis=0, dtype=x.dtype)

    def jvp(self, tangents, operands, results, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        return (self(tangents[0], axis=axis, reverse=reverse),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        return (self(cotangents[0], axis=axis, reverse=not reverse),)


def _linear_loop(a, b, y, outer, n, inner, reverse):  # type: ignore[no-untyped-def]
    shape = (outer, n, inner)
    factor, term, target = a.reshape(shape), b.reshape(shape), y.reshape(shape)
    first, step = (n - 1, -1) if reverse else (0, 1)
    for block in range(outer):
        for j in range(inner):
            if n > 0:
                target[block, first, j] = 0
        for k in range(1, n):
            i = first + (k - 1) * step
            for j in range(inner):
                state = target[block, i, j]
                scale = factor[block, i, j]
                if state == 0 or scale == 0:
                    target[block, i + step, j] = term[block, i, j]
                else:
                    target[block, i + step, j] = scale * state + term[block, i, j]


class LinearScan(Scan):
    """``y[0] = 0; y[i + 1] = a[i]*y[i] + b[i]``.

    Only chain rules use it, so a zero factor absorbs here always.
    """

    name = "linear_scan"
    loop = staticmethod(_linear_loop)

    def forward(self, *arrays: Array) -> Array:
        a, b = arrays
        y = np.zeros_like(b)
        for i in range(len(b) - 1):
            y[i + 1] = np.where((a[i] == 0) | (y[i] == 0), 0, a[i] * y[i]) + b[i]
        return y

    def jvp(self, tangents, operands, results, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        a_dot, b_dot = tangents
        moved = None if a_dot is None else absorb_mul(a_dot, results[0])
        return (self(operands[0], accumulate(moved, b_dot), axis=axis, reverse=reverse),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        adjoint = self(operands[0], cotangents[0], axis=axis, reverse=not reverse)
        return (absorb_mul(adjoint, results[0]) if wanted[0] else None, adjoint if wanted[1] else None)


def _product_loop(x, y, outer, n, inner, reverse):  # type: ignore[no-untyped-def]
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    first, step = (n - 1, -1) if reverse else (0, 1)
    for block in range(outer):
        for k in range(n):
            i = first + k * step
            for j in range(inner):
                if k == 0:
                    target[block, i, j] = 1
                else:
                    target[block, i, j] = source[block, i - step, j] * target[block, i - step, j]


class PrefixProd(Scan):
    """``y[0] = 1; y[i + 1] = x[i]*y[i]``: exact where entries are zero, at every order of derivative."""

    name = "prefix_prod"
    loop = staticmethod(_product_loop)

    def forward(self, *arrays: Array) -> Array:
        (x,) = arrays
        y = np.ones_like(x)
        np.cumprod(x[:-1], axis=0, dtype=x.dtype, out=y[1:])
        return y

    def jvp(self, tangents, operands, results, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        moved = absorb_mul(tangents[0], results[0])
        return (linear_scan(operands[0], moved, axis=axis, reverse=reverse),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        adjoint = linear_scan(operands[0], cotangents[0], axis=axis, reverse=not reverse)
        return (absorb_mul(adjoint, results[0]),)


def _maximum_loop(x, y, outer, n, inner, reverse, start):  # type: ignore[no-untyped-def]
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    first, step = (n - 1, -1) if reverse else (0, 1)
    for block in range(outer):
        for k in range(n):
            i = first + k * step
            for j in range(inner):
                if k == 0:
                    target[block, i, j] = start
                    continue
                state, entry = target[block, i - step, j], source[block, i - step, j]
                target[block, i, j] = state if state >= entry or np.isnan(state) else entry


def _minimum_loop(x, y, outer, n, inner, reverse, start):  # type: ignore[no-untyped-def]
    source, target = x.reshape((outer, n, inner)), y.reshape((outer, n, inner))
    first, step = (n - 1, -1) if reverse else (0, 1)
    for block in range(outer):
        for k in range(n):
            i = first + k * step
            for j in range(inner):
                if k == 0:
                    target[block, i, j] = start
                    continue
                state, entry = target[block, i - step, j], source[block, i - step, j]
                target[block, i, j] = state if state <= entry or np.isnan(state) else entry


class PrefixExtreme(Scan):
    """``y[0] = -inf; y[i + 1] = maximum(y[i], x[i])``, or the same with ``minimum``."""

    taints = True

    def __init__(self, name: str, pair: Elementwise, loop: Callable[..., None], start: float) -> None:
        self.name, self.pair, self.start, self.loop = name, pair, start, loop
        self._register()

    def first(self, dtype: np.dtype[Any]) -> Any:
        """Return the result before the first entry."""
        if dtype.kind == "f":
            return self.start
        limits = np.iinfo(dtype)
        return int(limits.min if self.start < 0 else limits.max)

    def forward(self, *arrays: Array) -> Array:
        (x,) = arrays
        y = np.full_like(x, self.first(x.dtype))
        self.pair.function.accumulate(x[:-1], axis=0, out=y[1:])  # type: ignore[attr-defined]
        return y

    def kernel(self, *avals: Aval, axis: int, reverse: bool) -> tuple[Callable[..., None], tuple[Any, ...]]:
        loop, sizes = super().kernel(*avals, axis=axis, reverse=reverse)
        return loop, (*sizes, self.first(avals[0].dtype))

    def _shares(self, x: Atom, y: Atom) -> tuple[Atom, Atom]:
        """Return the derivatives of ``pair(y, x)``."""
        by_state, by_entry = self.pair.partials
        assert by_state is not None and by_entry is not None
        return by_state(y, y, x), by_entry(y, y, x)

    def jvp(self, tangents, operands, results, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        by_state, by_entry = self._shares(operands[0], results[0])
        return (linear_scan(by_state, absorb_mul(by_entry, tangents[0]), axis=axis, reverse=reverse),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, axis, reverse):  # type: ignore[no-untyped-def]
        by_state, by_entry = self._shares(operands[0], results[0])
        adjoint = linear_scan(by_state, cotangents[0], axis=axis, reverse=not reverse)
        return (absorb_mul(by_entry, adjoint),)


cumsum = CumSum()
linear_scan = LinearScan()
prefix_prod = PrefixProd()

prefix_max = PrefixExtreme("prefix_max", maximum, _maximum_loop, -np.inf)
prefix_min = PrefixExtreme("prefix_min", minimum, _minimum_loop, np.inf)

for _op in (cumsum, linear_scan, prefix_prod):
    _op._register()
