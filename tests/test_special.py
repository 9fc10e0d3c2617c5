"""scipy.special on traced values: scipy's values, slopes against differences and exact numbers, conventions."""

import itertools
import subprocess
import sys
import zlib

import numpy as np
import op_table
import pytest
import scipy.special as sp

import tracejit as tj
from tracejit.errors import UnsupportedError
from tracejit.frontend.by_name import FUNCTIONS_BY_NAME
from tracejit.ir.tape import Builder
from tracejit.ops.base import REGISTRY
from tracejit.ops.broadcasting import full
from tracejit.ops.special import Special
from tracejit.passes.jvp import jvp

OPS = [op for op in REGISTRY.values() if isinstance(op, Special)]
SMOOTH = [op for op in OPS if any(p is not None for p in op.partials) and not all(op.open)]
INTEGER_ORDER = {op.name for op in OPS if op.name.startswith("eval_")} | {"yn", "kn", "expn"}


@pytest.fixture(autouse=True)
def _silent_reference():
    with np.errstate(all="ignore"):
        yield


def operands(op, count=4, dtype="f8"):
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    arrays = [rng.uniform(*limits, count).astype(dtype) for limits in op.domain]
    if op.name in INTEGER_ORDER:
        arrays[0] = np.full(count, 3)
    return [np.ones(count, dtype) for a in arrays] if all(op.open) else arrays  # scipy warns of cut fractions


def slope(tape, number):
    """The tape of the partial derivative in one operand."""
    with Builder() as builder:
        inputs = [builder.input(v.aval) for v in tape.inputs]
        seeds = [full(1, v.shape, v.dtype) if k == number else None for k, v in enumerate(tape.inputs)]
        _, (tangent,) = jvp(tape, inputs, seeds)
        out = tape.outputs[0]
        return builder.finish([full(0, out.shape, out.dtype) if tangent is None else tangent])


def difference(tape, arrays, number):
    """The same from central differences, three times extrapolated."""

    def central(step):
        ends = [[a + s * step if k == number else a for k, a in enumerate(arrays)] for s in (1, -1)]
        high, low = (op_table.run(tape, end)[0] for end in ends)
        return (high - low) / (2 * step)

    table = [central(2.0**-7 / 2**k) for k in range(4)]
    for power in (4, 16, 64):
        table = [(power * b - a) / (power - 1) for a, b in itertools.pairwise(table)]
    return table[0]


@pytest.mark.filterwarnings("ignore:non-integer arg n is deprecated")
@pytest.mark.parametrize("op", OPS, ids=str)
def test_values_are_scipys(op):
    for dtype in ("f8", "f4"):
        arrays = operands(op, 3, dtype)
        (got,) = op_table.run(op_table.op_tape(op, arrays, {}), arrays)
        want = op.function(*arrays)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", SMOOTH, ids=str)
def test_slopes_to_third_order(op):
    arrays = operands(op)
    digits = 1e-8 if op.name == "hyperu" else 1e-9  # scipy's own is not better
    for number, is_open in enumerate(op.open):
        if is_open or arrays[number].dtype.kind != "f":
            continue
        tape = op_table.op_tape(op, arrays, {})
        for _ in range(3):
            derived = slope(tape, number)
            want = difference(tape, arrays, number)
            np.testing.assert_allclose(
                op_table.run(derived, arrays)[0], want, rtol=digits, atol=digits * 1e-2
            )
            tape = derived


@pytest.mark.parametrize("op", [op for op in SMOOTH if not any(op.open)], ids=str)
def test_both_modes_agree(op):
    arrays = operands(op)
    tape = op_table.op_tape(op, arrays, {})
    floats = [k for k, a in enumerate(arrays) if a.dtype.kind == "f"]
    pulled = op_table.run(op_table.reverse_tape(tape), [*arrays, np.ones(4)])
    for number, got in zip(floats, pulled, strict=True):
        np.testing.assert_array_equal(got, op_table.run(slope(tape, number), arrays)[0])


@pytest.mark.parametrize("op", [op for op in OPS if any(op.open)], ids=str)
def test_what_has_no_closed_form_raises(op):
    arrays = [a.astype(float) for a in operands(op)]
    if op.name in ("eval_hermite", "eval_hermitenorm"):
        return
    tape = op_table.op_tape(op, arrays, {})
    for number, is_open in enumerate(op.open):
        if is_open:
            with pytest.raises(UnsupportedError, match=f"no derivative in closed form in argument {number}"):
                slope(tape, number)


# Slopes and curvatures from 60 digits: op, point, number of the operand, first and second derivative.
EXACT = [
    ("erfcx", (-2.0,), 0, -436.8919967270074, 1965.4497956879854),
    ("erfcx", (5.0,), 0, -0.02133278976482631, 0.008081377817874151),
    ("erfcx", (12.1,), 0, -0.003814669471505324, 0.0006242134692411792),
    ("erfcx", (1000000.0,), 0, -5.6418958354691e-13, 1.1283791670921275e-18),
    ("dawsn", (0.5,), 0, 0.5755636164979777, -1.4244363835020224),
    ("dawsn", (1000.0,), 0, -5.00000750001875e-07, 1.00000300001125e-09),
    ("log_ndtr", (-1000.0,), 0, 1000.000999998, -0.999999000006),
    ("log_ndtr", (-3.0,), 0, 3.2830986549304364, -0.9294408132147319),
    ("log_ndtr", (3.0,), 0, 0.004437839042125664, -0.013333211541740806),
    ("i0e", (0.5,), 0, -0.4886144672642784, 0.6643873281588133),
    ("i0e", (31.0,), 0, -0.0011701038625981527, 5.7098278925799376e-05),
    ("i0e", (-50.0,), 0, 0.0005685027545587929, 1.714303125967778e-05),
    ("i0e", (10000000.0,), 0, -6.307831541594096e-12, 9.461747548934862e-19),
    ("k1e", (0.5,), 0, -4.255119093985695, 16.386058249270715),
    ("k1e", (1000.0,), 0, -1.9838918606966846e-05, 2.9780648446447416e-08),
    ("ive", (2.5, 10.0), 1, -0.0015769571079347338, -0.00014192769988324733),
    ("ive", (10.0, 131.0), 1, -2.1229026234235565e-05, -3.5258201931905753e-07),
    ("kve", (2.5, 37.0), 1, -0.0034921605649163665, 0.00016152802373729702),
    ("ellipk", (-50.0,), 0, 0.003270674869622428, 8.33645492077184e-05),
    ("ellipk", (0.0,), 0, 0.39269908169872414, 0.44178646691106466),
    ("ellipk", (0.999999,), 0, 499998.3014712779, 499999874973.03796),
    ("ellipe", (0.0,), 0, -0.39269908169872414, -0.14726215563702155),
    ("ellipe", (0.999999,), 0, -3.6470274303148753, -249997.57721950102),
    ("rgamma", (-3.0,), 0, -6.0, 15.073412021181605),
    ("rgamma", (0.0,), 0, 1.0, 1.1544313298030657),
    ("rgamma", (0.6,), 0, 1.0345334627690757, -0.847910744695395),
    ("spence", (0.2,), 0, -2.0117973905426254, 3.735253261821718),
    ("spence", (1.0001,), 0, -0.9999500033330834, 0.49993334083253343),
    ("exprel", (1e-08,), 0, 0.5000000033333334, 0.33333333583333336),
    ("exprel", (-30.0,), 0, 0.001111111111107888, 7.407407407073999e-05),
    ("shichi_shi", (0.001,), 0, 1.000000166666675, 0.00033333336666666784),
    ("shichi_shi", (20.0,), 0, 12129129.885244757, 11522673.39098252),
    ("boxcox", (2.0, 1e-06), 1, 0.2402266179673469, 0.1110082750384338),
    ("stdtr", (2.5, -3.0), 1, 0.0250410669313931, 0.022863582850402395),
    ("betainc", (2.5, 3.0, 0.1), 2, 0.5042844656199763, 6.443634838477474),
    ("psi", (-1.5,), 0, 9.379246644989124, -0.2362040516417274),
    ("psi", (100000.0,), 0, 1.0000050000166667e-05, -1.00001000005e-10),
    ("pseudo_huber", (1.0, 0.01), 0, 2.4997500234353128e-09, -7.498750164042816e-09),
]


@pytest.mark.parametrize(("name", "point", "number", "first", "second"), EXACT)
def test_slopes_have_their_digits(name, point, number, first, second):
    arrays = [np.array(p) for p in point]
    once = slope(op_table.op_tape(REGISTRY[name], arrays, {}), number)
    assert op_table.run(once, arrays)[0] == pytest.approx(first, rel=1e-14, abs=0)
    assert op_table.run(slope(once, number), arrays)[0] == pytest.approx(second, rel=3e-13, abs=0)


# --- compiled -----------------------------------------------------------------------------------------------

# Of three or more operands none is infinite: some hypergeometric functions never end there.
EXTREMES = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-300, 0.5, -2.5, 3, 40, -40]
ORDERS = [0, 1, 2, 5]


def extremes(op, dtype):
    single = []
    for number, array in enumerate(operands(op, 3, dtype)):
        if array.dtype.kind == "i":
            single.append(np.array(ORDERS))
        else:
            some = EXTREMES if op.arity < 3 else EXTREMES[6:9] if number else EXTREMES[:2]
            single.append(np.concatenate([array, some]).astype(dtype))
    return [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(*single, indexing="ij")]


# The functions that scipy itself computes in single precision, more roughly than a rounded double.
SINGLE = {"betainc", "betaincc", "betaincinv", "betainccinv", "stdtr", "stdtrit", "powm1", "erfinv"}


def groups(ops, size=30):
    return [ops[i : i + size] for i in range(0, len(ops), size)]


@pytest.mark.filterwarnings(
    "ignore:non-integer arg n is deprecated", "ignore:floating point number truncated"
)
@pytest.mark.parametrize(
    ("dtype", "ops"),
    [
        *[pytest.param("f8", g, id=f"f8-{g[0]}") for g in groups(SMOOTH)],
        *[pytest.param("f4", g, id=f"f4-{g[0]}", marks=pytest.mark.slow) for g in groups(SMOOTH)],
        *[
            pytest.param("f8", g, id=f"f8-{g[0]}", marks=pytest.mark.slow)
            for g in groups([o for o in OPS if all(o.open)])
        ],
    ],
)
def test_compiled_values(dtype, ops):
    arrays = [extremes(op, dtype) for op in ops]
    tapes = [op_table.op_tape(op, own, {}) for op, own in zip(ops, arrays, strict=True)]
    found = op_table.run_compiled(op_table.joined(tapes), [a for own in arrays for a in own])
    for op, own, got in zip(ops, arrays, found, strict=True):
        want = op.function(*own)
        assert got.dtype == want.dtype
        digits = 1e-4 if dtype == "f4" and op.name in SINGLE else 32 * np.finfo(dtype).eps
        np.testing.assert_allclose(got, want, rtol=digits, err_msg=op.name)


def test_compiled_slopes():
    def f(x, v):
        smooth = sp.gammaln(x) + sp.xlogy(v, x) + sp.erf(x) * sp.ndtr(v) + sp.zeta(2.5, x) + sp.beta(x, v)
        return np.sum(
            smooth + sp.jv(1.5, x) * sp.i0e(v) + sp.betainc(2.0, 1.5, x / 4) + sp.sici(x)[1] * sp.expn(2, v)
        )

    x, v = np.linspace(0.5, 3.0, 20), np.linspace(0.2, 2.0, 20)
    steps = np.linspace(-1, 1, 20) * 1e-6
    for number, got in enumerate(tj.grad(f, argnums=(0, 1))(x, v)):
        ends = [f(*(a + s * steps if k == number else a for k, a in enumerate((x, v)))) for s in (1, -1)]
        assert got @ (steps * 1e6) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-7)
    hessian = tj.hessian(f)(x[:3], v[:3])
    np.testing.assert_allclose(hessian, np.diag(np.diag(hessian)), atol=1e-14)


# --- functions of arrays ------------------------------------------------------------------------------------

ROWS = np.array(
    [[1.0, 2.0, 3.0], [1000.0, 1001.0, -np.inf], [-np.inf, -np.inf, -np.inf], [0.0, -50.0, -60.0]]
)


@pytest.mark.parametrize(
    "options", [{}, {"axis": 1}, {"axis": 0}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}], ids=str
)
def test_logsumexp_is_scipys(options):
    got = tj.jit(lambda m: sp.logsumexp(m, **options))(ROWS)
    np.testing.assert_allclose(got, sp.logsumexp(ROWS, **options), rtol=1e-15)


def test_logsumexp_keeps_what_is_nearly_nothing():
    x = np.array([0.0, -50.0, -60.0])
    assert tj.jit(sp.logsumexp)(x) == sp.logsumexp(x) < 1e-20


@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_weighted_logsumexp(scale):
    a, b = np.array([[0.5, 2.0], [1.0, -1.0]]), scale * np.array([[1.0, -3.0], [0.0, 2.0]])
    size, sign = tj.jit(lambda a, b: sp.logsumexp(a, axis=1, b=b, return_sign=True))(a, b)
    want = sp.logsumexp(a, axis=1, b=b, return_sign=True)
    np.testing.assert_allclose((size, sign), want, rtol=1e-14)
    np.testing.assert_allclose(
        tj.jit(lambda a: sp.logsumexp(a, axis=1, b=b))(a), sp.logsumexp(a, axis=1, b=b), rtol=1e-14
    )
    slopes = tj.jacobian(lambda b: sp.logsumexp(a, axis=1, b=b, return_sign=True)[0])(b)
    terms = np.exp(a)
    np.testing.assert_allclose(slopes[0, 0], terms[0] / (b * terms).sum(1)[0], rtol=1e-13)


def test_slopes_of_logsumexp_are_shares():
    slopes = tj.grad(lambda m: np.sum(sp.logsumexp(m, axis=1)))(ROWS)
    np.testing.assert_allclose(slopes[[0, 1, 3]], sp.softmax(ROWS[[0, 1, 3]], axis=1), rtol=1e-14)
    assert (slopes[2] == 0).all()
    assert (tj.grad(sp.logsumexp)(np.array([np.inf, 0.0])) == [1, 0]).all()
    x = np.array([0.3, -1.0, 2.0])
    p = sp.softmax(x)
    np.testing.assert_allclose(tj.hessian(sp.logsumexp)(x), np.diag(p) - np.outer(p, p), atol=1e-15)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_softmax_and_its_logarithm(axis):
    m = np.array([[1.0, 2.0, -800.0], [0.5, 700.0, 3.0]])
    for function in (sp.softmax, sp.log_softmax):
        got = tj.jit(lambda m, f=function: f(m, axis=axis))(m)
        np.testing.assert_allclose(got, function(m, axis=axis), rtol=1e-14)
    p, w = sp.softmax(m, axis=axis), np.arange(6.0).reshape(2, 3)
    slopes = tj.grad(lambda m: np.sum(w * sp.log_softmax(m, axis=axis)))(m)
    np.testing.assert_allclose(
        slopes, w - p * w.sum(axis=axis, keepdims=axis is not None), rtol=1e-13, atol=1e-300
    )


def test_scalars_and_float32():
    assert tj.jit(sp.softmax)(2.0) == 1
    assert tj.jit(sp.logsumexp)(2.0) == 2
    x = np.array([1, 2, 3], "f4")
    for function in (sp.logsumexp, sp.softmax, sp.log_softmax, sp.erf, sp.gammaln, sp.expit, sp.k0e):
        assert tj.jit(function)(x).dtype == np.float32
        assert tj.grad(lambda x, f=function: np.sum(f(x)))(x).dtype == np.float32
    assert tj.jit(sp.gammaln)(np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("n", [0, 1, 3, np.array([0, 1, 2])], ids=str)
def test_polygamma(n):
    x = np.array([0.5, 2.0, 7.0])
    np.testing.assert_allclose(tj.jit(lambda x: sp.polygamma(n, x))(x), sp.polygamma(n, x), rtol=1e-14)
    slopes = tj.elementwise_grad(lambda x: sp.polygamma(n, x))(x)
    np.testing.assert_allclose(slopes, sp.polygamma(np.add(n, 1), x), rtol=1e-14)


def test_other_functions_of_scipy():
    x = np.array([2.5, 3.0, 9.0])
    np.testing.assert_allclose(tj.jit(lambda x: sp.multigammaln(x, 3))(x), sp.multigammaln(x, 3), rtol=1e-14)
    with pytest.raises(ValueError, match="condition a"):
        tj.jit(lambda x: sp.multigammaln(x, 9))(x)
    np.testing.assert_allclose(
        tj.jit(sp.zeta)(np.array([0.5, -0.5, 3.0])), sp.zeta([0.5, -0.5, 3.0]), rtol=1e-14
    )
    np.testing.assert_allclose(tj.jit(sp.softplus)(x), sp.softplus(x), rtol=1e-15)
    np.testing.assert_allclose(tj.elementwise_grad(np.i0)(x), sp.i1(x), rtol=1e-14)
    for function in (sp.airy, sp.sici, sp.shichi, sp.fresnel):
        np.testing.assert_allclose(tj.jit(function)(x), function(x), rtol=1e-14)
    np.testing.assert_allclose(tj.jit(sp.ellipj)(x, 0.3), sp.ellipj(x, 0.3), rtol=1e-14)


def test_aliases_have_scipys_dtypes():
    for function in (sp.cbrt, sp.exp2, sp.expit, sp.expm1, sp.log1p, sp.round, sp.digamma, sp.jn):
        arguments = (1, np.float16(0.5)) if function is sp.jn else (np.float16(0.5),)
        got, want = tj.jit(function)(*arguments), function(*arguments)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_registered_names_exist():
    for name in FUNCTIONS_BY_NAME["scipy.special"]:
        assert callable(getattr(sp, name))


def test_plain_values_stay_plain():
    def f(x):
        weights = sp.softmax(np.array([1.0, 2.0]))
        assert type(weights) is np.ndarray
        return x * weights[0]

    assert tj.jit(f)(2.0) == pytest.approx(2 / (1 + np.e))


LATE = """
import sys
import numpy as np
import tracejit as tj

def f(x):
    from scipy.special import gammaln, logsumexp
    return logsumexp(x) + gammaln(x).sum()

assert "scipy" not in sys.modules
assert abs(tj.grad(f)(np.array([1.0, 2.0]))[0] - (0.2689414213699951 - 0.5772156649015329)) < 1e-14
"""


def test_scipy_may_be_imported_by_traced_code():
    subprocess.run([sys.executable, "-W", "error", "-c", LATE], check=True)
