"""What a function reads besides its arguments is read anew at each call; what Python decided is guarded."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
X = np.array([0.3, -1.2, 2.5])

FACTOR = 2.0
WEIGHTS = np.array([1.0, 2.0, 3.0])
SETTINGS = {"k": 2.0, "name": "sin"}
STEPS = 2


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-13)


class Counter:
    """Traces and compilations since the last look."""

    def __init__(self) -> None:
        self.traces, self.compiles = tj.stats.traces, tj.stats.compiles

    def new(self) -> int:
        found, self.traces = tj.stats.traces - self.traces, tj.stats.traces
        return found

    def compiled(self) -> int:
        found, self.compiles = tj.stats.compiles - self.compiles, tj.stats.compiles
        return found


@pytest.fixture
def count() -> Counter:
    return Counter()


def test_globals(monkeypatch: pytest.MonkeyPatch, count: Counter) -> None:
    slope = tj.grad(lambda x: FACTOR * np.sum(WEIGHTS * x))
    same(slope(X), 2 * WEIGHTS)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    same(slope(X), 5 * WEIGHTS)
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([4.0, 5.0, 6.0]))
    same(slope(X), [20.0, 25.0, 30.0])
    assert count.new() == 1


def test_an_array_mutated_in_place(count: Counter) -> None:
    weights = np.ones(3)
    slope = tj.grad(lambda x: np.sum(weights * x))
    same(slope(X), np.ones(3))
    weights[1] = 7.0
    same(slope(X), [1.0, 7.0, 1.0])
    assert count.new() == 1


def test_closure_variables(count: Counter) -> None:
    k = 1.0
    slope = tj.grad(lambda x: k * np.sum(x))
    same(slope(X), np.full(3, 1.0))
    k = 3.0
    same(slope(X), np.full(3, 3.0))
    assert count.new() == 1


def test_attributes(count: Counter) -> None:
    class State:
        def __init__(self) -> None:
            self.dt, self.grid, self.steps = 0.1, np.ones(3), 2

    state = State()

    def f(x: Array) -> Any:
        for _ in range(state.steps):
            x = x * state.dt * state.grid
        return np.sum(x)

    slope = tj.grad(f)
    same(slope(X), np.full(3, 0.01))
    state.dt = 0.5
    state.grid = np.array([1.0, 2.0, 3.0])
    same(slope(X), 0.25 * state.grid**2)
    assert count.new() == 1
    state.steps = 3
    same(slope(X), 0.125 * state.grid**3)
    assert count.new() == 1


def test_entries_of_lists_and_dicts(monkeypatch: pytest.MonkeyPatch, count: Counter) -> None:
    coefficients = [1.0, 2.0]
    slope = tj.grad(lambda x: sum(c * np.sum(x) for c in coefficients) * SETTINGS["k"])
    same(slope(X), np.full(3, 6.0))
    coefficients[0] = 5.0
    same(slope(X), np.full(3, 14.0))
    monkeypatch.setitem(SETTINGS, "k", 1.0)
    same(slope(X), np.full(3, 7.0))
    assert count.new() == 1
    coefficients.append(3.0)
    same(slope(X), np.full(3, 10.0))
    assert count.new() == 1


def test_settings_are_guards(monkeypatch: pytest.MonkeyPatch, count: Counter) -> None:
    slope = tj.grad(lambda x: np.sum(getattr(np, SETTINGS["name"])(x)))
    same(slope(X), np.cos(X))
    monkeypatch.setitem(SETTINGS, "name", "cos")
    same(slope(X), -np.sin(X))
    monkeypatch.setitem(SETTINGS, "name", "sin")
    same(slope(X), np.cos(X))
    assert count.new() == 2, "both traces are kept"


def test_sizes_of_python_loops_are_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for _ in range(STEPS):
            x = x * x
        return x

    same(tj.grad(f)(2.0), 4 * 2.0**3)
    monkeypatch.setitem(globals(), "STEPS", 3)
    same(tj.grad(f)(2.0), 8 * 2.0**7)


def test_functions_called_by_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    slope = tj.grad(lambda x: np.sum(helper(x)))
    same(slope(X), 2 * FACTOR * X)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    same(slope(X), 6 * X)
    monkeypatch.setitem(globals(), "helper", np.sin)
    same(slope(X), np.cos(X))


def helper(x: Array) -> Any:
    return FACTOR * x**2


def test_a_captured_array_of_another_shape_or_dtype() -> None:
    weights = np.ones(3)
    slope = tj.grad(lambda x: np.sum(weights * x))
    same(slope(X), np.ones(3))
    weights = np.ones((2, 3), np.float32)
    same(slope(X), np.full(3, 2.0))
    weights = np.array(3)
    same(slope(X), np.full(3, 3.0))


def test_a_new_closure_compiles_nothing(count: Counter, each_mode: str) -> None:
    def make(k: float) -> Any:
        return tj.grad(lambda x: k * np.sum(np.sin(x) * 1.0625))

    same(make(2.0)(X), 2.125 * np.cos(X))
    count.compiled()
    same(make(3.0)(X), 3.1875 * np.cos(X))
    assert count.compiled() == 0


def test_another_gradient_of_the_same_function_finds_the_first(count: Counter) -> None:
    def f(x: Array) -> Any:
        return np.sum(x**2)

    tj.grad(f)(X)
    tj.grad(f)(X)
    assert count.new() == 1


# --- Python decisions on traced values ----------------------------------------------------------------------


def branches(x: Array) -> Any:
    if np.sum(x) > 0:
        return np.sum(x**2)
    return np.sum(x**3)


def test_both_paths_of_an_if(count: Counter) -> None:
    slope = tj.grad(branches)
    count.new()
    for _ in range(3):
        same(slope(X), 2 * X)
        same(slope(-X), 3 * X**2)
    assert count.new() <= 2


def test_nested_decisions_keep_one_trace_per_path(count: Counter) -> None:
    def f(x: float) -> Any:
        sign = 1.0 if x > 0 else -1.0
        large = 10.0 if abs(x) > 1 else 1.0
        return sign * large * x

    slope = tj.grad(f)
    for _ in range(3):
        for x, expected in [(0.5, 1.0), (2.0, 10.0), (-0.5, -1.0), (-2.0, -10.0)]:
            same(slope(x), expected)
    assert count.new() == 4


def test_while_on_a_traced_value() -> None:
    def f(x: float) -> Any:
        while x < 100.0:
            x = x * 3.0
        return x

    slope = tj.grad(f)
    same([slope(x) for x in (200.0, 50.0, 5.0, 50.0)], [1.0, 3.0, 27.0, 3.0])


def test_a_decision_of_another_size() -> None:
    def f(x: Array) -> Any:
        return np.sum(x**2) if x.shape[0] > 20 else np.sum(x)

    slope = tj.grad(f)
    same(slope(np.ones(15)), np.ones(15))
    same(slope(np.ones(25)), np.full(25, 2.0))
    same(slope(np.ones(18)), np.ones(18))


def test_too_many_paths_are_reported() -> None:
    def f(x: float) -> Any:
        steps: list[int] = []
        while x > len(steps):
            steps.append(1)  # a list that grows: one trace per length
        return x * len(steps)

    slope = tj.grad(f)
    warned = pytest.warns(tj.errors.RetraceWarning, match=r"traced 32 times.*while x > len")
    with tj.interpret(), warned as caught:  # that 33 paths can be compiled is another matter
        for n in range(33):
            same(slope(n + 0.5), n + 1)
    assert caught[0].filename == __file__


# --- sizes --------------------------------------------------------------------------------------------------


def test_twenty_sizes_compile_once(count: Counter, each_mode: str) -> None:
    slope = tj.value_and_grad(lambda x, y: np.sum(np.sin(x) * np.exp(-y * y)), argnums=(0, 1))
    for n in range(20, 40):
        x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(-1, 1, n + 17))
        value, (dx, dy) = slope(x, y)
        same(value, np.sum(np.sin(x) * np.exp(-y * y)))
        same(dx, np.cos(x) * np.exp(-y * y))
        np.testing.assert_allclose(dy, -2 * y * np.sin(x) * np.exp(-y * y), rtol=1e-12, atol=1e-15)
    assert count.new() == 1
    assert count.compiled() <= (each_mode == "compiled")


def test_sizes_that_were_equal_may_differ_later() -> None:
    slope = tj.grad(lambda x, y: np.sum(x) * np.sum(y**2))
    same(slope(np.ones(12), np.ones(12)), np.full(12, 12.0))
    same(slope(np.ones(12), np.ones(15)), np.full(12, 15.0))


def test_an_extent_that_becomes_one_broadcasts() -> None:
    slope = tj.grad(lambda x, y: np.sum(x * y))
    same(slope(np.ones(12), np.ones(12)), np.ones(12))
    same(slope(np.ones(1), np.ones(12)), [12.0])
    same(slope(np.ones((3, 1)), np.ones(12)), np.full((3, 1), 12.0))
