"""The names that machine code calls, bound to addresses in this process; Numba is not needed for most of them.

Object code from the disk holds names only. What a name stands for is found anew in each process: functions of the C
library, scipy's special functions, BLAS and LAPACK, the allocator of Numba (whose extension module is loaded without
the rest of it), and separately compiled kernels, which have object code of their own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracejit.ops import lapack

__all__ = ["HELPER", "NOWHERE_ELSE", "PIECE", "bind", "finder"]

OWN = "tj"
"""Nobody else binds names that begin so."""

HELPER = "tjk_"
"""Plain functions of tracejit, compiled by themselves."""

PIECE = "tjp_"
"""Pieces of long kernels."""

NOWHERE_ELSE = f"{HELPER}here."
"""Those that only this process can have; what calls them is not kept."""

_finders: dict[str, Callable[[str], int | None]] = {}


def finder(prefix: str) -> Callable[[Callable[[str], int | None]], Callable[[str], int | None]]:
    """Register what finds the address of names that begin with ``prefix``."""

    def register(find: Callable[[str], int | None]) -> Callable[[str], int | None]:
        _finders[prefix] = find
        return find

    return register


def bind(name: str) -> bool:
    """Bind ``name`` if it is not bound yet; return whether it is now."""
    llvm = _llvm()
    if llvm.address_of_symbol(name):
        return True
    finds = [find for prefix, find in _finders.items() if name.startswith(prefix)]
    address = finds[0](name) if finds else None
    if address:
        llvm.add_symbol(name, address)
        return True
    return not name.startswith(OWN) and _bind_by_numba(name)


def _bind_by_numba(name: str) -> bool:
    """Bind the names of Numba's registries, which takes half a second; they are rare in kernels."""
    importlib.import_module(
        "tracejit.codegen.vector_math"
    )  # rocket-fft's, and what Numba binds when imported
    target = importlib.import_module("numba.core.registry").cpu_target.target_context
    importlib.import_module("numba.core.runtime.nrt").rtsys.initialize(target)
    return bool(_llvm().address_of_symbol(name))


@functools.cache
def _llvm() -> Any:
    """Return llvmlite with the functions of the C library bound, vector functions included."""
    libm = importlib.import_module("tracejit.codegen.intrinsics.libm")
    libm.bind_symbols()
    return libm.llvm


@finder("tjs_")
def _special_function(name: str) -> int | None:
    scipy_functions = importlib.import_module("tracejit.codegen.intrinsics.scipy_functions")
    return scipy_functions.address(name)


@finder(lapack.PREFIX)
def _routine(name: str) -> int | None:
    return lapack.address(name.removeprefix(lapack.PREFIX))


@finder("NRT_")
def _allocator(name: str) -> int | None:
    return _helpers("core.runtime._nrt_python").get(name.removeprefix("NRT_"))


@finder("numba_")
def _helper(name: str) -> int | None:
    return _helpers("_helperlib").get(name.removeprefix("numba_"))


@functools.cache
def _helpers(module: str) -> dict[str, int]:
    """Return the functions of an extension module of Numba's by name, without importing Numba.

    The module has the name that Numba gives it, so that Python initialises it once for both.
    """
    name = f"numba.{module}"
    if name in sys.modules:
        return {}  # Numba binds them itself
    package = importlib.util.find_spec("numba")
    folders = package.submodule_search_locations if package else None
    finder = importlib.machinery.PathFinder.find_spec
    spec = finder(name, [str(Path(folder, *module.split(".")[:-1])) for folder in folders or ()])
    if spec is None or spec.loader is None:
        return {}
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    if hasattr(made, "memsys_use_cpython_allocator"):
        made.memsys_use_cpython_allocator()
    functions: dict[str, int] = made.c_helpers
    return functions
