"""Where the parts of Python's and NumPy's objects lie in memory: found out, or checked, once in each process.

CPython with its lock and NumPy 2 keep to what `caller` takes for granted; builds for debugging, without lock, or of
other makers may not.
"""

from __future__ import annotations

import ctypes
import functools
from types import CellType
from typing import Any

import numpy as np

__all__ = ["CELL_CONTENTS", "function_fields", "is_known"]

_WORD = 8

CELL_CONTENTS = 2 * _WORD
"""Where a cell has the pointer to its contents."""


@functools.cache
def is_known() -> bool:
    """Return whether objects of Python and NumPy lie in memory as `caller` takes it for granted.

    They do in CPython with its lock and NumPy 2; builds for debugging, without lock, or of other makers differ.
    """
    if object.__basicsize__ != 2 * _WORD or ctypes.sizeof(ctypes.c_void_p) != _WORD:
        return False
    array = np.ones((3, 5), np.float32)[:, ::2]
    words = (ctypes.c_ssize_t * 9).from_address(id(array))
    shape = (ctypes.c_ssize_t * 2).from_address(words[4])
    strides = (ctypes.c_ssize_t * 2).from_address(words[5])
    if function_fields() is None:
        return False
    number, scalar, text, cell = 1.5, np.float64(2.5), b"ab", CellType(array)
    return (
        words[1] == id(np.ndarray)
        and words[2] == array.ctypes.data
        and ctypes.c_int.from_address(id(array) + 24).value == 2
        and (tuple(shape), tuple(strides)) == (array.shape, array.strides)
        and words[7] == id(array.dtype)
        and ctypes.c_int.from_address(id(array) + 64).value == array.flags.num
        and ctypes.c_double.from_address(id(number) + 16).value == number
        and ctypes.c_double.from_address(id(scalar) + 16).value == scalar
        and ctypes.c_char.from_address(id(text) + bytes.__basicsize__ - 1).value == b"a"
        and ctypes.c_void_p.from_address(id(cell) + CELL_CONTENTS).value == id(array)
    )


@functools.cache
def function_fields() -> tuple[int, int, int] | None:
    """Return where a Python function has the pointers to its code, defaults and defaults of keywords."""

    def sample(a: Any = object(), *, b: Any = object()) -> None:  # noqa: B008
        del a, b

    count = type(sample).__basicsize__ // _WORD
    words = list((ctypes.c_size_t * count).from_address(id(sample)))
    wanted = [id(part) for part in (sample.__code__, sample.__defaults__, sample.__kwdefaults__)]
    if any(words.count(word) != 1 for word in wanted):
        return None
    code, defaults, keywords = (words.index(word) * _WORD for word in wanted)
    return code, defaults, keywords
