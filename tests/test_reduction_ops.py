"""Reductions, scans, sorts and contractions as ops: derivatives, batches, generated code against NumPy's."""

import itertools
from typing import Any

import numpy as np
import op_table
import pytest
from samples_reductions import OTHERS, SMOOTH

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.dims import Symbol
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder, Lit, Tape
from tracejit.ops.base import REGISTRY
from tracejit.ops.contraction import contraction
from tracejit.ops.ordering import argsort, take_along
from tracejit.ops.reduction import reduce_max, reduce_min, size_of
from tracejit.ops.scan import linear_scan
from tracejit.passes.vmap import vmap

Array = np.ndarray[Any, Any]


def cases(*tables: dict[str, list[op_table.Sample]]) -> list[Any]:
    return [
        pytest.param(name, arrays, params, id=f"{name}-{k}")
        for table in tables
        for name, samples in table.items()
        for k, (arrays, params) in enumerate(samples)
    ]


@pytest.mark.parametrize(("name", "arrays", "params"), cases(SMOOTH))
def test_derivatives(name: str, arrays: tuple[Array, ...], params: dict[str, Any]) -> None:
    op_table.check_derivatives(op_table.op_tape(REGISTRY[name], arrays, params), arrays, 2, 1e-11)


@pytest.mark.parametrize("axes", [(0,), (0, 1)])
def test_third_derivatives_of_products_with_zeros(axes: tuple[int, ...]) -> None:
    x = np.array([[0.0, 2.0], [0.0, -1.0], [3.0, 0.0]])
    op_table.check_derivatives(
        op_table.op_tape(REGISTRY["reduce_prod"], (x,), {"axes": axes}), (x,), 3, 1e-10
    )


@pytest.mark.parametrize("name", sorted({*SMOOTH, *OTHERS}))
def test_generated_code(name: str) -> None:
    samples = SMOOTH.get(name, []) + OTHERS.get(name, [])
    tape = op_table.joined([op_table.op_tape(REGISTRY[name], arrays, params) for arrays, params in samples])
    operands = [a for arrays, _ in samples for a in arrays]
    for got, want in zip(op_table.run_compiled(tape, operands), op_table.run(tape, operands), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("name", "arrays", "params"), cases(SMOOTH, OTHERS))
def test_batches(name: str, arrays: tuple[Array, ...], params: dict[str, Any]) -> None:
    tape = op_table.op_tape(REGISTRY[name], arrays, params)
    for flags in itertools.islice(itertools.product([False, True], repeat=len(arrays)), 1, None):
        if name == "absorb_zeros" and not all(flags):
            continue
        stacked = [np.stack([a, a[::-1]]) if f else a for a, f in zip(arrays, flags, strict=True)]
        with Builder() as builder:
            inputs = [builder.input(Aval(a.shape, a.dtype)) for a in stacked]
            batched = check(builder.finish(vmap(tape, inputs, flags, 2)[0]))
        (both,) = op_table.run(batched, stacked)
        for k in range(2):
            single = [a[k] if f else a for a, f in zip(stacked, flags, strict=True)]
            np.testing.assert_allclose(both[k], op_table.run(tape, single)[0], rtol=1e-13)


# --- conventions ------------------------------------------------------------------------------------------


def shares(op: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """The gradient of the sum of the extremes; checked against the forward mode."""
    tape = op_table.op_tape(op, (x,), {"axes": axes})
    (y,) = op_table.run(tape, (x,))
    (back,) = op_table.run(op_table.reverse_tape(tape), (x, np.ones_like(y)))
    for place in np.ndindex(x.shape):
        seed = np.zeros_like(x)
        seed[place] = 1
        (pushed,) = op_table.run(op_table.forward_tape(tape), (x, seed))
        np.testing.assert_allclose(pushed.sum(), back[place])
    return back


def test_ties_share_equally() -> None:
    x = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 2.0]])
    np.testing.assert_array_equal(shares(reduce_max, x, (0, 1)), np.array([[0, 1, 1], [1, 0, 0]]) / 3)
    np.testing.assert_array_equal(shares(reduce_max, x, (1,)), [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(shares(reduce_min, -x, (0,)), [[0, 1, 1], [1, 0, 0]])


def test_a_nan_that_is_the_result_gets_the_derivative() -> None:
    x = np.array([1.0, np.nan, 3.0, np.nan])
    np.testing.assert_array_equal(shares(reduce_max, x, (0,)), [0, 0.5, 0, 0.5])
    np.testing.assert_array_equal(shares(REGISTRY["reduce_fmax"], x, (0,)), [0, 0, 1, 0])


def test_only_nan_has_no_influence_where_nan_is_skipped() -> None:
    np.testing.assert_array_equal(shares(REGISTRY["reduce_fmin"], np.full(3, np.nan), (0,)), np.zeros(3))


def test_zeros_absorb_in_a_recurrence() -> None:
    a, b = np.array([2.0, 0.0, 3.0, 1.0]), np.array([np.inf, 1.0, 0.0, 5.0])
    (y,) = op_table.run(op_table.op_tape(linear_scan, (a, b), {"axis": 0, "reverse": False}), (a, b))
    np.testing.assert_array_equal(y, [0, np.inf, 1, 3])


def product_tape(absorb: bool) -> Tape:
    with Builder() as builder:
        a, b = builder.input(Aval((10, 11), np.dtype(float))), builder.input(Aval((11, 12), np.dtype(float)))
        return check(builder.finish([contraction(a, b, ((0, 1), (1, 2), (0, 2)), absorb)]))


def test_zeros_absorb_in_a_product() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(10, 11)), rng.normal(size=(11, 12))
    a[2, 3], b[3, :5] = np.inf, 0.0
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    assert np.isnan(wanted[2, :5]).all()
    wanted[2, :5] = np.delete(a, 3, axis=1)[2] @ np.delete(b, 3, axis=0)[:, :5]
    for run in (op_table.run, op_table.run_compiled):
        (got,) = run(product_tape(absorb=True), (a, b))
        np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_a_product_that_does_not_absorb_is_one_equation() -> None:
    assert [e.op.name for e in product_tape(absorb=False).eqns] == ["contract"]
    assert [e.op.name for e in product_tape(absorb=True).eqns] == ["contract", "absorb_zeros"]


@pytest.mark.parametrize(
    ("left", "right", "out", "names"),
    [
        ((0, 1), (1, 2), (0, 2), ["contract"]),
        ((0, 1), (1, 2), (2, 0), ["contract"]),  # the operands change places
        ((1, 0), (2, 1), (0, 2), ["contract"]),
        ((3, 0, 1), (3, 1, 2), (3, 0, 2), ["contract"]),
        ((0, 1, 2), (2, 1), (0,), ["transpose", "contract"]),
        ((0, 1), (0, 1), (), ["mul", "reduce_sum"]),
        ((0,), (1,), (0, 1), ["broadcast", "broadcast", "mul"]),
        ((0, 1, 4), (1, 2), (0, 2), ["reduce_sum", "contract"]),
    ],
)
def test_products_reach_blas_without_moving_axes(left: Any, right: Any, out: Any, names: list[str]) -> None:
    with Builder() as builder:
        a, b = (builder.input(Aval((10 + k,) * 0 + tuple(10 + i for i in own), np.dtype(float)))
                for k, own in enumerate((left, right)))  # fmt: skip
        contraction(a, b, (left, right, out))
        assert [e.op.name for e in builder.eqns] == names


def test_small_sums_fuse() -> None:
    with Builder() as builder:
        a, b = (builder.input(Aval(shape, np.dtype(float))) for shape in ((100, 3), (3, 3)))
        contraction(a, b, ((0, 1), (1, 2), (0, 2)))
        assert "contract" not in [e.op.name for e in builder.eqns]


def test_sorting_is_stable_and_follows_the_entries() -> None:
    x = np.array([[2.0, 1.0, 2.0, np.nan, 1.0]])
    with Builder() as builder:
        a = builder.input(Aval(x.shape, x.dtype))
        tape = check(builder.finish([take_along(a, argsort(a, axis=1), 1)]))
    weights = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    np.testing.assert_array_equal(op_table.run(tape, (x,))[0], [[1, 1, 2, 2, np.nan]])
    (back,) = op_table.run(op_table.reverse_tape(tape), (x, weights))
    np.testing.assert_array_equal(back, [[3, 1, 4, 5, 2]])


def test_a_size_is_a_literal_or_read_at_run_time() -> None:
    rows = dims.poly(Symbol("n", 12))
    with Builder() as builder:
        builder.input(Aval((rows,), np.dtype(float)))
        fixed = size_of(5, np.float32)
        tape = check(builder.finish([size_of(rows * 2), fixed]))
    assert isinstance(fixed, Lit) and fixed.dtype == np.float32
    assert interpret(tape, [np.zeros(20)])[0] == [40, 5]
