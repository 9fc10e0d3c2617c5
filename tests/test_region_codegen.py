"""Loops, branches and updates in generated sources: equal to the interpreter, in place where they can be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_regions import region_arguments, region_tapes
from run_source import run_compiled, run_python

from tracejit.codegen.emit import lower
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Tape
from tracejit.passes.simplify import simplify


def assert_same(found: list, expected: list) -> None:
    for value, wanted in zip(found, expected, strict=True):
        assert np.shape(value) == np.shape(wanted)
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12)


@given(region_tapes(), st.integers(0, 1000), st.booleans())
@settings(max_examples=150)
def test_source_means_the_tape(tape: Tape, seed: int, simplified: bool) -> None:
    args = region_arguments(seed)
    tape = simplify(tape) if simplified else tape
    program = lower(tape, ("C",) * (3 + len(tape.consts)))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0])


@given(region_tapes(), st.integers(0, 1000))
@settings(max_examples=10)
def test_compiled_source_means_the_tape(tape: Tape, seed: int) -> None:
    args = region_arguments(seed)
    program = lower(tape, ("C",) * (3 + len(tape.consts)))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0])
