"""Compare a function with its traced self: values, and gradients with two other ways to get them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np

import tracejit as tj
from tracejit.frontend import looping
from tracejit.ir.tape import Tape
from tracejit.pipeline import trace_tape

Function = Callable[..., Any]


def numeric_gradient(function: Function, x: Any, eps: float = 1e-6) -> Any:
    """The gradient of a scalar function by central differences."""
    point = np.asarray(x, float)
    result = np.zeros_like(point)
    for place in np.ndindex(point.shape):
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved[place] += sign * eps
            ends.append(function(moved if moved.ndim else float(moved)))
        result[place] = (ends[0] - ends[1]) / (2 * eps)
    return result


def check_function(function: Function, x: Any, rtol: float = 1e-5) -> None:
    """The traced function has NumPy's value, and the gradient by differences and by the unrolled trace."""
    fresh = _rebuilt(function)
    np.testing.assert_allclose(tj.jit(fresh)(_copied(x)), function(_copied(x)), rtol=1e-12)
    gradient = tj.grad(_rebuilt(function))(_copied(x))
    np.testing.assert_allclose(gradient, numeric_gradient(function, x), rtol=rtol, atol=1e-6)
    _, tangent = tj.jvp(_rebuilt(function), (_copied(x),), (np.ones_like(x, float),))
    np.testing.assert_allclose(tangent, np.sum(gradient), rtol=1e-9, atol=1e-9)
    with unrolled_loops():
        np.testing.assert_allclose(tj.grad(_rebuilt(function))(_copied(x)), gradient, rtol=1e-9, atol=1e-9)


def _rebuilt(function: Function) -> Function:
    """A function of its own for the entry cache."""

    def same(x: Any) -> Any:
        return function(x)

    return same


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def unrolled_loops() -> AbstractContextManager[Any]:
    """While it lasts, no loop becomes a region."""
    return mock.patch.object(looping, "_attempt", lambda make: "switched off")


def traced(function: Function, *args: Any) -> tuple[Tape, list[str]]:
    """The tape of a function, and why loops were unrolled."""
    tape = trace_tape(function, tuple(map(_copied, args)), {})
    return tape, [reason for _, reason in looping.unrolled()]


def regions(tape: Tape) -> set[str]:
    """The names of the region ops at the top of a tape."""
    return {eqn.op.name for eqn in tape.eqns} & {"loop", "while", "cond"}
