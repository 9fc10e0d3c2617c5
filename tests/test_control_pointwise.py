"""Loops and branches that keep the points of a grid apart, and those that do not."""

from collections.abc import Callable
from typing import Any

import pytest
from loop_tools import for_, get, if_, put, symbol, tape_of, whilst

from tracejit.ops.broadcasting import broadcast, reduce_sum
from tracejit.ops.elementwise import add, mul
from tracejit.ops.logic import greater
from tracejit.ops.transcendental import sin
from tracejit.passes.pointwise import mixing_equation

N, T = symbol("n", 4), symbol("t", 3)


def everywhere(x: Any) -> Any:
    return broadcast(x, shape=(N,), axes=())


def steps(x: Any, c: Any) -> Any:
    return for_(5, [x, everywhere(0.0)], lambda k, x, s: [sin(x), add(s, mul(x, x))])[1]


def steps_with_history(x: Any, c: Any) -> Any:
    return for_(T, [x], lambda k, x: ([sin(x)], [mul(x, x)]), stacked=True)[1][0]


def scalar_branch(x: Any, c: Any) -> Any:
    return if_(greater(c, 0.0), lambda x: mul(x, x), sin, x)[0]


def counted_while(x: Any, c: Any) -> Any:
    return whilst(lambda k, x: greater(c, k), lambda k, x: [add(k, 1.0), sin(x)], [0.0, x])[0][1]


def running_total(x: Any, c: Any) -> Any:
    return for_(N, [0.0], lambda k, s, e: [add(s, e)], xs=[x])[0]


def neighbour(x: Any, c: Any) -> Any:
    return for_(N - 1, [x], lambda k, x: [put(x, get(x, k), k + 1)])[0]


def branch_on_points(x: Any, c: Any) -> Any:
    total = reduce_sum(x, axes=(0,))
    return if_(greater(total, 0.0), lambda x: mul(x, x), sin, x)[0]


def while_on_points(x: Any, c: Any) -> Any:
    return whilst(lambda x: greater(reduce_sum(x, axes=(0,)), 1.0), lambda x: [mul(x, 0.5)], [x])[0][0]


@pytest.mark.parametrize("function", [steps, steps_with_history, scalar_branch, counted_while])
def test_apart(function: Callable[..., Any]) -> None:
    tape = tape_of(function, (N,), ())
    assert mixing_equation(tape, [0], 0) is None


@pytest.mark.parametrize("function", [running_total, neighbour, branch_on_points, while_on_points])
def test_mixed(function: Callable[..., Any]) -> None:
    tape = tape_of(function, (N,), ())
    assert mixing_equation(tape, [0], 0) is not None
