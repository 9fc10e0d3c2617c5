"""Schedules: what shares a nest, what gets memory, and that the work stays linear."""

import numpy as np
import pytest
from example_tapes import (
    FLOAT,
    build,
    diffuse,
    examples,
    inner,
    rows,
    size,
    softmax,
    total,
    wave,
    with_gradient,
)

from tracejit.codegen.emit import lower
from tracejit.errors import InternalError
from tracejit.ir.aval import Aval
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Tape
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import broadcast, expand_dims, reduce_sum
from tracejit.ops.contraction import contraction
from tracejit.ops.elementwise import add, mul
from tracejit.ops.linear import reshape, transpose
from tracejit.ops.reduction import reduce_max
from tracejit.ops.transcendental import exp, sin
from tracejit.passes.fusion import fuse
from tracejit.passes.schedule import Call, Fold, Nest, Schedule, Store

N, M = size("n"), size("m", 30)


def schedule(tape: Tape) -> Schedule:
    return fuse(tape, (True,) * (len(tape.inputs) + len(tape.consts)))


def temporaries(tape: Tape) -> int:
    """How many arrays the kernel has besides its arguments and the stacks of partial sums."""
    return lower(tape, ("C",) * len(tape.inputs)).source.count(" = placed(")


@pytest.mark.parametrize("shape", [(N,), (N, M), (N, M, 3)])
def test_value_and_gradient_are_one_flat_loop_without_temporaries(shape: tuple) -> None:
    tape = with_gradient(wave, shape, shape)
    (nest,) = schedule(tape).steps
    assert isinstance(nest, Nest)
    assert sorted(type(r).__name__ for r in nest.roots) == ["Fold", "Store", "Store"]
    source = lower(tape, ("C", "C")).source
    assert temporaries(tape) == 0
    assert source.count("for ") == 2  # blocks, and what is inside a block


def test_several_folds_over_one_space_share_it() -> None:
    tape = build(lambda x: (total(x), reduce_sum(x, axes=(0,)), reduce_max(x, axes=(1,)), sin(x)), (N, M))
    (nest,) = schedule(tape).steps
    assert len(nest.roots) == 4


def test_what_needs_a_fold_comes_in_a_later_nest() -> None:
    steps = schedule(build(softmax, (N, M))).steps
    assert [type(nest.roots[0]) for nest in steps] == [Fold, Fold, Store]


def test_expensive_rows_are_computed_once() -> None:
    def scaled(x, y):
        return mul(x, broadcast(exp(y), shape=x.shape, axes=(1,)))

    assert temporaries(build(scaled, (N, M), (M,))) == 1


def test_cheap_rows_and_whole_columns_are_not_stored() -> None:
    def scaled(x, y, z):
        return mul(mul(x, broadcast(add(y, 1.0), shape=x.shape, axes=(1,))), rows(x, exp(z)))

    tape = build(scaled, (N, M), (M,), (N,))
    assert temporaries(tape) == 0
    lines = lower(tape, ("C",) * 3).source.splitlines()
    assert lines.index(next(s for s in lines if "exp(" in s)) < lines.index("        for j in range(m):")


def test_a_value_read_through_two_maps_is_stored_if_it_is_expensive() -> None:
    def differences(f):
        return lambda x: add(inner(f(x), 1, 0), inner(f(x), 0, 1))

    assert temporaries(build(differences(lambda x: exp(sin(x))), (N,))) == 1
    assert temporaries(build(differences(lambda x: mul(x, 2.0)), (N,))) == 0


def test_a_hundred_stencil_steps_stay_linear() -> None:
    def length(steps: int) -> int:
        return len(lower(build(lambda x: diffuse(x, steps), (N,)), ("C",)).source)

    assert length(40) < 2.3 * length(20)


def test_reshape_is_free_where_it_reads_memory_in_order() -> None:
    tape = build(lambda x: total(sin(reshape(mul(x, 2.0), shape=(N * M,)))), (N, M))
    assert temporaries(tape) == 0
    moved = build(lambda x: total(sin(reshape(transpose(x, perm=(1, 0)), shape=(N * M,)))), (N, M))
    assert temporaries(moved) == 1


def test_operands_of_calls_are_views_where_they_can_be() -> None:
    def product(x, y):
        return contraction(x, reshape(y, shape=(M, N)), ((0, 1), (1, 2), (0, 2)))

    steps = schedule(build(product, (N, M), (M * N,))).steps
    assert [type(s) for s in steps] == [Call]


def test_outputs_never_share_memory() -> None:
    with Builder() as builder:
        x = builder.input(Aval((N,), FLOAT), "x")
        y = sin(x)
        tape = builder.finish([x, y, y, x])
    targets = schedule(tape).targets
    assert len(set(targets)) == 4 and x not in targets


def test_long_scalar_tapes_need_no_recursion() -> None:
    with Builder() as builder:
        x = y = builder.input(Aval((), FLOAT), "x")
        for _ in range(20_000):
            y = add(y, x)
        tape = builder.finish([y])
    namespace: dict = {"np": np}
    program = lower(tape, ("C",))
    exec(program.source, namespace)
    assert namespace[program.name](1.0, None) == (interpret(tape, [1.0])[0][0],)


def test_an_op_without_loop_form_is_named() -> None:
    class Strange(Op):
        name = "strange"

        def infer(self, aval):
            return aval

        impl = jvp = vjp = batch = infer

    with Builder() as builder:
        x = builder.input(Aval((N,), FLOAT), "x")
        tape = builder.finish([Strange()(x)])
    with pytest.raises(InternalError, match="strange"):
        lower(tape, ("C",))


def test_unit_axes_take_no_loop() -> None:
    source = lower(build(lambda x: expand_dims(sin(x), axes=(0,)), (N,)), ("C",)).source
    assert source.count("for ") == 1


def test_examples_are_scheduled_in_order() -> None:
    for tape in examples().values():
        written = {*tape.inputs, *(v for v, _ in tape.consts)}
        for step in schedule(tape).steps:
            if isinstance(step, Nest):
                for root in step.roots:
                    written |= {root.target} if isinstance(root, Store) else set(root.eqn.results)
            else:
                assert all(schedule(tape).views.get(a, a) in written for a in step.eqn.operands)
                written.update(step.eqn.results)
