"""Calls of kernels from Python: any arguments by ctypes, or prepared for exact signatures with nothing between."""

from __future__ import annotations

import ctypes
import functools
import importlib
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tracejit.errors import InternalError
from tracejit.frontend.pytree import LEAF, TreeDef
from tracejit.runtime import object_layout
from tracejit.runtime.caller import ARRAY, CALL, FLOATING, HEADER_WORDS, INVOKE, PACK, SCALAR, WHOLE
from tracejit.runtime.machine_code import Code
from tracejit.runtime.native_code import code_of

__all__ = ["ABSENT", "ArrayInput", "Find", "Outcome", "Prepared", "ScalarInput", "call", "prepare"]

_WORD = 8


def call(code: Code, arguments: Sequence[Any], arrays: Sequence[bool], threads: int = 0) -> tuple[Any, ...]:
    """Run a kernel and return its scalars; ``arrays`` says which arguments are arrays with axes.

    The arguments have exactly the dtypes that the kernel was compiled for; numbers are arrays without axes. It uses as
    many threads as are usual if their number is zero.
    """
    kept = [_view(a) if is_array else a for a, is_array in zip(arguments, arrays, strict=True)]
    results = [np.empty((), dtype) for dtype in code.results]
    about = ctypes.c_void_p()
    addresses = [
        *(k.ctypes.data for k in kept),
        *(r.ctypes.data for r in results),
        ctypes.addressof(about),
        threads,
    ]
    slots = (ctypes.c_void_p * len(addresses))(*addresses)
    if _invoke()(code.address, slots) != 0:
        assert about.value is not None
        raise _exception(about.value)
    return tuple(result[()] for result in results)


def _view(array: Any) -> Any:
    """Return what an entry takes for an array: a structure whose pointers lead to words behind it."""
    numbers = np.array([array.ctypes.data, array.ndim, 0, 0, *array.shape, *array.strides], np.intp)
    start = numbers.ctypes.data + 4 * _WORD
    numbers[2:4] = start, start + array.ndim * _WORD
    return numbers


# --- exceptions ---------------------------------------------------------------------------------------------


class _Description(ctypes.Structure):
    """Numba's description of an exception."""

    _fields_ = (
        ("pickled", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("hash", ctypes.c_void_p),
        ("unwrap", ctypes.c_void_p),
        ("dynamic", ctypes.c_int32),
    )


def _exception(address: int) -> BaseException:
    about = _Description.from_address(address)
    if about.dynamic > 0:
        return InternalError("A kernel raised an exception whose arguments are not constants.")
    kind, arguments, _ = pickle.loads(ctypes.string_at(about.pickled, about.size))
    made: BaseException = kind(*arguments)
    return made


# --- the functions of `caller` ------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x80


@functools.cache
def _invoke() -> Callable[..., int]:
    """Return what runs an entry without the interpreter lock, and then raises what Python's handlers have raised."""
    code = code_of("tracejit_invoke", INVOKE)
    # PYFUNCTYPE looks whether an error was set, and keeps the lock, which the text gives back meanwhile.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    return prototype(code.address)


@functools.cache
def _method() -> _MethodDef:
    """Return the definition of the function that prepared calls are bound to."""
    return _MethodDef(b"tracejit_call", code_of("tracejit_call", CALL).address, _FASTCALL, None)


# --- prepared calls -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Find:
    """Where an object is found at each call.

    Parameters
    ----------
    how
        "argument": positional argument number ``of``; "object": ``of`` itself; "entry": ``of[at]`` of a dict; "field":
        what the memory of ``of`` has a pointer to, ``at`` bytes from its start.
    of, at
    """

    how: Literal["argument", "object", "entry", "field"]
    of: Any
    at: Any = 0

    def words(self, keep: list[Any]) -> tuple[int, int, int]:
        """Return the start of a record, and remember what has to stay alive."""
        if self.how == "argument":
            return 0, self.of, 0
        keep += [self.of, self.at]
        if self.how == "object":
            return 1, id(self.of), 0
        return (2, id(self.of), id(self.at)) if self.how == "entry" else (3, id(self.of), self.at)


ABSENT = object()
"""Expected where nothing is to be found."""


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """An argument of a kernel that is an array of exactly this dtype, shape and kind of memory."""

    find: Find
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    contiguous: bool


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """An argument of a kernel that is a number of exactly this type: an `int`, or one that lies behind the header."""

    find: Find
    dtype: type


Prepared = Callable[..., Any]

_CONTIGUOUS, _ALIGNED = 0x1, 0x100


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a run.

    Parameters
    ----------
    arrays
        Shape and dtype of the arrays that are made for the kernel.
    leaves, tree
        Which arrays (True) and scalars (False) make up the result, and the tuples that they form; None for one.
    guards
        Scalars, by number, and what they have to be.
    """

    arrays: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    leaves: Sequence[tuple[bool, int]]
    tree: TreeDef | None
    guards: Sequence[tuple[int, Any]]


def prepare(
    code: Code,
    arguments: int,
    checks: Sequence[tuple[Find, Any]],
    inputs: Sequence[ArrayInput | ScalarInput],
    outcome: Outcome,
    miss: object,
    threads: int = 0,
) -> Prepared | None:
    """Return a function of positional arguments that calls ``code``; None where Python's objects lie unknown.

    Parameters
    ----------
    code, arguments
        The kernel, and how many arguments the function takes.
    checks
        Objects that have to be where they were; if one is not, the function returns ``miss``.
    inputs
        What the kernel takes.
    outcome
        What becomes of the run.
    miss
        Returned where an argument, a captured object or a guard is not as described, or the kernel raised an exception.
    threads
        How many the kernel may use; as many as are usual if zero.
    """
    if not object_layout.is_known():
        return None
    plan, keep = _Plan(), [code, miss, np.ndarray]
    records = (
        [(*found.words(keep), 0 if expected is ABSENT else id(expected)) for found, expected in checks],
        [plan.input(given, keep) for given in inputs],
        [(len(shape), plan.extents(shape), id(dtype)) for shape, dtype in outcome.arrays],
        list(_steps(code, outcome.leaves, outcome.tree)),
        [(number, *_bits(expected, code.results[number])) for number, expected in outcome.guards],
    )
    keep += [*(expected for _, expected in checks), *(dtype for _, dtype in outcome.arrays), *code.results]
    offsets = [plan.add(word for record in part for word in record) for part in records]
    counts = [len(part) for part in records]
    header = [code.address, id(miss), arguments]
    header += [counts[0], offsets[0], counts[1], offsets[1], counts[2], offsets[2], len(code.results)]
    header += [counts[3], offsets[3], *_numpy_functions(), id(np.ndarray), counts[4], offsets[4], threads]
    return _bound(plan.finished(header), tuple(keep))


def _bits(value: Any, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return which bits of a word a number of this dtype has, and those of ``value``."""
    size = dtype.itemsize
    mask = int.from_bytes(b"\xff" * size + bytes(_WORD - size), sys.byteorder, signed=True)
    return mask, int.from_bytes(dtype.type(value).tobytes() + bytes(_WORD - size), sys.byteorder, signed=True)


class _Plan:
    """The words behind the header."""

    def __init__(self) -> None:
        self._words: list[int] = []

    def add(self, words: Iterable[int]) -> int:
        """Append words and return their offset."""
        offset = (HEADER_WORDS + len(self._words)) * _WORD
        self._words += words
        return offset

    def extents(self, shape: tuple[int, ...]) -> int:
        return self.add(shape)

    def input(self, given: ArrayInput | ScalarInput, keep: list[Any]) -> tuple[int, ...]:
        """Return the record of an input."""
        start = given.find.words(keep)
        if isinstance(given, ScalarInput):
            keep.append(given.dtype)
            return (*start, id(given.dtype), WHOLE if given.dtype is int else FLOATING, 0, 0, 0, 0)
        keep.append(given.dtype)
        flags = _ALIGNED | (_CONTIGUOUS if given.contiguous else 0)
        about = (len(given.shape), self.extents(given.shape), id(given.dtype), _ALIGNED | _CONTIGUOUS, flags)
        return (*start, id(np.ndarray), *about)

    def finished(self, header: Sequence[int]) -> bytes:
        return struct.pack(f"{HEADER_WORDS + len(self._words)}q", *header, *self._words)


def _steps(
    code: Code, leaves: Sequence[tuple[bool, int]], tree: TreeDef | None
) -> Iterator[tuple[int, int, int]]:
    """Yield how the result is put together, innermost first."""
    pushes = [(ARRAY, n, 0) if is_array else (SCALAR, n, id(code.results[n])) for is_array, n in leaves]
    if tree is None:
        yield from (*pushes, (PACK, len(pushes), 0))
        return
    rest = iter(pushes)

    def visit(tree: TreeDef) -> Iterator[tuple[int, int, int]]:
        if tree == LEAF:
            yield next(rest)
            return
        for child in tree.children:
            yield from visit(child)
        yield PACK, len(tree.children), 0

    yield from visit(tree)


@functools.cache
def _numpy_functions() -> tuple[int, int]:
    """Return the addresses of PyArray_NewFromDescr and PyArray_Scalar, from NumPy's table for C extensions."""
    capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * 100).from_address(pointer(capsule, None))
    new, scalar = table[94], table[60]
    assert new and scalar
    return new, scalar


def _bound(plan: bytes, keep: tuple[Any, ...]) -> Prepared:
    """Return the function that carries out a plan; it keeps alive what the plan has addresses of."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    # Python keeps two objects with a function of C: one is the plan, the other is free for this.
    made: Prepared = make(ctypes.addressof(_method()), plan, keep)
    return made
