"""``g.lower(...).njit`` in compiled code: other sizes, containers, captured values, and its guards."""

from typing import Any

import numba
import numpy as np
import pytest

import tracejit as tj
from tracejit.errors import GuardError

Array = np.ndarray[Any, Any]
WEIGHTS = np.linspace(1.0, 2.0, 12)


def test_other_sizes_inside_a_loop_of_the_users() -> None:
    slope = tj.grad(lambda x, k: np.sum(np.sin(k * x))).lower(np.zeros(12), 1.0).njit

    @numba.njit
    def walk(x: Array, k: float, steps: int) -> Array:
        for _ in range(steps):
            (g,) = slope(x, k)
            x = x - 0.1 * g
        return x

    for size in (9, 12, 100):
        x = np.linspace(0, 1, size)
        expected = x.copy()
        for _ in range(5):
            expected = expected - 0.1 * 2 * np.cos(2 * expected)
        np.testing.assert_allclose(walk(x, 2.0, 5), expected, rtol=1e-12)


def test_containers_are_passed_leaf_by_leaf_and_captured_values_behind() -> None:
    both = tj.value_and_grad(lambda p: np.sum(WEIGHTS * p["u"]) * p["k"])
    lowered = both.lower({"u": np.ones(12), "k": 2.0})
    by_keys = [v.name for v in lowered.forward_tape.inputs]
    values = {"p['k']": 3.0, "p['u']": np.full(12, 2.0), "WEIGHTS": WEIGHTS}
    value, *slopes = lowered.njit(*(values[name] for name in by_keys))
    assert value == np.sum(WEIGHTS * 2.0) * 3.0
    found = dict(zip(by_keys, slopes, strict=False))
    np.testing.assert_allclose(found["p['u']"], 3.0 * WEIGHTS)
    np.testing.assert_allclose(found["p['k']"], 2.0 * np.sum(WEIGHTS))


def test_guards_of_sizes_are_checked() -> None:
    slope = tj.grad(lambda x, y: np.sum(x * y)).lower(np.ones(12), np.ones(12)).njit
    np.testing.assert_array_equal(slope(np.ones(20), np.full(20, 3.0))[0], np.full(20, 3.0))
    with pytest.raises(GuardError, match="axis 0 of y must have"):
        slope(np.ones(20), np.ones(15))
    with pytest.raises(GuardError, match="at least 9 entries"):
        slope(np.ones(1), np.ones(20))


def test_guards_of_python_decisions_are_checked() -> None:
    slope = tj.grad(lambda x: np.sum(x**2) if np.sum(x) > 0 else np.sum(x)).lower(np.ones(12)).njit
    np.testing.assert_array_equal(slope(np.full(15, 2.0))[0], np.full(15, 4.0))
    with pytest.raises(GuardError, match=r"compiled for another path.* at .*test_api_njit\.py"):
        slope(-np.ones(12))
