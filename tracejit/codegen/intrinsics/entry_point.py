"""The entry of a kernel for callers that know neither Python nor Numba: one pointer to pointers.

    int32 entry(void **slots)

Per argument, but for the last, which is the room that the kernel takes memory from, a slot points to its value, or for
an array to

    struct { char *data; int ndim; intptr_t *shape; intptr_t *strides; }

which is what stands in every NumPy array behind the object header. Then a slot for each scalar of the returned tuple,
where it is written to, and one that receives Numba's description of an exception. The last slot is not a pointer but
the number of threads that the call may use, or zero. The result is Numba's status: 0, -1 where Python's own error is
set, or a positive number where the description is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, compiler, lowering, types
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

from tracejit.codegen.intrinsics.workspace import close_room, open_room

PREFIX = "tracejit_entry."

_BYTE_POINTER = ir.IntType(8).as_pointer()
_INT, _WORD = ir.IntType(32), ir.IntType(types.intp.bitwidth)
_VIEW = ir.LiteralStructType([_BYTE_POINTER, _INT, _WORD.as_pointer(), _WORD.as_pointer()])


class _Lower(lowering.Lower):
    """Lowers a function with this entry in the place of the one that takes Python objects."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        del release_gil
        module = self.context.create_module("entry")
        add_entry(self.context, module, self.fndesc)
        self.library.add_ir_module(module)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "tracejit_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower


class Pipeline(compiler.CompilerBase):
    """Numba's pipeline, for functions that Python calls through this entry only."""

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if p is NativeLowering else p, text) for p, text in passes.passes]
        passes.finalize()
        return [passes]


def entry_name(about: Any) -> str:
    """Return the symbol of the entry of a compiled function."""
    return PREFIX + about.llvm_func_name


def results(about: Any) -> tuple[str, ...]:
    """Return NumPy's names of the dtypes of the scalars that a compiled function returns."""
    return tuple(as_dtype(types.unliteral(kind)).name for kind in about.restype)


def add_entry(context: Any, module: Any, about: Any) -> None:
    """Append the entry of the function that ``about`` describes to an empty module."""
    kind = context.call_conv.get_function_type(about.restype, about.argtypes)
    kernel = ir.Function(module, kind, about.llvm_func_name)
    entry = ir.Function(module, ir.FunctionType(_INT, [_BYTE_POINTER.as_pointer()]), entry_name(about))
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    (slots,) = entry.args
    given = [
        _argument(context, builder, kind, _slot(builder, slots, number))
        for number, kind in enumerate(about.argtypes[:-1])
    ]
    last = len(given) + len(about.restype)
    room = open_room(builder, builder.ptrtoint(_slot(builder, slots, last + 1), _WORD))
    # In line, the machine code of the kernel would be made twice.
    status, results = context.call_conv.call_function(
        builder,
        kernel,
        about.restype,
        about.argtypes,
        [*given, builder.bitcast(room, _BYTE_POINTER)],
        attrs=("noinline",),
    )
    close_room(builder, room)
    with builder.if_then(status.is_ok, likely=True):
        for number, result in enumerate(about.restype):
            place = _slot(builder, slots, len(given) + number)
            pointer = builder.bitcast(place, context.get_data_type(result).as_pointer())
            context.pack_value(builder, result, builder.extract_value(results, number), pointer, align=1)
    description = builder.bitcast(status.excinfoptr, _BYTE_POINTER)
    builder.store(description, builder.bitcast(_slot(builder, slots, last), _BYTE_POINTER.as_pointer()))
    builder.ret(status.code)


def _slot(builder: Any, slots: Any, number: int) -> Any:
    return builder.load(builder.gep(slots, [_INT(number)]))


def _argument(context: Any, builder: Any, kind: Any, place: Any) -> Any:
    """Return the argument that a slot points to, as the kernel takes it."""
    if not isinstance(kind, types.Array):
        number = builder.bitcast(place, context.get_data_type(kind).as_pointer())
        return context.unpack_value(builder, kind, number, align=1)
    view = builder.bitcast(place, _VIEW.as_pointer())
    data, shape, strides = (builder.load(cgutils.gep_inbounds(builder, view, 0, n)) for n in (0, 2, 3))
    extents = [_slot(builder, shape, axis) for axis in range(kind.ndim)]
    array = context.make_array(kind)(context, builder)
    arrayobj.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=extents,
        strides=[_slot(builder, strides, axis) for axis in range(kind.ndim)],
        itemsize=context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))),
        meminfo=None,
    )
    return array._getvalue()
