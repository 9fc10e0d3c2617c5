"""Loops and branches as ops: values, derivatives in both modes and of second order, batching, and the work they do."""

import numpy as np
import pytest
from loop_programs import PROGRAMS
from loop_tools import unrolled
from op_table import check_derivatives, forward_tape, reverse_tape, run

from tracejit.ir.check import check
from tracejit.ir.tape import Tape, input_symbols
from tracejit.passes.simplify import simplify


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
