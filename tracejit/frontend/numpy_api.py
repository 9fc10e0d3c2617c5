"""All traced meanings of NumPy functions; importing this module fills the registry."""

from tracejit.frontend import (
    numpy_creation,
    numpy_diagonals,
    numpy_elementwise,
    numpy_joining,
    numpy_moving,
    numpy_padding,
    numpy_reductions,
    numpy_shapes,
    numpy_ufuncs,
)
from tracejit.frontend.numpy_creation import CREATORS
from tracejit.frontend.registry import FUNCTIONS, UFUNCS

__all__ = [
    "CREATORS",
    "FUNCTIONS",
    "UFUNCS",
    "numpy_creation",
    "numpy_diagonals",
    "numpy_elementwise",
    "numpy_joining",
    "numpy_moving",
    "numpy_padding",
    "numpy_reductions",
    "numpy_shapes",
    "numpy_ufuncs",
]
