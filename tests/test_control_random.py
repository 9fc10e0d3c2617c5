"""Random bodies of loops: values against NumPy, derivatives against the unrolled tape."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_tools import for_, get, if_, put, symbol, tape_of, unrolled
from op_table import forward_tape, reverse_tape, run
from run_source import run_python

from tracejit.codegen.emit import lower
from tracejit.ir.check import check
from tracejit.ir.tape import Tape, input_symbols
from tracejit.ops.broadcasting import broadcast, reduce_sum
from tracejit.ops.elementwise import add, mul
from tracejit.ops.logic import greater
from tracejit.ops.transcendental import sin
from tracejit.passes.simplify import simplify

NAMES = ("s", "t", "u", "v", "w")  # two scalars, two arrays of m + 2 entries, one of m
State = dict[str, Any]


# --- programs: i counts the innermost loop --------------------------------------------------------

leaves = st.one_of(
    st.sampled_from([("var", "s"), ("var", "t"), ("const", 0.7), ("const", -1.3)]),
    st.tuples(st.just("read"), st.sampled_from("uv"), st.integers(0, 2)),
    st.tuples(st.just("dot"), st.sampled_from("uv"), st.sampled_from("uv")),
)
expressions = st.recursive(
    leaves,
    lambda e: st.one_of(st.tuples(st.just("sin"), e), st.tuples(st.sampled_from(["add", "mul"]), e, e)),
    max_leaves=4,
)
simple = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("st"), expressions),
    st.tuples(st.just("put"), st.sampled_from("uv"), st.integers(0, 2), expressions),
    st.tuples(st.just("head"), st.sampled_from("uv"), expressions),
    st.tuples(st.just("whole"), expressions),
    st.just(("swap",)),
)
statements = st.recursive(
    st.lists(simple, min_size=1, max_size=3),
    lambda block: st.lists(
        st.one_of(
            simple,
            st.tuples(st.just("if"), expressions, block, block),
            st.tuples(st.just("for"), st.booleans(), block),
        ),
        min_size=1,
        max_size=3,
    ),
    max_leaves=5,
)


@dataclass(frozen=True)
class Language:
    """The operations that a program is run with."""

    get: Callable[..., Any]
    put: Callable[..., Any]
    add: Callable[..., Any]
    mul: Callable[..., Any]
    sin: Callable[..., Any]
    total: Callable[..., Any]
    spread: Callable[..., Any]
    loop: Callable[..., State]
    branch: Callable[..., State]


def expression(e: Any, i: Any, state: State, do: Language) -> Any:
    match e:
        case ("var", name):
            return state[name]
        case ("const", value):
            return value
        case ("read", name, offset):
            return do.get(state[name], i + offset)
        case ("dot", left, right):
            return do.total(do.mul(do.get(state[left], (0, i)), do.get(state[right], (0, i))))
        case ("sin", a):
            return do.sin(expression(a, i, state, do))
        case (kind, a, b):
            return {"add": do.add, "mul": do.mul}[kind](
                expression(a, i, state, do), expression(b, i, state, do)
            )
    raise AssertionError(e)


def execute(block: Any, i: Any, m: Any, state: State, do: Language) -> State:
    state = dict(state)
    for statement in block:
        match statement:
            case ("set", name, e):
                state[name] = do.sin(expression(e, i, state, do))
            case ("put", name, offset, e):
                state[name] = do.put(state[name], do.sin(expression(e, i, state, do)), i + offset)
            case ("head", name, e):
                head = do.get(state[name], (0, i + 1))
                value = do.spread(do.sin(expression(e, i, state, do)), (i + 1,))
                state[name] = do.put(state[name], do.sin(do.mul(head, do.add(head, value))), (0, i + 1))
            case ("whole", e):
                value = do.spread(expression(e, i, state, do), (m,))
                state["w"] = do.sin(do.add(do.mul(state["w"], value), do.get(state["u"], (1, m))))
            case ("swap",):
                state["u"], state["v"] = state["v"], state["u"]
            case ("if", e, then, otherwise):
                sides = [lambda s, b=b: execute(b, i, m, s, do) for b in (then, otherwise)]
                state = do.branch(expression(e, i, state, do), *sides, state)
            case ("for", short, inner):
                trips = i if short else m
                state = do.loop(trips, lambda k, s, b=inner: execute(b, k, m, s, do), state)
    return state


# --- run with NumPy, and on a tape ----------------------------------------------------------------


def np_get(x: Any, place: Any) -> Any:
    return x[place[0] : place[0] + place[1]] if isinstance(place, tuple) else x[place]


def np_put(x: Any, value: Any, place: Any) -> Any:
    x = x.copy()
    x[slice(place[0], place[0] + place[1]) if isinstance(place, tuple) else place] = value
    return x


def np_loop(trips: int, step: Callable[..., State], state: State) -> State:
    for k in range(trips):
        state = step(k, state)
    return state


NUMPY = Language(
    np_get,
    np_put,
    np.add,
    np.multiply,
    np.sin,
    np.sum,
    lambda x, shape: np.full(shape, x),
    np_loop,
    lambda p, then, otherwise, state: then(state) if p > 0.1 else otherwise(state),
)


def pack(state: State) -> list[Any]:
    return [state[n] for n in NAMES]


def unpack(values: Any) -> State:
    return dict(zip(NAMES, values, strict=True))


def tape_loop(trips: Any, step: Callable[..., State], state: State) -> State:
    return unpack(for_(trips, pack(state), lambda k, *values: pack(step(k, unpack(values)))))


def tape_branch(p: Any, then: Any, otherwise: Any, state: State) -> State:
    sides = [lambda *values, f=f: pack(f(unpack(values))) for f in (then, otherwise)]
    return unpack(if_(greater(p, 0.1), *sides, *pack(state)))


TAPE = Language(
    get,
    put,
    add,
    mul,
    sin,
    lambda x: reduce_sum(x, axes=(0,)),
    lambda x, shape: broadcast(x, shape=shape, axes=()),
    tape_loop,
    tape_branch,
)


def build(block: Any) -> Tape:
    m = symbol("m", 3)

    def function(*values: Any) -> list[Any]:
        state = TAPE.loop(m, lambda k, s: execute(block, k, m, s, TAPE), unpack(values))
        return pack(state)

    return tape_of(function, (), (), (m + 2,), (m + 2,), (m,))


def start(m: int) -> list[np.ndarray]:
    rng = np.random.default_rng(m)
    return [np.asarray(rng.normal(size=shape)) for shape in ((), (), m + 2, m + 2, m)]


def check_program(block: Any, m: int, order: int) -> None:
    tape, args = simplify(build(block)), start(m)
    sizes = {s: args[number].shape[axis] for s, (number, axis) in input_symbols(tape).items()}
    expected = pack(NUMPY.loop(m, lambda k, s: execute(block, k, m, s, NUMPY), unpack(args)))
    for got, want in zip(run(tape, args), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(9)
    flat = unrolled(tape, sizes)
    for derive, alike in ((reverse_tape, expected), (forward_tape, args)):
        along = [rng.normal(size=np.shape(a)) for a in alike]
        pair = [check(simplify(derive(t))) for t in (tape, flat)]
        compare(pair, [*args, *along], order)


def compare(pair: list[Tape], args: list[Any], order: int) -> None:
    values = [run(t, args) for t in pair]
    for got, want in zip(*values, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)
    if order > 1:
        rng = np.random.default_rng(4)
        along = [rng.normal(size=np.shape(v)) for v in values[0]]
        compare([check(simplify(reverse_tape(t))) for t in pair], [*args, *along], order - 1)


@given(statements, st.integers(0, 4))
@settings(max_examples=60)
def test_first_order(block: Any, m: int) -> None:
    check_program(block, m, 1)


@given(statements, st.integers(1, 3))
@settings(max_examples=15)
def test_second_order(block: Any, m: int) -> None:
    check_program(block, m, 2)


@given(statements, st.integers(0, 4))
@settings(max_examples=60)
def test_generated_sources_mean_the_tape(block: Any, m: int) -> None:
    """Of values and derivatives: updates in place, memory that moves, inner loops that read and write there."""
    tape, args = simplify(build(block)), start(m)
    rng = np.random.default_rng(9)
    for derived, alike in (
        (tape, []),
        (simplify(reverse_tape(tape)), args),
        (simplify(forward_tape(tape)), args),
    ):
        values = [*args, *(rng.normal(size=np.shape(a)) for a in alike)]
        program = lower(derived, ("C",) * (len(values) + len(derived.consts)))
        for got, want in zip(run_python(program, derived, values)[0], run(derived, values), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)
