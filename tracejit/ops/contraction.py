"""Products that sum: matrix products and every einsum of two operands.

`contraction` takes labels (ints) for the axes of both operands and of the result.  What pays for BLAS it
brings into the form of a batched matrix product, the op `contract`; the rest (nothing summed, inner products,
tiny extents) becomes multiplications and sums, which fuse with their surroundings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval, Shape, compute_dtype
from tracejit.ir.dims import SMALL, Dim
from tracejit.ir.tape import Atom
from tracejit.ops.base import Opaque, as_atom
from tracejit.ops.broadcasting import broadcast, convert, reduce_sum
from tracejit.ops.elementwise import absorb_mul, accumulate, mul
from tracejit.ops.lapack import matmul
from tracejit.ops.linear import transpose

__all__ = ["Contract", "Subscripts", "absorb_zeros", "contract", "contraction"]

Labels = tuple[int, ...]
Subscripts = tuple[Labels, Labels, Labels]
Form = tuple[bool, bool]
Extents = tuple[Any, Any, Any, Any]
Array = np.ndarray[Any, Any]
Kernel = tuple[Callable[..., None], tuple[Any, ...]]


class Product(Opaque):
    """What the ops below share: a batched matrix product of ``a`` and ``b``.

    Parameters
    ----------
    batch : int
        Leading axes that both operands and the result have.
    summed : int
        Number of axes that are summed; they stand together, behind the batch axes or at the end.
    first : tuple of bool
        For either operand, whether the summed axes stand in front of its free axes.  The result has the batch
        axes, the free axes of ``a``, the free axes of ``b``.
    """

    def subscripts(self, a: Aval, b: Aval, batch: int, summed: int, first: Form) -> Subscripts:
        """Return the labels of both operands and of the result."""
        both, total = tuple(range(batch)), tuple(range(batch, batch + summed))
        start = batch + summed
        free_a = tuple(range(start, start + a.ndim - len(both + total)))
        start += len(free_a)
        free_b = tuple(range(start, start + b.ndim - len(both + total)))
        left = total + free_a if first[0] else free_a + total
        right = total + free_b if first[1] else free_b + total
        return both + left, both + right, both + free_a + free_b

    def extents(self, a: Aval, b: Aval, batch: int, summed: int, first: Form) -> Extents:
        """Return the extents of the batched matrix product: batch, rows, summed, columns."""
        a_free = slice(batch + summed, None) if first[0] else slice(batch, a.ndim - summed)
        b_free = slice(batch + summed, None) if first[1] else slice(batch, b.ndim - summed)
        total = a.shape[batch : batch + summed] if first[0] else a.shape[a.ndim - summed :]
        return (
            dims.prod(a.shape[:batch]),
            dims.prod(a.shape[a_free]),
            dims.prod(total),
            dims.prod(b.shape[b_free]),
        )


class Contract(Product):
    """A batched matrix product by BLAS."""

    name = "contract"

    def infer(self, a: Aval, b: Aval, *, batch: int, summed: int, first: Form) -> Aval:
        left, right, out = self.subscripts(a, b, batch, summed, first)
        assert a.dtype == b.dtype, (a, b)
        assert all(a.shape[left.index(i)] == b.shape[right.index(i)] for i in left if i in right), (a, b)
        return Aval(_shape(out, (a.shape, left), (b.shape, right)), a.dtype)

    def impl(self, a: Any, b: Any, *, batch: int, summed: int, first: Form) -> Any:
        avals = Aval(a.shape, a.dtype), Aval(b.shape, b.dtype)
        left, right = _matrices(a, b, self.extents(*avals, batch, summed, first), first)
        shape = self.infer(*avals, batch=batch, summed=summed, first=first).shape
        return np.matmul(left, right).reshape(shape)

    def jvp(self, tangents, operands, results, absorb, *, batch, summed, first):  # type: ignore[no-untyped-def]
        (a_dot, b_dot), (a, b) = tangents, operands
        labels = self.subscripts(a.aval, b.aval, batch, summed, first)
        by_a = None if a_dot is None else contraction(a_dot, b, labels, absorb)
        by_b = None if b_dot is None else contraction(a, b_dot, labels, absorb)
        return (accumulate(by_a, by_b),)

    def vjp(self, cotangents, operands, results, wanted, absorb, *, batch, summed, first):  # type: ignore[no-untyped-def]
        (a, b), (ct,) = operands, cotangents
        left, right, out = self.subscripts(a.aval, b.aval, batch, summed, first)
        return (
            contraction(ct, b, (out, right, left), absorb) if wanted[0] else None,
            contraction(a, ct, (left, out, right), absorb) if wanted[1] else None,
        )

    def batch(self, size, operands, batched, *, batch, summed, first):  # type: ignore[no-untyped-def]
        return contraction(operands[0], operands[1], _lifted(self, operands, batched, batch, summed, first))

    def kernel(self, a: Aval, b: Aval, *, batch: int, summed: int, first: Form) -> Kernel:
        extents = self.extents(a, b, batch, summed, first)
        if a.inexact:
            return matmul, (*extents, int(first[0]), int(not first[1]))
        return _integer_product, (*extents, *_strides(extents, first))


class AbsorbZeros(Product):
    """The product ``y = contract(a, b)``, with ``0 * inf`` and ``0 * nan`` counted as zero.

    Only an entry of ``y`` that is not finite can have met such a product, and only those are computed again,
    so chain rules keep BLAS.
    """

    name = "absorb_zeros"

    def infer(self, y: Aval, a: Aval, b: Aval, *, batch: int, summed: int, first: Form) -> Aval:
        return y

    def impl(self, y: Any, a: Any, b: Any, *, batch: int, summed: int, first: Form) -> Any:
        if np.isfinite(y).all():
            return y
        avals = Aval(a.shape, a.dtype), Aval(b.shape, b.dtype)
        extents = self.extents(*avals, batch, summed, first)
        left, right = _matrices(a, b, extents, first)
        fixed = np.array(y).reshape(extents[0], extents[1], extents[3])
        for block, row, column in np.argwhere(~np.isfinite(fixed)):
            fixed[block, row, column] = absorb_mul.impl(left[block, row], right[block, :, column]).sum()
        return fixed.reshape(y.shape)

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return contract.jvp(tangents[1:], operands[1:], results, True, **params)

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        inward = contract.vjp(cotangents, operands[1:], results, wanted[1:], True, **params)
        return (None, *inward)

    def batch(self, size, operands, batched, *, batch, summed, first):  # type: ignore[no-untyped-def]
        labels = _lifted(self, operands[1:], batched[1:], batch, summed, first)
        return contraction(operands[1], operands[2], labels, absorb=True)

    def kernel(self, y: Aval, a: Aval, b: Aval, *, batch: int, summed: int, first: Form) -> Kernel:
        extents = self.extents(a, b, batch, summed, first)
        return _repair, (*extents, *_strides(extents, first))


def _matrices(a: Array, b: Array, extents: Extents, first: Form) -> tuple[Array, Array]:
    """Return the operands as stacks of (rows, summed) and (summed, columns)."""
    size, rows, total, columns = extents
    left = a.reshape(size, total, rows).swapaxes(1, 2) if first[0] else a.reshape(size, rows, total)
    right = b.reshape(size, total, columns) if first[1] else b.reshape(size, columns, total).swapaxes(1, 2)
    return left, right


def _strides(extents: tuple[Dim, ...], first: Form) -> tuple[Dim, ...]:
    """Return the steps of a row and a summed index in ``a``, of a summed index and a column in ``b``."""
    _, rows, total, columns = extents
    return (*((1, rows) if first[0] else (total, 1)), *((columns, 1) if first[1] else (1, total)))


def _lifted(op: Product, operands: Any, batched: Any, batch: int, summed: int, first: Form) -> Subscripts:
    """Return the subscripts with a new label in front of the operands that are batched, and of the result."""
    inner = [x.aval.with_shape(x.shape[1:]) if b else x.aval for x, b in zip(operands, batched, strict=True)]
    left, right, out = op.subscripts(inner[0], inner[1], batch, summed, first)
    new = (max((*left, *right), default=-1) + 1,)
    return (new + left if batched[0] else left), (new + right if batched[1] else right), new + out


# --- kernels: plain functions on C-contiguous arrays --------------------------------------------------------


# Flat indices below: a reshape takes Numba 50 ms to compile.


def _integer_product(a, b, y, size, rows, total, columns, ar, at, bt, bc):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    for i in range(size):
        left, right = i * rows * total, i * total * columns
        for r in range(rows):
            row = (i * rows + r) * columns
            for c in range(columns):
                y[row + c] = 0
            for k in range(total):
                factor = a[left + r * ar + k * at]
                for c in range(columns):
                    y[row + c] += factor * b[right + k * bt + c * bc]


def _repair(y, a, b, z, size, rows, total, columns, ar, at, bt, bc):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    for i in range(size):
        left, right = i * rows * total, i * total * columns
        for r in range(rows):
            for c in range(columns):
                place = (i * rows + r) * columns + c
                z[place] = y[place]
                if y[place] - y[place] == 0:  # a finite number
                    continue
                z[place] = 0
                for k in range(total):
                    one, other = a[left + r * ar + k * at], b[right + k * bt + c * bc]
                    if one != 0 and other != 0:
                        z[place] += one * other


contract = Contract()
absorb_zeros = AbsorbZeros()

for _op in (contract, absorb_zeros):
    _op._register()


# --- any two operands ---------------------------------------------------------------------------------------


def contraction(a: Any, b: Any, subscripts: Subscripts, absorb: bool = False) -> Atom:
    """Return the einsum of two operands.

    Parameters
    ----------
    a, b : atom or array_like
    subscripts : tuple of (tuple of int)
        Labels of the axes of ``a``, of ``b`` and of the result.  No label occurs twice in one of them; axes
        with the same label have equal sizes; every label of the result is one of an operand.
    absorb : bool
        Keep zero factors exact against infinities and NaN (SEMANTICS, "zero absorbs").
    """
    left, right, out = subscripts
    x, left = _without_lonely(as_atom(a), left, right, out)
    y, right = _without_lonely(as_atom(b), right, left, out)
    dtype = np.result_type(x.dtype, y.dtype)
    x, y = convert(x, dtype=dtype), convert(y, dtype=dtype)
    summed = tuple(i for i in left if i not in out)
    if _fuses(x, y, left, right, summed):
        return _multiply_and_sum(x, y, left, right, out, summed, absorb)
    work = np.dtype(np.int64) if dtype.kind == "b" else compute_dtype(dtype)
    x, y = convert(x, dtype=work), convert(y, dtype=work)
    return convert(_by_matrices(x, y, left, right, out, absorb), dtype=dtype)


def _without_lonely(x: Atom, own: Labels, other: Labels, out: Labels) -> tuple[Atom, Labels]:
    """Return the operand with the axes summed that nothing else has."""
    lonely = tuple(axis for axis, i in enumerate(own) if i not in other and i not in out)
    return reduce_sum(x, axes=lonely), tuple(i for axis, i in enumerate(own) if axis not in lonely)


def _fuses(x: Atom, y: Atom, left: Labels, right: Labels, summed: Labels) -> bool:
    """Return whether a loop is as good as BLAS: little or nothing is summed, or every entry is used once."""
    total = dims.prod(tuple(x.shape[left.index(i)] for i in summed))
    if (isinstance(total, int) and total <= SMALL) or set(left) == set(right):
        return True
    return any(isinstance(d, int) and d == 0 for d in x.shape + y.shape)


def _multiply_and_sum(
    x: Atom, y: Atom, left: Labels, right: Labels, out: Labels, summed: Labels, absorb: bool
) -> Atom:
    labels = out + summed
    shape = _shape(labels, (x.shape, left), (y.shape, right))
    one, other = _spread(x, left, labels, shape), _spread(y, right, labels, shape)
    product = absorb_mul(one, other) if absorb else mul(one, other)
    return reduce_sum(product, axes=tuple(range(len(out), len(labels))))


def _spread(x: Atom, own: Labels, labels: Labels, shape: Shape) -> Atom:
    """Return ``x`` broadcast to the axes ``labels``."""
    places = [labels.index(i) for i in own]
    order = tuple(sorted(range(len(own)), key=places.__getitem__))
    return broadcast(_permute(x, order), shape=shape, axes=tuple(sorted(places)))


def _permute(x: Atom, order: tuple[int, ...]) -> Atom:
    result: Atom = x if order == tuple(range(len(order))) else transpose(x, perm=order)
    return result


def _by_matrices(x: Atom, y: Atom, left: Labels, right: Labels, out: Labels, absorb: bool) -> Atom:
    both = tuple(i for i in out if i in left and i in right)
    free_x = tuple(i for i in out if i not in right)
    free_y = tuple(i for i in out if i not in left)
    if out == both + free_y + free_x != both + free_x + free_y:
        x, y, left, right, free_x, free_y = y, x, right, left, free_y, free_x
    summed = tuple(i for i in left if i not in out)
    forms = {both + free_x + summed: False, both + summed + free_x: True}
    x, left = _arranged(x, left, list(forms))
    x_first = forms[left]
    forms = {both + summed + free_y: True, both + free_y + summed: False}
    y, right = _arranged(y, right, list(forms))
    params: dict[str, Any] = {"batch": len(both), "summed": len(summed), "first": (x_first, forms[right])}
    result = contract(x, y, **params)
    if absorb:
        result = absorb_zeros(result, x, y, **params)
    have = both + free_x + free_y
    return _permute(result, tuple(have.index(i) for i in out))


def _arranged(x: Atom, own: Labels, wanted: list[Labels]) -> tuple[Atom, Labels]:
    """Return the operand with its axes in one of the ``wanted`` orders (the first, if they must be moved)."""
    if own in wanted:
        return x, own
    return _permute(x, tuple(own.index(i) for i in wanted[0])), wanted[0]


def _shape(labels: Labels, *operands: tuple[Shape, Labels]) -> Shape:
    extents = {i: d for shape, own in reversed(operands) for i, d in zip(own, shape, strict=True)}
    return tuple(extents[i] for i in labels)
