"""Loops and branches of plain Python code: regions with the value and derivatives of unrolled code."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from derivative_checks import check_function, regions, traced

import tracejit as tj

# ruff: noqa: B007, B905, E501, PERF401, SIM113, PLW0603

X = np.linspace(-1, 2, 12) ** 2 + 0.3
SPD = np.random.default_rng(0).normal(size=(10, 10))
SPD = SPD @ SPD.T + 10 * np.eye(10)


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with tj.interpret():
        yield


# --- functions that become regions --------------------------------------------------------------------------


def scaled_sum(x):
    s = 0.0
    for i in range(10):
        s = s + x * i
    return s


def horner(x):
    r = 0.0
    for i in range(len(x)):
        r = r * 0.5 + x[i]
    return r


def over_rows(x):
    total = 0.0
    for row in x.reshape(4, 3):
        total += row @ row
    return total


def pairs(x):
    s = 0
    for a, b in zip(x, reversed(x)):
        s = s + a * b**2
    for i, v in enumerate(x, 2):
        s += i * v
    return s


def backwards(x):
    u = np.zeros(12)
    for k in reversed(range(0, 11, 2)):
        u[k] = u[k + 1] + x[k] * k
    for k in range(10, -1, -3):
        u[k] *= x[k]
    return u @ np.arange(12.0)


def rectified(x):
    s = 0.0
    for i in range(x.shape[0]):
        if x[i] > 1:
            s += x[i] ** 2
        elif x[i] > 0.5:
            s -= x[i]
        else:
            s *= 0.9
    return s


def limiter(x):
    s = 0.0
    for i in range(1, x.shape[0] - 1):
        a, b = x[i] - x[i - 1], x[i + 1] - x[i]
        s += max(0.0, min(a, b)) if a * b > 0 and abs(a) < 5 else (a if not b > 0 else 0.1 * b)
    return s


def chained(x):
    s = 0.0
    for v in x:
        if 0.5 < v <= 1.5 or v > 3:
            s += v * v
    return s


def stops(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
        if s > 3:
            break
    else:
        s = -s
    return s


def skips(x):
    s = 0.0
    for v in x:
        if v < 0.7:
            continue
        s += v**2
        if v > 3.5:
            continue
        s *= 1.1
    return s


def returns_early(c):
    z, n = 0.0, 0
    for _ in range(50):
        z = z * z + c
        if z > 4:
            return n + z
        n += 1
    return z


def nested_return(x):
    for i in range(12):
        for j in range(12):
            if x[i] * x[j] > 4:
                return x[i] * x[j] ** 2 + i
    return x.sum()


def newton(a):
    x = a
    while abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def while_counts(x):
    i, s = 0, 0.0
    while i < 12 and s < 5:
        s += x[i]
        i += 1
    return s * i


def forever(a):
    x, n = a, 0
    while True:
        x = 0.5 * (x + 2 / x)
        n += 1
        if abs(x * x - 2) < 1e-3 or n > 100:
            break
    return x + n


def golden(x):
    best, at = -1.0, 0
    for i, v in enumerate(x):
        if v > best:
            best, at = v, i
    return best * at


def after_the_loop(x):
    last = -5.0
    for i in range(8):
        y = x * i
        if y > 3:
            last = y
    return last * i + y


def containers(x):
    d = {"a": 0.0, "b": (1.0, x)}
    for _ in range(8):
        d["a"] = d["a"] + x
        d["b"] = (d["b"][0] * 1.1, d["b"][1] + d["a"])
    return d["a"] * d["b"][1] + d["b"][0]


@dataclass
class State:
    position: Any
    speed: Any


def records(x):
    s = State(x, 0.0)
    for _ in range(10):
        s = State(s.position + 0.1 * s.speed, s.speed - 0.1 * s.position)
    return s.position * s.speed


def starts_with_none(x):
    previous, s = None, 0.0
    for i in range(8):
        if previous is not None:
            s += previous * x
        previous = x * i
    return s


def starts_with_a_scalar(x):
    total = 0
    for i in range(8):
        total = total + np.array([x, 2 * x, 3.0]) * i
    return total.sum()


def eight_deep(x):
    s = 0.0
    for a in range(4):
        for b in range(a, 4):
            for c in range(4):
                for d in range(c + 1):
                    for e in range(4):
                        s = s * 0.99 + x * a * b - c * d + e
    return s


def triangular(A):
    n = A.shape[0]
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i):
            L[i, j] = (A[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
        L[i, i] = np.sqrt(A[i, i] - L[i, :i] @ L[i, :i])
    return L.sum()


def growing_slices(x):
    y = np.zeros(12)
    y[0] = x[0]
    for k in range(1, 12):
        y[:k] += x[k] * np.flip(y[:k])
        y[k] = x[k]
    return y @ np.arange(12)


def sparse_rows(v):
    starts = np.array([0, 2, 3, 6, 6, 8, 9, 10, 11, 12, 12])
    columns = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2])
    x, y = np.linspace(1, 2, 10), np.zeros(10)
    for i in range(10):
        for k in range(starts[i], starts[i + 1]):
            y[i] += v[k] * x[columns[k]]
    return y @ y


def linked_list(x):
    follows = np.array([3, 4, 5, 1, 2, -1])
    at, s = 0, 0.0
    while at >= 0:
        s = s * 0.5 + x[at]
        at = follows[at]
    return s


def weight(r, cut):
    if r > cut:
        return 0.0
    return (1 - r / cut) ** 2 if r > 0.1 else math.cos(r)


def helpers(x):
    e = 0.0
    for i in range(6):
        for j in range(6):
            if i != j:
                e += weight(abs(x[i] - x[j]), 1.5)
    return e


class Oscillator:
    def __init__(self, u, dt):
        self.u, self.dt, self.t, self.n = u.copy(), dt, 0.0, 0

    def step(self):
        self.u[1:-1] += self.dt * (self.u[2:] - 2 * self.u[1:-1] + self.u[:-2])
        self.t += self.dt
        self.n += 1


def stepping_object(u):
    s = Oscillator(u, 0.1)
    for _ in range(20):
        s.step()
    return (s.u**2).sum() * s.t + s.n


REGIONS = [
    (scaled_sum, 2.0), (horner, X), (over_rows, X), (pairs, X), (backwards, X), (rectified, X), (limiter, X),
    (chained, X), (stops, X), (stops, X / 99), (skips, X), (returns_early, 0.6), (returns_early, 0.1), (nested_return, X),
    (nested_return, X / 9), (newton, 2.0), (while_counts, X), (while_counts, X / 9), (forever, 1.3), (golden, X),
    (after_the_loop, 1.3), (containers, 2.0), (records, 2.0), (starts_with_none, 2.0), (starts_with_a_scalar, 2.0),
    (eight_deep, 1.0), (triangular, SPD), (growing_slices, X), (sparse_rows, X), (linked_list, X), (helpers, X),
    (stepping_object, X),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), REGIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_region(function, x):
    tape, reasons = traced(function, x)
    assert not reasons
    assert regions(tape) & {"loop", "while"}
    check_function(function, x)


# --- loops that cannot be regions ---------------------------------------------------------------------------


def list_grows(x):
    history = []
    for i in range(5):
        history.append(x * i)
    return sum(history)


def shape_changes(x):
    u = x
    for _ in range(5):
        u = u[:-1] + u[1:]
    return u.sum()


def iterator(x):
    numbers = iter([0.5, 1.5, 2.5, 3.5, 4.5])
    s = 0.0
    for _ in range(5):
        s += next(numbers) * x
    return s


def multigrid(x):
    n, u = 12, x
    while n > 3:
        n //= 2
        u = u[::2] * 1.5
    return u.sum() * n


def two_names(x):
    u, v = np.zeros(12) + x, np.zeros(12)
    keep = u
    for _ in range(5):
        v[:] = u * 1.1
        u, v = v, u
    return u.sum() + keep[0] * 2 + v[1]


def by_list_index(x):
    weights = [0.1, 0.2, 0.3, 0.4, 0.5]
    s = 0.0
    for i in range(5):
        s = s * x + weights[i]
    return s


UNROLLED = [
    (list_grows, 2.0, "is added"), (shape_changes, X, "shape"), (iterator, 2.0, "list_iterator"), (multigrid, X, "shape"),
    (two_names, 2.0, "another name"), (by_list_index, 2.0, "every iteration"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x", "reason"), UNROLLED, ids=lambda v: getattr(v, "__name__", ""))
def test_unrolled_with_a_reason(function, x, reason):
    tape, reasons = traced(function, x)
    assert any(reason in r for r in reasons), reasons
    assert not regions(tape)
    check_function(function, x)


def test_loops_over_plain_values_stay_plain():
    def f(x):
        n = 0
        for i in range(5):
            n += i
        return x * np.ones(n).sum()  # a plain int makes a shape

    assert tj.jit(f)(2.0) == 20.0


def test_side_effects_happen_once_per_iteration():
    calls = []

    def f(x):
        for i in range(6):
            calls.append(i)
            x = x * 1.5
        return x * len(calls)

    with pytest.warns(tj.errors.SideEffectWarning):
        assert tj.jit(f)(1.0) == 6 * 1.5**6
    assert calls == []


COUNT = 0


def counting(x):
    global COUNT
    for i in range(5):
        COUNT += 1
        x = x * 0.5 + COUNT
    return x * COUNT


def test_global_counter():
    with pytest.warns(tj.errors.SideEffectWarning):
        value, slope = tj.value_and_grad(counting)(2.0)
    assert COUNT == 0
    assert value == counting(2.0)
    assert slope == 5 / 32


def test_captured_object_is_left_alone_and_found_in_its_present_state():
    s = Oscillator(X, 0.1)

    def f(x):
        for _ in range(6):
            s.step()
        return (s.u**2).sum() * x

    with pytest.warns(tj.errors.SideEffectWarning):
        slope = tj.grad(f)(1.0)
    assert s.n == 0
    np.testing.assert_array_equal(s.u, X)
    np.testing.assert_allclose(slope, f(1.0))


def test_exception_in_a_body_is_the_users():
    def f(x):
        for i in range(5):
            x = x * i
            if i == 3:
                raise ValueError("three")
        return x

    with pytest.raises(ValueError, match="three"):
        tj.grad(f)(1.0)


def test_trip_counts_do_not_change_the_tape():
    def f(x, n):
        for i in range(n):
            x = x + np.sin(x) * i
        return x

    short, long = (str(traced(lambda x, n=n: f(x, n), 1.0)[0]) for n in (10, 10**6))
    assert short.replace("trips=10", "trips=1000000") == long


def test_second_order():
    slope = tj.grad(tj.grad(lambda x: returns_early(x) * newton(x)))(0.6)
    first = tj.grad(lambda x: returns_early(x) * newton(x))
    np.testing.assert_allclose(slope, (first(0.6 + 1e-6) - first(0.6 - 1e-6)) / 2e-6, rtol=1e-5)


# --- explicit forms -----------------------------------------------------------------------------------------

EXPLICIT = [
    (lambda x: tj.fori_loop(0, 10, lambda i, s: s * x + i, 1.0), 1.1),
    (lambda x: tj.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * x, s[1] + s[0]), (x, 0.0))[1], 1.7),
    (lambda x: tj.cond(x > 1, lambda y: y * y, lambda y: -y, x), 1.7),
    (lambda x: tj.cond(x > 1, lambda y: y * y, lambda y: -y, x), 0.7),
    (lambda x: sum(tj.scan(lambda c, v: (c * 0.5 + v * x, c * v), 0.0, np.linspace(0, 1, 10))[0:1]), 1.3),
    (
        lambda x: (tj.scan(lambda c, v: (c * v, c + v), x, x * np.arange(4.0), reverse=True)[1] ** 2).sum(),
        1.3,
    ),
    (lambda x: tj.scan(lambda c, _: (c * c, (c, None)), x, length=4)[1][0].sum(), 1.1),
]


@pytest.mark.parametrize(("function", "x"), EXPLICIT)
def test_explicit_form(function, x):
    tape, _ = traced(function, x)
    assert regions(tape)
    assert not tape.guards
    check_function(function, x)


def test_explicit_form_that_changes_its_shape_is_an_error():
    def f(x):
        return tj.fori_loop(0, 3, lambda i, u: np.concatenate([u, u]), x).sum()

    with pytest.raises(tj.errors.StructureError, match="shape"):
        tj.grad(f)(X)


def test_branches_that_disagree_are_an_error():
    with pytest.raises(tj.errors.StructureError, match="branch"):
        tj.jit(lambda x: tj.cond(x > 0, lambda y: (y, y), lambda y: y, x))(1.0)


# --- what a single trace of the body must not get wrong ---


def views_of_rows(x):
    u = np.zeros((4, 3))
    for i, row in enumerate(u):
        row[:] = x[i] * i
    for row in u:
        row += 1
    return (u**2).sum()


def factorials(x):
    f, s = 1, 0.0
    for k in range(1, 25):
        f *= k
        s += x**k / f
    return s * f


def periodic(x):
    u = x.copy()
    for _ in range(5):
        for i in range(12):
            u[i] = 0.5 * u[i] + 0.25 * (u[(i + 1) % 12] + u[i - 1])
    return u @ np.arange(12)


def closure_counts(x):
    n = 0

    def bump(y):
        nonlocal n
        n += 1
        return y * n

    for _ in range(6):
        x = bump(x) * 0.5
    return x * n


def conditional_start(x):
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best**2


def checked(x):
    s = 0.0
    for i in range(12):
        assert x[i] > 0
        if x[i] < 0:
            raise ValueError("negative")
        s += math.log(x[i])
    return s


def windows(x):
    s = 0.0
    for low in range(0, x.shape[0] - 3, 2):
        s += x[low : low + 3].sum() * x[low : low + 3].max()
        for j in range(low - 3, low):
            if j >= 0:
                s += x[j] * x[low]
    return s


@pytest.mark.parametrize(
    "function", [views_of_rows, periodic, conditional_start, checked, windows], ids=lambda f: f.__name__
)
def test_arrays_in_bodies(function):
    check_function(function, X)


@pytest.mark.parametrize("function", [factorials, closure_counts], ids=lambda f: f.__name__)
def test_numbers_in_bodies(function):
    check_function(function, 1.1)


def deep(x, n=400):
    if n <= 0:
        return x
    return deep(x * 1.001, n - 1) + 0.1


def test_recursion_has_as_much_room_as_in_python():
    np.testing.assert_allclose(tj.grad(deep)(1.0), 1.001**400)
