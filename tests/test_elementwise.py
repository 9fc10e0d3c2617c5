"""The table of elementwise ops: NumPy's values and dtypes, derivatives to second order, batching."""

import numpy as np
import op_table
import pytest

from tracejit.errors import UnsupportedError
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.tape import Builder
from tracejit.passes.vmap import vmap

OPS = op_table.elementwise_ops()
INTEGERS = ("i8", "i1", "u1", "?")
DTYPES = ("f8", "f4", "c16", *INTEGERS)


def _ops_on(dtype, condition=lambda op: True):
    found = [op for op in OPS if condition(op) and op_table.takes(op, op_table.operands_of(op, dtype, (1,)))]
    return pytest.mark.parametrize("op", found, ids=str)


def _has_derivative(op):
    return any(op.partials)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_values_and_dtypes_are_numpys(op, dtype):
    if dtype in INTEGERS and not isinstance(op.function, np.ufunc):
        dtype = "f8"  # internal functions only see floats
    arrays = op_table.operands_of(op, dtype, (7,))
    if not op_table.takes(op, arrays):
        with pytest.raises((TypeError, UnsupportedError)):
            op_table.op_tape(op, arrays, {})
        return
    with np.errstate(all="ignore"):
        try:
            want = op.function(*arrays)
        except ValueError:  # integers to negative integer powers
            assert op.name == "power"
            return
    (got,) = op_table.run(op_table.op_tape(op, arrays, {}), arrays)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@_ops_on("f8")
def test_derivatives_to_second_order(op):
    arrays = op_table.operands_of(op, "f8", (3,))
    op_table.check_derivatives(op_table.op_tape(op, arrays, {}), arrays, 2, 1e-12)


@_ops_on("c16", _has_derivative)
def test_complex_derivatives_to_second_order(op):
    arrays = op_table.operands_of(op, "c16", (3,))
    op_table.check_derivatives(op_table.op_tape(op, arrays, {}), arrays, 2, 1e-11)


@_ops_on("f4", _has_derivative)
def test_float32_stays_float32(op):
    arrays = op_table.operands_of(op, "f4", (4,))
    tape = op_table.op_tape(op, arrays, {})
    op_table.check_derivatives(tape, arrays, 1, 1e-5)
    for derived in (op_table.forward_tape(tape), op_table.reverse_tape(tape)):
        assert {v.dtype.char for eqn in derived.eqns for v in eqn.results} <= set("f?li")


@_ops_on("f8", _has_derivative)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1), (2, 3)], ids=str)
def test_shapes(op, shape):
    arrays = op_table.operands_of(op, "f8", shape)
    op_table.check_derivatives(op_table.op_tape(op, arrays, {}), arrays, 1, 1e-11)


@_ops_on("f8", lambda op: op.name not in ("real", "imag", "angle", "conjugate"))
def test_batching_is_a_loop(op):
    _check_batching(op, "f8")


@_ops_on("c16")
def test_batching_complex_operands(op):
    _check_batching(op, "c16")


def _check_batching(op, dtype):
    rows = op_table.operands_of(op, dtype, (4, 3))
    tape = op_table.op_tape(op, [a[0] for a in rows], {})
    for batched in [(True,) * op.arity, *(tuple(i == k for i in range(op.arity)) for k in range(op.arity))]:
        arrays = [a if b else a[0] for a, b in zip(rows, batched, strict=True)]
        with Builder() as builder:
            inputs = [builder.input(Aval(a.shape, a.dtype)) for a in arrays]
            outputs, lifted = vmap(tape, inputs, batched, 4)
            (got,) = op_table.run(check(builder.finish(outputs)), arrays)
        assert lifted == (True,)
        for i in range(4):
            row = [a[i] if b else a for a, b in zip(arrays, batched, strict=True)]
            np.testing.assert_array_equal(got[i], op_table.run(tape, row)[0])


@_ops_on("f8", lambda op: op.arity == 2 and _has_derivative(op))
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((1,), (4, 2))], ids=str)
def test_broadcasting(op, shapes):
    arrays = [op_table.operands_of(op, "f8", shape)[i] for i, shape in enumerate(shapes)]
    op_table.check_derivatives(op_table.op_tape(op, arrays, {}), arrays, 1, 1e-11)
