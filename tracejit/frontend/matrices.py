"""What the functions of ``np.linalg`` share: their operands, checked and in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.errors import MatrixError
from tracejit.frontend.reducing import strong
from tracejit.ir.aval import compute_dtype, is_inexact
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import convert, shape_text

__all__ = ["matrix_error", "operands", "refuse_rectangles", "result_dtype", "stack_of_matrices", "wide"]

DType = np.dtype[Any]


def matrix_error(what: str, hint: str = "") -> MatrixError:
    """Return the error for an operand of the wrong shape, at the user's line."""
    return MatrixError(what, where=current().source(), hint=hint)


def result_dtype(*atoms: Atom) -> DType:
    """Return the dtype of NumPy's result: single precision only if all operands have it."""
    dtype = np.dtype(np.float32)
    for atom in atoms:
        if is_inexact(atom.dtype) and compute_dtype(atom.dtype) != atom.dtype:
            raise TypeError(f"array type {atom.dtype.name} is unsupported in linalg")
        dtype = np.result_type(dtype, atom.dtype if is_inexact(atom.dtype) else np.float64)
    return dtype


def wide(dtype: DType) -> DType:
    """Return the dtype to compute in: double precision, as NumPy does."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def operands(*values: Any) -> tuple[list[Atom], DType]:
    """Return operands in the dtype to compute in, and the dtype of the result."""
    atoms = [strong(v) for v in values]
    dtype = result_dtype(*atoms)
    return [convert(x, dtype=wide(dtype)) for x in atoms], dtype


def stack_of_matrices(value: Any, square: bool = False) -> tuple[Atom, DType]:
    """Return an operand that must be a matrix or a stack of them, and the dtype of the result."""
    atom = strong(value)
    if len(atom.shape) < 2:
        raise matrix_error(
            f"{len(atom.shape)}-dimensional array given. Array must be at least two-dimensional",
            "Insert an axis with `x[:, None]` or `x[None, :]`.",
        )
    if square:
        refuse_rectangles(atom)
    dtype = result_dtype(atom)
    return convert(atom, dtype=wide(dtype)), dtype


def refuse_rectangles(atom: Atom) -> None:
    """Raise unless the last two extents are equal."""
    if not current().decide("==", atom.shape[-1] - atom.shape[-2]):
        raise matrix_error(
            f"Last 2 dimensions of the array must be square; the shape is {shape_text(atom.shape)}."
        )
