"""The pieces of long kernels, compiled once for each types of their arguments and kept on the disk by themselves."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracejit.codegen.pieces import Piece
from tracejit.runtime import compile as door
from tracejit.runtime import objects
from tracejit.runtime.locks import lock
from tracejit.runtime.source_files import content_key

__all__ = ["compile_piece"]

_callers: dict[str, Callable[..., Any]] = {}


def compile_piece(piece: Piece, functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return what generated sources call a piece by; those that do the same are one.

    Parameters
    ----------
    piece
    functions
        Plain functions that the kernel calls.
    """
    called = {name: functions[name] for name in sorted(piece.calls)}
    content = content_key(
        piece.key, *(f"{wish}={door.public_name(f) or id(f)}" for wish, f in called.items())
    )
    with lock:
        if content not in _callers:
            calls = importlib.import_module("tracejit.codegen.intrinsics.piece_calls")

            def make() -> Any:
                extra = {wish: door.compile_plain(f) for wish, f in called.items()}
                return door.jit_for_callers(piece.source, piece.name, extra)

            _callers[content] = calls.piece_call(content, make, _find, objects.keep)
        return _callers[content]


def _find(symbol: str) -> tuple[np.dtype[Any], ...] | None:
    """Bind the symbol of a piece whose machine code is kept; return the dtypes of its results."""
    code = objects.find_for_good(symbol)
    if code is None:
        return None
    importlib.import_module("llvmlite.binding").add_symbol(symbol, code.address)
    return code.results
