"""Proved bounds decide whether products must keep zeros exact; a wrong proof would poison gradients."""

import numpy as np
import pytest

import tracejit as tj

X = np.array([-1.5, 0.0, 0.25, 2.0])


def _selects(function, *args):
    return [e for e in tj.grad(function).lower(*args).backward_tape.eqns if e.op.name == "absorb_mul"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(np.sqrt(1 + x * x)),
        lambda x: np.sum(np.log(2 + np.sin(x))),
        lambda x: np.sum(np.exp(x) / (1 + x**2)),
        lambda x: np.sum(np.sqrt(3 + np.sin(x) + np.cos(x))),
        lambda x: np.sqrt(np.sum(x**2) + 1e-6),
    ],
)
def test_a_proved_argument_needs_no_care(function):
    assert not _selects(function, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(1 / np.cosh(x)),  # both overflow: cosh and its slope
        lambda x: np.sum(1 / (1 + x**4)),
        lambda x: np.sum(np.sqrt(x * x)),
        lambda x: np.sum(np.log(1 + np.sin(x))),
        lambda x: np.sum(np.exp(x) / (x**2 - 0.5)),
        lambda x: np.sum(np.sqrt(np.abs(x) + np.exp(x) - np.exp(x))),
        lambda x: np.sum(np.sqrt(x**3)),
    ],
)
def test_an_argument_that_may_vanish_is_handled_with_care(function):
    assert _selects(function, X)


def test_a_root_of_a_sum_of_squares_at_zero_has_slope_zero():
    np.testing.assert_array_equal(tj.grad(lambda x: np.sqrt(np.sum(x * x)))(np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda x: 1 / (1 + np.exp(-x)), -800.0),
        (lambda x: 1 / np.cosh(x), 1000.0),
        (lambda x: 1 / (1 + x**4), 1e120),
        (lambda x: 1 / (1 + x**2), 1e200),
    ],
)
def test_an_overflow_in_the_divisor_gives_slope_zero(function, point):
    assert tj.grad(function)(point) == 0
