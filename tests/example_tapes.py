"""Small tapes that stand for what fusion has to do, for tests of schedules and of generated texts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Builder, Lit, Tape, Var
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.broadcasting import broadcast, full, reduce_sum
from tracejit.ops.contraction import contraction
from tracejit.ops.elementwise import add, mul, neg
from tracejit.ops.indexing import gather, scatter_add
from tracejit.ops.joining import concatenate, slice_update
from tracejit.ops.linear import reshape, slice_, transpose
from tracejit.ops.reduction import argmax, reduce_max
from tracejit.ops.transcendental import exp, sin
from tracejit.passes.simplify import simplify
from tracejit.passes.transpose import vjp

FLOAT, SINGLE, INTEGER = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)


def size(name: str = "n", hint: int = 20) -> Dim:
    return dims.poly(Symbol(name, hint))


def build(function: Callable[..., Any], *shapes: Sequence[Dim], dtype: Any = FLOAT) -> Tape:
    """The simplified tape of ``function`` on inputs x, y, z of ``shapes``."""
    with Builder() as builder:
        inputs = [
            builder.input(Aval(tuple(s), np.dtype(dtype)), name)
            for s, name in zip(shapes, "xyz", strict=False)
        ]
        out = function(*inputs)
        return simplify(check(builder.finish(list(out) if isinstance(out, tuple) else [out])))


def with_gradient(function: Callable[..., Any], *shapes: Sequence[Dim], dtype: Any = FLOAT) -> Tape:
    """The simplified tape of the value of ``function`` and its gradient in all inputs."""
    tape = build(function, *shapes, dtype=dtype)

    def both(*inputs: Var) -> tuple[Atom, ...]:
        outputs, pullback = vjp(tape, inputs, range(len(inputs)))
        return (*outputs, *(g for g in pullback([Lit(np.dtype(dtype).type(1))]) if g is not None))

    return build(both, *shapes, dtype=dtype)


def total(x: Atom) -> Atom:
    return reduce_sum(x, axes=tuple(range(len(x.shape))))


def wave(x: Atom, y: Atom) -> Atom:
    """``sum(sin(x)*exp(-y*y))``."""
    return total(mul(sin(x), exp(mul(neg(y), y))))


def inner(x: Atom, low: Dim, high: Dim) -> Atom:
    """``x[low:-high]``."""
    return slice_(x, start=(low,), size=(x.shape[0] - low - high,), step=(1,))


def diffuse(x: Atom, steps: int) -> Atom:
    """Explicit time steps of a heat equation with fixed ends."""
    for _ in range(steps):
        middle = inner(x, 1, 1)
        change = add(subtract(inner(x, 2, 0), mul(middle, 2.0)), inner(x, 0, 2))
        x = slice_update(x, add(middle, mul(change, 0.1)), start=(1,), step=(1,))
    return x


def rows(x: Atom, row_values: Atom) -> Atom:
    """One value per row, along the rows of ``x``."""
    return broadcast(row_values, shape=x.shape, axes=(0,))


def softmax(x: Atom) -> Atom:
    e = exp(subtract(x, rows(x, reduce_max(x, axes=(1,)))))
    return divide(e, rows(x, reduce_sum(e, axes=(1,))))


def picked(x: Atom, y: Atom) -> tuple[Atom, ...]:
    """``x`` at the largest entry of each row of ``y``, and the same places counted."""
    places = argmax(y, axes=(1,))
    found = gather(x, places, axes=(0,))
    return found, scatter_add(full(0, x.shape, FLOAT), found, places, axes=(0,))


def column_and_row_sums(x: Atom) -> tuple[Atom, ...]:
    return reduce_sum(x, axes=(0,)), reduce_sum(transpose(x, perm=(1, 0)), axes=(0,))


def flat_product(x: Atom, y: Atom) -> Atom:
    product = contraction(x, y, ((0, 1), (1, 2), (0, 2)))
    return reshape(exp(product), shape=(dims.prod(product.shape),))


def examples() -> dict[str, Tape]:
    n, m = size("n"), size("m", 30)
    return {
        "value_and_gradient": with_gradient(wave, (n, m), (n, m)),
        "single_precision": with_gradient(wave, (n,), (n,), dtype=SINGLE),
        "diffusion_gradient": with_gradient(lambda x: total(mul(sin(diffuse(x, 1)), diffuse(x, 1))), (n,)),
        "softmax": build(softmax, (n, m)),
        "column_sums": build(column_and_row_sums, (n, m)),
        "joined": build(lambda x, y: concatenate(sin(x), y, axis=0), (n,), (m,)),
        "picked": build(picked, (n,), (m, n)),
        "product": build(flat_product, (n, m), (m, n)),
    }
