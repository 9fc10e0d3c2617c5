"""Wrong programs: what cannot be traced, and arguments that are not what they should be."""

import math
from typing import Any

import numpy as np
from error_case import GRID, TABLE, X, case

import tracejit as tj
from tracejit import errors

# --- what cannot be traced ----------------------------------------------------------------------------------


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_function() -> Any:
    return tj.grad(lambda x: np.sum(np.is_busday(x)))(X)


@case(errors.UnsupportedError, NotImplementedError)
def unsupported_function_with_an_alternative() -> Any:
    return tj.jit(lambda x: np.packbits(x > 0))(X)


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
    return tj.grad(lambda x: math.gamma(2 * x))(0.5)


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
