"""Abstract values: what is known of an array while tracing (shape, dtype, weakness), and NumPy's rules on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracejit.ir import dims
from tracejit.ir.dims import Dim

__all__ = ["Aval", "Shape", "compute_dtype", "is_inexact", "real_dtype"]

Shape = tuple[Dim, ...]
DType = np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape and dtype of an array.

    Attributes
    ----------
    shape : tuple of int or Poly
    dtype : numpy.dtype
    weak : bool
        True for Python scalars, which do not take part in dtype promotion (NEP 50).
    """

    shape: Shape
    dtype: DType
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return dims.prod(self.shape)

    @property
    def inexact(self) -> bool:
        return is_inexact(self.dtype)

    @property
    def promotion(self) -> DType | type:
        """What NumPy's promotion sees: the dtype, or the Python type of a weak scalar."""
        return (
            {"b": bool, "i": int, "u": int, "f": float, "c": complex}[self.dtype.kind]
            if self.weak
            else self.dtype
        )

    def with_shape(self, shape: Shape) -> Aval:
        return replace(self, shape=tuple(shape), weak=False)

    def with_dtype(self, dtype: DType) -> Aval:
        return Aval(self.shape, np.dtype(dtype))

    def __str__(self) -> str:
        name = f"{self.dtype.kind}{8 * self.dtype.itemsize}" if self.dtype.kind != "b" else "bool"
        return f"{name}[{','.join(map(str, self.shape))}]" + ("*" if self.weak else "")


def is_inexact(dtype: DType) -> bool:
    """Return whether values of ``dtype`` can carry a derivative."""
    return dtype.kind in "fc"


def real_dtype(dtype: DType) -> DType:
    """Return the real dtype of the same precision."""
    return np.zeros(0, dtype).real.dtype if dtype.kind == "c" else dtype


def compute_dtype(dtype: DType) -> DType:
    """Return the dtype that loops compute in: float16 in float32, longdouble in float64 (SEMANTICS)."""
    replaced: dict[str, DType] = {"e": np.dtype("f4"), "g": np.dtype("f8"), "G": np.dtype("c16")}
    return replaced.get(dtype.char, dtype)
