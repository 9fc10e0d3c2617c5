"""Wrong programs, one function each: what a user may do, and which error has to explain it.

The functions stand in a module of their own, as a user's do: messages quote their lines.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracejit as tj
from tracejit import errors

X = np.linspace(0.1, 1.2, 12)
GRID = np.linspace(0.0, 1.0, 36).reshape(12, 3)
TABLE = np.zeros(3)


@dataclass(frozen=True)
class Case:
    """A wrong program.

    Parameters
    ----------
    run
        Raises the error.
    error
        Its type.
    builtin
        The built-in type that it also has.
    """

    run: Callable[[], Any]
    error: type[Exception]
    builtin: type[Exception]


CASES: dict[str, Case] = {}


Run = Callable[[], Any]


def case(error: type[Exception], builtin: type[Exception]) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        CASES[run.__name__] = Case(run, error, builtin)
        return run

    return register


# --- shapes -------------------------------------------------------------------------------------------------


@case(errors.BroadcastError, ValueError)
def broadcast_operator() -> Any:
    def energy(u: Any, v: Any) -> Any:
        return np.sum(u * v)

    return tj.grad(energy)(X, GRID)


@case(errors.BroadcastError, ValueError)
def broadcast_ufunc_with_a_constant() -> Any:
    def energy(u: Any) -> Any:
        w = np.hypot(u[1:], np.ones(3))
        return w.sum()

    return tj.grad(energy)(X)


@case(errors.BroadcastError, ValueError)
def broadcast_in_place() -> Any:
    def energy(u: Any) -> Any:
        row = u[0] + np.zeros(3)
        row += u
        return row.sum()

    return tj.grad(energy)(X)


@case(errors.BroadcastError, ValueError)
def broadcast_store() -> Any:
    def energy(u: Any) -> Any:
        u[2:5] = u
        return u.sum()

    return tj.grad(energy)(X)


@case(errors.ContractionError, ValueError)
def matmul_shapes() -> Any:
    def energy(a: Any, u: Any) -> Any:
        return np.sum(a @ u)

    return tj.grad(energy)(GRID, X)


@case(errors.ContractionError, ValueError)
def dot_shapes() -> Any:
    return tj.grad(lambda a, u: np.dot(a, u).sum())(GRID, X)


@case(errors.ShapeError, ValueError)
def reshape_size() -> Any:
    return tj.grad(lambda u: u.reshape(5, -1).sum())(X)


@case(errors.ShapeError, ValueError)
def concatenate_extents() -> Any:
    return tj.grad(lambda a, u: np.concatenate([a, u[:, None]]).sum())(GRID, X)


@case(errors.AxisError, ValueError)
def axis_out_of_bounds() -> Any:
    return tj.grad(lambda a: np.sum(np.max(a, axis=2)))(GRID)


@case(errors.EmptyReductionError, ValueError)
def empty_maximum() -> Any:
    return tj.grad(lambda u: np.max(u[3:3]))(X)


@case(errors.IndexingError, IndexError)
def index_out_of_range() -> Any:
    return tj.grad(lambda u: u[12])(X)


@case(errors.IndexingError, IndexError)
def too_many_indices() -> Any:
    return tj.grad(lambda u: u[0, 1])(X)


@case(errors.IndexingError, IndexError)
def mask_of_another_length() -> Any:
    return tj.grad(lambda u: u[np.array([True, False])].sum())(X)


# --- outputs ------------------------------------------------------------------------------------------------


@case(errors.NonScalarOutputError, TypeError)
def gradient_of_a_field() -> Any:
    return tj.grad(lambda x, y: x**2 + y)(GRID, GRID)


@case(errors.NonScalarOutputError, TypeError)
def gradient_of_a_vector() -> Any:
    return tj.grad(lambda x: np.cumsum(2 * x))(X)


@case(errors.NonScalarOutputError, TypeError)
def gradient_of_two_outputs() -> Any:
    return tj.grad(lambda x: (np.sum(x), np.max(x)))(X)


@case(errors.NonScalarOutputError, TypeError)
def gradient_of_a_complex_output() -> Any:
    return tj.grad(lambda x: np.sum(x * 1j))(X)


@case(errors.NonNumericError, TypeError)
def gradient_of_nothing() -> Any:
    def energy(x: Any) -> Any:
        np.sum(x)

    return tj.grad(energy)(X)


@case(errors.NonNumericError, TypeError)
def gradient_of_a_text() -> Any:
    return tj.grad(lambda x: f"{x}")(X)


@case(errors.StructureError, ValueError)
def auxiliary_missing() -> Any:
    return tj.grad(lambda x: np.sum(2 * x), has_aux=True)(X)


@case(errors.NonScalarOutputError, TypeError)
def jacobian_of_a_complex_output() -> Any:
    return tj.jacobian(lambda x: x * 1j)(X)


@case(errors.NonNumericError, TypeError)
def jacobian_of_nothing() -> Any:
    return tj.jacobian(lambda x: None)(X)


@case(errors.PointwiseError, ValueError)
def pointwise_of_a_stencil() -> Any:
    def laplacian(u: Any) -> Any:
        v = np.sin(u)
        return v[2:] - 2 * v[1:-1] + v[:-2]

    return tj.elementwise_grad(laplacian)(X)


@case(errors.PointwiseError, ValueError)
def pointwise_of_a_normalised_field() -> Any:
    return tj.jacobian(lambda u: u / np.sum(u), structure="pointwise")(X)


@case(errors.TooLargeError, MemoryError)
def jacobian_too_large() -> Any:
    return tj.jacobian(np.sin)(np.zeros((300, 100)))


@case(errors.UnsupportedError, NotImplementedError)
def jacobian_sparse() -> Any:
    return tj.jacobian(np.sin, structure="sparse")


@case(errors.DisconnectedError, ValueError)
def disconnected() -> Any:
    def place(x: Any) -> Any:
        return 1.0 * np.argmax(x)

    return tj.grad(place, disconnected="raise")(X)


# --- what cannot be traced ----------------------------------------------------------------------------------


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_function() -> Any:
    return tj.grad(lambda x: np.sum(np.unwrap(x)))(X)


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_function_with_an_alternative() -> Any:
    return tj.grad(lambda c, x: np.sum(np.polyval(c, x)))(GRID[0], X)


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_ufunc() -> Any:
    ramp = np.frompyfunc(lambda v: max(v, 0.0), 1, 1)
    return tj.grad(lambda x: np.sum(ramp(x)))(X)


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_out() -> Any:
    def f(x: Any) -> Any:
        buffer = np.asarray(TABLE[:2].tolist())
        return np.sum(np.sum(x[:4].reshape(2, 2), axis=0, out=buffer))

    return tj.grad(f)(X)


@case(errors.ConcretizationError, TypeError)
def asarray_of_a_traced_value() -> Any:
    return tj.grad(lambda x: np.polynomial.polynomial.polyfit(x, x, 1)[0])(X)


@case(errors.ConcretizationError, TypeError)
def float_of_a_traced_value() -> Any:
    return tj.grad(lambda x: float(x[0]) ** 2)(X)


@case(errors.ConcretizationError, TypeError)
def int_of_a_traced_value() -> Any:
    return tj.grad(lambda x: x[int(x[0] * 3)])(X)


@case(errors.ConcretizationError, TypeError)
def math_of_a_traced_value() -> Any:
    return tj.grad(lambda x: math.sin(2 * x))(0.5)


@case(errors.IntegerStoreError, TypeError)
def float_into_an_integer_array() -> Any:
    def f(x: Any) -> Any:
        counts = np.zeros_like(x, dtype=int)
        counts[0] = x[0]
        return counts.sum() * 1.0

    return tj.grad(f)(X)


@case(errors.IntegerStoreError, TypeError)
def float_into_an_integer_argument() -> Any:
    def f(x: Any, n: Any) -> Any:
        n += x
        return np.sum(n)

    return tj.grad(f)(X, np.arange(12))


@case(errors.LeakedTraceError, RuntimeError)
def leaked_value() -> Any:
    def outer(x: Any) -> Any:
        found = []

        def inner(y: Any) -> Any:
            found.append(np.sin(y))
            return np.sum(y)

        tj.grad(inner)(x)
        return np.sum(found[0])

    return tj.grad(outer)(X)


@case(errors.ConcretizationError, TypeError)
def traced_value_into_a_plain_array() -> Any:
    def f(x: Any) -> Any:
        table = np.frombuffer(bytearray(24))
        table[0] = x[0]
        return np.sum(table)

    return tj.grad(f)(X)


@case(ValueError, ValueError)
def truth_of_an_array() -> Any:
    def f(x: Any) -> Any:
        return np.sum(x) if x > 0 else np.sum(x**2)

    return tj.grad(f)(X)


# --- arguments ----------------------------------------------------------------------------------------------


@case(errors.NonNumericError, TypeError)
def object_array() -> Any:
    return tj.grad(np.sum)(np.array([1, "a"], dtype=object))


@case(errors.NonNumericError, TypeError)
def operand_of_texts() -> Any:
    return tj.grad(lambda x: np.sum(x * np.array(["a", "b", "c"] * 4)))(X)


@case(errors.NonNumericError, TypeError)
def differentiated_text() -> Any:
    def f(x: Any, name: str) -> Any:
        return np.sum(getattr(np, name)(x))

    return tj.grad(f, argnums=1)(X, "sin")


@case(errors.ArgnumsError, ValueError)
def argnums_out_of_range() -> Any:
    def f(x: Any, k: float) -> Any:
        return k * np.sum(x)

    return tj.grad(f, argnums=2)(X, 1.0)


@case(errors.ArgnumsError, ValueError)
def argnums_text() -> Any:
    return tj.grad(np.sum, argnums="x")


@case(errors.StructureError, ValueError)
def tangent_shape() -> Any:
    return tj.jvp(np.sin, (X,), (np.ones(3),))


@case(errors.StructureError, ValueError)
def tangent_structure() -> Any:
    return tj.jvp(lambda p: p["u"] * p["k"], ({"u": X, "k": 2.0},), ({"u": X},))


@case(errors.StructureError, ValueError)
def tangents_without_a_tuple() -> Any:
    return tj.jvp(np.sin, 0.5, 1.0)


@case(errors.StructureError, ValueError)
def cotangent_structure() -> Any:
    _, pull = tj.vjp(lambda x: (x, np.sum(x)), X)
    return pull(X)


@case(errors.StructureError, ValueError)
def cotangent_shape() -> Any:
    _, pull = tj.vjp(lambda x: np.sum(2 * x), X)
    return pull(X)


@case(errors.StructureError, ValueError)
def hessian_vector_shape() -> Any:
    def energy(u: Any) -> Any:
        return np.sum(u**3)

    return tj.hvp(energy)(X, np.ones(3))


@case(errors.StructureError, ValueError)
def vmap_axes_count() -> Any:
    return tj.vmap(np.dot, in_axes=(0, 0, 0))(GRID, GRID)


@case(errors.BroadcastError, ValueError)
def vmap_lengths() -> Any:
    return tj.vmap(np.multiply)(GRID, np.ones(5))


@case(errors.UnsupportedError, NotImplementedError)
def vmap_of_a_decision() -> Any:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    return tj.vmap(f)(X)


@case(errors.UnsupportedError, NotImplementedError)
def written_argument_that_is_shared() -> Any:
    def f(x: Any, y: Any) -> None:
        x += y

    return tj.jit(f)(X, X[:])
