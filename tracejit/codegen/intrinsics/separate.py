"""Calls of kernels that are compiled once by themselves, not again with every function that calls them.

Numba compiles a callee into each caller anew, which takes seconds for kernels of linear algebra.  Here the
caller holds a symbol that is bound to the machine code.  Arrays are passed flat and writable, whatever their
shapes, so that one compilation serves all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

PREFIX = "tjk_"


def separate(dispatcher: Any) -> Callable[..., Any]:
    """Return what calls ``dispatcher`` (a function of C-contiguous arrays and numbers) from compiled code."""

    @intrinsic
    def call(typingctx: Any, *arguments: Any) -> Any:
        del typingctx
        kinds = tuple(map(_passed, arguments))
        dispatcher.compile(kinds)
        made = dispatcher.overloads[kinds]
        symbol = _bind(made)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            convention, about = context.call_conv, made.fndesc
            kind = convention.get_function_type(about.restype, about.argtypes)
            function = cgutils.get_or_insert_function(builder.module, kind, symbol)
            unpacked = cgutils.unpack_tuple(builder, values[0], len(kinds))
            given = [
                _flat(context, builder, a, k, v)
                if isinstance(a, types.Array)
                else context.cast(builder, v, a, k)
                for a, k, v in zip(signature.args[0], kinds, unpacked, strict=True)
            ]
            status, _ = convention.call_function(builder, function, about.restype, about.argtypes, given)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return context.get_dummy_value()

        return types.void(types.StarArgTuple(arguments)), generate

    return call


def _passed(kind: Any) -> Any:
    """Return the type that an argument is passed as."""
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, 1, "C")
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) else kind


def _bind(made: Any) -> str:
    """Bind the machine code of a compiled function to a name of its own, and return that."""
    address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    symbol = f"{PREFIX}{address:x}"
    llvm.add_symbol(symbol, address)
    return symbol


def _flat(context: Any, builder: Any, kind: Any, passed: Any, value: Any) -> Any:
    """Return the array as one of a single axis."""
    source = context.make_array(kind)(context, builder, value)
    target = context.make_array(passed)(context, builder)
    arrayobj.populate_array(
        target,
        data=source.data,
        shape=(source.nitems,),
        strides=(source.itemsize,),
        itemsize=source.itemsize,
        meminfo=source.meminfo,
        parent=source.parent,
    )
    return target._getvalue()
