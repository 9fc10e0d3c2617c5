"""Sliding products: each entry of the result is a product of ``w`` with a window of ``x``.

The op is bilinear, and its derivatives are sliding products again: of the padded cotangent with ``w`` turned
round, and of ``x`` with the cotangent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom
from tracejit.ops.base import Maybe, Opaque
from tracejit.ops.broadcasting import lead
from tracejit.ops.elementwise import accumulate
from tracejit.ops.linear import embed, slice_

__all__ = ["padded", "reversed_rows", "sliding"]

_BLOCK = 512
"""Entries of the result that stay in the fastest cache while ``w`` passes."""


def _sliding_loop(x, w, y, outer, n, m, block):  # type: ignore[no-untyped-def]
    """Four entries of ``w`` at a time, so that the result is loaded and stored less often."""
    source, weights, target = x.reshape((outer, n)), w.reshape((outer, m)), y.reshape((outer, n - m + 1))
    for row in range(outer):
        line = source[row]
        for start in range(0, n - m + 1, block):
            part = target[row, start : min(start + block, n - m + 1)]
            count = part.size
            for i in range(count):
                part[i] = 0
            for k in range(0, m - 3, 4):
                a, b, c, d = weights[row, k], weights[row, k + 1], weights[row, k + 2], weights[row, k + 3]
                first = start + k
                p, q = line[first : first + count], line[first + 1 : first + 1 + count]
                r, s = line[first + 2 : first + 2 + count], line[first + 3 : first + 3 + count]
                for i in range(count):
                    part[i] += (p[i] * a + q[i] * b) + (r[i] * c + s[i] * d)
            for k in range(m - m % 4, m):
                weight, p = weights[row, k], line[start + k : start + k + count]
                for i in range(count):
                    part[i] += p[i] * weight


class Sliding(Opaque):
    """``y[..., i] = sum_k x[..., i + k] * w[..., k]`` wherever the window is inside of ``x``.

    The leading axes of both are the same, and ``w`` is not longer than ``x``.
    """

    name = "sliding"
    taints = True

    def infer(self, x: Aval, w: Aval) -> Aval:
        assert x.shape[:-1] == w.shape[:-1] and x.dtype == w.dtype, (x, w)
        return x.with_shape((*x.shape[:-1], x.shape[-1] - w.shape[-1] + 1))

    def impl(self, x: Any, w: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[-1], axis=-1)
        result = np.einsum("...ik,...k->...i", windows, w)
        return result.astype(x.dtype, copy=False)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        (x_dot, w_dot), (x, w) = tangents, operands
        moved: Maybe = None if x_dot is None else self(x_dot, w)
        return (accumulate(moved, None if w_dot is None else self(x, w_dot)),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        (cotangent,), (x, w) = cotangents, operands
        margin = w.shape[-1] - 1
        to_x = self(padded(cotangent, margin, margin), reversed_rows(w)) if wanted[0] else None
        return (to_x, self(x, cotangent) if wanted[1] else None)

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        return self(*(lead(x, size, b) for x, b in zip(operands, batched, strict=True)))

    def kernel(self, x: Aval, w: Aval) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return _sliding_loop, (dims.prod(x.shape[:-1]), x.shape[-1], w.shape[-1], _BLOCK)


def padded(x: Atom, before: Any, after: Any) -> Atom:
    """Return ``x`` with zeros around it along the last axis."""
    shape = (*x.shape[:-1], x.shape[-1] + before + after)
    return embed(x, start=(*(0,) * (len(shape) - 1), before), step=(1,) * len(shape), shape=shape)


def reversed_rows(x: Atom) -> Atom:
    """Return ``x`` turned round along the last axis."""
    front = (0,) * (len(x.shape) - 1)
    return slice_(x, start=(*front, x.shape[-1] - 1), size=x.shape, step=(*(1,) * len(front), -1))


sliding = Sliding()
sliding._register()
