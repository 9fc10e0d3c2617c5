"""Array accesses that LLVM can vectorise without asking at run time whether arrays overlap.

``load(a, i, j)`` and ``store(a, value, i, j)`` do not wrap negative indices and check nothing: whoever
generates them has proved the range.  ``distinct(a, 3)`` makes a handle of an array whose memory nothing
else in the function touches under another number: a fresh output, or a temporary (buffers that share memory
share the number).  Plain arrays, which may be the same array twice, count together as number 0.

Without this, LLVM compares the address ranges of every pair of arrays before a loop, and gives up where
there are many or where strides are unknown.  The facts reach it as ``alias.scope`` and ``noalias``
metadata; an access without metadata may alias anything.

An array of layout "A" is read with gather instructions, whatever its strides are: LLVM's own choice is a
fast loop for a stride of 1 and a scalar loop for all others.  Where the last stride is known to be one
element (rows of a slice), ``unit_stride(a)`` makes a handle that says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

EVERYTHING_ELSE = 0


class Handle(types.Type):
    """An array, the number of its memory, and whether its last stride is known to be one element."""

    def __init__(self, array: Any, number: int, unit_stride: bool) -> None:
        self.array, self.number, self.unit_stride = array, number, unit_stride
        super().__init__(f"handle({array}, {number}, {unit_stride})")


@register_model(Handle)
class _HandleModel(models.StructModel):
    def __init__(self, manager: Any, kind: Handle) -> None:
        extents = types.UniTuple(types.intp, kind.array.ndim)
        members = [
            ("data", types.CPointer(kind.array.dtype)),
            ("itemsize", types.intp),
            ("shape", extents),
            ("strides", extents),
        ]
        super().__init__(manager, kind, members)


def as_handle(kind: Any) -> Handle | None:
    """The facts known of an array or a handle; None for other types."""
    if isinstance(kind, types.Array):
        return Handle(kind, EVERYTHING_ELSE, False)
    return kind if isinstance(kind, Handle) else None


def _view(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The members of an array or a handle."""
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value)
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _convert(source: Any, kind: Handle) -> Any:
    """A lowering that makes a handle of type ``kind`` from an array or handle of type ``source``."""

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = _view(context, builder, source, values[0])
        handle = cgutils.create_struct_proxy(kind)(context, builder)
        for member in ("data", "itemsize", "shape", "strides"):
            setattr(handle, member, getattr(view, member))
        return handle._getvalue()

    return lowering


@intrinsic(prefer_literal=True)
def distinct(typing, array, number):  # type: ignore[no-untyped-def]
    """A handle for `load` and `store` with its own memory; ``number`` is a literal integer from 1 on."""
    known = as_handle(array)
    if known is None or not isinstance(number, types.IntegerLiteral):
        return None
    kind = Handle(known.array, number.literal_value, known.unit_stride)
    return kind(array, number), _convert(array, kind)


@intrinsic
def unit_stride(typing, array):  # type: ignore[no-untyped-def]
    """A handle of an array, of layout "A", whose last stride is one element."""
    known = as_handle(array)
    if known is None:
        return None
    kind = Handle(known.array, known.number, True)
    return kind(array), _convert(array, kind)


@intrinsic
def load(typing, array, *indices):  # type: ignore[no-untyped-def]
    """The element at ``indices``; one index into a contiguous array counts elements in memory order."""
    known = as_handle(array)
    if known is None or not _fits(known.array, indices):
        return None

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = _view(context, builder, array, values[0])
        places = element_places(context, builder, known, view, _whole(context, builder, indices, values[1]))
        loaded = [builder.load(place, align=_alignment(context, known.array)) for place in places]
        for instruction in loaded:
            _tell_apart(builder, instruction, known.number)
        return from_memory(context, builder, known.array.dtype, loaded)

    return known.array.dtype(array, types.StarArgTuple(indices)), lowering


@intrinsic
def store(typing, array, value, *indices):  # type: ignore[no-untyped-def]
    """Set the element at ``indices``; the value is converted to the dtype of the array."""
    known = as_handle(array)
    if known is None or not _fits(known.array, indices) or not known.array.mutable:
        return None

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = _view(context, builder, array, values[0])
        places = element_places(context, builder, known, view, _whole(context, builder, indices, values[2]))
        components = to_memory(context, builder, known.array.dtype, values[1])
        for place, component in zip(places, components, strict=True):
            instruction = builder.store(component, place, align=_alignment(context, known.array))
            _tell_apart(builder, instruction, known.number)
        return context.get_dummy_value()

    return types.none(array, known.array.dtype, types.StarArgTuple(indices)), lowering


def _fits(array: Any, indices: tuple[Any, ...]) -> bool:
    flat = len(indices) == 1 and array.layout in "CF"
    whole = all(isinstance(types.unliteral(index), types.Integer) for index in indices)
    return whole and (flat or len(indices) == array.ndim)


def _whole(context: Any, builder: Any, kinds: tuple[Any, ...], packed: Any) -> list[Any]:
    """The indices as machine integers."""
    values = cgutils.unpack_tuple(builder, packed, len(kinds))
    return [
        context.cast(builder, v, types.unliteral(k), types.intp) for v, k in zip(values, kinds, strict=True)
    ]


# --- addresses ----------------------------------------------------------------------------------------------


def element_places(context: Any, builder: Any, known: Handle, view: Any, indices: list[Any]) -> list[Any]:
    """Pointers to the real numbers that an element is made of: two if it is complex."""
    array = known.array
    component = _component(context, array.dtype)
    parts = 2 if isinstance(array.dtype, types.Complex) else 1
    unit = component
    if array.layout == "A":
        unit = component if array.aligned else ir.IntType(8)
        steps = _steps(context, builder, known, view, context.get_abi_sizeof(unit))
        offset = _strided_offset(builder, indices, steps)
    else:
        shape = cgutils.unpack_tuple(builder, view.shape, array.ndim)
        offset = _times(builder, _contiguous_offset(builder, indices, shape, array.layout), parts)
    first = builder.gep(builder.bitcast(view.data, unit.as_pointer()), [offset], inbounds=True)
    first = builder.bitcast(first, component.as_pointer())
    return [builder.gep(first, [ir.Constant(offset.type, part)], inbounds=True) for part in range(parts)]


def _steps(context: Any, builder: Any, known: Handle, view: Any, unit: int) -> list[Any]:
    """The strides in units of so many bytes."""
    size = context.get_abi_sizeof(context.get_data_type(known.array.dtype))
    strides = cgutils.unpack_tuple(builder, view.strides, known.array.ndim)
    # A zero that LLVM does not know as such: it tries a stride of 1 only where the stride is one plain value.
    zero = builder.sub(view.itemsize, ir.Constant(view.itemsize.type, size))
    steps = [builder.sdiv(s, ir.Constant(s.type, unit), flags=["exact"]) for s in strides]
    steps = [builder.add(step, zero) for step in steps]
    if known.unit_stride:
        steps[-1:] = [ir.Constant(step.type, size // unit) for step in steps[-1:]]
    return steps


def _contiguous_offset(builder: Any, indices: list[Any], shape: list[Any], layout: str) -> Any:
    """Number of elements before this one in memory."""
    if layout == "F":
        indices, shape = indices[::-1], shape[::-1]
    offset = indices[0] if indices else ir.Constant(ir.IntType(types.intp.bitwidth), 0)
    for index, extent in zip(indices[1:], shape[1:], strict=False):
        offset = builder.add(builder.mul(offset, extent, flags=["nsw"]), index, flags=["nsw"])
    return offset


def _strided_offset(builder: Any, indices: list[Any], steps: list[Any]) -> Any:
    offset = ir.Constant(ir.IntType(types.intp.bitwidth), 0)
    for index, step in zip(indices, steps, strict=True):
        offset = builder.add(offset, builder.mul(index, step, flags=["nsw"]), flags=["nsw"])
    return offset


def _times(builder: Any, value: Any, factor: int) -> Any:
    return value if factor == 1 else builder.mul(value, ir.Constant(value.type, factor), flags=["nsw"])


def _alignment(context: Any, array: Any) -> int:
    return context.get_abi_sizeof(_component(context, array.dtype)) if array.aligned else 1


# --- values -------------------------------------------------------------------------------------------------


def _component(context: Any, dtype: Any) -> Any:
    """LLVM type, in memory, of the real numbers that an element is made of."""
    return context.get_data_type(getattr(dtype, "underlying_float", dtype))


def from_memory(context: Any, builder: Any, dtype: Any, loaded: list[Any]) -> Any:
    """The value that loaded components make up."""
    if isinstance(dtype, types.Complex):
        number = context.make_complex(builder, dtype)
        number.real, number.imag = loaded
        return number._getvalue()
    return context.data_model_manager[dtype].from_data(builder, loaded[0])


def to_memory(context: Any, builder: Any, dtype: Any, value: Any) -> list[Any]:
    """The components of a value, as they are stored."""
    if isinstance(dtype, types.Complex):
        number = context.make_complex(builder, dtype, value=value)
        return [number.real, number.imag]
    return [context.data_model_manager[dtype].as_data(builder, value)]


# --- metadata -----------------------------------------------------------------------------------------------


def _tell_apart(builder: Any, instruction: Any, number: int) -> None:
    """Put an access under the number of its memory, and apart from all numbers seen so far in this function.

    A later access names the earlier ones; for two accesses to be apart, one of them saying so is enough.
    """
    seen: set[int] = builder.function.__dict__.setdefault("_tracejit_memory_numbers", {EVERYTHING_ELSE})
    seen.add(number)
    instruction.set_metadata("alias.scope", _scopes(builder, [number]))
    others = sorted(seen - {number})
    if others:
        instruction.set_metadata("noalias", _scopes(builder, others))


def _scopes(builder: Any, numbers: Iterable[int]) -> Any:
    """A list of scopes, named after the function: LLVM merges equal names when it links functions."""
    module, function = builder.module, builder.function.name
    domain = module.add_metadata([ir.MetaDataString(module, function)])
    scopes = [module.add_metadata([ir.MetaDataString(module, f"{function}:{n}"), domain]) for n in numbers]
    return module.add_metadata(scopes)
