"""Each public function, against derivatives known on paper."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
X = np.array([0.3, -1.2, 2.5])
A = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 4.0]])


def quadratic(x: Array) -> Any:
    """Half of x.A.x, with the gradient A.x and the Hessian A."""
    return 0.5 * np.sum(x * (A @ x))


def same(found: Any, expected: Any) -> None:
    """Equal to rounding, and of the same type, shape and dtype."""
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_grad() -> None:
    same(tj.grad(quadratic)(X), A @ X)


def test_value_and_grad() -> None:
    value, slope = tj.value_and_grad(quadratic)(X)
    same(value, quadratic(X))
    assert isinstance(value, np.float64)
    same(slope, A @ X)


def test_elementwise_grad_of_an_open_grid() -> None:
    x, y = np.meshgrid(np.linspace(0, 1, 12), np.linspace(2, 3, 5), indexing="ij", sparse=True)
    found = tj.elementwise_grad(lambda x, y: np.sin(x) * y**2, argnums=(0, 1))(x, y)
    same(found[0], np.cos(x) * y**2)
    same(found[1], np.sin(x) * 2 * y)


def test_elementwise_grad_is_the_pointwise_jacobian() -> None:
    pointwise = tj.jacobian(np.exp, structure="pointwise")
    same(pointwise(X), np.exp(X))
    same(tj.elementwise_grad(np.exp)(X), np.exp(X))


def test_elementwise_grad_of_a_vector_field_keeps_the_leading_axis() -> None:
    def field(x: Array, y: Array) -> Any:
        return np.stack([x * y, np.sin(x), y**2])

    x, y = np.meshgrid(np.linspace(0, 1, 11), np.linspace(1, 2, 4), indexing="ij")
    found = tj.jacobian(field, structure="pointwise", argnums=(0, 1))(x, y)
    same(found[0], np.stack([y, np.cos(x), np.zeros_like(y)]))
    same(found[1], np.stack([x, np.zeros_like(x), 2 * y]))


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_jacobian(mode: str | None) -> None:
    def f(x: Array) -> Any:
        return np.array([x[0] * x[1], np.sin(x[2]), x[1] ** 2, x[0] + x[1] + x[2]])

    expected = [[X[1], X[0], 0], [0, 0, np.cos(X[2])], [0, 2 * X[1], 0], [1, 1, 1]]
    same(tj.jacobian(f, mode=mode)(X), np.array(expected))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("extent", [2, 11])
def test_jacobian_has_the_output_axes_first(mode: str, extent: int) -> None:
    x = np.linspace(1, 2, 3 * extent).reshape(extent, 3)
    found = tj.jacobian(lambda x: x.T @ x, mode=mode)(x)
    assert found.shape == (3, 3, extent, 3)
    # d(x.T x)_ij / dx_mk = delta_ik x_mj + delta_jk x_mi
    expected = np.einsum("ik,mj->ijmk", np.eye(3), x) + np.einsum("jk,mi->ijmk", np.eye(3), x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_jacobian_of_containers_nests_inputs_in_outputs() -> None:
    def f(p: dict[str, Any]) -> Any:
        return {"a": p["u"] * p["v"], "b": np.sum(p["u"])}

    found = tj.jacobian(f)({"u": X, "v": 2.0})
    assert set(found) == {"a", "b"} and set(found["a"]) == {"u", "v"}
    same(found["a"]["u"], 2 * np.eye(3))
    same(found["a"]["v"], X)
    same(found["b"]["u"], np.ones(3))
    same(found["b"]["v"], 0.0)


def test_jacobian_of_a_holomorphic_function() -> None:
    z = np.array([1 + 2j, -0.5j])
    same(tj.jacobian(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))


def test_jacobian_refuses_a_dense_result_that_is_too_large() -> None:
    with pytest.raises(tj.errors.TooLargeError, match="1000 x 1000 entries"):
        tj.jacobian(np.sin, max_dense_bytes=10**6)(np.zeros(1000))
    assert tj.jacobian(np.sin, max_dense_bytes=8 * 10**6)(np.zeros(1000)).shape == (1000, 1000)


def test_hessian() -> None:
    same(tj.hessian(quadratic)(X), A)


def test_hessian_of_two_arguments_is_a_table_of_blocks() -> None:
    def f(x: Array, k: float) -> Any:
        return k**2 * np.sum(x**3)

    (xx, xk), (kx, kk) = tj.hessian(f, argnums=(0, 1))(X, 2.0)
    same(xx, np.diag(24 * X))
    same(xk, 12 * X**2)
    same(kx, 12 * X**2)
    same(kk, 2 * np.sum(X**3))


def test_hvp() -> None:
    v = np.array([1.0, 0.0, -2.0])
    same(tj.hvp(quadratic)(X, v), A @ v)


def test_hvp_of_a_later_argument() -> None:
    product = tj.hvp(lambda k, x: k * quadratic(x), argnums=1)
    same(product(3.0, X, X), 3 * A @ X)


def test_jvp() -> None:
    value, slope = tj.jvp(lambda x, k: np.sin(k * x), (X, 2.0), (np.ones(3), 0.5))
    same(value, np.sin(2 * X))
    same(slope, np.cos(2 * X) * (2 + 0.5 * X))


def test_vjp() -> None:
    value, pull = tj.vjp(lambda x, k: {"s": np.sin(k * x)}, X, 2.0)
    same(value["s"], np.sin(2 * X))
    w = np.array([1.0, 0.0, -1.0])
    dx, dk = pull({"s": w})
    same(dx, 2 * np.cos(2 * X) * w)
    same(dk, np.sum(X * np.cos(2 * X) * w))


def test_vjp_can_pull_back_many_times() -> None:
    _, pull = tj.vjp(lambda x: A @ x, X)
    rows = [pull(e)[0] for e in np.eye(3)]
    same(np.stack(rows), A)


def test_jit_is_the_function() -> None:
    def f(x: Array, name: str = "sin") -> Any:
        return getattr(np, name)(x), {"n": x.size}

    value, other = tj.jit(f)(X, name="cos")
    same(value, np.cos(X))
    assert other == {"n": 3}


def test_jit_writes_into_the_callers_array() -> None:
    def step(u: Array, k: float) -> None:
        u[1:] += k * u[:-1]

    u, expected = X.copy(), X.copy()
    step(expected, 2.0)
    assert tj.jit(step)(u, 2.0) is None
    same(u, expected)


def test_vmap() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    same(tj.vmap(quadratic)(rows), np.array([quadratic(r) for r in rows]))
    same(tj.vmap(np.dot, in_axes=(1, None))(rows, np.array([1.0, 2.0])), np.array([6.0, 9.0, 12.0]))
    same(tj.vmap(np.sin, in_axes=1, out_axes=1)(rows), np.sin(rows))


def test_trace_shows_the_tape() -> None:
    tape = tj.trace(lambda x, k: np.sum(k * x))(np.ones(12), 2.0)
    text = str(tape)
    assert text.startswith("tape(x:")
    assert "reduce_sum" in text and "test_api.py:" in text


def test_check_grads_accepts_and_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    tj.check_grads(lambda x, k: np.sum(np.sin(k * x)), (X, 2.0))
    with pytest.raises(AssertionError, match="forward mode, order 1"):
        tj.check_grads(lambda x: np.floor(20 * x) + np.abs(x), (np.array([0.0]),), modes=("forward",))
    with pytest.raises(ValueError, match="modes are"):
        tj.check_grads(np.sin, (1.0,), modes=("backward",))


def test_has_aux() -> None:
    def f(x: Array) -> Any:
        y = np.sin(x)
        return np.sum(y), {"y": y, "note": "kept"}

    slope, aux = tj.grad(f, has_aux=True)(X)
    same(slope, np.cos(X))
    same(aux["y"], np.sin(X))
    assert aux["note"] == "kept"
    (value, aux), slope = tj.value_and_grad(f, has_aux=True)(X)
    same(value, np.sum(np.sin(X)))
    same(slope, np.cos(X))
    same(aux["y"], np.sin(X))


def test_disconnected_arguments() -> None:
    def f(x: Array, y: Array) -> Any:
        return np.sum(x) + np.argmax(y)

    same(tj.grad(f, argnums=1)(X, X), np.zeros(3))
    with pytest.raises(tj.errors.DisconnectedError, match="'y'"):
        tj.grad(f, argnums=1, disconnected="raise")(X, X)
    with pytest.warns(UserWarning, match="'y'") as caught:
        same(tj.grad(f, argnums=1, disconnected="warn")(X, X), np.zeros(3))
    assert caught[0].filename == __file__
    same(tj.grad(f, argnums=0, disconnected="raise")(X, X), np.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tj.grad(3), "takes a function"),
        (lambda: tj.grad(np.sum, disconnected="no"), "disconnected must be"),
        (lambda: tj.jacobian(np.sin, structure="banded"), "structure must be"),
        (lambda: tj.jacobian(np.sin, mode="sideways"), "mode must be"),
        (lambda: tj.jacobian(np.sin, structure="sparse"), "not available"),
    ],
)
def test_wrong_options_are_refused_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
        make()


DECORATORS = [
    tj.grad,
    tj.value_and_grad,
    tj.elementwise_grad,
    tj.jacobian,
    tj.hessian,
    tj.hvp,
    tj.jit,
    tj.vmap,
    tj.trace,
]


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_transformed_function_presents_itself_as_the_original(decorator: Any) -> None:
    def energy(x: Array, k: float = 2.0) -> Any:
        """Energy of x."""
        return k * np.sum(x)

    made = decorator(energy)
    assert made.__name__ == "energy" and made.__doc__ == "Energy of x."
    assert inspect.unwrap(made) is energy and made.__module__ == __name__
    assert inspect.signature(made) == inspect.signature(energy)
    assert "energy" in repr(made)


def test_decorators_with_and_without_options() -> None:
    @tj.grad
    def one(x: Array) -> Any:
        return np.sum(x**2)

    @tj.grad()
    def two(x: Array) -> Any:
        return np.sum(x**2)

    @tj.grad(argnums=1)
    def three(k: float, x: Array) -> Any:
        return k * np.sum(x**2)

    @tj.jacobian(structure="pointwise", argnums=0)
    def four(x: Array) -> Any:
        return x**2

    same(one(X), 2 * X)
    same(two(X), 2 * X)
    same(three(3.0, X), 6 * X)
    same(four(X), 2 * X)


def test_decorated_methods() -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.k = k

        @tj.grad
        def slope(self, x: Array) -> Any:
            return self.k * np.sum(x**2)

        @tj.value_and_grad(argnums=1)
        def both(self, y: Array, x: Array) -> Any:
            return self.k * np.sum(y * x)

    model = Model(3.0)
    same(model.slope(X), 6 * X)
    model.k = 5.0
    same(model.slope(X), 10 * X)
    same(Model(1.0).slope(X), 2 * X)
    value, slope = model.both(X, X)
    same(value, 5 * np.sum(X * X))
    same(slope, 5 * X)
    assert isinstance(Model.slope, type(tj.grad(np.sum)))


class Scaled:
    """An object that can be called."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, x: Array) -> Any:
        return self.k * np.sum(x**2)

    def method(self, x: Array) -> Any:
        return self.k * np.sum(x**3)

    @staticmethod
    def static(x: Array) -> Any:
        return np.sum(x**2)

    @classmethod
    def of_class(cls, x: Array) -> Any:
        return np.sum(x**2)


def test_callables_of_all_kinds() -> None:
    scaled = Scaled(2.0)
    same(tj.grad(scaled)(X), 4 * X)
    same(tj.grad(scaled.method)(X), 6 * X**2)
    same(tj.grad(Scaled.static)(X), 2 * X)
    same(tj.grad(Scaled.of_class)(X), 2 * X)
    same(tj.grad(functools.partial(lambda k, x: k * np.sum(x), 3.0))(X), np.full(3, 3.0))
    same(tj.grad(functools.partial(lambda x, k: k * np.sum(x), k=3.0))(X), np.full(3, 3.0))
    same(tj.grad(np.sum)(X), np.ones(3))
    same(tj.elementwise_grad(np.sin)(X), np.cos(X))
    scaled.k = 7.0
    same(tj.grad(scaled)(X), 14 * X)


def test_lower_shows_what_is_compiled(each_mode: str) -> None:
    lowered = tj.value_and_grad(lambda x: np.sum(np.sin(x)))
    compiled = lowered.lower(np.ones(12))
    assert "def " in compiled.source and "sin" in compiled.source
    assert len(compiled.forward_tape.eqns) == 2
    assert len(compiled.backward_tape.outputs) == 2
    same(compiled(np.zeros(12))[1], np.ones(12))
    assert "value_and_grad" in repr(compiled)
    assert "define" in compiled.llvm


def test_hvp_keeps_its_trace_and_takes_keywords() -> None:
    product = tj.hvp(lambda x, k=1.0: k * np.sum(x**3), argnums=-1)
    same(product(2.0, 5.0), 60.0)
    product = tj.hvp(lambda k, x, *, scale: k * scale * np.sum(x**3), argnums=-1)
    before = tj.stats.traces
    same(product(2.0, X, np.ones(3), scale=1.0), 12 * X)
    once = tj.stats.traces - before
    same(product(3.0, X, X, scale=2.0), 36 * X * X)
    assert tj.stats.traces - before == once


def test_hvp_checks_the_vector() -> None:
    product = tj.hvp(quadratic)
    with pytest.raises(tj.errors.StructureError, match="shape \\(2,\\), but shape \\(3,\\)"):
        product(X, np.ones(2))
    with pytest.raises(tj.errors.StructureError, match="has structure"):
        product(X, (1.0, 2.0, 3.0))


def test_directions_of_another_kind_are_refused() -> None:
    with pytest.raises(tj.errors.StructureError, match="is complex"):
        tj.jvp(np.sin, (X,), (X * 1j,))
    with pytest.raises(tj.errors.StructureError, match="shape \\(2,\\)"):
        tj.jvp(np.sin, (X,), (np.ones(2),))
    with pytest.raises(tj.errors.StructureError, match="structure"):
        tj.jvp(np.sin, (X,), (X, X))
    _, pull = tj.vjp(np.sin, X)
    with pytest.raises(tj.errors.StructureError, match="shape \\(\\)"):
        pull(1.0)
