"""Wrong values and wrong gradients that were found by attacks on the whole pipeline, one test per kind."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]


def test_plain_arrays_that_change_during_the_trace() -> None:
    def f(x: Array) -> Any:
        weights = np.fromiter([1.0, 2.0, -0.0], float)
        first = x * weights
        weights += 1
        second = x * weights
        weights[2] = 0.0
        return np.sum(first + second) + np.sum(np.copysign(1.0, weights) * x)

    x = np.array([1.0, 2.0, 4.0])
    value, slope = tj.value_and_grad(f)(x)
    assert value == f(x)
    np.testing.assert_array_equal(slope, [4.0, 6.0, 2.0])
