"""The C functions that scipy carries for Cython, found by name; neither Numba nor llvmlite is needed for it.

A function has the symbol ``tjs_<name>_<d or l per operand>_<number of results>``.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
from typing import Any

__all__ = ["address", "has_integers", "symbol"]

PREFIX = "tjs_"


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    """Name -> signature as Cython writes it -> capsule with the pointer."""
    capsules = importlib.import_module("scipy.special.cython_special").__pyx_capi__
    named = ctypes.pythonapi.PyCapsule_GetName
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    table: dict[str, dict[str, Any]] = {}
    for key, capsule in capsules.items():
        name = re.sub(r"^__pyx_fuse(_\d+)+", "", key)
        table.setdefault(name, {})[named(capsule).decode()] = capsule
    return table


def has_integers(name: str) -> bool:
    """Return whether some form of the function takes integers."""
    return any(re.search(r"\b(long|Py_ssize_t)\b", text) for text in _table().get(name, {}))


def symbol(name: str, integers: tuple[bool, ...], results: int) -> str:
    """Return the symbol of a function of doubles and, where ``integers`` says so, integers."""
    return f"{PREFIX}{name}_{''.join('dl'[i] for i in integers)}_{results}"


def address(symbol: str) -> int | None:
    """Return the address of what has a symbol; None if scipy has no such function."""
    name, operands, results = symbol.removeprefix(PREFIX).rsplit("_", 2)
    wanted = _signature(operands, int(results))
    found = {text.replace("Py_ssize_t", "long"): c for text, c in _table().get(name, {}).items()}
    if wanted not in found:
        return None
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    result: int = pointer(found[wanted], named(found[wanted]))
    return result


def _signature(operands: str, results: int) -> str:
    kinds = [{"l": "long", "d": "double"}[letter] for letter in operands]
    if results == 1:
        return f"double ({', '.join([*kinds, 'int __pyx_skip_dispatch'])})"
    return f"void ({', '.join(kinds + ['double *'] * results)})"
