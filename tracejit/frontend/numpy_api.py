"""All traced meanings of NumPy functions; importing this module fills the registry."""

from tracejit.frontend import (
    einsum,
    numpy_contractions,
    numpy_creation,
    numpy_diagonals,
    numpy_elementwise,
    numpy_joining,
    numpy_moving,
    numpy_nan,
    numpy_norms,
    numpy_ordering,
    numpy_padding,
    numpy_ranges,
    numpy_reductions,
    numpy_scans,
    numpy_shapes,
    numpy_stores,
    numpy_ufuncs,
)
from tracejit.frontend.numpy_creation import CREATORS
from tracejit.frontend.registry import FUNCTIONS, UFUNCS

__all__ = [
    "CREATORS",
    "FUNCTIONS",
    "UFUNCS",
    "einsum",
    "numpy_contractions",
    "numpy_creation",
    "numpy_diagonals",
    "numpy_elementwise",
    "numpy_joining",
    "numpy_moving",
    "numpy_nan",
    "numpy_norms",
    "numpy_ordering",
    "numpy_padding",
    "numpy_ranges",
    "numpy_reductions",
    "numpy_scans",
    "numpy_shapes",
    "numpy_stores",
    "numpy_ufuncs",
]
