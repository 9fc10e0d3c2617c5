"""Slices through views become slices of the array itself: values, and how much is touched."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_tools import equations, get, put, symbol, tape_of
from op_table import run

from tracejit.ir.check import check
from tracejit.ops.broadcasting import expand_dims
from tracejit.ops.elementwise import mul
from tracejit.ops.joining import slice_add
from tracejit.ops.linear import reshape, slice_, transpose
from tracejit.passes.simplify import simplify

N = symbol("n", 6)
K = symbol("k", 2)  # stands for the counter of a loop


def entry_of_row(a: Any, v: Any) -> Any:
    return get(get(a, K, (0, N)), 3)


def part_of_steps(a: Any, v: Any) -> Any:
    return slice_(slice_(a, start=(5, 0), size=(3, N), step=(-2, 1)), start=(1, 2), size=(2, 2), step=(1, 2))


def entry_of_transposed(a: Any, v: Any) -> Any:
    return get(transpose(a, perm=(1, 0)), 4, K)


def entry_of_new_axis(a: Any, v: Any) -> Any:
    return get(expand_dims(a, axes=(1,)), K, 0, (1, 3))


def part_of_folded(a: Any, v: Any) -> Any:
    return slice_(reshape(v, shape=(1, N, 1)), start=(0, K, 0), size=(1, 3, 1), step=(1, 1, 1))


def write_entry_of_row(a: Any, v: Any) -> Any:
    row = put(get(a, K, (0, N)), get(v, 0), 3)
    return put(a, row, K, (0, N))


def write_twice_through_row(a: Any, v: Any) -> Any:
    return write_entry_of_row(write_entry_of_row(a, v), v)


def write_transposed(a: Any, v: Any) -> Any:
    turned = transpose(a, perm=(1, 0))
    return transpose(put(turned, mul(get(v, 1), 2.0), 4, K), perm=(1, 0))


def read_back(a: Any, v: Any) -> Any:
    return get(put(a, get(v, 0), K, 2), K, 2)


def read_elsewhere(a: Any, v: Any) -> Any:
    return get(put(a, get(v, 0), K, 2), K, 3)


CASES: dict[Callable[..., Any], Callable[..., Any]] = {
    entry_of_row: lambda a, v: a[2, 3],
    part_of_steps: lambda a, v: a[5::-2][:3][1:3, 2:6:2],
    entry_of_transposed: lambda a, v: a[2, 4],
    entry_of_new_axis: lambda a, v: a[2, 1:4],
    part_of_folded: lambda a, v: v[2:5].reshape(1, 3, 1),
    write_entry_of_row: lambda a, v: _with(a, (2, 3), v[0]),
    write_twice_through_row: lambda a, v: _with(a, (2, 3), v[0]),
    write_transposed: lambda a, v: _with(a, (2, 4), 2 * v[1]),
    read_back: lambda a, v: v[0],
    read_elsewhere: lambda a, v: a[2, 3],
}


def _with(a: np.ndarray, place: Any, value: Any) -> np.ndarray:
    a = a.copy()
    a[place] = value
    return a


@pytest.mark.parametrize("function", CASES)
def test_one_place_is_touched(function: Callable[..., Any]) -> None:
    tape = tape_of(lambda a, v, k: function(a, v), (N, N), (N,), (K,))
    smaller = check(simplify(tape))
    rng = np.random.default_rng(2)
    args = [rng.normal(size=(6, 6)), rng.normal(size=6), np.zeros(2)]
    for candidate in (tape, smaller):
        np.testing.assert_array_equal(run(candidate, args)[0], CASES[function](*args[:2]))
    for eqn in equations(smaller):
        touched = eqn.operands[1] if eqn.op.name == "slice_update" else eqn.results[0]
        assert all(isinstance(d, int) for d in touched.shape), smaller


def test_what_is_overwritten_before_it_is_read_is_not_written() -> None:
    def twice(a: Any, v: Any) -> Any:
        a = put(a, get(v, (0, 2)), K, (1, 2))
        return put(a, mul(get(a, K, (1, 2)), 3.0), K, (1, 2))

    def read_between(a: Any, v: Any) -> Any:
        a = put(a, get(v, (0, 2)), K, (1, 2))
        return put(a, get(a, 1, (0, 2)), K, (1, 2))

    args = [np.arange(36.0).reshape(6, 6), np.arange(6.0) + 0.5, np.zeros(1)]
    for function, updates in ((twice, 1), (read_between, 2)):
        tape = tape_of(lambda a, v, k, f=function: f(a, v), (N, N), (N,), (K,))
        smaller = check(simplify(tape))
        assert [e.op.name for e in equations(smaller)].count("slice_update") == updates, smaller
        np.testing.assert_array_equal(run(smaller, args)[0], run(tape, args)[0])


def added(a: Any, value: Any, *place: Any) -> Any:
    return slice_add(a, expand_dims(value, axes=(0, 1)), start=place, step=(1, 1))


def test_what_is_added_to_zeros_is_written() -> None:
    """The cotangent of ``u[i] -= ...`` is taken out, and put back."""

    def apart(a: Any, v: Any) -> Any:
        old = get(a, K + 1, 2)
        a = put(a, 0.0, K + 1, 2)
        return added(added(added(a, get(v, 0), K, 2), get(v, 1), K + 1, 3), old, K + 1, 2)

    def together(a: Any, v: Any) -> Any:
        a = put(a, 0.0, K, 2)
        return added(added(a, get(v, 0), 1, 2), get(v, 1), K, 2)

    def read_between(a: Any, v: Any) -> Any:
        a = added(put(a, 0.0, K + 1, 2), get(v, 0), K, 2)
        return mul(a, added(a, get(v, 1), K + 1, 2))

    args = [np.arange(36.0).reshape(6, 6), np.arange(6.0) + 0.5]
    for function, updates in ((apart, 0), (together, 1), (read_between, 1)):
        tape = tape_of(lambda a, v, k, f=function: f(a, v), (N, N), (N,), (K,))
        smaller = check(simplify(tape))
        assert [e.op.name for e in equations(smaller)].count("slice_update") == updates, smaller
        for k in (1, 2):
            results = (run(t, [*args, np.zeros(k)])[0] for t in (tape, smaller))
            np.testing.assert_array_equal(*results)


def test_overlap_is_not_read_past() -> None:
    """A read that an update may have changed stays behind it."""

    def function(a: Any, v: Any) -> Any:
        return get(put(a, get(v, 0), K, 2), 1, 2)

    tape = tape_of(lambda a, v, k: function(a, v), (N, N), (N,), (K,))
    args = [np.zeros((6, 6)), np.ones(6)]
    for k, want in ((1, 1.0), (2, 0.0)):
        assert run(simplify(tape), [*args, np.zeros(k)])[0] == want
