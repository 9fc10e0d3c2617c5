"""Kernels that stop when the user wants them to.

Compiled code runs without the interpreter lock, and Python looks at signals only when it holds that.
``stop_if_interrupted()`` takes the lock and lets Python run its handlers, which does nothing in other
threads than the main one.  That costs 0.1 us, much more where other threads want the lock too, hence the
clock: whoever calls it asks ``nanoseconds()`` first.
"""

from __future__ import annotations

import time
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_INT = ir.IntType(32)
_CLOCK = getattr(time, "CLOCK_MONOTONIC", None)


@intrinsic
def stop_if_interrupted(typing):  # type: ignore[no-untyped-def]
    """Leave the function if a signal handler raises (`KeyboardInterrupt`), with that exception."""

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # Python's own functions, not Numba's around them: the code can be loaded without Numba.
        lock = _call(builder, "PyGILState_Ensure", _INT)
        status = _call(builder, "PyErr_CheckSignals", _INT)
        _call(builder, "PyGILState_Release", ir.VoidType(), lock)
        raised = builder.icmp_signed("!=", status, _INT(0))
        with builder.if_then(raised, likely=False):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return types.none(), lowering


def _call(builder: Any, name: str, returns: Any, *values: Any) -> Any:
    kind = ir.FunctionType(returns, [v.type for v in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


@intrinsic
def nanoseconds(typing):  # type: ignore[no-untyped-def]
    """A clock that never goes back; zero where the system has none that is cheap to read."""

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        if _CLOCK is None:
            return ir.Constant(word, 0)
        moment = cgutils.alloca_once(builder, ir.ArrayType(word, 2))
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32), moment.type])
        clock = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(clock, [ir.Constant(ir.IntType(32), _CLOCK), moment])
        seconds, rest = (builder.extract_value(builder.load(moment), n) for n in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(word, 1_000_000_000)), rest)

    return types.int64(), lowering
