"""Kernels: generated functions that Python calls by their machine code, from the disk where it was kept.

A process that finds all its kernels there never imports Numba.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.object_code import object_code
from tracejit.codegen.pieces import Piece
from tracejit.errors import InternalError
from tracejit.runtime import compile as door
from tracejit.runtime import objects
from tracejit.runtime.compile import ArgSpec, CompiledFunction, compile_function, compile_plain
from tracejit.runtime.locks import lock
from tracejit.runtime.machine_code import Code
from tracejit.runtime.native_calls import call
from tracejit.runtime.piece_code import compile_piece
from tracejit.runtime.progress import shown
from tracejit.runtime.source_files import content_key

__all__ = ["Kernel", "clear_kernels", "compile_kernel", "compiled_kernels"]

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A generated function with its machine code.

    Parameters
    ----------
    name, source, signature
    functions
        Plain functions that the source calls.
    pieces
        Functions of the source that are compiled by themselves.
    content
        What decides whether two sources do the same.
    code
    compile_seconds
        Zero if the code came from the disk.
    """

    name: str
    source: str
    signature: tuple[ArgSpec, ...]
    functions: Functions = field(repr=False)
    pieces: tuple[Piece, ...] = field(repr=False)
    content: str = field(repr=False)
    code: Code
    compile_seconds: float

    def __call__(self, *arguments: Any, threads: int = 0) -> tuple[Any, ...]:
        """Return the scalars that the function returns; arrays have exactly the dtypes of the signature."""
        given = [
            np.asarray(a, spec.dtype) if spec.ndim is None else _exactly(a, spec)
            for a, spec in zip(arguments, self.signature, strict=True)
        ]
        return call(self.code, given, [spec.ndim is not None for spec in self.signature], threads)

    @property
    def jitted(self) -> CompiledFunction:
        """The same compiled by Numba for callers that Numba compiles, made when it is asked for."""
        functions = {name: compile_plain(function) for name, function in self.functions.items()}
        return compile_function(
            self.source,
            self.name,
            (*self.signature, door.ROOM),
            extra_namespace=functions,
            pieces={piece.name: compile_piece(piece, self.functions) for piece in self.pieces},
            content=self.content,
        )


def _exactly(array: Any, spec: ArgSpec) -> Any:
    """Return an array that is what machine code takes it for; raise if it is something else."""
    if array.dtype != spec.dtype or array.ndim != spec.ndim or not array.flags.aligned:
        raise InternalError(f"A kernel for {spec} was given an array {array.dtype.str}[{array.ndim}].")
    if spec.layout == "C" and not array.flags.c_contiguous:
        raise InternalError(f"A kernel for {spec} was given an array with strides {array.strides}.")
    return array


_kernels: dict[str, Kernel] = {}
_compilations: list[str] = []


def compiled_kernels() -> int:
    """Return how many kernels were compiled since the process started; from the disk is not compiled."""
    return len(_compilations)


def clear_kernels() -> None:
    """Forget all kernels that nobody holds."""
    with lock:
        _kernels.clear()


def compile_kernel(
    source: str,
    name: str,
    signature: Sequence[ArgSpec],
    functions: Functions,
    content: str,
    pieces: tuple[Piece, ...] = (),
) -> Kernel:
    """Return the kernel ``name`` of ``source``; the same again costs a look-up, in another process a load.

    Parameters
    ----------
    source, name
        It returns a tuple of scalars.
    signature
    functions
        Plain functions of tracejit that the source calls.
    content
        The source without comments.
    pieces
        Functions of the source that are compiled by themselves.
    """
    about = [f"{wish}={door.public_name(f) or id(f)}" for wish, f in sorted(functions.items())]
    key = content_key(content, name, *signature, *about)
    found = _kernels.get(key)
    if found is None:
        with lock:
            found = _kernels.get(key)
            if found is None:
                code, seconds = _code(key, source, name, tuple(signature), functions, pieces)
                found = Kernel(name, source, tuple(signature), functions, pieces, content, code, seconds)
                _kernels[key] = found
    return found


def _code(
    key: str,
    source: str,
    name: str,
    signature: tuple[ArgSpec, ...],
    functions: Functions,
    pieces: tuple[Piece, ...],
) -> tuple[Code, float]:
    code = objects.find(key)
    if code is not None:
        return code, 0.0
    _compilations.append(key)
    start = time.perf_counter()
    lines = source.count("\n")
    with shown(f"compiling {name!r}, {lines} lines"), door.undisturbed():
        extra = {wish: compile_plain(function) for wish, function in functions.items()}
        parts = {piece.name: compile_piece(piece, functions) for piece in pieces}
        function = door.jit_source(source, name, (*signature, door.ROOM), extra, parts, entry=True)[1]
    (made,) = function.overloads.values()
    entry_point = importlib.import_module("tracejit.codegen.intrinsics.entry_point")
    stored = object_code(made.library, entry_point.entry_name(made.fndesc), entry_point.results(made.fndesc))
    objects.keep(key, stored)
    address = made.library.get_pointer_to_function(stored.entry)
    return Code(address, tuple(map(np.dtype, stored.results)), function), time.perf_counter() - start
