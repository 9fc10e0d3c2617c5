"""Every exception that tracejit raises.

A message has up to four parts: what went wrong, where (the user's file, line and source text), the shapes and dtypes
involved, and what to do.  Each class also derives from the built-in exception that NumPy or Python would raise, so
that code written for NumPy keeps catching what it caught.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "ArgnumsError",
    "AxisError",
    "BroadcastError",
    "CompileError",
    "ConcretizationError",
    "ContractionError",
    "DisconnectedError",
    "EmptyReductionError",
    "GuardError",
    "IndexingError",
    "IntegerStoreError",
    "InternalError",
    "LeakedTraceError",
    "LongTraceWarning",
    "MatrixError",
    "NonNumericError",
    "NonScalarOutputError",
    "PointwiseError",
    "RetraceWarning",
    "ShapeError",
    "SideEffectWarning",
    "StructureError",
    "TooLargeError",
    "TracejitError",
    "UnsupportedError",
]


class TracejitError(Exception):
    """Base of all errors; ``str()`` of it is the complete message."""

    def __init__(self, what: str, *, where: object = None, detail: str = "", hint: str = "") -> None:
        self.what, self.where, self.detail, self.hint = what, where, detail, hint
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [self.what]
        if self.where is not None:
            lines.append(str(self.where))
        if self.detail:
            lines.append(self.detail)
        if self.hint:
            lines.append(self.hint)
        return "\n  ".join(lines)


class BroadcastError(TracejitError, ValueError):
    """Shapes that NumPy cannot broadcast together."""


class ShapeError(TracejitError, ValueError):
    """A shape, or a way to cut or join arrays, that does not fit them."""


class AxisError(TracejitError, np.exceptions.AxisError):
    """An axis that the array does not have."""


class ContractionError(TracejitError, ValueError):
    """Summed extents of a matrix product, tensordot or einsum that differ."""


class MatrixError(TracejitError, np.linalg.LinAlgError):
    """An operand that is not the matrix, or the stack of matrices, that a function of ``np.linalg`` takes."""


class EmptyReductionError(TracejitError, ValueError):
    """An extreme, or the place of one, among no entries at all."""


class NonScalarOutputError(TracejitError, TypeError):
    """``grad`` of a function whose output does not have exactly one entry, or is complex."""


class NonNumericError(TracejitError, TypeError):
    """An input or output that is not made of numbers (object arrays, strings, None), or not of complex ones."""


class UnsupportedError(TracejitError, NotImplementedError):
    """A NumPy function, or a form of one, that cannot take traced values."""


class ConcretizationError(TracejitError, TypeError):
    """A traced value where a plain number or ndarray is needed (``float()``, ``np.asarray``)."""


class IntegerStoreError(TracejitError, TypeError):
    """A traced float written into an integer array: NumPy would cut the fraction."""


class LeakedTraceError(TracejitError, RuntimeError):
    """A traced value used after the function that it belongs to has returned."""


class IndexingError(TracejitError, IndexError):
    """An index out of range, or too many indices."""


class PointwiseError(TracejitError, ValueError):
    """``structure="pointwise"`` of a function that mixes points."""


class DisconnectedError(TracejitError, ValueError):
    """An argument that does not influence the output, under ``disconnected="raise"``."""


class ArgnumsError(TracejitError, ValueError):
    """``argnums`` that does not name an argument of the call."""


class StructureError(TracejitError, ValueError):
    """Tangents or cotangents whose structure, shape or dtype does not fit."""


class TooLargeError(TracejitError, MemoryError):
    """A dense result over ``max_dense_bytes``."""


class GuardError(TracejitError, ValueError):
    """Compiled code called, inside compiled code, with arguments that it was not compiled for."""


class CompileError(TracejitError, RuntimeError):
    """Numba could not compile a generated source; a defect of tracejit."""


class InternalError(TracejitError, AssertionError):
    """A tape that breaks a rule of the IR; a defect of tracejit."""


class LongTraceWarning(UserWarning):
    """A trace too long to compile in reasonable time and memory, which NumPy runs instead."""


class RetraceWarning(UserWarning):
    """A function that is traced again and again."""


class SideEffectWarning(UserWarning):
    """A traced function that stores into something outside of it."""
