"""Calls of the pieces of a kernel, which are compiled by themselves: the caller holds a symbol.

A piece takes arrays and scalars as they are and returns a tuple of scalars.  It is compiled for the types of
its arguments when the type of a call is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import from_dtype
from numba.core import cgutils, types
from numba.extending import intrinsic

from tracejit.codegen.intrinsics.entry_point import results
from tracejit.codegen.intrinsics.separate import call_symbol, digest_of
from tracejit.codegen.object_code import ObjectCode, object_code

__all__ = ["PREFIX", "piece_call"]

PREFIX = "tjp_"

_known: dict[str, tuple[Any, ...]] = {}


def piece_call(
    content: str,
    make: Callable[[], Any],
    find: Callable[[str], tuple[Any, ...] | None],
    keep: Callable[[str, ObjectCode], None],
) -> Callable[..., Any]:
    """Return what calls a piece from compiled code.

    Parameters
    ----------
    content : str
        A digest of what the piece does.
    make : callable
        Returns Numba's dispatcher.
    find : callable
        Binds a symbol if machine code for it is kept from earlier; returns the dtypes of the results.
    keep : callable
        Keeps the machine code of a symbol for later.
    """

    @intrinsic
    def call(typingctx: Any, *arguments: Any) -> Any:
        del typingctx
        kinds = tuple(map(types.unliteral, arguments))
        symbol = f"{PREFIX}{content}.{digest_of(kinds)}"
        if symbol not in _known:
            found = find(symbol)
            _known[symbol] = _compile(make(), kinds, symbol, keep) if found is None else found
        result = types.BaseTuple.from_types(tuple(from_dtype(dtype) for dtype in _known[symbol]))

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            unpacked = cgutils.unpack_tuple(builder, values[0], len(kinds))
            given = [
                context.cast(builder, v, a, k)
                for a, k, v in zip(signature.args[0], kinds, unpacked, strict=True)
            ]
            return call_symbol(context, builder, symbol, result, kinds, given)

        return result(types.StarArgTuple(arguments)), generate

    return call


def _compile(
    dispatcher: Any, kinds: tuple[Any, ...], symbol: str, keep: Callable[[str, ObjectCode], None]
) -> tuple[Any, ...]:
    """Compile for these types, bind the machine code to its name, and return the dtypes of the results."""
    dispatcher.compile(kinds)
    made = dispatcher.overloads[kinds]
    name = made.fndesc.llvm_func_name
    llvm.add_symbol(symbol, made.library.get_pointer_to_function(name))
    returned = results(made.fndesc)
    keep(symbol, object_code(made.library, name, returned))
    return tuple(map(np.dtype, returned))
