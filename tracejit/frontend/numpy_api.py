"""All traced meanings of NumPy functions; importing this module fills the registry."""

from tracejit.frontend import (
    numpy_contractions,
    numpy_creation,
    numpy_elementwise,
    numpy_reductions,
    numpy_shapes,
    numpy_ufuncs,
)
from tracejit.frontend.registry import FUNCTIONS, UFUNCS

__all__ = [
    "FUNCTIONS",
    "UFUNCS",
    "numpy_contractions",
    "numpy_creation",
    "numpy_elementwise",
    "numpy_reductions",
    "numpy_shapes",
    "numpy_ufuncs",
]
