"""Complex functions under the names of the real ones, one element at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np import ufunc_db

from .calls import c_call, constant
from .define import Lowering

# Numba has NumPy's algorithms for these, written for one element.
_UFUNCS = (
    "arccos arccosh arcsin arcsinh arctan arctanh cos cosh divide exp exp2 expm1 isfinite isinf isnan log "
    "log10 log1p log2 power reciprocal rint sin sinh sqrt square tan tanh"
)


def lowerings() -> dict[str, Lowering]:
    """NumPy's name -> lowering for complex64 and complex128."""
    table = {name: _ufunc_loop(getattr(np, name)) for name in _UFUNCS.split()}
    return table | {"power": _power(table["power"])}


def _ufunc_loop(ufunc: np.ufunc) -> Lowering:
    loops = ufunc_db.get_ufunc_info(ufunc)
    return next(loops[key] for key in loops if set(key.split("->")[0]) == {"D"})


def _power(general: Lowering) -> Lowering:
    """A power of 0 is 0 where the exponent has a positive real part, which Numba only knows of real ones."""

    def lowering(context: Any, b: Any, signature: Any, values: Any) -> Any:
        base, exponent = (parts(context, b, k, v) for k, v in zip(signature.args, values, strict=True))
        zero = constant(base[0], 0.0)
        vanishes = [b.fcmp_ordered("==", part, zero) for part in base]
        chosen = b.and_(b.and_(*vanishes), b.fcmp_ordered(">", exponent[0], zero))
        result = parts(context, b, signature.return_type, general(context, b, signature, values))
        return build(context, b, signature.return_type, *(b.select(chosen, zero, part) for part in result))

    return lowering


def absolute(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return c_call(b, context, "hypot", *parts(context, b, signature.args[0], values[0]))


def angle(context: Any, b: Any, signature: Any, values: Any) -> Any:
    real, imaginary = parts(context, b, signature.args[0], values[0])
    return c_call(b, context, "atan2", imaginary, real)


def conjugate(context: Any, b: Any, signature: Any, values: Any) -> Any:
    real, imaginary = parts(context, b, signature.args[0], values[0])
    return build(context, b, signature.args[0], real, b.fneg(imaginary))


def real(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return parts(context, b, signature.args[0], values[0])[0]


def imag(context: Any, b: Any, signature: Any, values: Any) -> Any:
    return parts(context, b, signature.args[0], values[0])[1]


def parts(context: Any, b: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """Real and imaginary part."""
    number = context.make_complex(b, kind, value=value)
    return number.real, number.imag


def build(context: Any, b: Any, kind: Any, real: Any, imaginary: Any) -> Any:
    """A complex number of two parts."""
    number = context.make_complex(b, kind)
    number.real, number.imag = real, imaginary
    return number._getvalue()


def multiply(context: Any, b: Any, kind: Any, x: Any, y: Any) -> Any:
    """The textbook product, as NumPy's."""
    (a, c), (d, e) = parts(context, b, kind, x), parts(context, b, kind, y)
    real = b.fsub(b.fmul(a, d), b.fmul(c, e))
    imaginary = b.fadd(b.fmul(a, e), b.fmul(c, d))
    return build(context, b, kind, real, imaginary)
