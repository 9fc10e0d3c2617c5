"""Machine code of tracejit's own texts, which is made once for the process: from the disk, or by llvmlite.

A text may define several functions that share variables; its functions live as long as the process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from tracejit.runtime import objects
from tracejit.runtime.locks import lock
from tracejit.runtime.machine_code import Code, compile_text, load

__all__ = ["addresses", "code_of", "function"]


@functools.cache
def code_of(entry: str, text: str) -> Code:
    """Return a text of LLVM as machine code, found by its function ``entry``; both belong together for ever."""
    with lock:  # llvmlite has a lock of its own, which a fork is not to find taken
        code = objects.find(entry)
        if code is None:
            made = compile_text(text, entry, ())
            objects.keep(entry, made)
            code = load(made)
    return code


@functools.cache
def addresses(text: str, *names: str) -> dict[str, int]:
    """Return where functions of a text are; the first is the one that it is found by."""
    code = code_of(names[0], text)
    return {name: code.owner.get_function_address(name) for name in names}


def function(text: str, names: tuple[str, ...], name: str, result: Any, *kinds: Any) -> Callable[..., Any]:
    """Return a function of a text for callers in Python."""
    return ctypes.PYFUNCTYPE(result, *kinds)(addresses(text, *names)[name])
