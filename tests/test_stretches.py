"""Slices in loops whose ends are traced integers: rows of sparse matrices, queues, windows that move by values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import pipeline

Array = np.ndarray[Any, Any]

ROWS = np.array([0, 3, 3, 5, 9, 10, 12])
COLUMNS = np.array([0, 2, 5, 1, 3, 0, 1, 2, 4, 5, 3, 3])
VALUES = np.random.default_rng(3).normal(size=12)
X = np.random.default_rng(4).normal(size=6)
A = np.random.default_rng(5).normal(size=(6, 12))


def sparse_product(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    y = np.empty(rows.size - 1)
    for i in range(rows.size - 1):
        inside = columns[rows[i] : rows[i + 1]]
        y[i] = values[rows[i] : rows[i + 1]] @ x[inside]
    return y


def sums_of_segments(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    y = np.zeros(rows.size - 1)
    for i in range(rows.size - 1):
        part = values[rows[i] : rows[i + 1]]
        if len(part) > 0:
            y[i] = np.sum(np.sin(part) * x[i]) / len(part)
    return y


def written_segments(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    z = values.copy()
    for i in range(rows.size - 1):
        part = z[rows[i] : rows[i + 1]]
        part *= x[i]
        z[rows[i] : rows[i + 1]] += np.cos(part)
        part[:1] -= x[i] ** 2
    return z


def ends_counted_from_behind(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    z = values.copy()
    total = 0.0
    for i in range(6):
        total += np.sum(z[-rows[i] - 2 : -1]) * x[i] + np.sum(z[: rows[i] - 4] ** 2)
        z[rows[i] :] = z[rows[i] :] * 0.5 + total
    return total + np.sum(z)


def ends_beyond_the_array(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    total = 0.0
    for i in range(6):
        k = columns[i] * 5
        total += np.sum(values[k - 3 : k + 4] ** 2) * x[i]
    return total


def steps(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    z = values.copy()
    total = 0.0
    for i in range(6):
        total += np.sum(z[rows[i] :: 2] * x[i]) - np.sum(np.tanh(z[rows[i] :: -3]))
        z[columns[i] : rows[i] : 2] *= 1.5
        z[rows[i] : columns[i] : -1] += x[i]
    return total + np.sum(z**2)


def of_two_axes(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    a = np.outer(x, values)
    total = 0.0
    for i in range(6):
        j = columns[i]
        total += np.sum(a[j:, rows[i] : rows[i + 1]] ** 2) + np.sum(a[i, j:]) * x[j]
        a[:j, rows[i] : rows[i + 1]] += x[i]
        a[rows[i] : j, None, i] = x[j]
    return total + np.sum(a)


def prefixes_of_a_carried_length(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    length, total = 0, 0.0
    for i in range(12):
        if values[i] > 0:
            length += 2
        total += np.sum(values[:length] ** 2) * x[i % 6]
    return total


def queue(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    waiting, head, tail = np.zeros(40), 0, 1
    waiting[0] = x[0]
    while tail - head > 0 and tail < 30:
        first = waiting[head]
        head += 1
        more = columns[head % 12] % 3 + (1 if first > 0 else 0)
        waiting[tail : tail + more] = np.sin(first) + x[:more]
        tail += more
    return np.sum(waiting[:tail] * np.arange(40)[:tail])


def of_branches(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    total = 0.0
    for i in range(6):
        if columns[i] > 1:
            total += np.sum(values[rows[i] : rows[i] + columns[i]] * x[i])
        else:
            total -= np.prod(x[columns[i] : 3])
    return total


def windows_cut_at_the_ends(rows: Array, columns: Array, values: Array, x: Array) -> Any:
    z = values.copy()
    for i in range(z.size):
        z[i] = np.mean(z[max(i - 2, 0) : i + 3]) * x[i % 6] + np.sum(z[i - 3 : i + 1])
    return z


FUNCTIONS = [
    sparse_product, sums_of_segments, written_segments, ends_counted_from_behind, ends_beyond_the_array, steps,
    of_two_axes, prefixes_of_a_carried_length, of_branches, windows_cut_at_the_ends,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
def test_stretches(f: Callable[..., Any], each_mode: str) -> None:
    found = f(ROWS, COLUMNS, VALUES, X)
    before = pipeline.stats.traces
    value = tj.jit(f)
    np.testing.assert_allclose(value(ROWS, COLUMNS, VALUES, X), found, rtol=1e-13)
    other = np.array([0, 1, 4, 4, 6, 11, 12])
    np.testing.assert_allclose(
        value(other, COLUMNS[::-1].copy(), -VALUES, X), f(other, COLUMNS[::-1], -VALUES, X)
    )
    assert pipeline.stats.traces == before + 1
    weights = np.cos(np.arange(np.size(found))).reshape(np.shape(found))

    def energy(values: Array, x: Array) -> Any:
        return np.sum(f(ROWS, COLUMNS, values, x) * weights)

    directions = np.sin(np.arange(12.0)), np.cos(np.arange(6.0))
    slopes = tj.grad(energy, argnums=(0, 1))(VALUES, X)
    h = 1e-6
    moved = [(VALUES + s * h * directions[0], X + s * h * directions[1]) for s in (1, -1)]
    rise = (energy(*moved[0]) - energy(*moved[1])) / (2 * h)
    np.testing.assert_allclose(
        sum(np.sum(s * d) for s, d in zip(slopes, directions, strict=True)), rise, rtol=1e-7
    )
    np.testing.assert_allclose(tj.jvp(energy, (VALUES, X), directions)[1], rise, rtol=1e-7)


def test_the_loop_is_not_unrolled() -> None:
    tape = tj.trace(sparse_product)(ROWS, COLUMNS, VALUES, X)
    assert [e.op.name for e in tape.eqns].count("loop") == 1
    assert len(tape.eqns) < 5


def test_second_derivatives(each_mode: str) -> None:
    def energy(values: Array) -> Any:
        return np.sum(sparse_product(ROWS, COLUMNS, np.sin(values), X) ** 2)

    along, h = np.cos(np.arange(12.0)), 1e-6
    slope = tj.grad(energy)
    rise = (slope(VALUES + h * along) - slope(VALUES - h * along)) / (2 * h)
    np.testing.assert_allclose(tj.hvp(energy)(VALUES, along), rise, rtol=1e-6, atol=1e-8)


def test_a_queue_in_an_array(each_mode: str) -> None:
    found = queue(ROWS, COLUMNS, VALUES, X)
    assert tj.jit(queue)(ROWS, COLUMNS, VALUES, X) == pytest.approx(found, rel=1e-13)
    slope = tj.grad(queue, argnums=3)(ROWS, COLUMNS, VALUES, X)
    along, h = np.cos(np.arange(6.0)), 1e-6
    rise = (queue(ROWS, COLUMNS, VALUES, X + h * along) - queue(ROWS, COLUMNS, VALUES, X - h * along)) / (
        2 * h
    )
    np.testing.assert_allclose(slope @ along, rise, rtol=1e-7)


def test_a_size_that_the_backward_sweep_would_have_to_keep_unrolls_the_loop(each_mode: str) -> None:
    def f(x: Array, y: Array) -> Any:
        b, s = np.zeros(9), 0.0
        for i in range(4):
            for j in range(4):
                s = np.tanh(s - 0.4)
                b[j % 4 :] = b[:0].sum() + 0.5
                s = s + np.sum(y[i:] * x[i:]) * 0.1
        return np.sum(b * b) + s

    x, y = np.random.default_rng(0).normal(size=(2, 9))
    slope = tj.grad(f, argnums=(0, 1))(x, y)
    for number, along in enumerate(np.eye(2)):
        dx, dy = along[:, None] * np.cos(np.arange(9.0))
        rise = (f(x + 1e-6 * dx, y + 1e-6 * dy) - f(x - 1e-6 * dx, y - 1e-6 * dy)) / 2e-6
        np.testing.assert_allclose(np.sum(slope[number] * (dx + dy)), rise, rtol=1e-7)
