"""Loops, branches and updates in generated sources: equal to the interpreter, in place where they can be."""

import os
import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_tools import for_, get, if_, put, symbol, tape_of, whilst
from random_regions import region_arguments, region_tapes
from run_source import compiled, run_compiled, run_python

import tracejit as tj
from tracejit.codegen.emit import lower
from tracejit.ir.dims import Dim
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Atom, Tape
from tracejit.ops.arithmetic import subtract
from tracejit.ops.broadcasting import broadcast, convert, reduce_sum
from tracejit.ops.elementwise import add, mul
from tracejit.ops.indexing import scatter_set
from tracejit.ops.linear import reshape, slice_
from tracejit.ops.logic import less
from tracejit.ops.transcendental import sin
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


def source(tape: Tape) -> str:
    tape = simplify(tape)
    return lower(tape, ("C",) * (len(tape.inputs) + len(tape.consts))).source


def arrays(tape: Tape) -> int:
    """How many arrays the kernel has besides its arguments and the stacks of partial sums."""
    return len(re.findall(r" = (?:placed|grown)\(", source(tape)))


def loops(tape: Tape) -> int:
    return source(tape).count("for ")


N, M = symbol("n", 12), symbol("m", 9)


def test_a_sweep_in_place_is_a_copy_and_its_own_loops() -> None:
    def sweep(u: Atom, f: Atom) -> Any:
        def row(i: Dim, u: Atom) -> Any:
            def column(j: Dim, u: Atom) -> Any:
                around = add(get(u, i, j + 1), add(get(u, i + 1, j), get(u, i + 2, j + 1)))
                return [put(u, mul(add(around, get(f, i + 1, j + 1)), 0.25), i + 1, j + 1)]

            return for_(M - 2, [u], column)

        return for_(N - 2, [u], row)

    tape = tape_of(sweep, (N, M), (N, M))
    assert (arrays(tape), loops(tape)) == (0, 3)


def test_chained_updates_copy_once() -> None:
    def build(u: Atom) -> Atom:
        for k in range(30):
            u = put(u, mul(get(u, k % 5), 2.0), (k + 1) % 5)
        return u

    tape = tape_of(build, (N,))
    assert (arrays(tape), loops(tape)) == (0, 1)


def test_an_old_version_that_is_read_later_is_kept() -> None:
    def build(u: Atom) -> Any:
        for k in range(12):
            u = put(u, 1.0 * k, k % 5)
        new = put(put(put(u, 3.0, 0), 4.0, 1), 5.0, 2)
        return mul(get(u, 0), get(new, 1)), new

    tape = tape_of(build, (N,))
    args = [np.arange(12.0)]
    program = lower(tape, ("C",))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0])


def test_updates_of_other_rows_need_no_copy_of_the_row() -> None:
    def eliminate(a: Atom) -> Any:
        def column(k: Dim, a: Atom) -> Any:
            def row(i: Dim, a: Atom) -> Any:
                rest = (k + 1, N - 1 - k)
                scaled = mul(get(a, k, rest), broadcast(get(a, k + 1 + i, k), shape=(N - 1 - k,), axes=()))
                return [put(a, subtract(get(a, k + 1 + i, rest), scaled), k + 1 + i, rest)]

            return for_(N - 1 - k, [a], row)

        return for_(N, [a], column)

    assert arrays(tape_of(eliminate, (N, N))) == 0


def test_temporaries_of_a_body_are_allocated_before_its_loop() -> None:
    def build(u: Atom) -> Any:
        def step(i: Dim, u: Atom) -> Any:
            return [put(u, get(u, (0, i)), (1, i))]  # overlaps: the right side first

        return for_(N - 1, [u], step)

    text = source(tape_of(build, (N,)))
    assert text.index(" = placed(") < text.index("for it")


def test_an_index_out_of_range_in_a_loop_is_an_error_before_the_access() -> None:
    def build(u: Atom, places: Atom) -> Any:
        def step(i: Dim, u: Atom) -> Any:
            place = convert(get(places, i), dtype=np.int64)
            return [scatter_set(u, 1.0, place, axes=(0,), unique=True)]

        return for_(N, [u], step)

    tape = tape_of(build, (N,), (N,))
    program = lower(tape, ("C", "C"))
    places = np.arange(12.0)
    run_compiled(program, tape, [np.zeros(12), places])
    for wrong in (12.0, -13.0):
        places[7] = wrong
        with pytest.raises(IndexError, match=r"axis 0 at loop_tools|axis 0 at test_region_codegen"):
            run_compiled(program, tape, [np.zeros(12), places])


@pytest.mark.parametrize("long", [False, True])
def test_a_loop_without_end_can_be_interrupted(long: bool) -> None:
    def build(x: Atom) -> Any:
        def grows(x: Atom) -> Atom:
            return less(reduce_sum(x, axes=(0,)) if long else get(x, 0), 1e300)

        return whilst(grows, lambda x: [put(x, get(x, 1), 0)], [x])[0]

    tape = tape_of(build, (N,))
    function = compiled(lower(tape, ("C",)))
    sent = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(np.zeros(12), np.empty(12))
    assert time.perf_counter() - sent[0] < 1.0


def search(x: Any, wanted: Any) -> Any:
    """Leaves, and has changed the array on its way."""
    x, place = x.copy(), -1
    for i in range(len(x)):
        x[i] *= 2
        if x[i] > wanted:
            place = i
            break
    return x, place


def search_nested(x: Any, wanted: Any) -> Any:
    for i in range(len(x)):
        for j in range(len(x)):
            if x[i] + x[j] > wanted:
                return 10.0 * i + j
    return -1.0


def skip_then_leave(x: Any, wanted: Any) -> Any:
    total = 0.0
    for v in x:
        if v < 2:
            continue
        total = total + v
        if total > wanted:
            break
    else:
        total = -total
    return total


@pytest.mark.parametrize("function", [search, search_nested, skip_then_leave])
def test_a_loop_that_was_left_is_left(function: Any) -> None:
    x = np.arange(12.0)
    call = tj.jit(function)
    for wanted in (-1.0, 7.0, 1000.0):
        found, expected = (f(x, wanted) if function is search else (f(x, wanted),) for f in (call, function))
        for value, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(value, right)
    assert "break" in call.lower(x, 7.0).source


def test_a_loop_that_may_go_on_is_not_left() -> None:
    """What holds for one iteration need not hold for the next."""

    def build(u: Atom) -> Any:
        def step(i: Dim, s: Atom, u: Atom) -> Any:
            big = less(1.0, get(u, i))
            return [*if_(big, lambda s: [add(s, 1.0)], lambda s: [s], s), u]

        return for_(N, [0.0, u], step)[0]

    tape = tape_of(build, (N,))
    assert "break" not in source(tape)
    args = [np.arange(12.0) % 4]
    assert_same(run_compiled(lower(tape, ("C",)), tape, args)[0], [6.0])


def test_the_text_does_not_depend_on_trip_counts() -> None:
    def build(u: Atom) -> Any:
        return for_(N, [u], lambda i, u: [put(u, sin(get(u, i)), i)])

    assert source(tape_of(build, (N,))).count("sin(") == 1


def test_a_buffer_changes_places_after_it_was_filled() -> None:
    def build(u: Atom, new: Atom) -> Any:
        def step(_: Dim, u: Atom, new: Atom) -> Any:
            def point(i: Dim, new: Atom) -> Any:
                return [put(new, add(get(u, i), get(u, i + 2)), i + 1)]

            (new,) = for_(N - 2, [new], point)
            return [new, u]

        return for_(5, [u, new], step)

    tape = tape_of(build, (N,), (N,))
    inside = source(tape).split("for it in range(5):")[1].split("    for i in range(n):")[0]
    assert inside.count("for ") == 1, inside
    args = [np.arange(12.0), np.arange(12.0) ** 2]
    program = lower(tape, ("C", "C"))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0])


def test_a_filled_buffer_that_cannot_be_filled_in_place_is_still_right() -> None:
    def build(u: Atom, new: Atom) -> Any:
        def step(_: Dim, u: Atom, new: Atom) -> Any:
            inner = (1, N - 2)
            shifted = put(new, add(get(new, (0, N - 2)), get(u, inner)), inner)
            return [shifted, mul(add(u, new), 0.5)]

        return for_(5, [u, new], step)

    tape = tape_of(build, (N,), (N,))
    args = [np.arange(12.0), np.arange(12.0) ** 2]
    program = lower(tape, ("C", "C"))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0])


def test_what_is_kept_of_an_array_is_not_put_aside_first() -> None:
    def build(u: Atom) -> Any:
        def step(_: Dim, u: Atom) -> Any:
            old = get(u, (2, N - 2))
            return [put(u, mul(old, 0.5), (2, N - 2))], [old]

        (u,), (rows,) = for_(N, [u], step, stacked=True)
        return u, rows

    tape = tape_of(build, (N,))
    assert arrays(tape) == 0
    args = [np.arange(12.0)]
    assert_same(run_compiled(lower(tape, ("C",)), tape, args)[0], interpret(tape, args)[0])


def same_interpreted(tape: Tape, *args: Any) -> None:
    program = lower(simplify(tape), ("C",) * len(args))
    assert_same(run_python(program, tape, args)[0], interpret(tape, args)[0])


def test_what_an_inner_loop_stacks_goes_where_the_outer_one_keeps_it() -> None:
    def build(u: Atom) -> Any:
        def row(i: Dim, s: Atom) -> Any:
            def entry(j: Dim, s: Atom) -> Any:
                def deep(k: Dim, s: Atom) -> Any:
                    return [sin(add(s, get(u, k)))], [mul(s, s)]

                (s,), (ys,) = for_(3, [s], deep, stacked=True)
                return [s], [ys]

            (s,), (ys,) = for_(N, [s], entry, stacked=True)
            return [s], [ys]

        (s,), (ys,) = for_(N, [0.5], row, stacked=True)
        return s, ys

    tape = tape_of(build, (N,))
    assert arrays(tape) == 0
    same_interpreted(tape, np.linspace(0, 1, 12))


def test_what_is_stacked_and_read_besides_is_in_both_places() -> None:
    def build(u: Atom) -> Any:
        def row(i: Dim, s: Atom) -> Any:
            (s,), (ys,) = for_(N, [s], lambda j, s: ([sin(add(s, get(u, j)))], [s]), stacked=True)
            return [add(s, get(ys, 3))], [ys]

        return [x[0] for x in for_(N, [0.5], row, stacked=True)]

    same_interpreted(tape_of(build, (N,)), np.linspace(0, 1, 12))


def test_rows_of_rows_are_read_where_they_are() -> None:
    def build(u: Atom, x: Atom, y: Atom) -> Any:
        def plane(i: Dim, u: Atom, rows: Atom) -> Any:
            flat = reshape(slice_(y, start=(i * N * 3,), size=(N * 3,), step=(1,)), shape=(N, 3))

            def row(j: Dim, u: Atom, entries: Atom, three: Atom) -> Any:
                def entry(k: Dim, u: Atom, v: Atom, w: Atom) -> Any:
                    return [put(u, add(get(u, j), mul(v, w)), j)]

                return for_(3, [u], entry, xs=[entries, three])

            return for_(N, [u], row, xs=[rows, flat])

        return for_(N, [u], plane, xs=[x])

    tape = tape_of(build, (N,), (N, N, 3), (N * N * 3,))
    assert arrays(tape) == 0
    rng = np.random.default_rng(3)
    same_interpreted(tape, rng.normal(size=12), rng.normal(size=(12, 12, 3)), rng.normal(size=12 * 12 * 3))


def test_a_row_that_a_branch_needs_whole_is_copied_once() -> None:
    def build(u: Atom, x: Atom) -> Any:
        def row(i: Dim, u: Atom, entries: Atom) -> Any:
            def entry(j: Dim, u: Atom) -> Any:
                def small(u: Atom, entries: Atom) -> Atom:
                    return put(u, add(get(entries, j), get(u, j)), j)

                return [*if_(less(get(u, j), 0.5), small, lambda u, entries: u, u, entries)]

            return for_(N, [u], entry)

        return for_(N, [u], row, xs=[x])

    tape = tape_of(build, (N,), (N, N))
    inside = source(tape).split("for it0 in")[1].split("for i in")[0]
    assert "for " not in inside
    same_interpreted(tape, np.linspace(0, 1, 12), np.linspace(0, 1, 144).reshape(12, 12))


def test_an_entry_that_is_kept_is_kept_as_a_number() -> None:
    def build(u: Atom) -> Any:
        def step(i: Dim, u: Atom) -> Any:
            before, after = get(u, i), sin(get(u, i + 1))
            u = put(u, after, i)
            return [put(u, mul(before, after), i + 1)]

        return for_(N - 1, [u], step)

    tape = tape_of(build, (N,))
    assert arrays(tape) == 0
    same_interpreted(tape, np.linspace(0, 1, 12))


def test_an_entry_that_a_loop_adds_to_is_a_number_meanwhile() -> None:
    """Even if the loop changes the array elsewhere; not where it may be the same entry, or is not there."""

    def apart(a: Atom) -> Any:
        def row(i: Dim, a: Atom) -> Any:
            def entry(j: Dim, a: Atom) -> Any:
                a = put(a, sin(get(a, i + 1, j)), i + 1, j)
                return [put(a, add(get(a, i, 0), mul(get(a, i + 1, j), 0.5)), i, 0)]

            return for_(10, [a], entry)

        return for_(11, [a], row)

    def overlapping(a: Atom) -> Any:
        def row(i: Dim, a: Atom) -> Any:
            def entry(j: Dim, a: Atom) -> Any:
                return [put(a, add(get(a, i, 3), sin(get(a, i, j))), i, 3)]

            return for_(10, [a], entry)

        return for_(11, [a], row)

    def beyond(a: Atom) -> Any:
        def row(i: Dim, a: Atom) -> Any:
            def entry(j: Dim, a: Atom) -> Any:
                a = put(a, sin(get(a, i, j)), i, j)
                return [put(a, add(get(a, i + 1, 0), 0.5), i + 1, 0)]

            return for_(11 - i, [a], entry)

        return for_(12, [a], row)

    for function, promoted in ((apart, True), (overlapping, False), (beyond, False)):
        tape = tape_of(function, (12, 12))
        assert ("state" in source(tape)) == promoted
        same_interpreted(tape, np.linspace(0, 1, 144).reshape(12, 12))


def test_rows_of_an_array_that_changes_are_read_before_it_does() -> None:
    def build(x: Atom) -> Any:
        def row(i: Dim, x: Atom) -> Any:
            before = get(x, i, (0, N))

            def entry(j: Dim, x: Atom, v: Atom) -> Any:
                return [put(x, add(v, get(x, i, j)), i, N - 1 - j)]

            return for_(N, [x], entry, xs=[before])

        return for_(N, [x], row)

    same_interpreted(tape_of(build, (N, N)), np.arange(144.0).reshape(12, 12))


def test_time_levels_change_places_instead_of_being_copied() -> None:
    def build(before: Atom, now: Atom) -> Any:
        def step(_: Dim, before: Atom, now: Atom) -> Any:
            inner = (1, N - 2)
            around = add(get(now, (0, N - 2)), get(now, (2, N - 2)))
            return [now, put(now, subtract(around, get(before, inner)), inner)]

        return for_(7, [before, now], step)

    tape = tape_of(build, (N,), (N,))
    assert arrays(tape) == 3
    inside = re.findall(r"for it in range\(7\):\n((?: {8}.*\n)+)", source(tape))[0]
    assert inside.count("for ") == 1
    args = [np.arange(12.0), np.arange(12.0) ** 2]
    program = lower(tape, ("C", "C"))
    assert_same(run_compiled(program, tape, args)[0], interpret(tape, args)[0])
