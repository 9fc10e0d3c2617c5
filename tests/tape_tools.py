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


def push(tape: Tape, arrays: Sequence[Array], tangents: Sequence[Array], wrt: Sequence[int]) -> list[Array]:
    """``J v``: the derivative of the outputs along tangents of the inputs numbered ``wrt``."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        seeds = {i: builder.input(tape.inputs[i].aval) for i in wrt}
        _, out = jvp(tape, inputs, [seeds.get(i) for i in range(len(inputs))])
        present = [t for t in out if t is not None]
        pushed = check(builder.finish(present))
    found = iter(run(pushed, *arrays, *tangents))
    outputs = run(tape, *arrays)
    return [np.zeros_like(o) if t is None else next(found) for o, t in zip(outputs, out, strict=True)]


def pull(tape: Tape, arrays: Sequence[Array], cotangents: Sequence[Array], wrt: Sequence[int]) -> list[Array]:
    """``J^T w``: the cotangents of the inputs numbered ``wrt``."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        seeds = [builder.input(a.aval) for a in tape.outputs]
        _, pullback = vjp(tape, inputs, wrt)
        out = pullback(seeds)
        pulled = check(builder.finish([g for g in out if g is not None]))
    found = iter(run(pulled, *arrays, *cotangents))
    return [np.zeros_like(arrays[i]) if g is None else next(found) for i, g in zip(wrt, out, strict=True)]


def same_as_numpy(
    traced: Callable[..., Any], plain: Callable[..., Any], *arrays: Any, wrt: Sequence[int] = (0,)
) -> Tape:
    """Check values against NumPy and the derivatives in both modes; return the tape.

    ``plain`` must be linear in the arrays numbered ``wrt``.  Then ``J v = f(x + v) - f(x)``; ``J^T`` is right
    when ``<J v, w> = <v, J^T w>``.  All numbers are small integers, so everything is exact.
    """
    rng = np.random.default_rng(7)
    arrays = tuple(map(np.asarray, arrays))
    tape = trace(traced, *arrays)

    def numpy_of(values: Sequence[Array]) -> list[Array]:
        out = plain(*(v.copy() for v in values))
        return [np.asarray(o) for o in (out if isinstance(out, list | tuple) else [out])]

    expected = numpy_of(arrays)
    for got, want in zip(run(tape, *arrays), expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    tangents = [integers(rng, arrays[i].shape, arrays[i].dtype) for i in wrt]
    moved = list(arrays)
    for i, t in zip(wrt, tangents, strict=True):
        moved[i] = np.asarray(moved[i] + t)
    pushed = push(tape, arrays, tangents, wrt)
    for got, new, old in zip(pushed, numpy_of(moved), expected, strict=True):
        np.testing.assert_array_equal(got, new - old)
    cotangents = [integers(rng, o.shape, o.dtype) for o in expected]
    pulled = pull(tape, arrays, cotangents, wrt)
    for i, g in zip(wrt, pulled, strict=True):
        assert g.shape == arrays[i].shape and g.dtype == arrays[i].dtype
    left = sum(float(np.sum(p * w)) for p, w in zip(pushed, cotangents, strict=True))
    right = sum(float(np.sum(g * v)) for g, v in zip(pulled, tangents, strict=True))
    assert left == right
    return tape


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Small whole numbers as floats: sums of them are exact."""
    return np.asarray(rng.integers(-9, 10, shape)).astype(dtype)
