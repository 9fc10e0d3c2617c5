"""``numpy.linalg``: values against NumPy's, both modes of differentiation, degenerate matrices, errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from samples_linalg import SMOOTH

import tracejit as tj
from tracejit.pipeline import interpret, trace_tape

L = np.linalg
CASES = [pytest.param(f, arrays, id=name) for name, (f, arrays) in SMOOTH.items()]
Array = np.ndarray[Any, Any]


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def same(got: Any, want: Any, digits: float = 1e-11) -> None:
    assert type(got) is type(want)
    for x, y in zip(leaves(got), leaves(want), strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        assert_allclose(x, y, rtol=digits, atol=digits)


@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_values(function: Callable[..., Any], arrays: tuple[Array, ...]) -> None:
    want = function(*arrays)
    with interpret():
        same(tj.jit(function)(*arrays), want)


@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_derivatives(function: Callable[..., Any], arrays: tuple[Array, ...]) -> None:
    op_table.check_derivatives(trace_tape(function, arrays, {}), arrays, 2, 3e-8)
