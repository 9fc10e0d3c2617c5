"""What a call leaves behind: memory of its own, untouched arguments, no state after an error."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
X = np.array([0.3, -1.2, 2.5])


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    return [leaf for value in tree for leaf in leaves(value)] if isinstance(tree, tuple | list) else [tree]


RESULTS: dict[str, Callable[[Array], Any]] = {
    "the argument itself": lambda x: x,
    "twice the same": lambda x: (x, x),
    "a result twice": lambda x: [x + 1] * 2,
    "a view": lambda x: (x[1:], x[::-1], x.reshape(-1, 1), x.T),
    "a broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "a constant": lambda x: np.zeros(3),
    "a transposed result": lambda x: (x[:, None] * x).T,
    "entries": lambda x: (x[0], x[0] + 1),
}


@pytest.mark.parametrize("extent", [3, 12])
@pytest.mark.parametrize("name", RESULTS)
def test_results_own_their_memory(name: str, extent: int) -> None:
    x = np.linspace(1, 2, extent)
    f = tj.jit(RESULTS[name])
    first, second = leaves(f(x)), leaves(f(x))
    plain = leaves(RESULTS[name](x))
    assert len(first) == len(plain)
    for made, expected in zip(first, plain, strict=True):
        np.testing.assert_array_equal(made, expected)
        assert type(made) is (np.float64 if np.ndim(expected) == 0 else np.ndarray)
    arrays = [a for a in (*first, *second) if isinstance(a, np.ndarray)]
    for number, a in enumerate(arrays):
        assert a.flags.owndata and a.flags.writeable and a.base is None
        assert not np.shares_memory(a, x)
        assert not any(np.shares_memory(a, b) for b in arrays[number + 1 :])


def test_gradients_own_their_memory() -> None:
    value_x, value_y = tj.grad(lambda x, y: np.sum(x + y), argnums=(0, 1))(X, X)
    assert value_x.flags.owndata and value_y.flags.owndata and not np.shares_memory(value_x, value_y)


def test_a_captured_array_is_not_returned_itself() -> None:
    table = np.ones(3)
    found = tj.jit(lambda x: (table, x))(X)[0]
    found[0] = 5.0
    assert table[0] == 1.0


def increments(x: Array) -> Any:
    x[0] = x[1] * 2
    x += 1
    return np.sum(x * x)


DERIVATIVES: dict[str, Callable[[Array], Any]] = {
    "grad": tj.grad(increments),
    "value_and_grad": tj.value_and_grad(increments),
    "hessian": tj.hessian(increments),
    "hvp": lambda x: tj.hvp(increments)(x, x),
    "jacobian": tj.jacobian(increments),
    "vjp": lambda x: tj.vjp(increments, x)[1](1.0),
    "jvp": lambda x: tj.jvp(increments, (x,), (x,)),
    "vmap": lambda x: tj.vmap(increments)(np.stack([x, x])),
    "trace": tj.trace(increments),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_never_write_into_the_callers_arrays(name: str) -> None:
    x = X.copy()
    DERIVATIVES[name](x)
    np.testing.assert_array_equal(x, X)


def test_a_function_that_writes_is_differentiated_at_what_was_passed() -> None:
    # x -> (2 x1 + 1, x1 + 1, x2 + 1), squared and summed
    expected = [0.0, 4 * (2 * X[1] + 1) + 2 * (X[1] + 1), 2 * (X[2] + 1)]
    np.testing.assert_allclose(tj.grad(increments)(X), expected)


def test_jit_writes_back_into_any_layout() -> None:
    for u in (X.copy(), np.repeat(X, 2)[::2], X[::-1].copy()[::-1], X.astype(">f8"), X.astype(np.float32)):
        expected = np.array(u)
        returned = increments(expected)
        assert np.isclose(tj.jit(increments)(u), returned)
        np.testing.assert_allclose(np.asarray(u, float), np.asarray(expected, float), rtol=1e-6)


def test_jit_writes_into_a_read_only_array_fail_as_in_numpy() -> None:
    x = X.copy()
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tj.jit(increments)(x)
    np.testing.assert_array_equal(x, X)


def test_jit_writes_into_arrays_of_a_function_that_is_traced() -> None:
    step = tj.jit(increments)

    def f(x: Array) -> Any:
        y = 2 * x
        first = step(y)
        inner = y[1:]
        step(inner)
        return first + np.sum(y**2)

    def plain(x: Array) -> Any:
        y = 2 * x
        first = increments(y)
        increments(y[1:])
        return first + np.sum(y**2)

    assert np.isclose(tj.jit(f)(X), plain(X))
    eps = 1e-6
    expected = [(plain(X + eps * e) - plain(X - eps * e)) / (2 * eps) for e in np.eye(3)]
    np.testing.assert_allclose(tj.grad(f)(X), expected, rtol=1e-8)


def test_jit_refuses_arguments_that_share_what_is_written() -> None:
    def f(x: Array, y: Array) -> Any:
        x += 1
        return np.sum(x * y)

    u = np.ones(6)
    with pytest.raises(tj.errors.UnsupportedError, match="'x', which shares memory with 'y'"):
        tj.jit(f)(u, u)
    np.testing.assert_array_equal(u, np.ones(6))
    assert tj.jit(f)(u[::2], u[1::2]) == 6.0
    assert tj.jit(lambda x, y: x + y)(u, u)[1] == 2.0


# --- errors in user code ------------------------------------------------------------------------------------


class Unusual(BaseException):
    """An exception that no one else raises."""


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), Unusual()])
def test_exceptions_pass_through_and_leave_nothing_behind(error: BaseException) -> None:
    fail = [True]

    def f(x: Array) -> Any:
        y = np.sin(x)
        if fail:
            raise error
        return np.sum(y)

    def outer(x: Array) -> Any:
        return np.sum(tj.grad(f)(x))

    for function in (f, outer):
        with pytest.raises(type(error)) as caught:
            tj.grad(function)(X)
        assert caught.value is error
    # a trace that had been left open would take this for a part of itself
    assert tj.grad(np.sin)(0.0) == 1.0
    fail.clear()
    np.testing.assert_allclose(tj.grad(f)(X), np.cos(X))
    np.testing.assert_allclose(tj.grad(outer)(X), -np.sin(X))


def test_an_error_caught_by_user_code_does_no_harm() -> None:
    def f(x: Array) -> Any:
        try:
            y = tj.grad(lambda u: np.sum(u) + float("x"))(x)
        except ValueError:
            y = 2 * x
        return np.sum(y * x)

    np.testing.assert_allclose(tj.grad(f)(X), 4 * X)


def test_a_traced_value_that_leaked_is_refused() -> None:
    def outer(x: Array) -> Any:
        inside = []

        def inner(y: Array) -> Any:
            inside.append(y * 2)
            return np.sum(y)

        tj.grad(inner)(x)
        return np.sum(inside[0] * x)

    with pytest.raises(tj.errors.LeakedTraceError, match="after its trace ended"):
        tj.grad(outer)(X)


def test_what_traced_code_stores_does_not_reach_the_caller() -> None:
    kept: list[Any] = []

    def f(x: Array) -> Any:
        kept.append(x * 2)
        return np.sum(x)

    with pytest.warns(tj.errors.SideEffectWarning, match="stores into kept"):
        tj.grad(f)(X)
    assert kept == []


# --- threads ------------------------------------------------------------------------------------------------


def test_threads_do_not_see_each_others_traces() -> None:
    def f(x: Array, k: float) -> Any:
        return np.sum(np.sin(k * x))

    slope = tj.grad(f)
    found: dict[int, Any] = {}
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        try:
            for turn in range(5):
                k = float(number + turn)
                np.testing.assert_allclose(slope(X, k), k * np.cos(k * X), rtol=1e-12)
                local = tj.grad(lambda x, k=k: np.sum(x**2) * k)
                np.testing.assert_allclose(local(X), 2 * k * X, rtol=1e-12)
            found[number] = "good"
        except BaseException:
            found[number] = traceback.format_exc()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(8), "good")


def test_another_thread_computes_with_numpy_while_a_function_is_traced() -> None:
    def f(x: Array) -> Any:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(float(np.zeros(3).sum() + 1)))
        thread.start()
        thread.join()
        return np.sum(x) * results[0]

    np.testing.assert_allclose(tj.grad(f)(X), np.ones(3))


def test_interpret_is_left_again_after_an_error() -> None:
    before = tj.stats.compiles
    with pytest.raises(ZeroDivisionError), tj.interpret():
        raise ZeroDivisionError
    with tj.interpret():
        assert tj.grad(lambda x: np.sin(x * 1.75))(0.0) == 1.75
    assert tj.stats.compiles == before
