"""Arrays written in place: views in both directions, arrays made inside, NumPy's writing functions."""

# ruff: noqa: B905, E501

from collections.abc import Iterator

import numpy as np
import pytest
from derivative_checks import check_function, traced
from numpy import zeros

import tracejit as tj

X = np.linspace(-1, 2, 12) ** 2 + 0.3


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with tj.interpret():
        yield


def slices(x):
    u = np.zeros(12)
    u[1:-1] = x[2:] - 2 * x[1:-1] + x[:-2]
    u[::3] += x[::3]
    u[-1] = x[0] ** 2
    return u @ np.arange(12)


def overlapping(x):
    u = x.copy()
    u[1:] = u[:-1]
    u[:-2] += u[2:]
    u[::-1][:3] *= u[:3]
    return u @ np.arange(12)


def views_of_views(x):
    u = np.zeros(12)
    v = u[2:10]
    w = v[::-2]
    w[1:] = x[:3]
    u[3] = x[4]
    v[0] += 2 * x[1]
    return u @ np.arange(12) + w.sum() * v[1]


def reshaped(x):
    u = np.zeros(6)
    m = u.reshape(2, 3)
    m[1] = x[:3]
    u[4] *= 2
    t = m.T
    t[0] += x[3]
    r = m.ravel()
    r[5] = x[5]
    return u @ np.arange(6)


def functions_give_views(x):
    u = x.copy()
    m = np.reshape(u, (3, 4))
    np.transpose(m)[1] = x[:3]
    np.squeeze(m[:1])[2] *= x[0]
    return u @ np.arange(12)


def views_made_before(x):
    u = np.ones(5)
    v = u[1:3]
    w = v[::-1]
    u[0] = 4.0
    w[0] = x
    u[1] += 2
    return u.sum() + 3 * v[1] + v[0]


def masks(x):
    u = np.ones(12)
    u[x > 1] = 0.5
    u[x < 0.7] *= x[x < 0.7]
    u += x
    u[np.isnan(u)] = 0
    return u @ x


def fancy(x):
    u = np.zeros(6)
    u[[1, 3, 5]] = x[:3]
    u[[0, 0, 1]] += x[3:6]
    np.add.at(u, [2, 2, 4], x[6:9])
    np.subtract.at(u, np.array([0, 1]), x[0])
    return u @ np.arange(6.0)


def outputs(x):
    u = np.empty(12)
    np.add(x, 1.0, out=u)
    np.multiply(u, x, out=u, where=x > 1)
    np.sin(u, u)
    return u.sum()


def writing_functions(x):
    u = np.zeros(12)
    np.copyto(u, x)
    np.copyto(u[:3], 7.0, where=x[:3] > 1)
    np.put(u, [4, 5], x[:2])
    np.putmask(u, x > 2, x * x)
    m = np.ones((3, 3))
    np.fill_diagonal(m, x[0])
    w = np.empty(3)
    w.fill(x[1])
    s = x[6:].copy()
    s.sort()
    return u @ np.arange(12) + m.sum() + w.sum() + s @ np.arange(6)


def created(x):
    arrays = [
        np.zeros(3), np.ones((3,)), np.full(3, 2.0), np.arange(3.0), np.linspace(0, 1, 3), np.eye(3)[1], np.ndarray(3),
        np.zeros_like(np.ones(3)), np.array([1.0, 2.0, 3.0]), zeros(3), np.ones(3) * 2, np.sqrt(np.arange(3.0)),
        np.arange(9.0).reshape(3, 3)[1], np.array([x[0], 2.0, x[1] * 2]),
    ]  # fmt: skip
    for k, a in enumerate(arrays):
        a[0] = x[k % 12]
        a[1:] = a[0] * k + 1
    return sum(a @ np.arange(3) for a in arrays)


def added_to_a_plain_array(x):
    u = np.ones(12)
    u += x
    u -= 1
    v = np.arange(12.0)
    v *= u
    return v.sum()


def symbolic_size(x):
    u = np.zeros(len(x))
    u[1:] = x[:-1]
    v = np.zeros((x.shape[0], 2))
    v[:, 0] = u
    v[3] = x[0]
    return (v**2).sum()


def swapped(x):
    u, v = x.copy(), np.zeros_like(x)
    for _ in range(4):
        v[1:-1] = 0.5 * (u[2:] + u[:-2])
        u, v = v, u
    return (u**2).sum() + v[3]


def lists_of_arrays(x):
    history = [np.zeros(3) for _ in range(2)]
    for i in range(2):
        history[i][i] = x[i]
    history[0], history[1] = history[1], history[0]
    return sum(h @ np.arange(1, 4) * (k + 1) for k, h in enumerate(history)) + np.concatenate(history).sum()


def deposit(rho, places, amounts):
    for p, q in zip(places, amounts):
        j = int(p)
        rho[j] += q * (1 - (p - j))
        rho[j + 1] += q * (p - j)


def particle_in_cell(x):
    rho = np.zeros(8)
    deposit(rho, x * 1.1, x**2)
    return rho @ np.arange(8.0)


class Field:
    def __init__(self, x):
        self.u = np.zeros(12)
        self.parts = {"edge": np.zeros(2)}
        self.u[:] = x

    def smooth(self):
        self.u[1:-1] += 0.1 * (self.u[2:] - self.u[:-2])
        self.parts["edge"][:] = self.u[::11]


def attributes(x):
    f = Field(x)
    f.smooth()
    f.smooth()
    return (f.u**2).sum() + f.parts["edge"] @ np.array([1.0, 2.0])


FUNCTIONS = [
    (slices, X), (overlapping, X), (views_of_views, X), (reshaped, X), (functions_give_views, X), (views_made_before, 2.0),
    (masks, X), (fancy, X), (outputs, X), (writing_functions, X), (created, X), (added_to_a_plain_array, X),
    (symbolic_size, X), (swapped, X), (lists_of_arrays, X), (particle_in_cell, X), (attributes, X),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_mutation(function, x):
    check_function(function, x)


def test_plain_arrays_stay_plain():
    def f(x):
        table = np.arange(5)
        table[0] = 3
        assert float(table.sum()) == 13.0
        assert isinstance(table, np.ndarray)
        assert table[table > 2].tolist() == [3, 3, 4]
        assert [int(t) for t in table[1:3]] == [1, 2]
        weights = np.linspace(0, 1, 3)
        weights[1] = 0.25
        return x[table] @ np.concatenate([weights, weights[1:]])

    check_function(f, X)


def test_a_constant_that_changes_between_uses():
    def f(x):
        a = np.zeros(3)
        first = x[:3] + a
        a[0] = 5.0
        return (first * (x[:3] + a)).sum()

    check_function(f, X)


def test_integer_arrays_refuse_fractions():
    def f(x):
        u = np.zeros(3, dtype=int)
        u[0] = x
        return u.sum()

    with pytest.raises(tj.errors.IntegerStoreError):
        tj.grad(f)(1.5)


def test_in_place_update_is_one_equation():
    def f(x):
        u = np.zeros(12)
        u[1:-1] += x[1:-1]
        return u.sum()

    tape, _ = traced(f, X)
    assert [e.op.name for e in tape.eqns].count("slice_update") == 1
