"""Prepared calls: machine code checks the arguments and what was read, and misses whenever something differs."""

import os
import signal
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime import object_layout
from tracejit.runtime.compile import ArgSpec
from tracejit.runtime.dispatch import MISS, _miss
from tracejit.runtime.kernel import compile_kernel

X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
SCALE = 2.0
OFFSET = np.array([1.0, 2.0, 3.0])
MODE = "square"


def plan_of(g, *args):
    """Return the plan that is made for a call."""
    g(*args), g(*args)
    assert g._plans.latest is not _miss
    return g._plans.latest


def weighted(x, y):
    return np.sum(x * y * SCALE + OFFSET * x**2 if MODE == "square" else x * y)


def test_the_layout_of_objects_is_known_here():
    assert object_layout.is_known()


def test_a_plan_gives_what_the_long_way_gives():
    g = tj.value_and_grad(weighted, (0, 1))
    first = g(X, Y)
    planned = plan_of(g, X, Y)(X, Y)
    assert type(planned) is type(planned[1]) is tuple
    assert type(planned[0]) is type(first[0]) is np.float64
    np.testing.assert_array_equal(planned[0], first[0])
    for a, b in zip(planned[1], first[1], strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.flags.owndata and a.flags.writeable


@pytest.mark.parametrize(
    "other",
    [
        np.ones(4),
        np.ones((3, 1)),
        np.ones(3, np.float32),
        np.ones(6)[::2],
        np.ones(3, ">f8"),
        np.frombuffer(bytes(25), np.uint8)[1:].view(np.float64),
        np.ones(3).view(type("Sub", (np.ndarray,), {})),
        1.0,
        [1.0, 2.0, 3.0],
        None,
    ],
    ids=lambda v: f"{type(v).__name__}{getattr(v, 'shape', '')}",
)
def test_other_arguments_miss(other):
    plan = plan_of(tj.grad(weighted), X, Y)
    assert plan(other, Y) is MISS
    assert plan(X, other) is MISS
    assert plan(X) is MISS
    assert plan(X, Y, Y) is MISS
    assert plan() is MISS
    assert plan(X, Y) is not MISS


def test_numbers_are_of_the_type_they_were():
    g = tj.grad(lambda a, x: np.sum(a * x))
    plan = plan_of(g, 2.0, X)
    assert plan(3.0, X) == 6.0
    assert plan(np.float64(3.0), X) is plan(3, X) is plan(np.float32(3), X) is plan(True, X) is MISS
    z = plan_of(tj.jit(lambda z: (z * z).real), 1 + 2j)
    assert z(2 + 1j) == 3.0
    assert z(np.complex128(1j)) is MISS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCALE", 3.0),
        ("OFFSET", np.array([3.0, 2.0, 1.0])),
        ("OFFSET", np.float32([1, 2, 3])),
        ("MODE", "other"),
    ],
)
def test_globals_are_read_anew(monkeypatch, name, value):
    g = tj.grad(weighted)
    plan_of(g, X, Y)
    monkeypatch.setitem(globals(), name, value)
    want = Y * SCALE + 2 * OFFSET * X if MODE == "square" else Y
    np.testing.assert_allclose(g(X, Y), want, rtol=1e-15)
    np.testing.assert_allclose(g(X, Y), want, rtol=1e-15)
    monkeypatch.undo()
    np.testing.assert_allclose(g(X, Y), Y * SCALE + 2 * OFFSET * X, rtol=1e-15)


def test_a_global_that_is_gone_misses(monkeypatch):
    g = tj.grad(weighted)
    plan = plan_of(g, X, Y)
    monkeypatch.delitem(globals(), "OFFSET")
    assert plan(X, Y) is MISS
    with pytest.raises(NameError):
        g(X, Y)


def test_an_array_changed_in_place_is_seen():
    g = tj.grad(weighted)
    plan = plan_of(g, X, Y)
    before = plan(X, Y)
    OFFSET[:] *= 2
    try:
        np.testing.assert_allclose(plan(X, Y) - before, OFFSET * X, rtol=1e-14)
    finally:
        OFFSET[:] /= 2


def test_closures_functions_and_what_they_call_are_looked_at():
    factor = 2.0

    def helper(x):
        return x * factor

    def f(x):
        return np.sum(helper(x) ** 2)

    g = tj.grad(f)
    plan = plan_of(g, X)
    np.testing.assert_allclose(plan(X), 8 * X)
    factor = 3.0
    np.testing.assert_allclose(plan(X), 18 * X)
    factor = 2
    assert plan(X) is MISS
    factor = 2.0
    assert plan(X) is not MISS
    code = helper.__code__

    def added(factor):
        return lambda x: x + factor

    helper.__code__ = added(0).__code__
    assert plan(X) is MISS
    np.testing.assert_allclose(g(X), 2 * (X + 2))
    helper.__code__ = code
    np.testing.assert_allclose(g(X), 8 * X)
    f.__defaults__ = (1.0,)
    assert plan(X) is MISS
    f.__defaults__ = None
    f.__kwdefaults__ = {"x": 1.0}
    assert plan(X) is MISS


def test_attributes_are_looked_at_by_python():
    model = SimpleNamespace(rate=2.0)
    g = tj.grad(lambda x: np.sum(model.rate * x))
    plan = plan_of(g, X)
    model.rate = 5.0
    np.testing.assert_array_equal(plan(X), [5.0] * 3)
    model.rate = None
    assert plan(X) is MISS


def test_results_that_are_not_tuples_keep_their_structure():
    g = tj.jit(lambda x: {"a": [x + 1, np.sum(x)], "b": (x,)})
    first, plan = g(X), plan_of(g, X)
    again = plan(X)
    assert list(again) == list(first) == ["a", "b"]
    assert type(again["a"]) is list and type(again["b"]) is tuple
    np.testing.assert_array_equal(again["a"][0], X + 1)


def test_integer_arguments_are_taken_as_they_are():
    index = np.array([2, 0, 1])
    g = tj.grad(lambda x, i: np.sum(x[i] ** 2 * np.arange(3)))
    plan = plan_of(g, X, index)
    np.testing.assert_array_equal(plan(X, index), g(X, index))
    with pytest.raises(IndexError):
        g(X, index + 5)
    np.testing.assert_array_equal(plan(X, index), g(X, index))


def test_no_plan_inside_a_trace_or_an_interpreter():
    rate = 2.0
    inner = tj.grad(lambda x: np.sum(rate * x**2))
    inner(X)
    outer = tj.jit(lambda y: y * np.sum(inner(X)))
    assert outer(1.0) == 4 * X.sum()
    rate = 3.0
    assert outer(1.0) == 6 * X.sum()
    with tj.interpret():
        np.testing.assert_allclose(inner(X), 6 * X)


def test_nothing_is_leaked():
    g = tj.value_and_grad(weighted, (0, 1))
    plan = plan_of(g, X, Y)
    args = np.ones(3), np.ones(3)
    counted = [*args, OFFSET, X.dtype, MISS, np.float64]
    for _ in range(3):
        plan(*args), plan(X)
    before = [sys.getrefcount(o) for o in counted]
    for _ in range(1000):
        plan(*args), plan(args[0])
    assert [sys.getrefcount(o) for o in counted] == before


def test_threads_share_a_plan():
    g = tj.grad(lambda x: np.sum(np.exp(x) * SCALE))
    plan_of(g, X)
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).random(3)
        wrong.extend(1 for _ in range(500) if not np.allclose(g(x), 2 * np.exp(x), rtol=1e-14))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_where_objects_lie_unknown_calls_still_work(monkeypatch):
    monkeypatch.setattr(object_layout, "is_known", lambda: False)
    g = tj.grad(weighted)
    for _ in range(2):
        np.testing.assert_allclose(g(X, Y), Y * SCALE + 2 * OFFSET * X)
    assert g._plans.latest is _miss


def test_many_sizes_have_plans_at_once():
    g = tj.grad(lambda x: np.sum(x**2))
    sizes = [np.arange(1.0, n) for n in range(20, 40)]
    for _ in range(2):
        for x in sizes:
            np.testing.assert_array_equal(g(x), 2 * x)
    assert len(g._plans._known) == len(sizes)


def test_a_planned_call_can_be_interrupted():
    def count(x):
        steps = 0.0
        while x > 0.0:
            x = x - 1e-9
            steps = steps + 1.0
        return steps

    g = tj.jit(count)
    assert plan_of(g, 1e-9)(2e-9) >= 2
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            g(1e9)
    finally:
        timer.cancel()
    assert g(3e-9) >= 3


def test_a_kernel_refuses_arrays_that_it_was_not_compiled_for():
    source = "def f(x, room):\n    return (x[0],)\n"
    kernel = compile_kernel(source, "f", (ArgSpec(np.dtype("f8"), 1),), {}, source)
    assert kernel(X) == (1.0,)
    for wrong in (X.astype("f4"), X[:, None], X[::2], X.astype(">f8")):
        with pytest.raises(tj.errors.InternalError):
            kernel(wrong)


def test_decisions_are_compared_by_machine_code():
    def f(x, limit):
        if np.sum(x) > limit:
            return np.sum(x**2)
        if x[0] == 0.0:
            return np.sum(3 * x)
        return np.sum(x**3)

    g = tj.grad(f)
    cases = [
        (X, 0.0, 2 * X),
        (X, 100.0, 3 * X**2),
        (X * 0, 1.0, np.full(3, 3.0)),
        (-0.0 * X, 1.0, np.full(3, 3.0)),
    ]
    for _ in range(4):
        for x, limit, want in cases:
            np.testing.assert_allclose(g(x, limit), want)
    plans = next(iter(g._plans._known.values()))
    assert len(plans) == 3
    for x, limit, want in cases[:3]:
        found = [plan(x, limit) for plan in plans]
        (hit,) = [value for value in found if value is not MISS]
        np.testing.assert_allclose(hit, want)


def test_a_kernel_that_fails_on_another_path_is_a_miss():
    def f(x, i):
        if i[0] < 3:
            return np.sum(x[i] ** 2)
        return np.sum(x)

    g = tj.grad(f)
    inside, outside = np.array([1]), np.array([7])
    for _ in range(3):
        np.testing.assert_allclose(g(X, inside), [0, 4.0, 0])
        np.testing.assert_allclose(g(X, outside), [1.0, 1.0, 1.0])


def test_whole_numbers_are_data():
    g = tj.grad(lambda x, n: np.sum(x * n))
    plan = plan_of(g, X, 3)
    np.testing.assert_array_equal(plan(X, -1), [-1.0] * 3)
    np.testing.assert_array_equal(plan(X, 2**62), [2.0**62] * 3)
    assert plan(X, 2**63) is plan(X, True) is plan(X, 3.0) is plan(X, np.int64(3)) is MISS
    for number in (np.int32(5), np.uint8(200), np.float32(0.5), np.bool_(True)):
        np.testing.assert_array_equal(plan_of(g, X, number)(X, number), np.full(3, float(number)))


def test_a_size_that_the_trace_pinned_is_compared():
    g = tj.grad(lambda x, n: sum(np.sum(x**k) for k in range(1, n + 1)))
    for n in (1, 2, 3, 2, 1):
        want = sum(k * X ** (k - 1) for k in range(1, n + 1))
        for _ in range(3):
            np.testing.assert_allclose(g(X, n), want)


def test_containers_and_settings_have_plans():
    def f(params, mode, scale=1.0):
        total = np.sum(params["b"] * params["a"][0]) + params["a"][1] * scale
        return total if mode == "sum" else total**2

    g = tj.grad(f)
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])

    def check(params, mode):
        found = g(params, mode)
        (x, y), z = params["a"], params["b"]
        factor = 1.0 if mode == "sum" else 2 * (np.sum(x * z) + y)
        np.testing.assert_allclose(found["a"][0], factor * z)
        np.testing.assert_allclose(found["a"][1], factor)
        np.testing.assert_allclose(found["b"], factor * x)
        assert found.keys() == params.keys() and type(found["a"]) is type(params["a"])

    for _ in range(3):
        check({"a": [a, 2.0], "b": b}, "sum")
        check({"b": b, "a": [a, 2.0]}, "sum")
        check({"a": [a, 5.0], "b": a}, "square")
        check({"a": (a, 2.0), "b": a}, "sum")
    assert len(g._plans._known) == 4
    assert g._plans.latest is _miss


def test_the_same_array_twice_is_two_arguments():
    g = tj.grad(lambda pair, more: np.sum(pair[0] * pair[1] ** 2) * more)
    for _ in range(3):
        found = g([X, X], 2.0)
    np.testing.assert_allclose(found[0], 2 * X**2)
    found = g([X, Y], 3.0)
    np.testing.assert_allclose(found[0], 3 * Y**2)
    np.testing.assert_allclose(found[1], 6 * X * Y)


def test_a_container_in_itself_is_an_error_as_before():
    g = tj.grad(lambda p: np.sum(p[0]))
    loop = [X]
    loop.append(loop)
    for _ in range(2):
        with pytest.raises(tj.errors.StructureError):
            g(loop)
