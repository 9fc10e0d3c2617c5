"""Generated sources: equal to the interpreter on random tapes, in Python (every access checked) and compiled."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tapes import arguments, tapes
from run_source import run_compiled, run_python

from tracejit.codegen.emit import lower
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Tape


def assert_same(found: list[Any], expected: list[Any], tape: Tape) -> None:
    for value, wanted in zip(found, expected, strict=True):
        wanted = np.asarray(wanted)
        assert np.shape(value) == wanted.shape
        assert not isinstance(value, np.ndarray) or value.dtype == wanted.dtype
        if wanted.dtype.kind not in "fc":
            np.testing.assert_array_equal(value, wanted)
            continue
        # Folds of large terms that cancel are compared at the scale of the result.
        rough = any(e.results[0].dtype.itemsize == 4 for e in tape.eqns) or wanted.dtype == np.float32
        scale = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
        tolerance = 2e-4 if rough else 1e-10
        np.testing.assert_allclose(value, wanted, rtol=tolerance, atol=tolerance * scale)


@given(st.data())
@settings(max_examples=150)
def test_source_means_the_tape(data: st.DataObject) -> None:
    tape = data.draw(tapes())
    args, layouts = data.draw(arguments(tape))
    program = lower(tape, layouts + ("C",) * len(tape.consts))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0], tape)


@given(st.data())
@settings(max_examples=15)
def test_compiled_source_means_the_tape(data: st.DataObject) -> None:
    tape = data.draw(tapes())
    args, layouts = data.draw(arguments(tape))
    program = lower(tape, layouts + ("C",) * len(tape.consts))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0], tape)
