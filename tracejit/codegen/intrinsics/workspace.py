"""Temporaries of a kernel in memory that its caller lends it; see `tracejit.runtime.workspace`.

A kernel has a room as its last argument. ``workspace(room, bytes)`` takes one block for everything whose size is known
at the start, ``placed(block, offset, shape, dtype)`` is an array in there, ``grown(room, shape, dtype)`` one with a
block of its own. What stands between ``mark(room)`` and ``back(room, mark)`` is given back there, and everything when
the kernel ends. None of these arrays counts references.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

_BYTE = ir.IntType(8)
_POINTER = _BYTE.as_pointer()
_WORD = ir.IntType(types.intp.bitwidth)

ROOM = ir.LiteralStructType([_WORD, _POINTER])
"""Threads that may be used, zero for as many as usual; the block that was taken last."""

LARGEST = 2**56
"""Sizes beyond this, and those that do not fit into a word, count as this; no block is that large."""


def open_room(builder: Any, threads: Any) -> Any:
    """Return a new room on the stack."""
    room = cgutils.alloca_once(builder, ROOM)
    builder.store(threads, cgutils.gep_inbounds(builder, room, 0, 0))
    builder.store(ir.Constant(_POINTER, None), cgutils.gep_inbounds(builder, room, 0, 1))
    return room


def close_room(builder: Any, room: Any) -> None:
    """Give back what the room still has."""
    taken = builder.load(cgutils.gep_inbounds(builder, room, 0, 1))
    with builder.if_then(cgutils.is_not_null(builder, taken)):
        _give(builder, builder.bitcast(room, _POINTER), ir.Constant(_POINTER, None))


def _give(builder: Any, room: Any, mark: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, _POINTER])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "tjw_give"), [room, mark])


def _take(context: Any, builder: Any, room: Any, size: Any) -> Any:
    kind = ir.FunctionType(_POINTER, [_POINTER, _WORD])
    block = builder.call(cgutils.get_or_insert_function(builder.module, kind, "tjw_take"), [room, size])
    with builder.if_then(cgutils.is_null(builder, block), likely=False):
        text = "There is not enough memory for the temporaries of a compiled function."
        context.call_conv.return_user_exc(builder, MemoryError, (text,))
    return block


def _bytes(context: Any, builder: Any, shape: list[Any], dtype: Any) -> Any:
    """Return the bytes of an array, in whole cache lines."""
    most = ir.Constant(_WORD, LARGEST)
    size = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(dtype)))
    for extent in shape:
        pair = builder.smul_with_overflow(size, extent)
        product, failed = (builder.extract_value(pair, n) for n in (0, 1))
        large = builder.or_(failed, builder.icmp_unsigned(">", product, most))
        size = builder.select(large, most, product)
    rounded = builder.add(size, ir.Constant(_WORD, 63))
    return builder.and_(rounded, ir.Constant(_WORD, -64))


def _extents(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    parts = cgutils.unpack_tuple(builder, value, len(kind))
    return [context.cast(builder, v, k, types.intp) for v, k in zip(parts, kind, strict=True)]


def _array(context: Any, builder: Any, kind: Any, data: Any, extents: list[Any]) -> Any:
    """Return an array of memory that nobody counts references of."""
    itemsize = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [itemsize]
    for extent in reversed(extents[1:]):
        strides.insert(0, builder.mul(strides[0], extent, flags=["nsw"]))
    array = context.make_array(kind)(context, builder)
    arrayobj.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=extents,
        strides=strides if extents else [],
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def _kind(shape: Any, dtype: Any) -> Any:
    return types.Array(dtype.dtype, len(shape), "C")


@intrinsic
def room_for(typingctx, shape, dtype):  # type: ignore[no-untyped-def]
    """The bytes that ``placed`` needs for an array of this shape."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _bytes(context, builder, _extents(context, builder, shape, values[0]), dtype.dtype)

    return types.intp(shape, dtype), generate


@intrinsic
def workspace(typingctx, room, size):  # type: ignore[no-untyped-def]
    """A block of so many bytes."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _take(context, builder, values[0], context.cast(builder, values[1], size, types.intp))

    return types.voidptr(room, size), generate


@intrinsic
def placed(typingctx, block, offset, shape, dtype):  # type: ignore[no-untyped-def]
    """An array in a block, so many bytes from its start."""
    del typingctx
    kind = _kind(shape, dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        distance = context.cast(builder, values[1], offset, types.intp)
        data = builder.gep(values[0], [distance], inbounds=True)
        return _array(context, builder, kind, data, _extents(context, builder, shape, values[2]))

    return kind(block, offset, shape, dtype), generate


@intrinsic
def grown(typingctx, room, shape, dtype):  # type: ignore[no-untyped-def]
    """An array in a block of its own."""
    del typingctx
    kind = _kind(shape, dtype)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        extents = _extents(context, builder, shape, values[1])
        data = _take(context, builder, values[0], _bytes(context, builder, extents, dtype.dtype))
        return _array(context, builder, kind, data, extents)

    return kind(room, shape, dtype), generate


@intrinsic
def mark(typingctx, room):  # type: ignore[no-untyped-def]
    """Where ``back`` goes back to."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = builder.bitcast(values[0], ROOM.as_pointer())
        return builder.load(cgutils.gep_inbounds(builder, view, 0, 1))

    return types.voidptr(room), generate


@intrinsic
def back(typingctx, room, mark):  # type: ignore[no-untyped-def]
    """Give back what was taken since ``mark``."""
    del typingctx

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _give(builder, *values)
        return context.get_dummy_value()

    return types.void(room, mark), generate


@intrinsic
def scratch(typingctx, count, dtype):  # type: ignore[no-untyped-def]
    """A short array on the stack of this function; ``count`` is a literal."""
    del typingctx
    if not isinstance(count, types.IntegerLiteral):
        return None
    kind = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = ir.Constant(_WORD, count.literal_value)
        data = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=size)
        return _array(context, builder, kind, data, [size])

    return kind(count, dtype), generate


@intrinsic
def in_room(typingctx, function, arguments):  # type: ignore[no-untyped-def]
    """Call a kernel with these arguments and a room, which is empty again afterwards, whatever happened."""
    given = (*arguments, types.voidptr)
    called = typingctx.resolve_function_type(function, given, {})
    if called is None:
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = function.dispatcher.overloads[called.args]
        context.add_linking_libs((made.library,))
        room = open_room(builder, ir.Constant(_WORD, 0))
        parts = cgutils.unpack_tuple(builder, values[1], len(arguments))
        casts = [context.cast(builder, *v) for v in zip(parts, arguments, called.args[:-1], strict=True)]
        status, result = context.call_internal_no_propagate(
            builder, made.fndesc, called, [*casts, builder.bitcast(room, _POINTER)]
        )
        close_room(builder, room)
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return called.return_type(function, arguments), generate
