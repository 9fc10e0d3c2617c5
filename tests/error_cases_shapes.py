"""Wrong programs: shapes that do not fit, and outputs that cannot be differentiated."""

from typing import Any

import numpy as np
from error_case import GRID, X, case

import tracejit as tj
from tracejit import errors

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
