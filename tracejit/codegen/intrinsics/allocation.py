"""Arrays that a long kernel makes by calls: in line, each allocation is dozens of instructions to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.typing import signature
from numba.extending import intrinsic

__all__ = ["allocate"]


@intrinsic
def allocate(typingctx, shape, dtype):  # type: ignore[no-untyped-def]
    """Return ``np.empty(shape, dtype)`` from a function of its own."""
    kind = types.Array(dtype.dtype, len(shape), "C")
    element = dtype.dtype

    def make(extents: Any) -> Any:
        return np.empty(extents, element)

    def generate(context: Any, builder: Any, called: Any, values: Any) -> Any:
        extents = types.UniTuple(types.intp, len(shape))
        made = context.compile_subroutine(builder, make, signature(kind, extents))
        function = context.declare_function(builder.module, made.fndesc)
        given = [context.cast(builder, values[0], called.args[0], extents)]
        status, array = context.call_conv.call_function(
            builder, function, kind, (extents,), given, attrs=("noinline",)
        )
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return array

    return kind(shape, dtype), generate
