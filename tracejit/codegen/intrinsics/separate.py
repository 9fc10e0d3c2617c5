"""Calls of kernels that are compiled once by themselves, not again with every function that calls them.

Numba compiles a callee into each caller anew, which takes seconds for kernels of linear algebra.  Here the
caller holds a symbol that is bound to the machine code.  Arrays are passed flat and writable, whatever their
shapes, so that one compilation serves all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from tracejit.codegen.object_code import ObjectCode, object_code
from tracejit.errors import InternalError

PREFIX = "tjk_"


def separate(
    dispatcher: Any,
    name: str | None,
    bind: Callable[[str], bool],
    keep: Callable[[str, ObjectCode], None],
) -> Callable[..., Any]:
    """Return what calls ``dispatcher`` from compiled code.

    Parameters
    ----------
    dispatcher
        A function of C-contiguous arrays and numbers that returns nothing.
    name
        Of the function, in all processes; None if only this one has it.
    bind
        Binds a symbol if machine code for it is kept from earlier.
    keep
        Keeps the machine code of a symbol for later.
    """

    @intrinsic
    def call(typingctx: Any, *arguments: Any) -> Any:
        del typingctx
        kinds = tuple(map(_passed, arguments))
        symbol = _symbol(dispatcher, name, kinds)
        if not bind(symbol):
            keep(symbol, _compile(dispatcher, kinds, symbol))

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            unpacked = cgutils.unpack_tuple(builder, values[0], len(kinds))
            given = [
                _flat(context, builder, a, k, v)
                if isinstance(a, types.Array)
                else context.cast(builder, v, a, k)
                for a, k, v in zip(signature.args[0], kinds, unpacked, strict=True)
            ]
            call_symbol(context, builder, symbol, types.none, kinds, given)
            return context.get_dummy_value()

        return types.void(types.StarArgTuple(arguments)), generate

    return call


def call_symbol(  # what a call consists of
    context: Any, builder: Any, symbol: str, result: Any, kinds: tuple[Any, ...], given: list[Any]
) -> Any:
    """Write a call of compiled code by its symbol; what it raises is passed on. Return its result."""
    convention = context.call_conv
    kind = convention.get_function_type(result, kinds)
    function = cgutils.get_or_insert_function(builder.module, kind, symbol)
    status, value = convention.call_function(builder, function, result, kinds, given)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return value


def digest_of(kinds: tuple[Any, ...]) -> str:
    """Return what stands for types in a symbol."""
    return hashlib.sha256(str(kinds).encode()).hexdigest()[:16]


def _passed(kind: Any) -> Any:
    """Return the type that an argument is passed as."""
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, 1, "C")
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) else kind


def _symbol(dispatcher: Any, name: str | None, kinds: tuple[Any, ...]) -> str:
    """Return the name that the machine code for these types has."""
    where = f"here.{id(dispatcher):x}" if name is None else name
    return f"{PREFIX}{where}.{digest_of(kinds)}"


def _compile(dispatcher: Any, kinds: tuple[Any, ...], symbol: str) -> ObjectCode:
    """Compile for these types, bind the machine code to its name, and return its object code."""
    dispatcher.compile(kinds)
    made = dispatcher.overloads[kinds]
    if made.signature.return_type != types.none:
        raise InternalError(f"{symbol} returns something.")
    llvm.add_symbol(symbol, made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
    return object_code(made.library, made.fndesc.llvm_func_name)


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
