"""The C functions behind the intrinsics: private names for libm's scalars, vector variants from libmvec.

LLVM's loop vectoriser replaces a scalar call by a vector call if the call carries the attribute ``vector-
function-abi-variant``.  It must not know the scalar: a call of ``exp`` would become ``llvm.exp.v4f64``,
which is taken apart again when machine code is made.  So each scalar is bound to a private name
(``tjm_exp``).

Where glibc's libmvec does not exist, or ``TRACEJIT_VECTOR_MATH=0``, the same private names are called
without that attribute; this file decides that, once per process, and nothing else depends on it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

import llvmlite.binding as llvm

PREFIX = "tjm_"

# NumPy's name -> C name; the float32 function appends an f.
UNARY = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "cbrt": "cbrt",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "erfc": "erfc",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "sin": "sin",
    "sinh": "sinh",
    "tan": "tan",
    "tanh": "tanh",
}
BINARY = {"arctan2": "atan2", "hypot": "hypot", "nextafter": "nextafter", "power": "pow"}

# What glibc has no vector variant of.
SCALAR_ONLY = {"nextafter"}

# x86-64 vector function ABI: letter, width in bits, and the CPU feature without which the call would pass its
# operands in other registers than the function reads.
_ISAS = (("b", 128, "+sse2"), ("d", 256, "+avx2"), ("e", 512, "+avx512f"))


@functools.cache
def has_vector_library() -> bool:
    """Whether calls may be replaced by libmvec's vector functions in this process."""
    if os.environ.get("TRACEJIT_VECTOR_MATH", "1") == "0":
        return False
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:  # a C library other than glibc
        return False
    return True


@functools.cache
def bind_symbols() -> None:
    """Bind every private name; needed before machine code that uses them is made or loaded."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    for name in (*UNARY.values(), *BINARY.values()):
        for suffix in ("", "f"):
            address = ctypes.cast(getattr(library, name + suffix), ctypes.c_void_p).value
            llvm.add_symbol(PREFIX + name + suffix, address)
    has_vector_library()


def vector_variants(name: str, arity: int, bits: int, features: str) -> dict[int, str]:
    """The vector functions of the C function ``name`` that a CPU can call: lanes -> symbol.

    >>> vector_variants("exp", 1, 64, "+sse2,+avx2")  # doctest: +SKIP
    {2: '_ZGVbN2v_exp', 4: '_ZGVdN4v_exp'}
    """
    if name.removesuffix("f" if bits == 32 else "") in SCALAR_ONLY or not has_vector_library():
        return {}
    available = features.split(",")
    return {
        width // bits: f"_ZGV{letter}N{width // bits}{'v' * arity}_{name}"
        for letter, width, feature in _ISAS
        if feature in available
    }
