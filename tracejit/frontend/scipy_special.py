"""``scipy.special``: ufuncs by name, and the Python functions that scipy writes with them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.frontend.by_name import UFUNCS_BY_NAME, replaces
from tracejit.frontend.concrete import guard
from tracejit.frontend.numpy_shapes import raveled
from tracejit.frontend.reducing import given, reduced_axes, strong
from tracejit.frontend.registry import implements, operand, unsupported
from tracejit.ir.tape import Atom
from tracejit.ops import arithmetic, special_bessel, special_integrals, special_sums, transcendental
from tracejit.ops.base import REGISTRY
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, squeeze
from tracejit.ops.elementwise import Elementwise, add, common_dtype, select
from tracejit.ops.logic import less_equal
from tracejit.ops.reduction import reduce_any
from tracejit.ops.special import Special, scipy_ufunc
from tracejit.ops.special_gamma import gammaln, polygamma, riemann_zeta
from tracejit.ops.special_values import PARTS

__all__ = ["UFUNC_PARTS"]

_MODULE = "scipy.special"
_UFUNCS_MODULE = "scipy.special._ufuncs"


def _together(*ops: Special) -> Callable[..., tuple[Atom, ...]]:
    return lambda *operands: tuple(op(*operands) for op in ops)


def _alias(name: str, op: Elementwise) -> Callable[..., Atom]:
    """NumPy's function under scipy's name, with scipy's dtypes."""

    def meaning(x: Atom) -> Atom:
        if x.dtype.kind == "c":
            return op(x)
        dtype = scipy_ufunc(name).resolve_dtypes((x.aval.promotion, None))[0]
        return op(convert(x, dtype=dtype))

    return meaning


UFUNC_PARTS: dict[str, tuple[Special, ...]] = {
    "airy": (
        special_bessel.airy_ai,
        special_bessel.airy_aip,
        special_bessel.airy_bi,
        special_bessel.airy_bip,
    ),
    "sici": (special_integrals.sici_si, special_integrals.sici_ci),
    "shichi": (special_integrals.shichi_shi, special_integrals.shichi_chi),
    "fresnel": (special_integrals.fresnel_s, special_integrals.fresnel_c),
    "ellipj": tuple(special_integrals.JACOBI),
    **PARTS,
}
"""Ufuncs with several results: one op for each."""

_ALIASES = {
    "cbrt": arithmetic.cbrt,
    "exp2": transcendental.exp2,
    "expit": transcendental.expit,
    "expm1": transcendental.expm1,
    "log1p": transcendental.log1p,
    "round": arithmetic.rint,
}

UFUNCS_BY_NAME[_UFUNCS_MODULE] = {
    **{op.ufunc: op for op in REGISTRY.values() if isinstance(op, Special) and op.part is None},
    **{name: _together(*ops) for name, ops in UFUNC_PARTS.items()},
    **{name: _alias(name, op) for name, op in _ALIASES.items()},
    "_riemann_zeta": riemann_zeta,
}
UFUNCS_BY_NAME[_MODULE] = {
    name: UFUNCS_BY_NAME[_UFUNCS_MODULE][original]
    for name, original in {"digamma": "psi", "jn": "jv"}.items()
}


# --- functions without a door -------------------------------------------------------------------------------


@replaces(_MODULE, "polygamma")
def _polygamma(n: Any, x: Any) -> Atom:
    return polygamma(strong(n), strong(x))


@replaces(_MODULE, "multigammaln")
def _multigammaln(a: Any, d: Any) -> Atom:
    x, count = operand(a), operator.index(d)
    outside = less_equal(x, 0.5 * (count - 1))
    if guard(reduce_any(outside, axes=tuple(range(len(x.shape))))):
        raise ValueError(f"condition a > 0.5 * (d-1) ({0.5 * (count - 1)}) not met")
    total: Atom = add(operand(count * (count - 1) * 0.25 * math.log(math.pi)), gammaln(x))
    for k in range(1, count):
        total = add(total, gammaln(arithmetic.subtract(x, 0.5 * k)))
    return total


def _floating(x: Any, name: str) -> Atom:
    value = operand(x)
    if value.dtype.kind == "c":
        raise unsupported(
            f"`scipy.special.{name}` of complex numbers", "Write it with `np.exp` and `np.log`."
        )
    value = convert(value, dtype=value.dtype if value.dtype.kind == "f" else np.float64)
    return value if value.shape else raveled(value)


@replaces(_MODULE, "logsumexp")
def _logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: Any = False, return_sign: Any = False
) -> Any:
    x, weights = _floating(a, "logsumexp"), None if b is None else _floating(b, "logsumexp")
    if weights is not None:
        dtype = common_dtype([x.aval, weights.aval])
        shape = broadcast_shapes(x.shape, weights.shape, what="logsumexp")
        x, weights = (broadcast_to(convert(v, dtype=dtype), shape) for v in (x, weights))
    axes = reduced_axes(axis, len(x.shape))
    size, sign = special_sums.logsumexp(x, weights, axes)
    if not given(keepdims) or not keepdims:
        size, sign = squeeze(size, axes=axes), squeeze(sign, axes=axes)
    if return_sign:
        return size, sign
    return size if weights is None else select(less_equal(sign, -0.5), math.nan, size)


@replaces(_MODULE, "softmax")
def _softmax(x: Any, axis: Any = None) -> Atom:
    return _rows(special_sums.softmax, x, axis, "softmax")


@replaces(_MODULE, "log_softmax")
def _log_softmax(x: Any, axis: Any = None) -> Atom:
    return _rows(special_sums.log_softmax, x, axis, "log_softmax")


def _rows(function: Callable[..., Atom], x: Any, axis: Any, name: str) -> Atom:
    scalar = not operand(x).shape
    value = _floating(x, name)
    result = function(value, reduced_axes(axis, len(value.shape)))
    return squeeze(result, axes=(0,)) if scalar else result


@implements(np.i0)
def _i0(x: Any) -> Atom:
    value = operand(x)
    if value.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    value = convert(value, dtype=value.dtype if value.dtype.kind == "f" else np.float64)
    return special_bessel.i0(value)
