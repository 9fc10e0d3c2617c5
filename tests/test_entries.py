"""Entries serve other functions with the same code, and only those for which they hold."""

import functools
import gc
import warnings
import weakref

import numpy as np
import pytest

import tracejit as tj
from tracejit.pipeline import stats

T = np.linspace(0.0, 1.0, 7)
P = np.array([0.5, -1.0, 2.0])
RATE = 2.0


class Traces:
    """How many functions were traced since."""

    def __init__(self):
        self.start = stats.traces

    def __call__(self):
        return stats.traces - self.start


@pytest.fixture
def traces():
    return Traces()


def fit(t, y):
    return lambda p: np.sum((p[0] + p[1] * t + p[2] * t**2 - y) ** 2)


def fit_gradient(t, y, p):
    r = p[0] + p[1] * t + p[2] * t**2 - y
    return 2 * np.array([r.sum(), (r * t).sum(), (r * t**2).sum()])


def test_a_new_lambda_around_new_data_is_not_traced_again(traces, rng):
    for _ in range(20):
        t, y = rng.random(50), rng.random(50)
        np.testing.assert_allclose(tj.grad(fit(t, y))(P), fit_gradient(t, y, P), rtol=1e-12)
    assert traces() == 1


def test_data_of_another_kind_are_traced_again(traces):
    for t in (T, T.astype(np.float32), np.linspace(0, 1, 14)[::2], T[:, None] + np.zeros(3)):
        y = np.zeros_like(t)
        np.testing.assert_allclose(tj.grad(fit(t, y))(P), fit_gradient(t, y, P), rtol=1e-5)
    assert traces() == 4
    t, y = np.linspace(0, 1, 9), np.ones(9)
    np.testing.assert_allclose(tj.grad(fit(t, y))(P), fit_gradient(t, y, P), rtol=1e-12)
    assert traces() == 4


def test_settings_are_compared(traces):
    def power(n, scale):
        return lambda x: np.sum(scale * x**n)

    for n, scale in ((2, 1.0), (3, 1.0), (2, 5.0), (3, 7.0), (2, 1)):
        np.testing.assert_allclose(tj.grad(power(n, scale))(P), scale * n * P ** (n - 1))
    assert traces() == 3  # n = 2, n = 3, and a scale that is an int


def test_helpers_in_closures_are_each_their_own(traces):
    def of(helper):
        return lambda x: np.sum(helper(x))

    def scaled(c):
        return lambda x: c * x

    for c in (2.0, 3.0, 4):
        np.testing.assert_allclose(tj.grad(of(scaled(c)))(P), [c] * 3)
    assert traces() == 2  # one for a float, one for an int
    np.testing.assert_allclose(tj.grad(of(lambda x: 5.0 * x))(P), [5.0] * 3)
    np.testing.assert_allclose(tj.grad(of(np.sin))(P), np.cos(P))
    assert traces() == 4


def test_a_helper_that_is_found_twice_is_not_to_be_two(traces):
    def of(one, two):
        return lambda x: np.sum(one(x) * two(x))

    def scaled(c):
        return lambda x: c * x

    double = scaled(2.0)
    np.testing.assert_allclose(tj.grad(of(double, double))(P), 8 * P)
    np.testing.assert_allclose(tj.grad(of(double, scaled(3.0)))(P), 12 * P)
    np.testing.assert_allclose(tj.grad(of(scaled(3.0), double))(P), 12 * P)
    np.testing.assert_allclose(tj.grad(of(helper_of_all, double))(P), 2 * RATE * 2 * P)
    np.testing.assert_allclose(tj.grad(of(double, helper_of_all))(P), 2 * RATE * 2 * P)


def helper_of_all(x):
    return RATE * x


def test_a_global_helper_that_a_closure_has_too():
    def of(helper):
        return lambda x: np.sum(helper(x) * helper_of_all(x))

    def other(x):
        return 3.0 * x

    for helper, factor in ((helper_of_all, RATE), (other, 3.0), (helper_of_all, RATE)):
        np.testing.assert_allclose(tj.grad(of(helper))(P), 2 * factor * RATE * P)


def test_helpers_with_data_among_their_defaults():
    def of(helper):
        return lambda x: np.sum(helper(x))

    def scaled(c):
        def helper(x, c=c):
            return c * x

        return helper

    for c in (np.full(3, 2.0), np.full(3, 3.0), 4.0, 5.0):
        np.testing.assert_allclose(tj.grad(of(scaled(c)))(P), np.broadcast_to(c, 3))


def test_objects_in_closures_are_each_their_own(traces):
    class Model:
        def __init__(self, rate, parts):
            self.rate, self.parts = rate, parts

        def energy(self, x):
            return np.sum(self.rate * x) + np.sum(self.parts["a"] * x**2)

    def of(model):
        return lambda x: 1.0 * model.energy(x)

    for rate in (1.0, 2.0, 3.0):
        model = Model(rate, {"a": np.full(3, rate)})
        np.testing.assert_allclose(tj.grad(of(model))(P), rate + 2 * rate * P)
    assert traces() == 1
    np.testing.assert_allclose(tj.grad(of(Model(1.0, {"a": 2.0})))(P), 1 + 4 * P)
    assert traces() == 2


def test_two_objects_that_become_one():
    class Box:
        def __init__(self, value):
            self.value = value

    def of(a, b):
        return lambda x: np.sum(a.value * x) + np.sum(b.value * x**2)

    one, two = Box(2.0), Box(3.0)
    for a, b in ((one, two), (one, one), (two, two), (two, one)):
        np.testing.assert_allclose(tj.grad(of(a, b))(P), a.value + 2 * b.value * P)


def test_variables_in_common_with_a_helper():
    def make(c, other=None):
        def helper(x):
            return c * x

        used = other or helper
        return (lambda x: np.sum(used(x) + c * x)), helper

    first, helper = make(2.0)
    second, _ = make(3.0, helper)
    np.testing.assert_allclose(tj.grad(first)(P), [4.0] * 3)
    np.testing.assert_allclose(tj.grad(second)(P), [5.0] * 3)


def test_a_function_that_finds_itself():
    def make(c):
        def f(x, again=True):
            return np.sum(c * x) + (f.known(x, False) if again else 0.0)

        return f

    one, two = make(2.0), make(3.0)
    one.known, two.known = one, one
    np.testing.assert_allclose(tj.grad(one)(P), [4.0] * 3)
    np.testing.assert_allclose(tj.grad(two)(P), [5.0] * 3)


def test_attributes_are_each_function_s_own():
    def make(c):
        def f(x):
            return np.sum(x * f.c)

        f.c = c
        return f

    for c in (2.0, 3.0):
        np.testing.assert_allclose(tj.grad(make(c))(P), [c] * 3)


def test_defaults_and_globals_are_each_function_s_own():
    for c in (2.0, 3.0):
        np.testing.assert_allclose(tj.grad(lambda x, c=c: np.sum(c * x))(P), [c] * 3)
    source = "def f(x):\n    return np.sum(RATE * x)\n"
    code = compile(source, "f", "exec")
    for rate in (2.0, 3.0):
        namespace = {"np": np, "RATE": rate}
        exec(code, namespace)
        np.testing.assert_allclose(tj.grad(namespace["f"])(P), [rate] * 3)


def test_global_numbers_are_read_anew_for_all(monkeypatch, traces):
    def make(c):
        return lambda x: np.sum(c * RATE * x)

    np.testing.assert_allclose(tj.grad(make(1.0))(P), [2.0] * 3)
    monkeypatch.setitem(globals(), "RATE", 5.0)
    np.testing.assert_allclose(tj.grad(make(3.0))(P), [15.0] * 3)
    assert traces() == 1


def test_branches_are_decided_anew(traces):
    def make(t):
        def f(x):
            if np.sum(t) > 0:
                return np.sum(t * x)
            return np.sum(x**2)

        return f

    for t in (P * 0 + 1, P * 0 - 1, P * 0 + 2, P * 0 - 2):
        want = t if t.sum() > 0 else 2 * P
        np.testing.assert_allclose(tj.grad(make(t))(P), want)
    assert traces() == 2


def test_warnings_are_issued_for_each_function():
    def make():
        return lambda x, y: np.sum(x)

    for _ in range(2):
        with pytest.warns(UserWarning, match="'y'"):
            tj.grad(make(), 1, disconnected="warn")(P, P)


def test_methods_read_their_own_object(traces):
    class Model:
        def __init__(self, rate):
            self.rate = rate

        def energy(self, x):
            return np.sum(self.rate * x)

        def __call__(self, x):
            return self.energy(x) * 2

        def __hash__(self):
            return 0

        def __eq__(self, other):
            return True

    models = [Model(2.0), Model(3.0)]
    for model in models:
        np.testing.assert_allclose(tj.grad(model.energy)(P), [model.rate] * 3)
        np.testing.assert_allclose(tj.grad(model)(P), [2 * model.rate] * 3)
        np.testing.assert_allclose(tj.grad(functools.partial(Model.energy, model))(P), [model.rate] * 3)


@pytest.mark.parametrize("kind", ["function", "closure", "helper", "method", "callable", "attribute"])
def test_functions_and_their_data_are_not_kept(kind):
    class Data:
        def __init__(self):
            self.values = np.ones(3)

        def energy(self, x):
            return np.sum(self.values * x)

        def __call__(self, x):
            return np.sum(self.values * x)

    def make():
        data = Data()
        values = np.ones(3)

        def helper():
            return data.values

        def f(x):
            weights = data.values if kind == "closure" else helper() if kind == "helper" else values
            return np.sum(x * weights)

        if kind == "attribute":
            f.data = data
        return data, {"method": data.energy, "callable": data}.get(kind, f)

    data, f = make()
    g = tj.grad(f)
    g(P), g(P), g(P)
    alive = weakref.ref(data), weakref.ref(data if kind in ("method", "callable") else f)
    del data, f, g
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_arrays_of_earlier_lambdas_are_not_kept():
    class Array(np.ndarray):
        pass

    alive = []
    for _ in range(3):
        t = np.ones(5).view(Array)
        alive.append(weakref.ref(t))
        tj.grad(fit(t, T[:5]))(P)
        del t
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_families_of_functions_do_not_warn_of_retraces():
    def power(n):
        return lambda x: np.sum(x**n)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(2, 40):
            with tj.interpret():
                np.testing.assert_allclose(tj.grad(power(n))(P), n * P ** (n - 1), rtol=1e-12)


def test_closures_of_libraries_are_told_apart():
    # What code of a library closes over is not seen, so its entries serve one function each.
    library = {"__name__": "scipy.made_for_this_test"}
    exec("def calling(f):\n    def call(x):\n        return f(x)\n    return call\n", library)
    for f, slope in (
        (np.sin, np.cos(0.7)),
        (np.exp, np.exp(0.7)),
        (lambda x: x * x, 1.4),
        (lambda x: 3 * x, 3.0),
    ):
        g = tj.grad(library["calling"](f))
        for _ in range(3):
            assert g(0.7) == pytest.approx(slope, rel=1e-14)
