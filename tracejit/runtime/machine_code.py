"""Object code, and how it becomes machine code without Numba.

llvmlite alone loads object code, in a millisecond, where importing Numba and its registries takes half a second.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.object_code import ObjectCode
from tracejit.runtime.symbols import bind

__all__ = ["Code", "StaleCodeError", "compile_text", "load"]


class StaleCodeError(Exception):
    """Object code that this process cannot use."""


@dataclass(frozen=True, eq=False)
class Code:
    """Machine code in this process.

    Parameters
    ----------
    address
        Of the entry.
    results
        Dtypes of the scalars that it returns.
    owner
        What keeps the memory of the code.
    """

    address: int
    results: tuple[np.dtype[Any], ...]
    owner: Any = field(repr=False)


def load(code: ObjectCode) -> Code:
    """Return object code as machine code; raise `StaleCodeError` if this process lacks what it calls."""
    import llvmlite.binding as llvm

    engine = _engine(llvm)  # the first one lets LLVM see the names that the process itself has
    missing = [name for name in code.symbols if not bind(name)]
    if missing:
        raise StaleCodeError(f"nothing here has the name {missing[0]!r}")
    try:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.contents))
        engine.finalize_object()
        address = engine.get_function_address(code.entry)
    except RuntimeError as error:
        raise StaleCodeError(str(error)) from error
    if not address:
        raise StaleCodeError(f"it does not define {code.entry!r}")
    return Code(address, tuple(map(np.dtype, code.results)), engine)


def _engine(llvm: Any) -> Any:
    """Return an engine of its own: names that two pieces of code define do not meet."""
    return llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), _target(llvm).create_target_machine(opt=3, jit=True)
    )


@functools.cache
def _target(llvm: Any) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def compile_text(text: str, entry: str, symbols: tuple[str, ...]) -> ObjectCode:
    """Return the object code of LLVM text."""
    import llvmlite.binding as llvm

    machine = _target(llvm).create_target_machine(opt=2, jit=True)
    return ObjectCode(entry, symbols, (), machine.emit_object(llvm.parse_assembly(text)))
