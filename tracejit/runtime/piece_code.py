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
from tracejit.runtime.machine_code import Code
from tracejit.runtime.source_files import content_key
from tracejit.runtime.symbols import PIECE, finder

__all__ = ["compile_piece"]

_callers: dict[str, Callable[..., Any]] = {}
_loaded: list[Code] = []


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
    code = _load(symbol)
    if code is None:
        return None
    importlib.import_module("llvmlite.binding").add_symbol(symbol, code.address)
    return code.results


@finder(PIECE)
def _address(symbol: str) -> int | None:
    code = _load(symbol)
    return None if code is None else code.address


def _load(symbol: str) -> Code | None:
    code = objects.find(symbol)
    if code is not None:
        _loaded.append(code)  # the symbol stays bound as long as the process lives
    return code
