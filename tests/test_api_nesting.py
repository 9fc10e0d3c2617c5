"""Transforms of transforms: any of them inside any other, with values of the outer function captured."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
X = np.array([0.3, -1.2, 2.5])


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14)


def test_four_derivatives_of_a_scalar_function() -> None:
    derivatives: list[Callable[[float], float]] = [lambda x: np.exp(2 * x)]
    for _ in range(4):
        derivatives.append(tj.grad(derivatives[-1]))
    for order, derivative in enumerate(derivatives):
        close(derivative(0.3), 2**order * np.exp(0.6))


def test_no_confusion_of_perturbations() -> None:
    # d/dx [x * d/dy (x + y)] = d/dx x = 1; a system that mixes the two derivatives up returns 2.
    close(tj.grad(lambda x: x * tj.grad(lambda y: x + y)(1.0))(1.0), 1.0)
    # d/dx [x * d/dy (x*y)] = d/dx x^2
    close(tj.grad(lambda x: x * tj.grad(lambda y: x * y)(7.0))(3.0), 6.0)
    inner = tj.jvp(lambda x: x * tj.jvp(lambda y: x * y, (7.0,), (1.0,))[1], (3.0,), (1.0,))[1]
    close(inner, 6.0)


def test_jacobian_of_grad_is_the_hessian() -> None:
    def f(x: Array) -> Any:
        return np.sum(np.sin(x)) * x[0]

    expected = np.diag(-X[0] * np.sin(X)) + np.outer([1, 0, 0], np.cos(X)) + np.outer(np.cos(X), [1, 0, 0])
    close(tj.hessian(f)(X), expected)
    for mode in ("forward", "reverse"):
        close(tj.jacobian(tj.grad(f), mode=mode)(X), expected)
    close(np.stack([tj.hvp(f)(X, e) for e in np.eye(3)]), expected)
    v = np.array([1.0, 2.0, 3.0])
    close(tj.jacobian(lambda x: tj.jvp(f, (x,), (v,))[1])(X), expected @ v)


def test_grad_through_a_jacobian() -> None:
    # J = diag(2x): sum of J^2 is sum(4 x^2)
    close(tj.grad(lambda x: np.sum(tj.jacobian(lambda y: y**2)(x) ** 2))(X), 8 * X)


def test_grad_through_an_elementwise_grad() -> None:
    close(tj.grad(lambda x: np.sum(tj.elementwise_grad(np.sin)(x)))(X), -np.sin(X))


def test_grad_through_vjp_and_vmap() -> None:
    def f(x: Array) -> Any:
        value, pull = tj.vjp(np.sin, x)
        return np.sum(value * pull(x)[0])

    close(tj.grad(f)(X), np.cos(2 * X) * X + np.sin(2 * X) / 2)

    def rows(x: Array) -> Any:
        return np.sum(tj.vmap(lambda row: np.sum(row) ** 2)(x.reshape(1, 3)))

    close(tj.grad(rows)(X), np.full(3, 2 * np.sum(X)))


def test_vmap_of_grad() -> None:
    batch = np.stack([X, 2 * X])
    close(tj.vmap(tj.grad(lambda x: np.sum(x**3)))(batch), 3 * batch**2)


def test_jit_inside_grad_inside_jit() -> None:
    inner = tj.jit(lambda x: np.sin(x) * x)
    close(tj.jit(tj.grad(lambda x: np.sum(inner(x))))(X), np.cos(X) * X + np.sin(X))


def test_outer_values_captured_by_an_inner_function() -> None:
    def minimum_by_newton(k: float) -> Any:
        x = k * 1.5

        def energy(y: Any) -> Any:
            return (y**2 - k) ** 2

        for _ in range(6):
            x = x - tj.grad(energy)(x) / tj.grad(tj.grad(energy))(x)
        return x

    # the minimum is sqrt(k), its derivative 1/(2 sqrt(k))
    close(tj.jit(minimum_by_newton)(1.2), np.sqrt(1.2), rtol=1e-6)
    close(tj.grad(minimum_by_newton)(1.2), 0.5 / np.sqrt(1.2), rtol=1e-4)


def test_inner_gradients_of_containers() -> None:
    def f(x: Array) -> Any:
        found = tj.grad(lambda p: np.sum(p["a"] ** 2 * p["b"]))({"a": x, "b": 3.0})
        return np.sum(found["a"]) + found["b"]

    close(tj.grad(f)(X), 6 + 2 * X)


def test_has_aux_inside() -> None:
    def f(x: Array) -> Any:
        slope, aux = tj.grad(lambda y: (np.sum(y**3), y), has_aux=True)(x)
        return np.sum(slope * aux)

    close(tj.grad(f)(X), 9 * X**2)


def test_a_container_argument_of_an_inner_function_may_hold_settings() -> None:
    def f(x: Array) -> Any:
        return np.sum(tj.grad(lambda y, how: np.sum(getattr(np, how)(y)))(x, "sin"))

    close(tj.grad(f)(X), -np.sin(X))


def test_integers_are_promoted_inside_too() -> None:
    close(tj.grad(lambda x: x * tj.grad(lambda y: y**3)(2))(5.0), 12.0)


def test_derivatives_of_gradients_do_not_depend_on_the_order_of_modes() -> None:
    def f(x: Array, y: Array) -> Any:
        return np.sum(np.exp(x[:, None] * y))

    y = np.array([0.5, -0.2])
    mixed = tj.jacobian(tj.grad(f, argnums=0), argnums=1)(X, y)
    other = tj.jacobian(tj.grad(f, argnums=1), argnums=0)(X, y)
    product = X[:, None] * y
    close(mixed, (1 + product) * np.exp(product))
    close(other, mixed.T)


def test_an_inner_function_may_return_what_it_captures() -> None:
    c = np.array([2.0, 3.0])

    def f(x: Any, y: Any) -> Any:
        value, moved = tj.jvp(lambda z: c, (x,), (x,))
        (same, _), pull = tj.vjp(lambda z: (y, z), x)
        back = pull((x, 2 * x))[0]
        return np.sum(value * y + moved + same + back * x), tj.jacobian(lambda z: y)(x)

    x, y = np.array([1.0, 4.0]), np.array([0.5, -1.0])
    value, jacobian = tj.jit(f)(x, y)
    assert value == np.sum(c * y + y + 2 * x * x)
    np.testing.assert_array_equal(jacobian, np.zeros((2, 2)))
    slopes = tj.grad(lambda x, y: f(x, y)[0], argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(slopes, [4 * x, c + 1])
