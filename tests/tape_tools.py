"""Trace, run and differentiate small functions without the API: for tests of ops and frontend."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.frontend.concrete import Values
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.dims import Symbol, Unify
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Atom, Builder, Tape
from tracejit.ops.broadcasting import full
from tracejit.ops.joining import zeros_of
from tracejit.passes.jvp import jvp
from tracejit.passes.transpose import vjp

Array = np.ndarray[Any, Any]


class Handle:
    """The least that counts as a traced value."""

    _tracejit_traced = True

    def __init__(self, atom: Atom) -> None:
        self.atom = atom


class SizeHandle:
    """The least that counts as a symbolic size."""

    _tracejit_traced = True

    def __init__(self, dim: Any) -> None:
        self._tracejit_dim = dim


def trace(function: Callable[..., Any], *arrays: Any) -> Tape:
    """The tape of ``function`` on handles of ``arrays``; large extents are symbols, tied where needed."""
    symbols: dict[int, Any] = {}
    arrays = tuple(map(np.asarray, arrays))
    for extent in {n for a in arrays for n in a.shape if n > dims.SMALL}:
        symbols[extent] = dims.poly(Symbol(f"n{extent}", extent))
    while True:
        try:
            return _trace(function, arrays, symbols)
        except Unify as tie:
            symbols = {n: dims.substitute(d, tie.mapping) for n, d in symbols.items()}


def _trace(function: Callable[..., Any], arrays: Sequence[Array], symbols: dict[int, Any]) -> Tape:
    with Builder() as builder:
        values = Values(builder)
        inputs = [builder.input(Aval(tuple(symbols.get(n, n) for n in a.shape), a.dtype)) for a in arrays]
        for var, array in zip(inputs, arrays, strict=True):
            values.know(var, array)
        out = function(*map(Handle, inputs))
        return check(builder.finish(list(out) if isinstance(out, list | tuple) else [out]))


def run(tape: Tape, *arrays: Any) -> list[Array]:
    """The outputs of ``tape``."""
    outputs, guards = interpret(tape, arrays)
    assert all(v == g.expected for v, g in zip(guards, tape.guards, strict=True))
    return [np.asarray(o) for o in outputs]


def pushed_tape(tape: Tape, wrt: Sequence[int]) -> Tape:
    """The tape of ``J v``: inputs, tangents of the inputs numbered ``wrt`` -> tangents of the outputs."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        seeds = {i: builder.input(tape.inputs[i].aval) for i in wrt}
        _, out = jvp(tape, inputs, [seeds.get(i) for i in range(len(inputs))])
        complete = [
            full(0, a.shape, a.dtype) if t is None else t for a, t in zip(tape.outputs, out, strict=True)
        ]
        return check(builder.finish(complete))


def pulled_tape(tape: Tape, wrt: Sequence[int]) -> Tape:
    """The tape of ``J^T w``: inputs, cotangents of the outputs -> cotangents of the inputs in ``wrt``."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        seeds = [builder.input(a.aval) for a in tape.outputs]
        _, pullback = vjp(tape, inputs, wrt)
        out = pullback([s if s.aval.inexact else None for s in seeds])
        complete = [zeros_of(inputs[i]) if g is None else g for i, g in zip(wrt, out, strict=True)]
        return check(builder.finish(complete))


def check_derivatives(tape: Tape, arrays: Sequence[Array], wrt: Sequence[int], order: int = 2) -> None:
    """Check both modes against each other and against exact differences.

    The tape must be at most quadratic in the inputs numbered ``wrt``, and all numbers small integers: then
    ``J v = (f(x + v) - f(x - v)) / 2`` and ``<J v, w> = <v, J^T w>`` hold to the last bit.
    """
    rng = np.random.default_rng(7)
    tangents = [integers(rng, arrays[i].shape, arrays[i].dtype) for i in wrt]
    cotangents = [integers(rng, o.shape, o.dtype) for o in run(tape, *arrays)]
    ahead, behind = list(arrays), list(arrays)
    for i, t in zip(wrt, tangents, strict=True):
        ahead[i], behind[i] = arrays[i] + t, arrays[i] - t
    pushed = run(pushed_tape(tape, wrt), *arrays, *tangents)
    for got, high, low in zip(pushed, run(tape, *ahead), run(tape, *behind), strict=True):
        np.testing.assert_array_equal(got, (high - low) / 2)
    back = pulled_tape(tape, wrt)
    pulled = run(back, *arrays, *cotangents)
    for i, g in zip(wrt, pulled, strict=True):
        assert g.shape == arrays[i].shape and g.dtype == arrays[i].dtype
    left = sum(float(np.sum(p * w)) for p, w in zip(pushed, cotangents, strict=True))
    assert left == sum(float(np.sum(g * v)) for g, v in zip(pulled, tangents, strict=True))
    if order > 1:
        seeds = range(len(arrays), len(arrays) + len(cotangents))
        check_derivatives(back, [*arrays, *cotangents], [*wrt, *seeds], order - 1)


def same_as_numpy(
    traced: Callable[..., Any], plain: Callable[..., Any], *arrays: Any, wrt: Sequence[int] = (0,)
) -> Tape:
    """Check values against NumPy's, and the derivatives by `check_derivatives`; return the tape."""
    arrays = tuple(map(np.asarray, arrays))
    tape = trace(traced, *arrays)
    out = plain(*(a.copy() for a in arrays))
    expected = [np.asarray(o) for o in (out if isinstance(out, list | tuple) else [out])]
    for got, want in zip(run(tape, *arrays), expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    check_derivatives(tape, arrays, wrt)
    return tape


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Small whole numbers as floats: sums of them are exact."""
    return np.asarray(rng.integers(-9, 10, shape)).astype(dtype)
