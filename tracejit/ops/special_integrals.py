"""Exponential, trigonometric, Fresnel and elliptic integrals, hypergeometric functions, polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, reciprocal, sqrt, square, subtract
from tracejit.ops.complex_parts import fabs
from tracejit.ops.elementwise import add, mul, neg, select
from tracejit.ops.extrema import clip, maximum
from tracejit.ops.logic import equal, less, less_equal
from tracejit.ops.power import power
from tracejit.ops.sinc import sinc
from tracejit.ops.special import OPEN, POSITIVE, REAL_LINE, Special, erf, horner
from tracejit.ops.transcendental import cos, cosh, exp, log, log1p, sin, sinh

__all__ = ["JACOBI"]

_CLOSE = ((-0.7, 0.7),)


def _series_near_zero(x: Atom, radius: float, coefficients: list[float], otherwise: Atom) -> Atom:
    """A quotient whose numerator vanishes with ``x``: its derivatives at 0 are those of the series."""
    return select(less(fabs(x), radius), horner(x, coefficients), otherwise)


# --- exponential integrals ----------------------------------------------------------------------------------


def _sinhc(x: Atom) -> Atom:
    coefficients = [0.0 if k % 2 else 1 / math.factorial(k + 1) for k in range(19)]
    return _series_near_zero(x, 1.0, coefficients, divide(sinh(x), x))


def _expn_slope(y: Atom, n: Atom, x: Atom) -> Atom:
    """``-expn(n - 1, x)``; the order below 0 is not scipy's."""
    below_zero = mul(mul(exp(neg(x)), reciprocal(x)), add(1, reciprocal(x)))
    return neg(select(equal(n, 0), below_zero, expn(maximum(subtract(n, 1), 0), x)))


expi = Special("expi", lambda y, x: divide(exp(x), x), domain=POSITIVE)
exp1 = Special("exp1", lambda y, x: neg(divide(exp(neg(x)), x)), domain=POSITIVE)
expn: Special = Special("expn", None, _expn_slope, domain=((2.0, 2.0), *POSITIVE))
sici_si = Special("sici_si", lambda y, x: sinc(mul(1 / math.pi, x)), ufunc="sici", part=0, domain=REAL_LINE)
sici_ci = Special("sici_ci", lambda y, x: divide(cos(x), x), ufunc="sici", part=1, domain=POSITIVE)
shichi_shi = Special("shichi_shi", lambda y, x: _sinhc(x), ufunc="shichi", part=0, domain=REAL_LINE)
shichi_chi = Special("shichi_chi", lambda y, x: divide(cosh(x), x), ufunc="shichi", part=1, domain=POSITIVE)
fresnel_s = Special(
    "fresnel_s", lambda y, x: sin(mul(math.pi / 2, square(x))), ufunc="fresnel", part=0, taints=False
)
fresnel_c = Special(
    "fresnel_c", lambda y, x: cos(mul(math.pi / 2, square(x))), ufunc="fresnel", part=1, taints=False
)


def _exprel_slope(y: Atom, x: Atom) -> Atom:
    coefficients = [(k + 1) / math.factorial(k + 2) for k in range(18)]
    return _series_near_zero(x, 1.0, coefficients, divide(subtract(exp(x), y), x))


def _log1p_ratio(w: Atom) -> Atom:
    """``log1p(w)/w``."""
    coefficients = [(-1.0) ** k / (k + 1) for k in range(18)]
    return _series_near_zero(w, 0.1, coefficients, divide(log1p(w), w))


exprel = Special("exprel", _exprel_slope, domain=REAL_LINE)
spence = Special("spence", lambda y, z: neg(_log1p_ratio(subtract(z, 1))), domain=POSITIVE)
cosm1 = Special("cosm1", lambda y, x: neg(sin(x)), taints=False, cost=25)
wrightomega = Special("wrightomega", lambda y, x: divide(y, add(1, y)), domain=REAL_LINE)

_DEGREE = math.pi / 180
sindg: Special = Special("sindg", lambda y, x: mul(_DEGREE, cosdg(x)), taints=False, domain=((-90.0, 90.0),))
cosdg: Special = Special("cosdg", lambda y, x: mul(-_DEGREE, sindg(x)), taints=False, domain=((-90.0, 90.0),))
tandg = Special("tandg", lambda y, x: mul(_DEGREE, add(1, square(y))), domain=((-40.0, 40.0),))
cotdg = Special("cotdg", lambda y, x: mul(-_DEGREE, add(1, square(y))), domain=((40.0, 80.0),))
radian = Special(
    "radian", *(lambda r, d, m, s, c=c: c for c in (_DEGREE, _DEGREE / 60, _DEGREE / 3600)), taints=False
)

# --- transformations of data, losses ------------------------------------------------------------------------


def _in_exponent(x: Atom, exponent: Atom) -> Atom:
    """The derivative of ``(exp(exponent*x) - 1)/exponent`` in the exponent."""
    product = mul(exponent, x)
    return mul(square(x), _exprel_slope(exprel(product), product))


def _in_inverse_exponent(y: Atom, exponent: Atom) -> Atom:
    """The derivative of ``log1p(exponent*y)/exponent`` in the exponent."""
    product = mul(exponent, y)
    coefficients = [(-1.0) ** (k + 1) * (k + 1) / (k + 2) for k in range(18)]
    quotient = divide(subtract(reciprocal(add(1, product)), _log1p_ratio(product)), product)
    return mul(square(y), _series_near_zero(product, 0.1, coefficients, quotient))


boxcox = Special(
    "boxcox",
    lambda y, x, p: power(x, subtract(p, 1)),
    lambda y, x, p: _in_exponent(log(x), p),
    domain=(*POSITIVE, *REAL_LINE),
)
boxcox1p = Special(
    "boxcox1p",
    lambda y, x, p: power(add(1, x), subtract(p, 1)),
    lambda y, x, p: _in_exponent(log1p(x), p),
    domain=(*POSITIVE, *REAL_LINE),
)
inv_boxcox = Special(
    "inv_boxcox",
    lambda x, y, p: power(x, subtract(1, p)),
    lambda x, y, p: mul(x, _in_inverse_exponent(y, p)),
    domain=(*POSITIVE, *POSITIVE),
)
inv_boxcox1p = Special(
    "inv_boxcox1p",
    lambda x, y, p: power(add(1, x), subtract(1, p)),
    lambda x, y, p: mul(add(1, x), _in_inverse_exponent(y, p)),
    domain=(*POSITIVE, *POSITIVE),
)
huber = Special(
    "huber",
    lambda y, delta, r: select(less_equal(fabs(r), delta), 0.0, subtract(fabs(r), delta)),
    lambda y, delta, r: clip(r, neg(delta), delta),
    cost=5,
    domain=((0.4, 0.5), (0.6, 2.0)),
)


def _pseudo_huber_in_delta(y: Atom, delta: Atom, r: Atom) -> Atom:
    q_squared = square(divide(r, delta))
    root = sqrt(add(1, q_squared))
    return divide(mul(delta, square(q_squared)), mul(root, square(add(1, root))))


pseudo_huber = Special(
    "pseudo_huber",
    _pseudo_huber_in_delta,
    lambda y, delta, r: divide(r, sqrt(add(1, square(divide(r, delta))))),
    cost=25,
    domain=((0.4, 2.0), *REAL_LINE),
)


def _owens_in_h(y: Atom, h: Atom, a: Atom) -> Atom:
    scale = -0.5 / math.sqrt(2 * math.pi)
    return mul(mul(scale, exp(mul(-0.5, square(h)))), erf(mul(math.sqrt(0.5), mul(a, h))))


def _owens_in_a(y: Atom, h: Atom, a: Atom) -> Atom:
    one_more = add(1, square(a))
    return divide(exp(mul(-0.5, mul(square(h), one_more))), mul(2 * math.pi, one_more))


owens_t = Special("owens_t", _owens_in_h, _owens_in_a, taints=False, domain=REAL_LINE * 2)

# --- hypergeometric functions and elliptic integrals --------------------------------------------------------

hyp0f1: Special = Special(
    "hyp0f1", OPEN, lambda y, v, z: divide(hyp0f1(add(v, 1), z), v), domain=POSITIVE * 2
)
hyp1f1: Special = Special(
    "hyp1f1",
    OPEN,
    OPEN,
    lambda y, a, b, x: mul(divide(a, b), hyp1f1(add(a, 1), add(b, 1), x)),
    domain=(*POSITIVE, *POSITIVE, *REAL_LINE),
)
hyp2f1: Special = Special(
    "hyp2f1",
    OPEN,
    OPEN,
    OPEN,
    lambda y, a, b, c, z: mul(divide(mul(a, b), c), hyp2f1(add(a, 1), add(b, 1), add(c, 1), z)),
    domain=(*POSITIVE, *POSITIVE, *POSITIVE, *_CLOSE),
)
hyperu: Special = Special(
    "hyperu",
    OPEN,
    OPEN,
    lambda y, a, b, x: neg(mul(a, hyperu(add(a, 1), add(b, 1), x))),
    domain=POSITIVE * 3,
)


# The usual formulas divide a difference by the parameter, which cancels near 0.
def _slope_of_k(m: Atom, complement: Atom) -> Atom:
    return mul(math.pi / 8, divide(hyp2f1(0.5, 0.5, 2.0, m), complement))


ellipk = Special("ellipk", lambda y, m: _slope_of_k(m, subtract(1, m)), domain=_CLOSE)
ellipkm1 = Special("ellipkm1", lambda y, p: neg(_slope_of_k(subtract(1, p), p)), domain=((0.3, 1.5),))
ellipe = Special("ellipe", lambda y, m: mul(-math.pi / 8, hyp2f1(0.5, 1.5, 2.0, m)), domain=_CLOSE)


def _elliptic_root(phi: Atom, m: Atom) -> Atom:
    return sqrt(subtract(1, mul(m, square(sin(phi)))))


ellipkinc = Special(
    "ellipkinc",
    lambda y, phi, m: reciprocal(_elliptic_root(phi, m)),
    OPEN,
    domain=(*REAL_LINE, *_CLOSE),
)
ellipeinc = Special("ellipeinc", lambda y, phi, m: _elliptic_root(phi, m), OPEN, domain=(*REAL_LINE, *_CLOSE))


def _jacobi_slope(first: int, second: int, factor: Callable[[Atom], Any]) -> Callable[..., Atom]:
    return lambda y, u, m: mul(factor(m), mul(JACOBI[first](u, m), JACOBI[second](u, m)))


JACOBI: list[Special] = [
    Special(f"ellipj_{name}", partial, OPEN, ufunc="ellipj", part=part, domain=(*REAL_LINE, (0.1, 0.8)))
    for part, (name, partial) in enumerate(
        [
            ("sn", _jacobi_slope(1, 2, lambda m: 1.0)),
            ("cn", _jacobi_slope(0, 2, lambda m: -1.0)),
            ("dn", _jacobi_slope(0, 1, neg)),
            ("ph", lambda y, u, m: JACOBI[2](u, m)),
        ]
    )
]

# --- orthogonal polynomials: each slope is a polynomial of one degree less -----------------------------------


def _lower(op: Special, n: Atom, *rest: Any) -> Atom:
    """The polynomial of degree ``n - 1``, and 0 where there is none."""
    there = op(maximum(subtract(n, 1), 0), *rest)
    return select(equal(n, 0), 0.0, there)


_DEGREE_RANGE = (3.0, 3.0)
eval_gegenbauer: Special = Special(
    "eval_gegenbauer",
    None,
    OPEN,
    lambda y, n, a, x: mul(mul(2, a), _lower(eval_gegenbauer, n, add(a, 1), x)),
    domain=(_DEGREE_RANGE, (0.6, 2.0), *REAL_LINE),
)
eval_genlaguerre: Special = Special(
    "eval_genlaguerre",
    None,
    OPEN,
    lambda y, n, a, x: neg(_lower(eval_genlaguerre, n, add(a, 1), x)),
    domain=(_DEGREE_RANGE, (0.6, 2.0), *REAL_LINE),
)
eval_jacobi: Special = Special(
    "eval_jacobi",
    None,
    OPEN,
    OPEN,
    lambda y, n, a, b, x: mul(
        mul(0.5, add(add(n, 1.0), add(a, b))), _lower(eval_jacobi, n, add(a, 1), add(b, 1), x)
    ),
    domain=(_DEGREE_RANGE, (0.6, 2.0), (0.6, 2.0), *REAL_LINE),
)
_POLYNOMIAL = (_DEGREE_RANGE, *REAL_LINE)
eval_legendre = Special(
    "eval_legendre", None, lambda y, n, x: _lower(eval_gegenbauer, n, 1.5, x), domain=_POLYNOMIAL
)
eval_laguerre = Special(
    "eval_laguerre", None, lambda y, n, x: neg(_lower(eval_genlaguerre, n, 1.0, x)), domain=_POLYNOMIAL
)
eval_chebyu = Special(
    "eval_chebyu", None, lambda y, n, x: mul(2, _lower(eval_gegenbauer, n, 2.0, x)), domain=_POLYNOMIAL
)
eval_chebyt = Special(
    "eval_chebyt", None, lambda y, n, x: mul(n, _lower(eval_chebyu, n, x)), domain=_POLYNOMIAL
)
eval_hermite: Special = Special(
    "eval_hermite", None, lambda y, n, x: mul(mul(2, n), _lower(eval_hermite, n, x)), domain=_POLYNOMIAL
)
eval_hermitenorm: Special = Special(
    "eval_hermitenorm", None, lambda y, n, x: mul(n, _lower(eval_hermitenorm, n, x)), domain=_POLYNOMIAL
)
