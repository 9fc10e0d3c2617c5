"""Loop nests that several threads share: ``split(part, room, chunks, work, *arguments)``.

``part`` is a function of the source, of a first and a last chunk and the arguments; it is compiled into the module of
the function that splits it, and called through `tracejit.runtime.threads`, once or for ranges of chunks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, compiler, types
from numba.extending import intrinsic

from tracejit.codegen.intrinsics.workspace import ROOM

_POINTER = ir.IntType(8).as_pointer()
_WORD = ir.IntType(types.intp.bitwidth)
_RUN = ir.FunctionType(ir.VoidType(), [_POINTER, _WORD, _WORD])


@intrinsic
def split(typingctx, part, room, chunks, work, *arguments):  # type: ignore[no-untyped-def]
    """Do all chunks; ``work`` is an estimate of the operations in them."""
    del typingctx
    kinds = (types.intp, types.intp, *map(types.unliteral, arguments))

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        part_values = cgutils.unpack_tuple(builder, values[4], len(arguments))
        given = [
            context.cast(builder, v, a, k) for v, a, k in zip(part_values, arguments, kinds[2:], strict=True)
        ]
        made = _compile(context, part.dispatcher.py_func, kinds)
        frame = _Frame(context, builder, kinds[2:], given)
        run = frame.run_function(made, kinds)
        view = builder.bitcast(values[1], ROOM.as_pointer())
        threads = builder.load(cgutils.gep_inbounds(builder, view, 0, 0))
        counts = [
            context.cast(builder, v, k, types.intp)
            for v, k in zip(values[2:4], signature.args[2:4], strict=True)
        ]
        kind = ir.FunctionType(ir.VoidType(), [_RUN.as_pointer(), _POINTER, _WORD, _WORD, _WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "tjt_split")
        builder.call(function, [run, builder.bitcast(frame.memory, _POINTER), *counts, threads])
        frame.raise_what_was_raised()
        return context.get_dummy_value()

    return types.void(part, room, chunks, work, types.StarArgTuple(arguments)), generate


def _compile(context: Any, function: Any, kinds: tuple[Any, ...]) -> Any:
    """Return the description of a function that is compiled into the library that is being made.

    Numba's dispatcher would give it a library, and machine code, of its own.
    """
    flags = compiler.Flags()
    flags.nrt = True
    flags.error_model = "numpy"
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    made = compiler.compile_internal(
        context.typing_context, context, context.active_code_library, function, kinds, types.none, flags, {}
    )
    return made.fndesc


class _Frame:
    """What a part is called with: a structure on the stack, whose first members say what was raised."""

    def __init__(self, context: Any, builder: Any, kinds: tuple[Any, ...], given: list[Any]) -> None:
        self.context, self.builder = context, builder
        self.status = ir.IntType(32)
        self.about = cgutils.voidptr_t
        types_ = [context.get_value_type(kind) for kind in kinds]
        self.layout = ir.LiteralStructType([self.status, self.about, *types_])
        self.memory = cgutils.alloca_once(builder, self.layout)
        for number, value in enumerate([self.status(0), ir.Constant(self.about, None), *given]):
            builder.store(value, cgutils.gep_inbounds(builder, self.memory, 0, number))

    def run_function(self, about: Any, kinds: tuple[Any, ...]) -> Any:
        """Return a function of the frame, a first and a last chunk."""
        module = self.builder.module
        function = ir.Function(module, _RUN, f"tracejit_run.{about.llvm_func_name}")
        function.linkage = "internal"
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        frame = builder.bitcast(function.args[0], self.layout.as_pointer())
        given = [
            builder.load(cgutils.gep_inbounds(builder, frame, 0, number + 2))
            for number in range(len(kinds) - 2)
        ]
        part = self.context.declare_function(module, about)
        # In line, its machine code would be made twice.
        status, _ = self.context.call_conv.call_function(
            builder, part, types.none, kinds, [*function.args[1:], *given], attrs=("noinline",)
        )
        with builder.if_then(status.is_error, likely=False):
            description = builder.bitcast(status.excinfoptr, self.about)
            builder.store(description, cgutils.gep_inbounds(builder, frame, 0, 1))
            builder.store(status.code, cgutils.gep_inbounds(builder, frame, 0, 0))
        builder.ret_void()
        return function

    def raise_what_was_raised(self) -> None:
        """Pass on the error of a part; of several, any."""
        builder, convention = self.builder, self.context.call_conv
        code = builder.load(cgutils.gep_inbounds(builder, self.memory, 0, 0))
        failed = builder.icmp_signed("!=", code, self.status(0))
        with builder.if_then(failed, likely=False):
            about = builder.load(cgutils.gep_inbounds(builder, self.memory, 0, 1))
            pointer = builder.bitcast(about, convention._get_excinfo_argument(builder.function).type.pointee)
            status = convention._get_return_status(builder, code, pointer)
            convention.return_status_propagate(builder, status)
