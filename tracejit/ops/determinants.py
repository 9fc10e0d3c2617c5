"""Determinants and pseudo-inverses: values computed by other ops, with derivatives that do not follow theirs.

An op here takes the matrix and the finished value, and states the derivative.  By `cofactors` and
`cofactors_along` the first two derivatives of a determinant are exact for singular matrices of any rank.
Those beyond hold for regular matrices, and are NaN for singular ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import prod
from tracejit.ir.tape import Atom
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.base import Opaque
from tracejit.ops.broadcasting import broadcast, convert, expand_dims, reduce_sum
from tracejit.ops.complex_parts import absolute, conjugate, imag, real
from tracejit.ops.elementwise import absorb_mul, accumulate, add, constant, mul, neg, select
from tracejit.ops.indexing import INDEX
from tracejit.ops.linear import iota
from tracejit.ops.logic import bitwise_and, equal, not_equal
from tracejit.ops.matrices import (
    diagonal_of,
    hermitian,
    identity,
    lifted,
    matmul,
    on_diagonal,
    scale_columns,
    swap,
    trace_of,
)
from tracejit.ops.reduction import product_of_others, reduce_prod
from tracejit.ops.singular import svd
from tracejit.ops.solving import factor, inverse
from tracejit.ops.transcendental import log

__all__ = ["determinant_of", "frozen", "parity", "pseudo_inverse", "slogdet_of"]

Kernel = tuple[Callable[..., None], tuple[Any, ...]]


def _hand_on(value, target, size):  # type: ignore[no-untyped-def]
    for i in range(size):
        target.reshape(-1)[i] = value.reshape(-1)[i]


def _hand_on_second(_, value, target, size):  # type: ignore[no-untyped-def]
    for i in range(size):
        target.reshape(-1)[i] = value.reshape(-1)[i]


def _hand_on_third(_, other, value, target, size):  # type: ignore[no-untyped-def]
    for i in range(size):
        target.reshape(-1)[i] = value.reshape(-1)[i]


_COPIES: dict[int, Callable[..., None]] = {1: _hand_on, 2: _hand_on_second, 3: _hand_on_third}


class Stated(Opaque):
    """The last operand, whose own derivative does not count: the op states it in terms of the others."""

    def infer(self, *avals: Aval) -> Aval:
        return avals[-1]

    def impl(self, *arrays: Any) -> Any:
        return np.array(arrays[-1])

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        return self(*lifted(size, operands, batched))

    def kernel(self, *avals: Aval) -> Kernel:
        return _COPIES[len(avals)], (prod(avals[-1].shape),)


class Frozen(Stated):
    """The operand, as a constant."""

    name = "frozen"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        return (None,)


def _spread(x: Atom, shape: Any) -> Atom:
    return broadcast(x, shape=shape, axes=tuple(range(len(x.shape))))


def _total(x: Atom) -> Atom:
    ndim = len(x.shape)
    return reduce_sum(x, axes=(ndim - 2, ndim - 1))


class Determinant(Stated):
    """The determinant; its derivative is the matrix of cofactors."""

    name = "determinant"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        if tangents[0] is None:
            return (None,)
        return (_total(absorb_mul(tangents[0], cofactors_of(operands[0]))),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        if not wanted[0]:
            return (None, None)
        spread = _spread(cotangents[0], operands[0].shape)
        return (absorb_mul(spread, cofactors_of(operands[0])), None)


class Cofactors(Stated):
    """The matrices of cofactors, ``det(a) * inv(a).T`` of regular ones."""

    name = "cofactors"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        return (None if tangents[0] is None else cofactors_along_of(operands[0], tangents[0]),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        # The second derivative of the determinant is symmetric.
        return (cofactors_along_of(operands[0], cotangents[0]) if wanted[0] else None, None)


class CofactorsAlong(Stated):
    """The derivative of `Cofactors` along the second operand, which it is linear in."""

    name = "cofactors_along"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        (a_dot, e_dot, _), (a, e, _) = tangents, operands
        by_a = None if a_dot is None else _third(a, e, a_dot)
        by_e = None if e_dot is None else cofactors_along_of(a, e_dot)
        return (accumulate(by_a, by_e),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        (a, e, _), (outward,) = operands, cotangents
        return (
            _third(a, e, outward) if wanted[0] else None,
            cofactors_along_of(a, outward) if wanted[1] else None,
            None,
        )


class PseudoInverse(Stated):
    """The pseudo-inverse, differentiated along matrices of the same rank."""

    name = "pseudo_inverse"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        if tangents[0] is None:
            return (None,)
        (a, _), (p,), change = operands, results, tangents[0]
        back = hermitian(change)
        moved = neg(matmul(p, change, p))
        moved = add(moved, matmul(p, hermitian(p), _less(back, matmul(back, a), p)))
        inward = matmul(_less(back, p, matmul(a, back)), hermitian(p), p)
        return (add(moved, inward),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        if not wanted[0]:
            return (None, None)
        (a, _), (p,), outward = operands, results, conjugate(cotangents[0])
        back, adjoint = hermitian(outward), hermitian(p)
        pulled = neg(matmul(adjoint, outward, adjoint))
        pulled = add(pulled, matmul(_less(back, a, matmul(p, back)), p, adjoint))
        inward = matmul(adjoint, p, _less(back, matmul(back, p), a))
        return (conjugate(add(pulled, inward)), None)


def _less(x: Atom, left: Atom, right: Atom) -> Atom:
    """Return ``x - left @ right``."""
    return subtract(x, matmul(left, right))


class LogAbsDet(Stated):
    """The logarithm of the modulus of the determinant; the slope is the transposed inverse."""

    name = "logabsdet"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        if tangents[0] is None:
            return (None,)
        slope = inverse(operands[0], transposed=True, checked=False)
        return (real(_total(absorb_mul(tangents[0], slope))),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        if not wanted[0]:
            return (None, None)
        a = operands[0]
        slope = inverse(a, transposed=True, checked=False)
        return (absorb_mul(_spread(convert(cotangents[0], dtype=a.dtype), a.shape), slope), None)


class SignDet(Stated):
    """``det / abs(det)`` of complex matrices: it turns with the imaginary part of the logarithm."""

    name = "signdet"

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        if tangents[0] is None:
            return (None,)
        slope = inverse(operands[0], transposed=True, checked=False)
        turn = imag(_total(absorb_mul(tangents[0], slope)))
        return (absorb_mul(mul(results[0], 1j), convert(turn, dtype=results[0].dtype)),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        if not wanted[0]:
            return (None, None)
        a = operands[0]
        slope = inverse(a, transposed=True, checked=False)
        turn = real(mul(cotangents[0], mul(results[0], 1j)))
        spread = _spread(convert(turn, dtype=a.dtype), a.shape)
        return (mul(absorb_mul(spread, slope), -1j), None)


frozen = Frozen()
determinant = Determinant()
cofactors = Cofactors()
cofactors_along = CofactorsAlong()
pseudo_inverse = PseudoInverse()
logabsdet = LogAbsDet()
signdet = SignDet()

for _op in (frozen, determinant, cofactors, cofactors_along, pseudo_inverse, logabsdet, signdet):
    _op._register()


# --- values -------------------------------------------------------------------------------------------------


def parity(pivots: Atom, dtype: Any) -> Atom:
    """Return 1 or -1: the sign of the row exchanges that LAPACK made."""
    last = len(pivots.shape) - 1
    place = add(iota(shape=pivots.shape, axis=last, dtype=INDEX), 1)
    moved = reduce_sum(convert(not_equal(pivots, place), dtype=INDEX), axes=(last,))
    return convert(subtract(1, mul(2, bitwise_and(moved, 1))), dtype=dtype)


def determinant_of(a: Atom) -> Atom:
    """Return the determinants."""
    lu, pivots = factor(a)
    product = reduce_prod(diagonal_of(lu), axes=(len(a.shape) - 2,))
    result: Atom = determinant(a, mul(product, parity(pivots, a.dtype)))
    return result


def _frame(a: Atom) -> tuple[Atom, Atom, Atom, Atom]:
    """Return the singular value decomposition, as constants, and the determinant of its unitary factors."""
    u, s, vh = svd(frozen(a), full=False, count=a.shape[-1])
    return u, s, vh, mul(determinant_of(u), determinant_of(vh))


def _from_frame(inner: Atom, u: Atom, vh: Atom, sign: Atom) -> Atom:
    return mul(
        matmul(conjugate(u), inner, conjugate(vh)),
        expand_dims(sign, axes=(len(u.shape) - 2, len(u.shape) - 1)),
    )


def cofactors_of(a: Atom) -> Atom:
    """Return the matrices of cofactors."""
    u, s, vh, sign = _frame(a)
    others = convert(product_of_others(s, (len(s.shape) - 1,)), dtype=a.dtype)
    result: Atom = cofactors(a, _from_frame(on_diagonal(others), u, vh, sign))
    return result


def cofactors_along_of(a: Atom, e: Atom) -> Atom:
    """Return the derivative of the matrices of cofactors along ``e``."""
    u, s, vh, sign = _frame(a)
    inner = matmul(hermitian(u), frozen(e), hermitian(vh))
    pairs = convert(_products_of_all_but_two(s), dtype=a.dtype)
    on = on_diagonal(reduce_sum(scale_columns(pairs, diagonal_of(inner)), axes=(len(a.shape) - 1,)))
    value = _from_frame(subtract(on, mul(pairs, swap(inner))), u, vh, sign)
    result: Atom = cofactors_along(a, e, value)
    return result


def _products_of_all_but_two(s: Atom) -> Atom:
    """Return, at ``[i, j]``, the product of all entries of ``s`` but those two; 0 where ``i == j``."""
    ndim = len(s.shape) + 1
    shape = (*s.shape, s.shape[-1])
    row, column = (iota(shape=shape, axis=a, dtype=INDEX) for a in (ndim - 2, ndim - 1))
    same = equal(row, column)
    rows = broadcast(s, shape=shape, axes=(*range(ndim - 2), ndim - 1))
    products = product_of_others(select(same, constant(1, s), rows), (ndim - 1,))
    return select(same, constant(0, s), products)


def _third(a: Atom, e: Atom, d: Atom) -> Atom:
    """Return the derivative of the cofactors of regular matrices along ``e`` and ``d``."""
    inward = swap(inverse(a, transposed=True, checked=False))
    x, y = matmul(inward, e), matmul(inward, d)
    one = identity(a.shape, a.dtype)
    traces = subtract(mul(trace_of(x), trace_of(y)), trace_of(matmul(x, y)))
    inner = mul(one, traces)
    inner = subtract(inner, mul(trace_of(y), swap(x)))
    inner = subtract(inner, mul(trace_of(x), swap(y)))
    inner = add(inner, add(matmul(swap(y), swap(x)), matmul(swap(x), swap(y))))
    size = expand_dims(determinant_of(a), axes=(len(a.shape) - 2, len(a.shape) - 1))
    return mul(size, matmul(swap(inward), inner))


def slogdet_of(a: Atom) -> tuple[Atom, Atom]:
    """Return the signs and the logarithms of the moduli of the determinants."""
    lu, pivots = factor(a)
    along = diagonal_of(lu)
    axes = (len(along.shape) - 1,)
    size = absolute(along)
    value = logabsdet(a, reduce_sum(log(size), axes=axes))
    unit = divide(along, select(equal(size, 0), constant(1, along), convert(size, dtype=a.dtype)))
    sign = mul(reduce_prod(unit, axes=axes), parity(pivots, a.dtype))
    return (signdet(a, sign) if a.dtype.kind == "c" else sign), value
