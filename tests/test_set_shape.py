"""Assigning to ``shape``: the same entries under other indices, seen by nobody else."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = [
    pytest.mark.usefixtures("each_mode"),
    pytest.mark.filterwarnings("ignore:.*[Ss]etting the shape.*:DeprecationWarning"),
]

X = np.linspace(0.5, 3.0, 12)


def whole(x: Any) -> Any:
    y = x * 2
    y.shape = (3, 4)
    y[1] += 1
    return y.T @ y


def views_on_both_sides(x: Any) -> Any:
    y = x.copy()
    early = y[2:7]
    y.shape = 4, 3
    late = y[1]
    late *= 3
    early[0] = -1.0
    y.shape = -1
    y[3] += early[1]
    return np.sum(y * np.arange(12)) + np.sum(early**2) + np.prod(late)


def of_a_view(x: Any) -> Any:
    y = x.copy()
    part = y[:6]
    part.shape = (2, 3)
    part[:, 1] = x[-1]
    row = part[1]
    part.shape = (3, 2)
    part[2] *= row[0]
    return np.sum(y**2) + np.sum(row)


def of_an_array_that_is_filled_later(x: Any) -> Any:
    y = np.zeros(12)
    head = y[:4]
    y.shape = (3, 4)
    second = y[1]
    second.shape = (2, 2)
    y[2] = 5.0
    second[1, 0] = x[3]
    head[2] = x[0] * x[1]
    return np.sum(y * np.arange(12.0).reshape(3, 4)) + second[1, 0] + head.sum()


def in_a_loop(x: Any) -> Any:
    y = x.copy()
    for k in range(3):
        y.shape = (2, 6) if k % 2 else (3, 4)
        y[1] *= x[k]
    return y


@pytest.mark.parametrize(
    "f", [whole, views_on_both_sides, of_a_view, of_an_array_that_is_filled_later, in_a_loop]
)
def test_assigned_shapes(f: Any) -> None:
    np.testing.assert_allclose(tj.jit(f)(X), f(X), rtol=1e-14)
    weights = np.cos(np.arange(np.size(f(X)))).reshape(np.shape(f(X)))
    slope = tj.grad(lambda x: np.sum(f(x) * weights))(X)
    direction = np.sin(np.arange(12.0))
    step = 1e-6
    difference = np.sum((f(X + step * direction) - f(X - step * direction)) * weights) / (2 * step)
    np.testing.assert_allclose(slope @ direction, difference, rtol=1e-7)


def test_shapes_that_do_not_fit() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.shape = (5, 2)
        return y

    with pytest.raises(ValueError, match="reshape"):
        tj.jit(f)(X)
