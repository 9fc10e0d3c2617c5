"""Generated sources mean what the interpreter means, in Python (every access checked) and compiled."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from example_tapes import FLOAT, build, examples, size, total
from hypothesis import given, settings
from hypothesis import strategies as st
from random_tapes import arguments, tapes
from run_source import PYTHON, run_compiled, run_python

from tracejit.codegen import space
from tracejit.codegen.emit import lower
from tracejit.errors import GuardError
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Lit, Tape, ValueGuard
from tracejit.ops.elementwise import mul
from tracejit.ops.indexing import gather
from tracejit.ops.logic import less

GOLDEN = Path(__file__).parent / "golden" / "source"


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


@given(st.data(), st.booleans())
@settings(max_examples=200)
def test_source_means_the_tape(data: st.DataObject, cuts: bool) -> None:
    """Without cuts, conditions are asked for each entry, and indices are moved inside."""
    tape = data.draw(tapes())
    args, layouts = data.draw(arguments(tape))
    with mock.patch.object(space, "MOST_PIECES", space.MOST_PIECES if cuts else 1):
        program = lower(tape, layouts + ("C",) * len(tape.consts))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0], tape)


@given(st.data())
@settings(max_examples=15)
def test_compiled_source_means_the_tape(data: st.DataObject) -> None:
    tape = data.draw(tapes())
    args, layouts = data.draw(arguments(tape))
    program = lower(tape, layouts + ("C",) * len(tape.consts))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0], tape)


@pytest.mark.parametrize("name", sorted(examples()))
def test_source_is_what_it_was(name: str) -> None:
    """``UPDATE_GOLDEN=1`` writes the texts anew: read the difference before it is committed."""
    tape = examples()[name]
    code = lower(tape, ("C",) * len(tape.inputs)).key + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(code)
    assert code == path.read_text()


@pytest.mark.parametrize("name", sorted(examples()))
def test_examples_compile_and_mean_the_tape(name: str, rng: np.random.Generator) -> None:
    tape = examples()[name]
    args = [rng.standard_normal([dims.hint(d) for d in v.shape]).astype(v.dtype) for v in tape.inputs]
    program = lower(tape, ("C",) * len(args))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0], tape)


def test_equal_tapes_give_equal_texts() -> None:
    assert {n: lower(t, ("C",) * len(t.inputs)).source for n, t in examples().items()} == {
        n: lower(t, ("C",) * len(t.inputs)).source for n, t in examples().items()
    }


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 511, 5000, 100_003])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_long_sums_are_as_exact_as_pairwise_ones(length: int, dtype: type, rng: np.random.Generator) -> None:
    if length <= dims.SMALL:
        tape = build(total, (length,), dtype=dtype)
    else:
        tape = build(total, (size(),), dtype=dtype)
    x = (rng.standard_normal(length) * 1e3 + 1e4).astype(dtype)
    ((found,), _) = run_compiled(lower(tape, ("C",)), tape, [x])
    exact = np.sum(x.astype(np.complex256 if np.dtype(dtype).kind == "c" else np.longdouble))
    # NumPy's own bound: blocks of 128 terms in eight parts, then pairs.
    bound = np.finfo(dtype).eps * (16 + np.log2(length / 128 + 2)) * float(np.sum(np.abs(x)))
    assert abs(found - exact) <= bound


def test_entry_checks_sizes_and_guards() -> None:
    n = size()
    with Builder() as builder:
        x = builder.input(Aval((n,), FLOAT), "x")
        y = builder.input(Aval((n - 2,), FLOAT), "y")
        builder.guards.append(ValueGuard(less(total(y), Lit(np.float64(100))), True))
        tape = builder.finish([mul(x, 2.0), total(y)])
    program = lower(tape, ("C", "C"))
    namespace = dict(PYTHON, GuardError=GuardError)
    exec(program.source, namespace)
    exec(program.entry, namespace)
    entry = namespace[f"{program.name}_entry"]
    doubled, summed = entry(np.arange(12.0), np.ones(10))
    np.testing.assert_array_equal(doubled, 2 * np.arange(12.0))
    assert summed == 10.0
    with pytest.raises(GuardError, match="axis 0 of y must have n - 2 entries"):
        entry(np.arange(12.0), np.ones(9))
    with pytest.raises(GuardError, match="axis 0 of x must have at least 9 entries"):
        entry(np.arange(4.0), np.ones(2))
    with pytest.raises(GuardError, match="another path"):
        entry(np.arange(12.0), np.full(10, 100.0))


def test_indices_out_of_range_raise_before_anything_is_read() -> None:
    n = size()
    with Builder() as builder:
        x = builder.input(Aval((n,), FLOAT), "x")
        i = builder.input(Aval((3,), np.dtype(np.int64)), "i")
        tape = builder.finish([gather(x, i, axes=(0,))])
    program = lower(tape, ("C", "C"))
    x = np.arange(20.0)
    np.testing.assert_array_equal(
        run_compiled(program, tape, [x, np.array([1, -1, -20])])[0][0], [1.0, 19.0, 0.0]
    )
    for bad in (20, -21):
        with pytest.raises(IndexError, match="out of bounds for axis 0"):
            run_compiled(program, tape, [x, np.array([0, bad, 1])])
