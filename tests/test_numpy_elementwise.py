"""Ufuncs and entrywise NumPy functions on traced values: values, dtypes and errors are NumPy's."""

import numpy as np
import op_table
import pytest

from tracejit.errors import UnsupportedError
from tracejit.frontend.registry import FUNCTIONS, UFUNCS
from tracejit.frontend.tracer import TracedArray
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.tape import Atom, Builder

X = np.array([-2.5, -1.0, -0.0, 0.0, 0.3, 1.5, np.inf, -np.inf, np.nan])
I8 = np.array([-128, -3, 0, 2, 127], np.int8)
U1 = np.array([0, 1, 200, 255], np.uint8)
B = np.array([True, False])
Z = np.array([1 + 2j, 0j, -3.0 + 0j])


def _outcome(function, arrays):
    """Result of ``function`` on traced arrays, run by the interpreter."""
    with Builder() as builder:
        inputs = [builder.input(Aval(a.shape, a.dtype)) for a in arrays]
        out = function(*map(TracedArray, inputs))
        traced = [o.atom for o in (out if isinstance(out, tuple) else (out,))]
        tape = check(builder.finish(traced))
    return op_table.run(tape, arrays)


def _same_as_numpy(function, *arrays):
    with np.errstate(all="ignore"):
        want = function(*arrays)
    for got, expected in zip(
        _outcome(function, arrays), want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert got.dtype == np.asarray(expected).dtype and got.shape == np.shape(expected)
        np.testing.assert_array_equal(got, expected)
        if got.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


FUNCTIONS_AND_ARRAYS = [
    (lambda x: np.where(x > 0, x, 0), (X,)),
    (lambda x: np.where(x > 0, x, 0), (I8,)),
    (lambda x, b: np.where(b, x[:2], 1.0), (X.astype("f4"), B)),
    (lambda x: np.where(x, 1, 2), (X,)),
    (lambda x: np.select([x > 1, x > -1], [x, 2 * x], 7), (X,)),
    (lambda x: np.select([x > 1, x > -1], [x, 2.5], 7), (I8,)),
    (lambda x: np.clip(x, -1, 1), (X,)),
    (lambda x: np.clip(x, -1, None), (X,)),
    (lambda x: np.clip(x, None, 0.5), (I8,)),
    (lambda x: np.clip(x, None, None), (X,)),
    (lambda x: np.clip(x, min=0, max=2), (X,)),
    (lambda x: np.clip(x, 2, 1), (X,)),
    (lambda x: np.clip(x, -0.0, 0.0), (X,)),
    (lambda x: np.clip(x, -1000, 5), (I8,)),
    (lambda x: np.clip(x, 3, 1000), (U1,)),
    (lambda x: np.clip(x, np.nan, 1), (X,)),
    (lambda x: np.clip(x, 0, 5, dtype="f8"), (I8,)),
    (lambda x, b: np.clip(b, False, x[:2] > 0), (X, B)),
    (lambda x: x.clip(0, 1), (X,)),
    (np.nan_to_num, (X,)),
    (np.nan_to_num, (X.astype("f4"),)),
    (lambda x: np.nan_to_num(x, nan=3, posinf=1, neginf=-np.inf), (X,)),
    (np.nan_to_num, (I8,)),
    (np.round, (X,)),
    (lambda x: np.round(1234.5678 * x, 2), (X,)),
    (lambda x: np.around(1234.5678 * x, -2), (X.astype("f4"),)),
    (lambda x: np.round(x, -1), (I8,)),
    (lambda x: np.round(x, 1), (I8,)),
    (lambda x: x.round(1), (X,)),
    (np.round, (B,)),
    (np.fix, (X,)),
    (np.fix, (I8,)),
    (np.real, (Z,)),
    (np.imag, (Z,)),
    (np.imag, (X,)),
    (np.angle, (Z,)),
    (np.angle, (X,)),
    (np.angle, (I8,)),
    (lambda z: np.angle(z, deg=True), (Z,)),
    (np.conj, (Z,)),
    (np.conj, (X,)),
    (np.isreal, (Z,)),
    (np.iscomplex, (Z,)),
    (np.isreal, (X,)),
    (np.isposinf, (X,)),
    (np.isneginf, (X,)),
    (lambda x: np.isclose(x, x + 1e-9), (X,)),
    (lambda x: np.isclose(x, x, equal_nan=True), (X,)),
    (lambda x: np.isclose(x, 1), (I8,)),
    (np.sign, (Z,)),
    (np.positive, (X,)),
    (np.divmod, (X, X[::-1])),
    (np.divmod, (I8, I8[::-1])),
    (np.modf, (X,)),
    (np.frexp, (X,)),
    (np.float_power, (I8, np.array(2))),
    (np.float_power, (X.astype("f4"), X.astype("f4"))),
    (np.deg2rad, (X,)),
    (np.rad2deg, (X,)),
    (lambda x: np.ldexp(x, 3), (X.astype("f4"),)),
    (lambda x: np.power(x, 2), (I8,)),
    (lambda x: x**2, (X.astype("f4"),)),
    (lambda x: x**0, (X,)),
    (lambda x: 2**x, (U1,)),
    (lambda x: -x, (U1,)),
    (lambda x: ~x, (B,)),
    (lambda x: ~x, (U1,)),
    (lambda x: (x << 3) | (x >> 1) & 5 ^ x, (I8,)),
    (lambda x: np.logical_and(x, x > 1) | np.logical_not(x), (X,)),
    (lambda x: np.logical_xor(x, 1), (I8,)),
    (lambda x: x // 3 + x % 3, (X,)),
    (lambda x: x / 3, (I8,)),
    (lambda x: 1 / x, (X.astype("f4"),)),
    (lambda x: x + True, (I8,)),
    (lambda x: x + x, (B,)),
    (lambda x: x < 1000, (I8,)),
    (lambda x: x >= -1, (U1,)),
    (lambda x: x == 256, (U1,)),
    (lambda x: x < 300, (U1,)),
    (lambda x: x < 2**63, (np.array([-1, 5]),)),
    (lambda x: np.maximum(x, np.uint64(3)), (np.array([-1, 5]),)),
    (lambda x: np.gcd(x, 12) + np.lcm(x, 3), (np.array([-8, 0, 9]),)),
]


@pytest.mark.parametrize(("function", "arrays"), FUNCTIONS_AND_ARRAYS)
def test_values_and_dtypes_are_numpys(function, arrays):
    _same_as_numpy(function, *arrays)


def test_sinc_is_within_rounding():
    x = np.linspace(-3, 3, 201)
    (got,) = _outcome(np.sinc, (x,))
    np.testing.assert_allclose(got, np.sinc(x), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_choose(mode):
    index = np.array([0, 2, 1]) if mode == "raise" else np.array([-1, 5, 1])
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    _same_as_numpy(lambda i, r: np.choose(i, [r[0], r[1], 9], mode=mode), index, rows)


@pytest.mark.parametrize(
    ("function", "array", "error"),
    [
        (lambda x: x - x, B, TypeError),
        (lambda x: -x, B, TypeError),
        (np.positive, B, TypeError),
        (np.bitwise_and, X, TypeError),
        (lambda x: x + 300, U1, OverflowError),
        (lambda x: x + -1, U1, OverflowError),
        (lambda x: x**-1, I8, ValueError),
        (lambda x: np.select([x], [x]), X, TypeError),
        (lambda x: np.select([x > 0], [x, x]), X, ValueError),
        (np.cbrt, Z, TypeError),
        (np.floor, Z, TypeError),
    ],
)
def test_numpys_own_errors(function, array, error):
    arrays = (array, array) if isinstance(function, np.ufunc) and function.nin == 2 else (array,)
    with pytest.raises(error):
        function(*arrays)
    with pytest.raises(error):
        _outcome(function, arrays)


@pytest.mark.parametrize(
    ("function", "array", "hint"),
    [
        (lambda z: np.maximum(z, z), Z, "np.abs"),
        (lambda z: np.clip(z, 0, 1), Z, "np.abs"),
        (np.isnat, X, "numbers"),
        (np.bitwise_count, U1, "shifts"),
        (lambda x: np.clip(x, 0, 1, out=x), X, "out[...] = np.clip"),
        (lambda x: np.nan_to_num(x, copy=False), X, "x[...] ="),
    ],
)
def test_unsupported_forms_name_a_way_out(function, array, hint):
    with pytest.raises(UnsupportedError) as caught:
        _outcome(function, (array,))
    assert hint in str(caught.value)


def test_every_ufunc_has_a_meaning():
    ufuncs = {u for u in vars(np).values() if isinstance(u, np.ufunc)}
    products = {np.matmul, np.matvec, np.vecmat, np.vecdot}
    assert ufuncs - products <= set(UFUNCS)


def test_whether_an_array_is_complex_is_known_while_tracing():
    with Builder() as builder:
        z = TracedArray(builder.input(Aval((2,), np.dtype(complex))))
        assert np.iscomplexobj(z) and not np.isrealobj(z)
        assert FUNCTIONS[np.array_equal](z, np.zeros(3)) is False
        assert isinstance(np.array_equal(z, z).atom, Atom)


def test_a_literal_exponent_stays_literal():
    with Builder() as builder:
        x = TracedArray(builder.input(Aval((2,), np.dtype("f4"))))
        (x**3)
        assert str(builder.finish([])).count("power(a, 3.0)") == 1
        assert (x**0.5).dtype == np.float32 and builder.eqns[-1].op.name == "sqrt"
