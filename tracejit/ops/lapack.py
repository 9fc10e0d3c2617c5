"""LAPACK and BLAS, as kernels call them: ``fortran("getrf", (n, n, a, n, pivots, info))``.

Every argument is an array, since Fortran takes everything by reference; the routine's first letter follows
from the dtype of the first array of floats.  The functions are those that scipy carries for Cython.  Here is
what plain Python runs; compiled kernels find a direct call under the same name
(``codegen/intrinsics/fortran.py``).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LETTERS", "PREFIX", "address", "fortran", "integer", "letter", "matmul"]

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""Character of NumPy's dtype -> first letter of the routine."""

PREFIX = "tjf_"
"""What the names of the routines are bound under in compiled code."""

_MODULES = ("scipy.linalg.cython_lapack", "scipy.linalg.cython_blas")


@functools.cache
def _table(name: str) -> dict[str, Any]:
    """Return the functions of one of scipy's modules for Cython.

    The package around it, which takes a tenth of a second to import, is not needed for that.
    """
    if name not in sys.modules:
        package, _, _ = name.rpartition(".")
        folders = importlib.import_module("scipy").__path__
        places = [str(Path(folder, package.removeprefix("scipy."))) for folder in folders]
        spec = importlib.machinery.PathFinder.find_spec(name, places)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.__pyx_capi__
    return importlib.import_module(name).__pyx_capi__


@functools.cache
def address(name: str) -> int:
    """Return the address of a routine such as ``dgetrf``."""
    capsule = next(table[name] for table in map(_table, _MODULES) if name in table)
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    result: int = pointer(capsule, named(capsule))
    return result


def fortran(routine: str, arguments: tuple[Any, ...]) -> None:
    """Call ``routine`` on the memory of C-contiguous arrays."""
    first = next(LETTERS[a.dtype.char] for a in arguments if a.dtype.char in LETTERS)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(address(first + routine))
    call(*(a.ctypes.data for a in arguments))


def matmul(  # noqa: PLR0913, PLR0917
    a: Any, b: Any, y: Any, size: int, rows: int, total: int, columns: int, turned_a: int, turned_b: int
) -> None:
    """Write ``size`` products of matrices that lie one behind the other in C-contiguous memory.

    ``a`` has matrices of ``rows`` by ``total``, or their transposes if ``turned_a``; ``b`` of ``total`` by ``columns``.
    """

    def taken(x: Any, height: int, width: int, turned: int) -> Any:
        if turned:
            return x.reshape((size, width, height)).swapaxes(1, 2)
        return x.reshape((size, height, width))

    left, right = taken(a, rows, total, turned_a), taken(b, total, columns, turned_b)
    taken(y, rows, columns, 0)[...] = left @ right


def integer(value: int) -> Any:
    """Return an integer argument."""
    return np.full(1, value, np.int32)


def letter(code: int) -> Any:
    """Return a character argument, from its code."""
    return np.full(1, code, np.uint8)
