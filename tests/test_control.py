"""Loops and branches as ops: values, derivatives in both modes and of second order, batching, and the work
they do."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loop_programs import PROGRAMS
from loop_tools import unrolled
from op_table import check_derivatives, forward_tape, reverse_tape, run

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Eqn, Tape, bodies, input_symbols
from tracejit.ops.loop import Loop
from tracejit.ops.region import Region
from tracejit.passes.chains import UPDATES
from tracejit.passes.ordering import in_place
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
    stacked = [
        np.stack(pair) if f else pair[0] for pair, f in zip(zip(*instances, strict=True), flags, strict=True)
    ]
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


# --- the work that derivatives do -----------------------------------------------------------------

IN_PLACE = (
    "recurrence",
    "gauss_seidel",
    "cholesky",
    "cholesky_rows",
    "thomas",
    "double_buffer",
    "branches",
    "scattered",
    "linked",
    "deposit",
)


def bodies_of(tape: Tape) -> Iterator[tuple[Eqn, Tape]]:
    for eqn in tape.eqns:
        for body in bodies(eqn):
            yield eqn, body
            yield from bodies_of(body)


def copied(eqn: Eqn, body: Tape) -> list[Eqn]:
    """The updates that need a copy: what they overwrite is used again, or is not the body's own."""
    carries = eqn.params.get("carries", len(body.inputs))
    found = []
    for number, update in enumerate(body.eqns):
        for operand, _ in in_place(update):
            old = update.operands[operand]
            later = any(old in e.operands for e in body.eqns[number + 1 :])
            twice = sum(a is old for a in update.operands) > 1
            if old in body.inputs[carries:] or later or twice or old in body.outputs:
                found.append(update)
    return found


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("order", [1, 2])
def test_an_iteration_does_not_touch_whole_arrays(name: str, order: int) -> None:
    tape, _, _ = PROGRAMS[name]()
    for _ in range(order):
        tape = simplify(reverse_tape(simplify(tape)))
    for eqn, body in bodies_of(tape):
        assert not copied(eqn, body), tape
        for inner in body.eqns:
            if inner.op not in UPDATES and not isinstance(inner.op, Region):
                extents = {s for v in inner.results for d in v.shape for s in dims.symbols(d)}
                assert all(s.upper is not None for s in extents), inner


def kept_for(tape: Tape) -> list[Any]:
    """The shapes of what the forward loop of a reverse tape gives besides the results of the loop itself."""
    forward = next(e for e in simplify(reverse_tape(tape)).eqns if isinstance(e.op, Loop))
    carries = {v.shape for v in tape.inputs}
    return [v.shape for v in forward.results if v.shape not in carries]


def test_what_is_kept() -> None:
    """Cholesky: per entry what it overwrites, the numerator, and which branch was taken; nothing of n^3."""
    tape = PROGRAMS["cholesky"]()[0]
    (n, _) = tape.inputs[0].shape
    assert kept_for(tape) == [((n * n + n) // 2,)] * 3
    tape = PROGRAMS["whole_arrays"]()[0]
    assert [len(s) for s in kept_for(tape)] == [2, 2]  # positions and velocities; not the forces
    tape = PROGRAMS["recurrence"]()[0]
    assert [len(s) for s in kept_for(tape)] == [2]  # the entry that each step overwrites


def test_forward_mode_keeps_nothing() -> None:
    for name in IN_PLACE:
        tape, _, _ = PROGRAMS[name]()
        pushed = simplify(forward_tape(tape))
        shapes = {v.shape for v in (*tape.inputs, *tape.outputs)} | {()}
        assert {v.shape for e in pushed.eqns if isinstance(e.op, Loop) for v in e.results} <= shapes
