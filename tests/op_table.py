"""Every op of REGISTRY on sample operands: values, both modes of differentiation, first and second order.

Elementwise ops bring their own samples (their ``domain``); other families add theirs to `SAMPLES` by the op's
name.  Derivatives are compared with finite differences of the same tape in long double, which are good to
about 14 digits.
"""

import importlib
import itertools
import pkgutil
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import tracejit.ops
from tracejit import pipeline
from tracejit.errors import UnsupportedError
from tracejit.frontend.pytree import LEAF
from tracejit.frontend.reads import Reads
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Lit, Tape
from tracejit.ops.base import REGISTRY, Op
from tracejit.ops.broadcasting import full
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.special import Special
from tracejit.ops.special_sums import Stated
from tracejit.passes.jvp import jvp
from tracejit.passes.replay import replay
from tracejit.passes.simplify import simplify
from tracejit.passes.transpose import vjp
from tracejit.runtime.entry import Entry, layout_of

Array = np.ndarray[Any, Any]
Sample = tuple[tuple[Array, ...], dict[str, Any]]

for _module in pkgutil.iter_modules(tracejit.ops.__path__):
    importlib.import_module(f"tracejit.ops.{_module.name}")

SAMPLES: dict[str, list[Sample]] = {}
"""Operands and static parameters of ops that are not elementwise: op name -> samples."""

FIXED_KINDS = {"ldexp": {1: "i8"}, "select": {0: "?"}}
"""Operands that have a dtype of their own: op name -> number of the operand -> dtype."""


def elementwise_ops() -> list[Elementwise]:
    """The elementwise ops but those that have no meaning in long double, which have tables of their own."""
    return [
        op for op in REGISTRY.values() if isinstance(op, Elementwise) and not isinstance(op, Special | Stated)
    ]


def operands_of(op: Elementwise, dtype: Any, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Numbers of a dtype from the op's domain; the same in every run."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    fixed = FIXED_KINDS.get(op.name, {})
    dtypes = [np.dtype(fixed.get(i, dtype)) for i in range(op.arity)]
    return tuple(_numbers(rng, d, limits, shape) for d, limits in zip(dtypes, op.domain, strict=True))


def extremes_of(op: Elementwise, dtype: Any) -> tuple[Array, ...]:
    """Numbers from the domain, and all combinations of what loops get wrong: zeros, ends, infinities."""
    single = [np.concatenate([a, _extremes(a.dtype)]) for a in operands_of(op, dtype, (3,))]
    if op.name == "power" and single[1].dtype.kind in "iu":
        single[1] = single[1] % 7  # not negative
    step = 7 if op.arity > 2 else 1
    return tuple(np.ascontiguousarray(a.ravel()[::step]) for a in np.meshgrid(*single, indexing="ij"))


def _extremes(dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        tiny = [limits.tiny, -limits.smallest_subnormal]
        return np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, *tiny, limits.max, 0.5, -2.5, 3], dtype)
    if dtype.kind == "c":
        return np.array([0, 1, -1, 1j, -1j, 2 + 3j, -0.5 + 0.25j], dtype)
    if dtype.kind == "b":
        return np.array([True, False])
    return np.array([0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max, 2, 3, 7], dtype)


def takes(op: Elementwise, arrays: Sequence[Array]) -> bool:
    """Whether the op has a loop for these operands."""
    try:
        op_tape(op, arrays, {})
    except (TypeError, UnsupportedError):
        return False
    return True


def _numbers(
    rng: np.random.Generator, dtype: np.dtype[Any], limits: tuple[float, float], shape: tuple[int, ...]
) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype)
    drawn = rng.uniform(*limits, shape)
    if dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(0.2, 0.6, shape)
    return np.asarray(drawn).astype(dtype)


# --- tapes --------------------------------------------------------------------------------------


def op_tape(op: Op, arrays: Sequence[Array], params: dict[str, Any]) -> Tape:
    with Builder() as builder:
        inputs = [builder.input(Aval(a.shape, a.dtype)) for a in arrays]
        out = op(*inputs, **params)
        return check(builder.finish(out if isinstance(out, tuple) else [out]))


def forward_tape(tape: Tape) -> Tape:
    """(inputs, their tangents) -> tangents of the inexact outputs."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        tangents = [builder.input(v.aval) if v.aval.inexact else None for v in tape.inputs]
        _, pushed = jvp(tape, inputs, tangents)
        pairs = [(t, a) for t, a in zip(pushed, tape.outputs, strict=True) if a.aval.inexact]
        return check(builder.finish([full(0, a.shape, a.dtype) if t is None else t for t, a in pairs]))


def reverse_tape(tape: Tape, memory_budget: int | None = None) -> Tape:
    """(inputs, cotangents of the inexact outputs) -> cotangents of the inexact inputs."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        wrt = [i for i, v in enumerate(tape.inputs) if v.aval.inexact]
        seeds = [builder.input(a.aval) if a.aval.inexact else None for a in tape.outputs]
        _, pullback = vjp(tape, inputs, wrt, memory_budget)
        pairs = zip(pullback(seeds), (tape.inputs[i] for i in wrt), strict=True)
        return check(builder.finish([full(0, v.shape, v.dtype) if g is None else g for g, v in pairs]))


def run(tape: Tape, arrays: Sequence[Array]) -> list[Array]:
    return [np.asarray(o) for o in interpret(tape, arrays)[0]]


def run_compiled(tape: Tape, arrays: Sequence[Array]) -> list[Array]:
    """Results of the generated loops."""
    layouts = tuple(layout_of(a) for a in arrays)
    entry = Entry(simplify(tape), Reads(), (), LEAF, (), (), layouts, pipeline._lower, pipeline._compile)
    results = zip(entry.run(arrays, {}), tape.outputs, strict=True)
    with np.errstate(over="ignore"):
        return [np.asarray(r).astype(v.dtype, copy=False) for r, v in results]


def joined(tapes: Sequence[Tape]) -> Tape:
    """The tapes side by side."""
    with Builder() as builder:
        inputs = [[builder.input(v.aval) for v in tape.inputs] for tape in tapes]
        outputs = [replay(tape, own) for tape, own in zip(tapes, inputs, strict=True)]
        return check(builder.finish([a for own in outputs for a in own]))


# --- comparisons --------------------------------------------------------------------------------


def check_derivatives(tape: Tape, arrays: Sequence[Array], order: int, digits: float) -> None:
    """Check both modes of ``tape`` against differences, and (order 2) of its derivative tapes too."""
    rng = np.random.default_rng(5)
    tangents = [_like(rng, a) for a in arrays if a.dtype.kind in "fc"]
    outputs = [o for o in run(tape, arrays) if o.dtype.kind in "fc"]
    cotangents = [_like(rng, o) for o in outputs]
    pushed = run(forward_tape(tape), [*arrays, *tangents])
    for got, want in zip(pushed, differences(tape, arrays, tangents), strict=True):
        assert got.dtype.kind in "fc"
        np.testing.assert_allclose(got, want, rtol=digits, atol=digits * 10)
    pulled = run(reverse_tape(tape), [*arrays, *cotangents])
    _same_pairing(pushed, cotangents, pulled, tangents, digits)
    for got, array in zip(pulled, (a for a in arrays if a.dtype.kind in "fc"), strict=True):
        assert got.shape == array.shape and got.dtype == array.dtype
    if order > 1:
        check_derivatives(reverse_tape(tape), [*arrays, *cotangents], order - 1, digits * 10)
        check_derivatives(forward_tape(tape), [*arrays, *tangents], order - 1, digits * 10)


def _same_pairing(
    pushed: Sequence[Array],
    cotangents: Sequence[Array],
    pulled: Sequence[Array],
    tangents: Sequence[Array],
    digits: float,
) -> None:
    """``<J t, c> == <t, J^T c>``, without conjugates, real parts only (see ops/complex_parts.py)."""
    left = [np.real(p * c).ravel() for p, c in zip(pushed, cotangents, strict=True)]
    right = [np.real(g * t).ravel() for g, t in zip(pulled, tangents, strict=True)]
    if not left or not right:
        return
    terms = np.concatenate(left + right)
    scale = 1.0 if not terms.size else max(1.0, float(np.abs(terms).sum()))
    assert abs(sum(v.sum() for v in left) - sum(v.sum() for v in right)) <= digits * scale


def _like(rng: np.random.Generator, array: Array) -> Array:
    drawn = rng.uniform(-1, 1, array.shape)
    if array.dtype.kind == "c":
        drawn = drawn + 1j * rng.uniform(-1, 1, array.shape)
    return np.asarray(drawn).astype(array.dtype)


def differences(tape: Tape, arrays: Sequence[Array], tangents: Sequence[Array]) -> list[Array]:
    """Derivative of the inexact outputs along ``tangents``: central differences, twice extrapolated."""
    wide = widened(tape)
    arrays = [_widen(a) for a in arrays]

    def central(step: float) -> list[Array]:
        steps = iter(tangents)
        moves = [step * _widen(next(steps)) if a.dtype.kind in "fc" else None for a in arrays]
        moved = [
            [a if m is None else a + sign * m for a, m in zip(arrays, moves, strict=True)] for sign in (1, -1)
        ]
        sides = [run(wide, points) for points in moved]
        return [(hi - lo) / (2 * step) for hi, lo in zip(*sides, strict=True) if hi.dtype.kind in "fc"]

    table = [central(np.longdouble(2.0**-10) / 2**k) for k in range(3)]
    for power in (4, 16):
        table = [
            [(power * fine - coarse) / (power - 1) for fine, coarse in zip(b, a, strict=True)]
            for a, b in itertools.pairwise(table)
        ]
    return table[0]


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype({"f": np.longdouble, "c": np.clongdouble}.get(dtype.kind, dtype))


def _widen(array: Array) -> Array:
    return array.astype(_wide_dtype(array.dtype))


def widened(tape: Tape) -> Tape:
    """The same tape on long double inputs."""
    with Builder() as builder:
        inputs = [builder.input(Aval(v.shape, _wide_dtype(v.dtype))) for v in tape.inputs]
        env = dict(zip(tape.inputs, inputs, strict=True))
        env.update((var, builder.const(_widen(array))) for var, array in tape.consts)
        for eqn in tape.eqns:
            operands = [_wide_lit(a) if isinstance(a, Lit) else env[a] for a in eqn.operands]
            params = {k: _wide_param(v) for k, v in eqn.params.items()}
            out = eqn.op.bind(*operands, **params)
            env.update(zip(eqn.results, out if isinstance(out, tuple) else (out,), strict=True))
        return builder.finish([_wide_lit(a) if isinstance(a, Lit) else env[a] for a in tape.outputs])


def _wide_param(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wide_param, value))
    if isinstance(value, Tape):
        return widened(value)
    return _wide_dtype(value) if isinstance(value, np.dtype) else value


def _wide_lit(atom: Lit) -> Lit:
    return Lit(_widen(np.asarray(atom.value))[()], atom.aval.weak)
