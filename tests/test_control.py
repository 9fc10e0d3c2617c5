"""Loops and branches as ops: values, derivatives in both modes and of second order, batching, and the work they do."""

import numpy as np
import pytest
from loop_programs import PROGRAMS
from loop_tools import unrolled
from op_table import check_derivatives, forward_tape, reverse_tape, run

from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Tape, input_symbols
from tracejit.passes.simplify import simplify
from tracejit.passes.vmap import vmap


def sizes_of(tape: Tape, args: list[np.ndarray]) -> dict:
    return {s: args[number].shape[axis] for s, (number, axis) in input_symbols(tape).items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_numpys(name: str) -> None:
    tape, args, plain = PROGRAMS[name]()
    expected = plain(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for candidate in (tape, simplify(tape)):
        for got, want in zip(run(check(candidate), args), expected, strict=False):
            np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    tape, args, _ = PROGRAMS[name]()
    check_derivatives(tape, args, 1, 1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_the_unrolled_tape(name: str) -> None:
    tape, args, _ = PROGRAMS[name]()
    rng = np.random.default_rng(1)
    flat = unrolled(tape, sizes_of(tape, args))
    cotangents = [rng.normal(size=o.shape) for o in run(tape, args)]
    tangents = [rng.normal(size=a.shape) for a in args]
    for derived, along in ((reverse_tape, cotangents), (forward_tape, tangents)):
        pulled = [run(check(simplify(derived(t))), [*args, *along]) for t in (tape, flat)]
        for got, want in zip(*pulled, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_order(name: str) -> None:
    tape, args, _ = PROGRAMS[name]()
    check_derivatives(tape, args, 2, 1e-7)


def batched(tape: Tape, flags: tuple[bool, ...]) -> Tape:
    """The tape of two instances at once, with a leading axis on the flagged inputs and on all outputs."""
    with Builder() as builder:
        shapes = [(2, *v.shape) if f else v.shape for v, f in zip(tape.inputs, flags, strict=True)]
        inputs = [builder.input(Aval(s, v.dtype)) for s, v in zip(shapes, tape.inputs, strict=True)]
        outputs, have = vmap(tape, inputs, flags, 2)
        return check(builder.finish([x for x, f in zip(outputs, have, strict=True) if f]))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("which", ["all", "first", "last"])
def test_batches(name: str, which: str) -> None:
    tape, args, _ = PROGRAMS[name]()
    places = {"all": range(len(args)), "first": [0], "last": [len(args) - 1]}[which]
    flags = tuple(n in places for n in range(len(args)))
    instances = [[a + 0.1 * k if f else a for a, f in zip(args, flags, strict=True)] for k in range(2)]
    stacked = [np.stack(pair) if f else pair[0] for pair, f in zip(zip(*instances, strict=True), flags, strict=True)]
    sizes = sizes_of(tape, args)
    for derive in (lambda t: t, reverse_tape):
        derived = derive(tape)
        cotangents = [np.full(o.shape, 0.7) for o in run(tape, args)] if derived is not tape else []
        single = [[*i, *cotangents] for i in instances]
        both = [*stacked, *cotangents]
        many = batched(derived, (*flags, *(False for _ in cotangents)))
        expected = [run(derived, values) for values in single]
        got = interpret(many, both, sizes)[0]
        moved = [pair for pair in zip(*expected, strict=True) if not np.array_equal(*pair)]
        found = [g for g in got if not np.array_equal(g[0], g[1])]
        assert len(found) == len(moved) > 0 or which != "all"
        for g, pair in zip(found, moved, strict=True):
            np.testing.assert_allclose(g, np.stack(pair), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("order", [1, 2])
def test_checkpoints(name: str, order: int) -> None:
    tape, args, _ = PROGRAMS[name]()
    tight, loose = tape, tape
    for _ in range(order):
        along = [np.full(o.shape, 0.3) for o in run(tight, args)]
        tight, loose = check(simplify(reverse_tape(tight, 0))), reverse_tape(loose)
        args = [*args, *along]
    for got, want in zip(run(tight, args), run(loose, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
