"""The gamma function and its family: logarithm, derivatives, beta, incomplete gamma and beta, their inverses.

Also the distributions that these are: Student's t, chi-square, gamma, Poisson.
"""

from __future__ import annotations

import math

from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, floor, reciprocal, remainder, sqrt, square, subtract
from tracejit.ops.elementwise import add, mul, neg, select
from tracejit.ops.logic import equal, less
from tracejit.ops.power import power
from tracejit.ops.special import OPEN, POSITIVE, PROBABILITY, Special, xlog1py, xlogy
from tracejit.ops.transcendental import cos, exp, log1p

__all__ = ["polygamma", "riemann_zeta", "zeta"]

_SHAPE = ((0.5, 3.0),)

zeta: Special = Special(
    "zeta",
    OPEN,
    lambda y, s, q: neg(mul(s, zeta(add(s, 1), q))),
    ufunc="_zeta",
    domain=((1.5, 4.0), (0.3, 3.0)),
)
zetac = Special("zetac", OPEN, domain=((1.5, 4.0),))
psi = Special("psi", lambda y, x: zeta(2, x), domain=POSITIVE)
gamma = Special("gamma", lambda y, x: mul(y, psi(x)), domain=POSITIVE)
gammaln = Special("gammaln", lambda y, x: psi(x), domain=POSITIVE)
loggamma = Special("loggamma", lambda y, x: psi(x), domain=POSITIVE)
gammasgn = Special("gammasgn", None, domain=POSITIVE)


def riemann_zeta(x: Atom) -> Atom:
    """Return ``scipy.special.zeta(x)``."""
    return select(less(x, 1), add(1, zetac(x)), zeta(x, 1))


def polygamma(n: Atom, x: Atom) -> Atom:
    """Return the derivative number ``n`` (a whole number) of `psi`."""
    order = add(n, 1.0)
    sign = subtract(mul(2.0, remainder(n, 2)), 1)
    higher = mul(mul(sign, gamma(order)), zeta(order, x))
    return select(equal(n, 0), psi(x), higher)


def _rgamma_slope(y: Atom, x: Atom) -> Atom:
    """By reflection on the left, where ``psi`` has poles at the zeros of ``y``."""
    other, angle = subtract(1, x), mul(math.pi, x)
    left = subtract(mul(cos(angle), gamma(other)), mul(y, psi(other)))
    return select(less(x, 0.5), left, neg(mul(y, psi(x))))


rgamma = Special("rgamma", _rgamma_slope, domain=((-1.7, 3.0),))
poch = Special(
    "poch",
    lambda y, z, m: mul(y, subtract(psi(add(z, m)), psi(z))),
    lambda y, z, m: mul(y, psi(add(z, m))),
    domain=POSITIVE * 2,
)
binom = Special(
    "binom",
    lambda y, n, k: mul(y, subtract(psi(add(n, 1)), psi(add(subtract(n, k), 1)))),
    lambda y, n, k: mul(y, subtract(psi(add(subtract(n, k), 1)), psi(add(k, 1)))),
    domain=((2.5, 4.0), (0.3, 2.0)),
)
beta = Special(
    "beta",
    lambda y, a, b: mul(y, subtract(psi(a), psi(add(a, b)))),
    lambda y, a, b: mul(y, subtract(psi(b), psi(add(a, b)))),
    domain=POSITIVE * 2,
)
betaln = Special(
    "betaln",
    lambda y, a, b: subtract(psi(a), psi(add(a, b))),
    lambda y, a, b: subtract(psi(b), psi(add(a, b))),
    domain=POSITIVE * 2,
)


# --- incomplete functions: the derivative in the last argument is a density ---------------------------------


def _gamma_density(a: Atom, x: Atom) -> Atom:
    return exp(subtract(subtract(xlogy(subtract(a, 1), x), x), gammaln(a)))


def _beta_density(a: Atom, b: Atom, x: Atom) -> Atom:
    powers = add(xlogy(subtract(a, 1), x), xlog1py(subtract(b, 1), neg(x)))
    return exp(subtract(powers, betaln(a, b)))


def _student_density(df: Atom, t: Atom) -> Atom:
    half = mul(0.5, df)
    tail = mul(add(half, 0.5), log1p(divide(square(t), df)))
    return divide(exp(neg(add(betaln(half, 0.5), tail))), sqrt(df))


gammainc = Special("gammainc", OPEN, lambda y, a, x: _gamma_density(a, x), domain=(*_SHAPE, *POSITIVE))
gammaincc = Special("gammaincc", OPEN, lambda y, a, x: neg(_gamma_density(a, x)), domain=(*_SHAPE, *POSITIVE))
gammaincinv = Special(
    "gammaincinv", OPEN, lambda x, a, p: reciprocal(_gamma_density(a, x)), domain=(*_SHAPE, *PROBABILITY)
)
gammainccinv = Special(
    "gammainccinv", OPEN, lambda x, a, p: divide(-1, _gamma_density(a, x)), domain=(*_SHAPE, *PROBABILITY)
)
_UNIT = (*_SHAPE, *_SHAPE, *PROBABILITY)
betainc = Special("betainc", OPEN, OPEN, lambda y, a, b, x: _beta_density(a, b, x), domain=_UNIT)
betaincc = Special("betaincc", OPEN, OPEN, lambda y, a, b, x: neg(_beta_density(a, b, x)), domain=_UNIT)
betaincinv = Special(
    "betaincinv", OPEN, OPEN, lambda x, a, b, p: reciprocal(_beta_density(a, b, x)), domain=_UNIT
)
betainccinv = Special(
    "betainccinv", OPEN, OPEN, lambda x, a, b, p: divide(-1, _beta_density(a, b, x)), domain=_UNIT
)
stdtr = Special("stdtr", OPEN, lambda y, df, t: _student_density(df, t), domain=(*_SHAPE, (-2.0, 2.0)))
stdtrit = Special(
    "stdtrit", OPEN, lambda t, df, p: reciprocal(_student_density(df, t)), domain=(*_SHAPE, *PROBABILITY)
)


def _half_gamma_density(v: Atom, x: Atom) -> Atom:
    return mul(0.5, _gamma_density(mul(0.5, v), mul(0.5, x)))


chdtr = Special("chdtr", OPEN, lambda y, v, x: _half_gamma_density(v, x), domain=(*_SHAPE, *POSITIVE))
chdtrc = Special("chdtrc", OPEN, lambda y, v, x: neg(_half_gamma_density(v, x)), domain=(*_SHAPE, *POSITIVE))


def _rate(a: Atom, b: Atom, x: Atom) -> Atom:
    """``x`` times the slope of ``gammainc(b, a*x)`` in its last argument."""
    return mul(x, _gamma_density(b, mul(a, x)))


_GAMMA = (*POSITIVE, *_SHAPE, *POSITIVE)
gdtr = Special(
    "gdtr", lambda y, a, b, x: _rate(a, b, x), OPEN, lambda y, a, b, x: _rate(x, b, a), domain=_GAMMA
)
gdtrc = Special(
    "gdtrc",
    lambda y, a, b, x: neg(_rate(a, b, x)),
    OPEN,
    lambda y, a, b, x: neg(_rate(x, b, a)),
    domain=_GAMMA,
)


def _poisson_slope(y: Atom, k: Atom, m: Atom) -> Atom:
    """``-m**k exp(-m) / k!`` with ``k`` rounded down, as the distribution does."""
    return neg(_gamma_density(add(floor(k), 1), m))


pdtr = Special("pdtr", None, _poisson_slope, domain=((0.2, 4.0), (0.5, 3.0)))
pdtrc = Special("pdtrc", None, lambda y, k, m: neg(_poisson_slope(y, k, m)), domain=((0.2, 4.0), (0.5, 3.0)))

powm1 = Special(
    "powm1",
    lambda r, x, p: mul(p, power(x, subtract(p, 1))),
    lambda r, x, p: xlogy(power(x, p), x),
    domain=(*POSITIVE, (-2.0, 2.0)),
)
