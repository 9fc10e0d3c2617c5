"""The elementwise rows of the table of conventions, at the exact points, in both modes, to second order."""

import itertools
import math

import numpy as np
import op_table
import pytest

from tracejit.frontend.tracer import TracedArray
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.interpret import interpret
from tracejit.ir.tape import Builder
from tracejit.ops.broadcasting import full
from tracejit.passes.jvp import jvp
from tracejit.passes.transpose import vjp

INF, NAN, PI = math.inf, math.nan, math.pi


def _trace(function, dtypes):
    with Builder() as builder:
        inputs = [builder.input(Aval((1,), np.dtype(d))) for d in dtypes]
        return check(builder.finish([function(*map(TracedArray, inputs)).atom]))


def _reverse(tape):
    """Partial derivatives of every output by reverse mode: one tape, outputs times inputs results."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        _, pullback = vjp(tape, inputs, range(len(inputs)))
        results = []
        for number, output in enumerate(tape.outputs):
            seeds = [None] * len(tape.outputs)
            seeds[number] = full(1, output.shape, output.dtype)
            pulled = pullback(seeds)
            results += [
                full(0, v.shape, v.dtype) if g is None else g for g, v in zip(pulled, inputs, strict=True)
            ]
        return check(builder.finish(results))


def _forward(tape):
    """The same by forward mode, with explicit zeros as the tangents of the other inputs."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        columns = []
        for number in range(len(inputs)):
            tangents = [full(float(i == number), v.shape, v.dtype) for i, v in enumerate(inputs)]
            _, pushed = jvp(tape, inputs, tangents)
            pairs = zip(pushed, tape.outputs, strict=True)
            columns.append([full(0, v.shape, v.dtype) if t is None else t for t, v in pairs])
        return check(builder.finish([column[i] for i in range(len(tape.outputs)) for column in columns]))


MODES = {"forward": _forward, "reverse": _reverse}


def _derivatives(function, point, modes):
    tape = _trace(function, [np.result_type(p, float) for p in point])
    for mode in modes:
        tape = MODES[mode](tape)
    return [
        complex(v[0]) if np.iscomplexobj(v) else float(v[0]) for v in interpret(tape, [[p] for p in point])[0]
    ]


def _row(name, function, point, first, *higher):
    point = point if isinstance(point, tuple) else (point,)
    return pytest.param(function, point, (first if isinstance(first, tuple) else (first,), *higher), id=name)


ROWS = [
    # absolute values and lengths: the smallest subgradient
    _row("abs", np.abs, 0.0, 0, (0,)),
    _row("abs of minus zero", np.abs, -0.0, 0, (0,)),
    _row("abs operator", abs, -3.0, -1, (0,)),
    _row("fabs", np.fabs, 0.0, 0, (0,)),
    _row("hypot", np.hypot, (0.0, 0.0), (0, 0), (0, 0, 0, 0)),
    _row("hypot on an axis", np.hypot, (0.0, -2.0), (0, -1), (0.5, 0, 0, 0)),
    _row("arctan2", np.arctan2, (0.0, 0.0), (0, 0), (0, 0, 0, 0)),
    _row("arctan2 of tiny numbers", np.arctan2, (0.0, 1e-200), (1e200, 0)),
    _row("arctan2 of huge numbers", np.arctan2, (0.0, 1e200), (1e-200, 0)),
    # roots
    _row("sqrt", np.sqrt, 0.0, INF),
    _row("cbrt", np.cbrt, 0.0, INF),
    _row("sqrt of a square", lambda x: np.sqrt(x**2), 0.0, 0),
    _row("x sqrt(x)", lambda x: x * np.sqrt(x), 0.0, 0),
    _row("x x**0.25", lambda x: x * x**0.25, 0.0, 0),
    _row("0 sqrt(x)", lambda x: 0.0 * np.sqrt(x), 0.0, 0, (0,)),
    _row("smallest root", np.sqrt, 5e-324, 0.5 / math.sqrt(5e-324)),
    # steps
    *(
        _row(f.__name__, f, x, 0, (0,))
        for f, x in itertools.product(
            (np.sign, np.floor, np.ceil, np.rint, np.trunc, np.round, np.fix), (1.0, 0.3)
        )
    ),
    _row("//", lambda x, y: x // y, (5.5, 2.0), (0, 0), (0, 0, 0, 0)),
    _row("comparison", lambda x: x * (x > 0), 2.0, 1, (0,)),
    _row("isnan", lambda x: np.isnan(x) + 0.0, 2.0, 0, (0,)),
    _row("heaviside", np.heaviside, (0.0, 0.5), (0, 1), (0, 0, 0, 0)),
    _row("heaviside elsewhere", np.heaviside, (1.0, 0.5), (0, 0), (0, 0, 0, 0)),
    # the larger and the smaller
    *(_row(f"{f.__name__} tie", f, (2.0, 2.0), (0.5, 0.5), (0, 0, 0, 0)) for f in (np.maximum, np.minimum)),
    *(_row(f"{f.__name__} tie", f, (2.0, 2.0), (0.5, 0.5), (0, 0, 0, 0)) for f in (np.fmax, np.fmin)),
    *(_row(f"{f.__name__} nan first", f, (NAN, 1.0), (1, 0)) for f in (np.maximum, np.minimum)),
    *(_row(f"{f.__name__} nan second", f, (1.0, NAN), (0, 1)) for f in (np.maximum, np.minimum)),
    *(_row(f"{f.__name__} nan first", f, (NAN, 1.0), (0, 1)) for f in (np.fmax, np.fmin)),
    *(_row(f"{f.__name__} nan second", f, (1.0, NAN), (1, 0)) for f in (np.fmax, np.fmin)),
    *(
        _row(f"{f.__name__} nan twice", f, (NAN, NAN), (1, 0))
        for f in (np.maximum, np.fmax, np.minimum, np.fmin)
    ),
    _row("positive and negative part", lambda x: np.maximum(x, 0) + np.minimum(x, 0), 0.0, 1, (0,)),
    _row("part not taken is infinite", lambda x: np.maximum(np.sqrt(x), 1.0), 0.0, 0, (0,)),
    # clipping
    _row("clip on the lower bound", np.clip, (-1.0, -1.0, 1.0), (1, 0, 0)),
    _row("clip on the upper bound", np.clip, (1.0, -1.0, 1.0), (1, 0, 0)),
    _row("clip below", np.clip, (-1.5, -1.0, 1.0), (0, 1, 0), (0,) * 9),
    _row("clip above", np.clip, (1.5, -1.0, 1.0), (0, 0, 1), (0,) * 9),
    _row("clip with crossed bounds", np.clip, (0.0, 2.0, 1.0), (0, 0, 1)),
    _row("clip without upper bound", lambda x, low: np.clip(x, low, None), (1.0, 1.0), (1, 0)),
    _row("clip without lower bound", lambda x, high: np.clip(x, None, high), (1.0, 1.0), (1, 0)),
    # selections
    _row("where", lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0, (0,), (0,)),
    _row("where of a quotient", lambda x, y: np.where(y != 0, x / y, x), (2.0, 0.0), (1, 0), (0, 0, 0, 0)),
    _row(
        "where of a series",
        lambda x: np.where(x != 0, np.expm1(x) / x, 1 + x / 2 + x * x / 6),
        0.0,
        0.5,
        (1 / 3,),
    ),
    _row("select", lambda x: np.select([x > 1, x > 0], [x**2, np.log(x)], 3 * x), -1.0, 3, (0,)),
    _row(
        "select in the middle", lambda x: np.select([x > 1, x > 0], [x**2, np.log(x)], 3 * x), 0.5, 2, (-4,)
    ),
    _row("nan_to_num", np.nan_to_num, NAN, 0, (0,)),
    _row("nan_to_num of an infinity", np.nan_to_num, -INF, 0, (0,)),
    _row("nan_to_num elsewhere", np.nan_to_num, 2.0, 1, (0,)),
    # powers with a constant exponent
    _row("x**0", lambda x: x**0, 0.0, 0, (0,)),
    _row("x**0.5", lambda x: x**0.5, 0.0, INF),
    _row("x**0.25", lambda x: x**0.25, 0.0, INF),
    _row("x**1", lambda x: x**1, 0.0, 1, (0,)),
    _row("x**1.25", lambda x: x**1.25, 0.0, 0, (INF,)),
    _row("x**2", lambda x: x**2, 0.0, 0, (2,), (0,)),
    _row("x**2.0", lambda x: x**2.0, 0.0, 0, (2,), (0,)),
    _row("x**3", lambda x: x**3, 0.0, 0, (0,), (6,), (0,)),
    _row("x**5 of a negative number", lambda x: x**5, -2.0, 80, (-160,), (240,)),
    _row("x**-1", lambda x: x**-1, -2.0, -0.25, (-0.25,)),
    _row("float_power", lambda x: np.float_power(x, 2), -2.0, -4, (2,)),
    _row("square", np.square, 0.0, 0, (2,), (0,)),
    # powers with a traced exponent
    *(_row(f"x**y at 0, y = {p}", np.power, (0.0, float(p)), (float(p == 1), 0)) for p in (1, 2, 3)),
    _row("x**y at 0, second order", np.power, (0.0, 2.0), (0, 0), (2, 0, 0, 0)),
    _row("x**y at 0, y = 3", np.power, (0.0, 3.0), (0, 0), (0, 0, 0, 0)),
    _row("0**0", np.power, (0.0, 0.0), (0, 0)),
    _row("x**y, x < 0", np.power, (-2.0, 3.0), (12, NAN)),
    _row("2**y", lambda y: 2.0**y, 3.0, 8 * math.log(2), (8 * math.log(2) ** 2,)),
    # logarithms of sums
    _row("logaddexp of nothing", np.logaddexp, (-INF, -INF), (0, 0), (0, 0, 0, 0)),
    _row("logaddexp2 of nothing", np.logaddexp2, (-INF, -INF), (0, 0), (0, 0, 0, 0)),
    _row("logaddexp with nothing", np.logaddexp, (1.0, -INF), (1, 0), (0, 0, 0, 0)),
    _row("logaddexp tie", np.logaddexp, (3.0, 3.0), (0.5, 0.5), (0.25, -0.25, -0.25, 0.25)),
    _row("logaddexp tail", np.logaddexp, (0.0, 40.0), (math.exp(-40) / (1 + math.exp(-40)), 1)),
    # sinc: the limit in every order
    _row("sinc", np.sinc, 0.0, 0, (-(PI**2) / 3,), (0,), (PI**4 / 5,)),
    _row("sinc at 1", np.sinc, 1.0, -1, (2,)),
    # remainders
    _row("x % y", lambda x, y: x % y, (5.5, 2.0), (1, -2), (0, 0, 0, 0)),
    _row("x % y, x < 0", lambda x, y: x % y, (-5.5, 2.0), (1, 3)),
    _row("x % y at a multiple", lambda x, y: x % y, (6.0, 2.0), (1, -3)),
    _row("fmod", np.fmod, (-5.5, 2.0), (1, 2), (0, 0, 0, 0)),
    _row("divmod", lambda x, y: np.divmod(x, y)[1], (5.5, 2.0), (1, -2)),
    # parts of a number
    _row("copysign", np.copysign, (3.0, -1.0), (-1, 0), (0, 0, 0, 0)),
    _row("copysign at 0", np.copysign, (0.0, -1.0), (0, 0)),
    _row("nextafter", np.nextafter, (1.0, 2.0), (1, 0)),
    _row("modf", lambda x: np.modf(x)[0], -2.0, 1, (0,)),
    _row("frexp", lambda x: np.frexp(x)[0], 5.0, 0.125, (0,)),
    _row("ldexp", lambda x: np.ldexp(x, -3), 5.0, 0.125, (0,)),
    # tails and ends of domains
    _row("tanh tail", np.tanh, 20.0, 4 * math.exp(-40) / (1 + math.exp(-40)) ** 2, (-8 * math.exp(-40),)),
    _row("tanh far out", np.tanh, -300.0, 4 * math.exp(-600), (8 * math.exp(-600),)),
    _row("tanh", np.tanh, 0.0, 1, (0,), (-2,), (0,)),
    _row("logistic tail", lambda x: 1 / (1 + np.exp(-x)), -150.0, math.exp(-150)),
    _row("logistic far out", lambda x: 1 / (1 + np.exp(-x)), -750.0, 0),
    _row("expm1 tail", np.expm1, -40.0, math.exp(-40), (math.exp(-40),)),
    _row("log1p at the pole", np.log1p, -1.0, INF),
    _row("log at the pole", np.log, 0.0, INF),
    _row("arcsin at the end", np.arcsin, 1.0, INF),
    _row("arccos at the end", np.arccos, 1.0, -INF),
    _row("arccosh at the end", np.arccosh, 1.0, INF),
    _row("arctanh at the end", np.arctanh, 1.0, INF),
    _row("arcsinh far out", np.arcsinh, 1e200, 1e-200),
    _row("reciprocal at the pole", np.reciprocal, 0.0, -INF),
]


@pytest.mark.parametrize(("function", "point", "expected"), ROWS)
def test_convention(function, point, expected):
    for order, want in enumerate(expected, 1):
        for modes in itertools.product(MODES, repeat=order):
            got = _derivatives(function, point, modes)
            np.testing.assert_allclose(
                got, want, rtol=2e-14, atol=1e-300 if order == 1 else 1e-13, err_msg=str(modes)
            )


@pytest.mark.parametrize("part", range(5))
def test_conventions_in_compiled_code(part):
    """The same rows from generated loops, many to a kernel, by reverse mode."""
    tapes, points, expected = [], [], []
    for row in ROWS[part::5]:
        function, point, wants = row.values
        tape = _trace(function, [np.float64] * len(point))
        tapes.append(_reverse(tape))
        points += [np.array([p]) for p in point]
        expected += [(row.id, want) for want in wants[0]]
    found = op_table.run_compiled(op_table.joined(tapes), points)
    for got, (name, want) in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            got, want, rtol=2e-14, atol=1e-13 if abs(want) > 1e-6 else 1e-300, err_msg=name
        )


# A real f of z = x + iy has the gradient df/dx - i df/dy.
COMPLEX_ROWS = [
    _row("modulus", np.abs, 3 + 4j, (3 - 4j) / 5),
    _row("modulus at 0", np.abs, 0j, 0),
    _row("squared modulus", lambda z: np.abs(z) ** 2, 3 + 4j, 6 - 8j),
    _row("squared modulus at 0", lambda z: np.abs(z) ** 2, 0j, 0),
    _row("real part", np.real, 3 + 4j, 1),
    _row("imaginary part", np.imag, 3 + 4j, -1j),
    _row("real attribute", lambda z: z.real * z.imag, 3 + 4j, 4 - 3j),
    _row("angle", np.angle, 2j, -0.5),
    _row("angle at 0", np.angle, 0j, 0),
    _row("angle in degrees", lambda z: np.angle(z, deg=True), 2j, -90 / PI),
    _row("conjugate", lambda z: np.real(np.conj(z) * (1 + 2j)), 3 + 4j, 1 - 2j),
    _row("holomorphic", lambda z: np.real(np.exp(z)), 1j, np.exp(1j)),
    _row("direction", lambda z: np.real(np.sign(z)), 3 + 4j, (16 + 12j) / 125),
    _row("direction at 0", lambda z: np.real(np.sign(z)), 0j, 0),
    _row("pole of a masked point", lambda z: np.where(np.abs(z) > 1, 1 / z, 0).real, 0j, 0),
]


@pytest.mark.parametrize(("function", "point", "expected"), COMPLEX_ROWS)
def test_convention_for_complex_arguments(function, point, expected):
    np.testing.assert_allclose(
        _derivatives(function, point, ("reverse",)), expected[0], rtol=1e-14, atol=1e-300
    )
