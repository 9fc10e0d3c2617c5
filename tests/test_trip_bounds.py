"""Loops whose number of trips is a traced integer: the most that they may run, and what they keep then."""

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from derivative_checks import numeric_gradient
from simulations.relaxation import red_black

import tracejit as tj
from tracejit.frontend import looping
from tracejit.frontend.trip_bounds import most_trips
from tracejit.ir import dims
from tracejit.pipeline import trace_tape

# Number of trips from a row number i of n and a traced integer k -> the most for n = 20, or None.
COUNTS: list[tuple[Callable[..., Any], int | None]] = [
    (lambda i, k, n: k % 5, 4),
    (lambda i, k, n: n - k % 5, 20),
    (lambda i, k, n: n - 2 - (i + k) % 2, 18),
    (lambda i, k, n: (n - k % 3) // 2 * 3, 30),
    (lambda i, k, n: 2 * n - i - k % 2, 40),
    (lambda i, k, n: -(k % 7) + i, 19),
    (lambda i, k, n: min(k, n - i), 20),
    (lambda i, k, n: min(k % 4, k % 6), 3),
    (lambda i, k, n: max(k % 4, k % 6), 5),
    (lambda i, k, n: max(k, 3), None),
    (lambda i, k, n: k, None),
    (lambda i, k, n: k * k, None),
    (lambda i, k, n: k % 100_000, None),
    (lambda i, k, n: n - k, None),
]


@pytest.mark.parametrize(("count", "most"), COUNTS)
def test_the_most_trips(count: Callable[..., Any], most: int | None) -> None:
    def rows(x: Any, k: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            for _ in range(count(i, k, len(x))):
                total = np.sin(total) + x[i]
        return total

    found: list[Any] = []
    with mock.patch.object(looping, "most_trips", lambda atom: found.append(most_trips(atom)) or found[-1]):
        trace_tape(rows, (np.ones(20), np.int64(3)), {})
    assert not any(s.local for end in found if end is not None for s in dims.symbols(end))
    assert {None if end is None else dims.hint(end) for end in found} == {most}
    if most is not None:
        assert most >= max(count(i, k, 20) for i in range(20) for k in range(-50, 50))


def ragged(x: Any, k: Any) -> Any:
    u = x.copy()
    for i in range(len(x)):
        for j in range(int(k[i]) % 4, min(int(k[i]) + 2, len(x))):
            u[j] = np.sin(u[j]) + 0.3 * u[i] * u[j]
    return np.sum(u * u)


def test_gradients_through_ragged_rows() -> None:
    x, k = np.linspace(0.1, 1, 11), np.array([3.0, 1, 0, 9, 20, 4, 4, 2, 7, 5, -3])
    gradient = tj.grad(ragged)
    np.testing.assert_allclose(
        gradient(x, k), numeric_gradient(lambda x: ragged(x, k), x), rtol=1e-7, atol=1e-9
    )
    with tj.interpret():
        twice = tj.grad(lambda x: np.sum(gradient(x, k) ** 2))(x)
        along = tj.jvp(lambda x: gradient(x, k), (x,), (2 * gradient(x, k),))[1]
    np.testing.assert_allclose(twice, along, rtol=1e-12)


def two_loops_over_a_row(x: Any, k: Any) -> Any:
    """Without a bound the loops run again in the backward sweep, the first one before the second is taken back."""
    u, s = x.copy(), 0.0
    for i in range(len(x)):
        for j in range(int(k[i])):
            u[j % 4] = np.sin(u[j % 4]) * u[i] + 0.1 * s
            s = s + u[j % 4]
        for j in range(int(k[i])):
            s = s + u[j % 3] * x[j % 5]
    return s


def test_second_derivatives_of_rows_without_a_bound() -> None:
    x, k = np.linspace(0.1, 1, 11), np.array([3.0, 1, 0, 9, 20, 4, 4, 2, 7, 5, -3])
    gradient = tj.grad(two_loops_over_a_row)
    with tj.interpret():
        first = gradient(x, k)
        twice = tj.grad(lambda x: np.sum(gradient(x, k) ** 2))(x)
        along = tj.jvp(lambda x: gradient(x, k), (x,), (2 * first,))[1]
    expected = numeric_gradient(lambda x: two_loops_over_a_row(x, k), x)
    np.testing.assert_allclose(first, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(twice, along, rtol=1e-12)


def test_rows_keep_what_they_overwrite_and_not_the_array() -> None:
    """The largest array that is allocated grows with what is overwritten, not with rows times the array."""
    gradient = tj.grad(red_black, argnums=(0, 1)).lower(np.ones((12, 13)), 1.2, 9)
    allocated = [line for line in gradient.source.splitlines() if " = grown(" in line]
    shapes = [re.findall(r"room, \((.*)\), np", line)[0].split(",") for line in allocated]
    placed = re.findall(r"placed\(block, \w+, \((.*)\), np", gradient.source)
    assert allocated and all(shape.count(",") <= 1 for shape in placed)
    assert {len(shape) for shape in shapes} <= {1, 2, 3}
    assert ["m0", " n - 2", " ((m - 1) // 2)"] in shapes
