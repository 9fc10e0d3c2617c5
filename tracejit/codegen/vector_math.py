"""The names that a generated source calls, for any kind of number: ``exp`` takes float32 to complex128.

Real functions keep float32 and float64, are vectorised with the loop around them, and stay within 4 ulp of
the exact value (measured over all exponents, subnormal numbers included).  Importing this module imports
numba; only `tracejit.runtime.compile` does, when something is compiled.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .intrinsics import (
    accumulate,
    fortran,
    integer,
    libm,
    memory,
    pairwise,
    parts,
    real,
    signals,
    special,
    workspace,
)
from .intrinsics import complex as complex_
from .intrinsics.calls import c_call, constant, llvm_call
from .intrinsics.define import (
    Deferred,
    Kinds,
    Lowering,
    Names,
    as_boolean,
    binary,
    on_values,
    real_part,
    unary,
)

libm.bind_symbols()

_COMPLEX = complex_.lowerings()


def _c(name: str) -> Lowering:
    """A call of the C function ``name``."""

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return c_call(builder, context, name, *values)

    return lowering


def _llvm(name: str) -> Lowering:
    """One of LLVM's own functions, which is one instruction in the machine code."""
    return on_values(lambda builder, *values: llvm_call(builder, name, *values))


def _with_context(text: Any) -> Lowering:
    return lambda context, builder, signature, values: text(context, builder, *values)


def _power(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """``1 ** nan`` is 1, which libmvec's powf does not know."""
    base, _ = values
    one = constant(base, 1.0)
    result = c_call(builder, context, "pow", *values)
    return builder.select(builder.fcmp_ordered("==", base, one), one, result)


def _elementary() -> dict[str, Any]:
    """What libm computes."""
    table = {name: unary(Kinds(_c(c_name), None, _COMPLEX.get(name))) for name, c_name in libm.UNARY.items()}
    table |= {name: binary(Kinds(_c(c_name))) for name, c_name in libm.BINARY.items() if name != "power"}
    table["power"] = binary(Kinds(_power, integer.power, _COMPLEX["power"]))
    table["sqrt"] = unary(Kinds(_llvm("sqrt"), None, _COMPLEX["sqrt"]))
    table["float_power"] = binary(Kinds(_power, None, _COMPLEX["power"], widest=True))
    table["logaddexp"] = binary(Kinds(_with_context(real.logaddexp)))
    table["logaddexp2"] = binary(Kinds(_with_context(real.logaddexp2)))
    table["spacing"] = unary(Kinds(_with_context(real.spacing)))
    return table


def _predicates() -> dict[str, Any]:
    return {
        "isnan": unary(Kinds(on_values(real.is_nan), integer.false, _COMPLEX["isnan"], as_boolean)),
        "isinf": unary(Kinds(on_values(real.is_inf), integer.false, _COMPLEX["isinf"], as_boolean)),
        "isfinite": unary(Kinds(on_values(real.is_finite), integer.true, _COMPLEX["isfinite"], as_boolean)),
        "signbit": unary(Kinds(on_values(real.sign_bit), integer.sign_bit, None, as_boolean)),
    }


def _rounding() -> dict[str, Any]:
    table = {name: unary(Kinds(_llvm(name), integer.unchanged)) for name in ("floor", "ceil", "trunc")}
    table["rint"] = unary(Kinds(_llvm("rint"), None, _COMPLEX["rint"]))
    return table


def _arithmetic() -> dict[str, Any]:
    """What NumPy defines in a few instructions."""
    two_integers = {
        name: getattr(integer, name) for name in ("maximum", "minimum", "floor_divide", "remainder")
    }
    two_integers |= {"fmax": integer.maximum, "fmin": integer.minimum, "heaviside": None}
    table = {name: binary(Kinds(on_values(getattr(real, name)), two)) for name, two in two_integers.items()}
    table |= {
        "fmod": binary(Kinds(on_values(lambda b, x, y: b.frem(x, y)), integer.fmod)),
        "copysign": binary(Kinds(_llvm("copysign"))),
        "divide": binary(Kinds(on_values(lambda b, x, y: b.fdiv(x, y)), None, _COMPLEX["divide"])),
        "absolute": unary(Kinds(_llvm("fabs"), integer.absolute, complex_.absolute, real_part)),
        "fabs": unary(Kinds(_llvm("fabs"))),
        "sign": unary(Kinds(on_values(real.sign), integer.sign)),
        "square": unary(Kinds(on_values(real.square), integer.square, _COMPLEX["square"])),
        "reciprocal": unary(Kinds(on_values(real.reciprocal), integer.reciprocal, _COMPLEX["reciprocal"])),
        "radians": unary(Kinds(on_values(real.radians))),
        "degrees": unary(Kinds(on_values(real.degrees))),
    }
    return table | {"deg2rad": table["radians"], "rad2deg": table["degrees"]}


def _complex_parts() -> dict[str, Any]:
    unchanged = integer.unchanged
    zero = on_values(lambda b, x: constant(x, 0))
    pi_where_negative: Lowering = lambda context, b, signature, values: c_call(  # noqa: E731
        b, context, "atan2", constant(values[0], 0.0), values[0]
    )
    return {
        "conjugate": unary(Kinds(unchanged, unchanged, complex_.conjugate)),
        "real": unary(Kinds(unchanged, unchanged, complex_.real, real_part)),
        "imag": unary(Kinds(zero, zero, complex_.imag, real_part)),
        "angle": unary(Kinds(pi_where_negative, None, complex_.angle, real_part)),
    }


def _accumulators() -> dict[str, Any]:
    names = (
        "add_reassoc mul_reassoc max_accumulate min_accumulate fmax_accumulate fmin_accumulate "
        "absorb_mul where wide_vectors"
    )
    return {name: getattr(accumulate, name) for name in names.split()}


def _transforms() -> dict[str, Any]:
    """Rocket-fft's functions; importing it imports scipy.fft, which takes as long as a compilation."""

    def found(name: str) -> Any:
        return getattr(importlib.import_module("rocket_fft.lowlevel"), name)

    return {name: Deferred(functools.partial(found, name)) for name in ("c2c", "c2c_sym", "r2c", "c2r")}


_WORKSPACE = "back grown in_room mark placed room_for scratch workspace"

NAMESPACE = Names(
    {
        **_elementary(),
        **_predicates(),
        **_rounding(),
        **_arithmetic(),
        **_complex_parts(),
        **_accumulators(),
        **parts.NAMES,
        **special.NAMES,
        **_transforms(),
        "distinct": memory.distinct,
        "fortran": fortran.fortran,
        "matmul": fortran.matmul,
        "load": memory.load,
        "nanoseconds": signals.nanoseconds,
        "stop_if_interrupted": signals.stop_if_interrupted,
        "store": memory.store,
        "unit_stride": memory.unit_stride,
        **{name: getattr(workspace, name) for name in _WORKSPACE.split()},
        "pairwise_push": pairwise.pairwise_push,
        "pairwise_stack": pairwise.pairwise_stack,
        "pairwise_total": pairwise.pairwise_total,
    }
)
