"""Long kernels in pieces: the same values, code that does not grow with repetition, and one compilation for all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from example_tapes import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from random_regions import region_arguments, region_tapes
from random_tapes import arguments, tapes
from run_source import run_compiled, run_python
from test_emit import assert_same

import tracejit as tj
from tracejit.codegen import emit, pieces
from tracejit.codegen.emit import Program, lower
from tracejit.codegen.pieces import chunks
from tracejit.codegen.statements import parse, sequence
from tracejit.ir import dims
from tracejit.ir.interpret import interpret
from tracejit.passes.simplify import simplify

Array = np.ndarray[Any, Any]


@contextmanager
def everything_cut() -> Iterator[None]:
    with (
        mock.patch.object(emit, "LONG", 1),
        mock.patch.object(pieces, "CHUNK", 3),
        mock.patch.object(pieces, "FEW", 0),
    ):
        yield


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    """The program of the gradient with respect to all arguments."""
    tape = tj.grad(f, argnums=tuple(range(len(args)))).lower(*args).backward_tape
    return lower(tape, tuple("C" if np.ndim(a) else "S" for a in args) + ("C",) * len(tape.consts))


@given(st.data())
@settings(max_examples=60)
def test_pieces_mean_the_tape(data: st.DataObject) -> None:
    tape = data.draw(tapes())
    args, layouts = data.draw(arguments(tape))
    with everything_cut():
        program = lower(tape, layouts + ("C",) * len(tape.consts))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0], tape)


@given(region_tapes(), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_loops_in_pieces_mean_the_tape(tape: Any, seed: int) -> None:
    args = region_arguments(seed)
    tape = simplify(tape)
    with everything_cut():
        program = lower(tape, tuple("C" if np.ndim(a) else "S" for a in args))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0], tape)


@pytest.mark.parametrize("name", sorted(examples()))
def test_compiled_pieces_mean_the_tape(name: str, rng: np.random.Generator) -> None:
    tape = examples()[name]
    args = [rng.standard_normal([dims.hint(d) for d in v.shape]).astype(v.dtype) for v in tape.inputs]
    with everything_cut():
        program = lower(tape, ("C",) * len(args))
    assert program.pieces
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0], tape)


# --- what is repeated is written once ---------------------------------------------------------------


def stencil_1d(steps: int) -> Callable[..., Any]:
    def f(u: Array, k: float) -> Any:
        states = [u]
        for _ in range(steps):
            u, new = states[-1], states[-1].copy()
            new[1:-1] = u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2]) + 0.1 * np.sin(u[1:-1])
            states.append(new)
        return np.sum(states[-1] ** 2) + states[steps // 2][3]

    return f


def stencil_2d(steps: int) -> Callable[..., Any]:
    def f(u: Array, k: float) -> Any:
        states = [u]
        for _ in range(steps):
            u, new = states[-1], states[-1].copy()
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            new[1:-1, 1:-1] = u[1:-1, 1:-1] + k * (around - 4 * u[1:-1, 1:-1])
            states.append(new)
        return np.sum(states[-1] ** 2)

    return f


def in_place(steps: int) -> Callable[..., Any]:
    def f(u: Array, k: float) -> Any:
        u, seen = u.copy(), []
        for _ in range(steps):
            u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
            seen.append(u[3])
        return sum(seen)

    return f


def rolled(steps: int) -> Callable[..., Any]:
    def f(x: Array, a: float) -> Any:
        states = [x]
        for _ in range(steps):
            states.append(np.roll(states[-1], 1) * a + np.sin(states[-1]))
        return np.sum(states[-1] * states[steps // 2])

    return f


def scalar_chain(steps: int) -> Callable[..., Any]:
    def f(x: float, a: float) -> Any:
        states = [x]
        for n in range(steps):
            states.append(np.sin(states[-1]) * a + 0.1 * n)
        return sum(states)

    return f


U1, U2 = np.linspace(0.0, 1.0, 20), np.cos(np.arange(63.0)).reshape(9, 7)


@pytest.mark.parametrize(
    ("make", "first", "steps"),
    [
        (stencil_1d, U1, 40),
        (stencil_2d, U2, 40),
        (in_place, U1, 40),
        (rolled, U1, 40),
        (scalar_chain, 0.3, 400),
    ],
)
def test_code_of_unrolled_steps_grows_by_a_few_lines_each(
    make: Callable[..., Any], first: Any, steps: int
) -> None:
    few, many = (program_of(make(n), first, 0.1) for n in (steps, 2 * steps))
    assert abs(len(many.pieces) - len(few.pieces)) <= 2
    lines = [p.source.count("\n") for p in (few, many)]
    assert lines[1] - lines[0] <= 12 * steps
    assert lines[1] < 2000


@pytest.mark.parametrize(
    ("make", "first"), [(stencil_1d, U1), (stencil_2d, U2), (in_place, U1), (rolled, U1)]
)
def test_unrolled_steps_compiled_in_pieces(make: Callable[..., Any], first: Array) -> None:
    f = make(25)
    found = tj.grad(f, argnums=(0, 1))(first, 0.1)
    with tj.interpret():
        expected = tj.grad(f, argnums=(0, 1))(first, 0.1)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9 * np.max(np.abs(wanted)))


def test_twenty_thousand_operations_on_scalars() -> None:
    f = scalar_chain(3000)
    found = tj.grad(f)(0.3, 0.9)
    np.testing.assert_allclose(found, (f(0.3 + 1e-6, 0.9) - f(0.3 - 1e-6, 0.9)) / 2e-6, rtol=1e-5)


def test_a_long_kernel_is_called_from_njit() -> None:
    import numba

    f = stencil_1d(30)
    slope = tj.grad(f, argnums=(0, 1))
    compiled = slope.lower(U1, 0.1).njit

    @numba.njit
    def call(u: Array, k: float) -> Any:
        return compiled(u, k)

    for length in (20, 33):
        u = np.linspace(0.0, 1.0, length)
        for value, wanted in zip(call(u, 0.1), slope(u, 0.1), strict=True):
            np.testing.assert_array_equal(value, wanted)


def test_an_error_in_a_piece_is_raised_at_the_users_line() -> None:
    def f(u: Array, n: Array) -> Any:
        states = [u]
        for _ in range(40):
            states.append(np.sin(states[-1][n]) * states[-1])
        return np.sum(states[-1])

    assert program_of(lambda u: f(u, np.arange(20)), U1).pieces
    slope = tj.grad(f)
    slope(U1, np.arange(20))
    with pytest.raises(IndexError, match=r"out of bounds for axis 0 at test_pieces.py"):
        slope(U1, np.arange(1, 21))


def test_what_nobody_reads_is_no_result() -> None:
    chain = [f"t{n} = sin(t{n - 1})" for n in range(1, 7)]
    with mock.patch.object(pieces, "CHUNK", 2), mock.patch.object(pieces, "FEW", 1):
        done = pieces.cut([chain, ["return (t6,)"]], ["t0"], (), emit.Names(()))
    assert len(done.pieces) == 1
    assert done.lines == [
        "t2, = piece0(t0)",
        "t4, = piece0(t2)",
        "t6, = piece0(t4)",
        "return (t6,)",
    ]


def test_periods_are_found_behind_what_comes_once() -> None:
    with mock.patch.object(pieces, "CHUNK", 4):
        found = list(chunks([*"xyzw", *"abab" * 8, "q"]))
    assert found[0] == (0, 4)
    assert found[1:9] == [(4 + 4 * n, 8 + 4 * n) for n in range(8)]
    assert found[-1] == (36, 37)


def test_what_may_not_be_assigned_is_read_from_before() -> None:
    (loop,) = parse(["for i in range(n):", "    total = total + i", "    last = i"])
    assert loop.effects.read >= {"n", "total"}
    assert "i" not in loop.effects.read
    assert loop.effects.written == {"i", "total", "last"}
    assert not loop.effects.certain
    (branch,) = parse(["if c:", "    a = 1", "    b = 1", "else:", "    a = 2"])
    assert branch.effects.certain == {"a"}
    both = sequence(s.effects for s in parse(["a = b", "c = a"]))
    assert both.read == {"b"}


def test_statements_of_any_length_are_compared() -> None:
    long = "x" * 100_000
    with mock.patch.object(pieces, "CHUNK", 4):
        assert list(chunks([long, *"ab" * 2_000]))[-1][1] == 4_001


def test_memory_that_a_loop_takes_and_gives_back_in_pieces() -> None:
    def f(x: Array) -> Any:
        total = 0.0
        for i in range(5):
            total = total + np.sum(x[x > 0.1 * i] ** 2) * i
        return np.sin(total)

    with everything_cut():
        value, slope = tj.value_and_grad(f)(U1)
    assert value == pytest.approx(f(U1), rel=1e-13)
    along = np.cos(np.arange(20.0))
    rise = (f(U1 + 1e-6 * along) - f(U1 - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(slope * along), rise, rtol=1e-6)
