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
FLOATS = ("f8", "f4", "c16")
DTYPES = (*FLOATS, *INTEGERS)


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


@_ops_on("f8", lambda op: op.name != "frozen")  # whose derivative is 0 by definition
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
        assert {v.dtype.char for eqn in derived.eqns for v in eqn.results} <= set("fF?li")


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


def _appears(op, dtype):
    """Whether the op takes operands of the dtype, and is not replaced by another for them."""
    if dtype in INTEGERS and not isinstance(op.function, np.ufunc) and op.name != "select":
        return False  # internal functions only see floats
    arrays = op_table.operands_of(op, dtype, (1,))
    return op_table.takes(op, arrays) and op in {eqn.op for eqn in op_table.op_tape(op, arrays, {}).eqns}


def _groups(dtype, condition=lambda op: True, slow=False, size=8):
    """Ops in groups that share a kernel: compiling one by one takes three times as long."""
    found = [op for op in OPS if condition(op) and _appears(op, dtype)]
    groups = [found[i : i + size] for i in range(0, len(found), size)]
    marks = [pytest.mark.slow] if slow else []
    return [
        pytest.param(dtype, g, id=f"{dtype}-{'-'.join(op.name for op in g)}", marks=marks) for g in groups
    ]


_VALUES = [case for dtype in DTYPES for case in _groups(dtype, slow=dtype not in ("f8", "f4", "i8"))]
_DERIVATIVES = [case for dtype in FLOATS for case in _groups(dtype, _has_derivative, slow=dtype != "f8")]


@pytest.mark.parametrize(("dtype", "ops"), _VALUES)
def test_compiled_values(dtype, ops):
    operands = [op_table.extremes_of(op, dtype) for op in ops]
    tapes = [op_table.op_tape(op, arrays, {}) for op, arrays in zip(ops, operands, strict=True)]
    _check_compiled(tapes, operands)


@pytest.mark.parametrize(("dtype", "ops"), _DERIVATIVES)
def test_compiled_derivatives(dtype, ops):
    rng = np.random.default_rng(3)
    tapes, operands = [], []
    for op in ops:
        arrays = op_table.extremes_of(op, dtype)
        tape = op_table.op_tape(op, arrays, {})
        tapes.append(op_table.reverse_tape(tape))
        operands.append([*arrays, *(rng.uniform(0.5, 1, v.shape).astype(v.dtype) for v in tape.outputs)])
    _check_compiled(tapes, operands)


def _check_compiled(tapes, operands):
    joined = op_table.joined(tapes)
    arrays = [a for own in operands for a in own]
    expected, found = op_table.run(joined, arrays), op_table.run_compiled(joined, arrays)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == want.dtype
        if want.dtype.kind not in "fc":
            np.testing.assert_array_equal(got, want)
            continue
        limits = np.finfo(want.dtype)
        smallest = limits.smallest_subnormal if limits.bits == 16 else 0  # loops compute float16 in float32
        np.testing.assert_allclose(got, want, rtol=16 * limits.eps, atol=smallest)
        if want.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
