"""Masks that select a number of entries which only the running tape knows, in and outside of loops; whole numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import pipeline

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).normal(size=50)
A = np.random.default_rng(1).normal(size=(9, 12))


def squares(x: Array) -> Any:
    return np.sum(x[x > 0] ** 2)


def mean(x: Array) -> Any:
    return x[x > 0.3].mean() + np.std(x[x > -0.5])


def equal_masks(x: Array) -> Any:
    return np.dot(x[x > 0], np.sin(x)[x > 0])


def masked_store(x: Array) -> Any:
    z = x.copy()
    m = z > 0.2
    z[m] = z[m] ** 2 + np.sin(x[m])
    z[~m] *= 3.0
    return np.sum(z * np.sin(z))


def rows(a: Array) -> Any:
    b = a.copy()
    m = b[:, 0] > 0
    b[m] *= 2.0
    b[m, 1] = 3 * a[m, 2]
    return np.sum(b**2) + np.sum(a[a > 0.1] ** 3)


def bins(x: Array) -> Any:
    found = np.zeros(5)
    for i in range(5):
        inside = np.logical_and(x >= i * 0.4 - 1, x < (i + 1) * 0.4 - 1)
        found[i] = np.sum(x[inside] ** 2) / (1 + len(x[inside]))
    return np.sum(found**2)


def escape(x: Array) -> Any:
    z = x * 1.0
    for _ in range(6):
        inside = np.abs(z) < 2.0
        z[inside] = z[inside] ** 2 - 0.3 * x[inside]
    return np.sum(z)


def places(x: Array) -> Any:
    (w,) = np.nonzero(x > 0.1)
    total = np.sum(x[w] * w) + np.sum(np.compress(x > 0, x) ** 2) + np.sum(np.extract(x < 0, x) ** 3)
    for i in np.flatnonzero(x > 0):
        total = total + x[i] ** 2 * i
    return total + np.sum(x[np.where(x < -0.5)[0]])


def places_of_two_axes(a: Array) -> Any:
    i, j = np.nonzero(a > 0)
    return np.sum(a[i, j] * (i + j)) + np.sum(np.argwhere(a > 0) * 1.0) * a[0, 0]


def while_some_are_large(x: Array) -> Any:
    while np.sum(x[x > 0]) > 5:
        x = x * 0.7
    return np.sum(x[x > 0] ** 2)


def other_functions(x: Array) -> Any:
    m = x > 0
    joined = np.concatenate([x[m], x[~m]])
    sums = np.sum(np.cumsum(x[m]) ** 2) + np.sum(np.outer(x[m], x[m]))
    return np.sum(joined**3) + sums + np.linalg.norm(x[m]) + np.median(x[m]) + len(x[m]) * x[1]


FUNCTIONS = [
    (squares, X), (mean, X), (equal_masks, X), (masked_store, X), (rows, A), (bins, X), (escape, X), (places, X),
    (places_of_two_axes, A), (while_some_are_large, X), (other_functions, X),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), FUNCTIONS)
def test_one_trace_serves_all_masks(f: Callable[[Array], Any], x: Array, each_mode: str) -> None:
    value, slope = tj.jit(f), tj.grad(f)
    before = pipeline.stats.traces
    for point in (x, -x, 0.9 * x, np.abs(x) + 0.01):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(value(point), f(point), rtol=1e-12)
    assert pipeline.stats.traces == before + 1
    for point in (x, -x):
        along = np.random.default_rng(2).normal(size=x.shape)
        rise = (f(point + 1e-6 * along) - f(point - 1e-6 * along)) / 2e-6
        np.testing.assert_allclose(np.sum(slope(point) * along), rise, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(tj.jvp(f, (point,), (along,))[1], rise, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", [squares, equal_masks, masked_store, bins, escape])
def test_second_derivatives_of_what_masks_select(f: Callable[[Array], Any], each_mode: str) -> None:
    along = np.random.default_rng(2).normal(size=X.shape)
    slope = tj.grad(f)
    rise = (slope(X + 1e-6 * along) - slope(X - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(tj.hvp(f)(X, along), rise, rtol=1e-5, atol=1e-6)


def test_a_result_as_long_as_a_mask_says(each_mode: str) -> None:
    """Its memory is made before the tape runs, so the trace holds for this mask."""
    f = tj.jit(lambda x: 2.0 * x[x > 0])
    for point in (X, -X):
        np.testing.assert_array_equal(f(point), 2.0 * point[point > 0])


def test_the_largest_of_perhaps_no_entries(each_mode: str) -> None:
    f = tj.value_and_grad(lambda x: np.max(x[x < 1]))
    for point in (X, -X):
        value, slope = f(point)
        assert value == np.max(point[point < 1])
        np.testing.assert_array_equal(slope, point == value)
    with pytest.raises(ValueError, match="zero-size array"):
        f(np.ones(50))


def test_masks_of_no_entries(each_mode: str) -> None:
    for f in (squares, equal_masks, masked_store, places):
        point = np.full(50, -0.01)
        np.testing.assert_allclose(tj.jit(f)(point), f(point))
        assert np.all(np.isfinite(tj.grad(f)(point)))


# --- whole numbers that a loop needs ----------------------------------------------------------------


def covariance(m: int, data: Array) -> Array:
    found = np.zeros((m, m))
    for i in range(m):
        found[i:m, i] = found[i, i:m] = data[:, i] @ data[:, i:m]
    return found


def test_a_whole_number_that_bounds_slices_of_a_loop_is_a_constant() -> None:
    f = tj.jit(covariance)
    for m in (7, 12, 7):
        np.testing.assert_allclose(f(m, A), covariance(m, A), rtol=1e-13)
    assert len(tj.trace(covariance)(12, A).eqns) < 10  # a loop, not twelve times its body


def test_a_whole_number_of_steps_is_none() -> None:
    def f(x: Array, steps: int) -> Any:
        for _ in range(steps):
            x = np.sin(x) + 0.1
        return np.sum(x)

    slope = tj.grad(f)
    slope(X, 10)
    before = pipeline.stats.traces
    for steps in (11, 300, 0):
        expected = (f(X + 1e-6, steps) - f(X - 1e-6, steps)) / 2e-6
        np.testing.assert_allclose(np.sum(slope(X, steps)), expected, rtol=1e-6, atol=1e-8)
    assert pipeline.stats.traces == before


def attraction(pos: Array, mass: Array) -> Any:
    x, y = pos[:, 0:1], pos[:, 1:2]
    dx, dy = x.T - x, y.T - y
    inverse = dx**2 + dy**2 + 0.1
    inverse[inverse > 0] = inverse[inverse > 0] ** (-1.5)
    return np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass))


def potential(pos: Array, mass: Array) -> Any:
    x, y = pos[:, 0:1], pos[:, 1:2]
    distance = np.sqrt((x.T - x) ** 2 + (y.T - y) ** 2)
    distance[distance > 0] = 1.0 / distance[distance > 0]
    return np.sum(np.triu(-(mass * mass.T) * distance, 1))


def orbits(pos: Array, mass: Array) -> Any:
    pos, vel = pos.copy(), np.zeros_like(pos)
    force = attraction(pos, mass)
    energy = np.ndarray(5)
    energy[0] = potential(pos, mass)
    for i in range(4):
        vel += force * 0.05 / 2
        pos += vel * 0.05
        force = attraction(pos, mass)
        vel += force * 0.05 / 2
        energy[i + 1] = potential(pos, mass) + np.sum(mass * vel**2)
    return np.sum(energy) + np.sum(pos)


def test_places_are_checked_when_their_number_is_known(each_mode: str) -> None:
    pos, mass = np.random.default_rng(6).normal(size=(12, 2)), np.full((12, 1), 0.1)
    along = np.random.default_rng(2).normal(size=pos.shape)
    rise = (orbits(pos + 1e-6 * along, mass) - orbits(pos - 1e-6 * along, mass)) / 2e-6
    np.testing.assert_allclose(np.sum(tj.grad(orbits)(pos, mass) * along), rise, rtol=1e-6)


def test_equal_masks_of_much_that_is_shared() -> None:
    """Each step uses the one before three times: without remembering, comparing would take 3**15 steps."""

    def folded(x: Array) -> Array:
        for _ in range(3):
            for _ in range(5):
                x = np.where(x > 0.5, x * 0.5, x + 0.1)
        return x

    def unrolled(x: Array) -> Array:
        states = [x]
        for _ in range(15):
            states.append(np.where(states[-1] > 0.5, states[-1] * 0.5, states[-1] + 0.1))
        return states[-1]

    for steps in (folded, unrolled):

        def f(x: Array, steps: Callable[[Array], Array] = steps) -> Any:
            return np.dot(x[steps(x) > 0.4], np.sin(x)[steps(x) > 0.4])

        np.testing.assert_allclose(tj.jit(f)(X), f(X))
