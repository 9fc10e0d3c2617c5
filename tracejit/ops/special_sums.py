"""Sums of exponentials: nothing over- or underflows, no digit of a small result is lost."""

from __future__ import annotations

import numpy as np

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, sign
from tracejit.ops.broadcasting import broadcast_to, expand_dims, reduce_sum
from tracejit.ops.complex_parts import absolute
from tracejit.ops.elementwise import Elementwise, add, constant, mul, select
from tracejit.ops.logic import equal, isfinite, less
from tracejit.ops.reduction import reduce_max
from tracejit.ops.transcendental import exp, log, log1p

__all__ = ["Stated", "log_softmax", "logsumexp", "softmax"]

Axes = tuple[int, ...]


class Stated(Elementwise):
    """An op whose derivative is stated, and is not that of its value."""


held = Stated("held", np.array, "{0}", None)
stated = Stated("stated", lambda value, path: np.array(value), "{0}", None, lambda y, value, path: 1)
"""The first operand, with the derivative of the second, which is equal up to rounding."""

gap = Elementwise(
    "gap",
    lambda a, b: np.where(a == b, 0, np.subtract(a, b)),
    "where({0} == {1}, 0.0, {0} - {1})",
    lambda y, a, b: 1,
    lambda y, a, b: -1,
    loops=np.subtract,
    real_only=True,
)
"""``a - b``, and 0 between equal infinities."""


def _over(x: Atom, axes: Axes) -> Atom:
    """The sum over ``axes``, which stay with length one."""
    return expand_dims(reduce_sum(x, axes=axes), axes=axes)


def _largest(x: Atom, axes: Axes) -> Atom:
    largest = reduce_max(x, axes=axes) if axes else x
    return expand_dims(held(largest), axes=axes)


def _distances(x: Atom, largest: Atom) -> Atom:
    """``x - largest``; where the largest is ``-inf`` there is nothing to compare with."""
    start = select(equal(largest, -np.inf), constant(0, largest), largest)
    return gap(x, broadcast_to(start, x.shape))


def logsumexp(x: Atom, weights: Atom | None, axes: Axes) -> tuple[Atom, Atom]:
    """Return the logarithm of the absolute value of the weighted sum of ``exp(x)``, and its sign.

    The axes stay with length one.  The largest entries are counted apart from the others: where they alone
    would give 0, the sum of the others is the result.
    """
    if weights is not None:
        x = select(equal(weights, 0), constant(-np.inf, x), x)
    largest = _largest(x, axes)
    terms = exp(_distances(x, largest))
    terms = terms if weights is None else mul(weights, terms)
    total = _over(terms, axes)
    is_largest = equal(x, broadcast_to(largest, x.shape))
    unit = constant(1, x) if weights is None else weights
    count = _over(held(select(is_largest, unit, constant(0, x))), axes)
    others = _over(held(select(is_largest, constant(0, x), terms)), axes)
    path = add(log(absolute(total)), largest)
    return stated(_precise(count, others, path, largest), path), sign(total)


def _precise(count: Atom, others: Atom, path: Atom, largest: Atom) -> Atom:
    """``log(abs(count + others)) + largest``, exact where that is nearly 0."""
    ratio = select(equal(others, 0), constant(0, others), divide(others, count))
    ratio = select(less(ratio, -1), add(mul(-1, ratio), -2), ratio)
    value = add(add(log1p(ratio), log(absolute(count))), largest)
    return held(select(isfinite(value), value, path))


def softmax(x: Atom, axes: Axes) -> Atom:
    """Return ``exp(x)`` divided by its sum over ``axes``."""
    terms = exp(_distances(x, _largest(x, axes)))
    return divide(terms, broadcast_to(_over(terms, axes), x.shape))


def log_softmax(x: Atom, axes: Axes) -> Atom:
    """Return the logarithm of `softmax`."""
    distances = _distances(x, _largest(x, axes))
    return gap(distances, broadcast_to(log(_over(exp(distances), axes)), x.shape))
