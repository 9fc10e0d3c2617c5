"""Interpolation, difference quotients, convolution, statistics, polynomials, sets: NumPy's values and slopes."""

import itertools

import numpy as np
import op_table
import pytest
from against_numpy import agrees, agrees_on, differentiates

import tracejit as tj
from tracejit.errors import IntegerStoreError, UnsupportedError
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.tape import Builder
from tracejit.ops.convolving import sliding
from tracejit.ops.searching import search
from tracejit.passes.vmap import vmap

rng = np.random.default_rng(20)
X, Y, M, W = rng.normal(size=7), rng.normal(size=7), rng.normal(size=(3, 5)), rng.normal(size=3)
Z = X + 1j * Y
LONG = rng.normal(size=23)
XP, FP = np.array([-1.0, -0.2, 0.3, 0.4, 1.0, 1.7]), rng.normal(size=6)
POINTS = np.array([-2.0, 0.05, 2.5, 0.7])
KNOTS = np.array([np.nan, -1.0, 1.7, 0.3, np.inf, -np.inf])
TIED = np.array([3.0, 1, 2, 3, 1])


def case(function, *arrays, **keywords):
    shown = ",".join(f"{k}={v}" for k, v in keywords.items())
    shapes = "-".join(str(np.shape(a)) for a in arrays)
    return pytest.param(function, arrays, keywords, id=f"{function.__name__}-{shapes}-{shown}"[:60])


SMOOTH = [
    case(np.interp, POINTS, XP, FP),
    case(np.interp, POINTS, XP, FP + 1j * FP[::-1]),
    case(np.interp, POINTS, XP, FP, left=3.0, right=4.0),
    case(np.interp, POINTS * 3.1, rng.normal(size=5), FP[:5], period=2.5),
    *[case(np.gradient, X, edge_order=k) for k in (1, 2)],
    *[case(np.gradient, X, np.cumsum(rng.uniform(0.5, 1, 7)), edge_order=k) for k in (1, 2)],
    case(np.gradient, M, axis=1),
    case(np.gradient, X, np.array(2.0)),
    *[
        case(f, *pair, mode=mode)
        for f in (np.convolve, np.correlate)
        for mode in ("full", "same", "valid")
        for pair in ((X, W), (W, X))
    ],
    case(np.correlate, Z, 1j * Z[:4], mode="same"),
    case(np.correlate, 1j * Z[:4], Z, mode="full"),
    case(np.cov, M),
    case(np.cov, X, Y),
    case(np.cov, X),
    case(np.cov, M, rowvar=False),
    case(np.cov, M, bias=True),
    case(np.cov, M, fweights=np.array([1, 2, 3, 1, 1])),
    case(np.cov, M, aweights=np.array([1, 2, 3, 1, 1.5])),
    case(np.cov, M, aweights=np.array([1, 2, 3, 1, 1.5]), fweights=np.array([1, 2, 3, 1, 1])),
    case(np.cov, M, ddof=0, aweights=np.array([1, 2, 3, 1, 1.5])),
    case(np.corrcoef, M),
    case(np.corrcoef, X, Y),
    case(np.bincount, np.array([0, 3, 1, 1]), weights=np.array([1.0, 2, 3, 4])),
    case(np.unwrap, X * 4),
    case(np.vander, X[:4]),
    case(np.vander, X[:4], N=3, increasing=True),
    case(np.polyval, X[:4], Y),
    case(np.polyadd, X, Y[:3]),
    case(np.polysub, X[:2], Y),
    case(np.polymul, X, Y[:3]),
    case(np.polyder, X, m=2),
    case(np.polyint, X, m=2),
    case(np.polyint, X, m=2, k=[1, 2.0]),
    case(np.poly, X[:4]),
    case(np.unique, X),
    case(np.union1d, X, Y[:2]),
]


@pytest.mark.parametrize(("function", "arrays", "keywords"), SMOOTH)
def test_values_and_slopes(function, arrays, keywords):
    differentiates(function, *arrays, digits=1e-9, **keywords)


VALUES = [
    case(np.interp, KNOTS, XP, FP),
    case(np.interp, 2.0, XP, FP),
    case(np.interp, np.arange(3.0), np.arange(3.0), np.array([0, np.inf, 3])),
    case(np.interp, np.array([0.5, 1.0]), np.arange(3.0), np.array([0, np.inf, np.inf])),
    case(np.interp, POINTS.astype("f4"), XP.astype("f4"), FP.astype("f4")),
    case(np.interp, np.array([1.0, 0]), np.array([0.5]), np.array([3.0])),
    case(np.interp, LONG[:12], np.sort(LONG), LONG**2),
    case(np.interp, POINTS, XP, FP[:3]),
    case(np.interp, POINTS, XP[:0], FP[:0]),
    case(np.gradient, np.arange(5)),
    case(np.gradient, X[:1]),
    case(np.gradient, X.astype("f4")),
    case(np.gradient, LONG),
    case(np.gradient, M, axis=(0, 0)),
    case(np.gradient, X, XP),
    *[case(np.convolve, np.arange(4), np.arange(3), mode=m) for m in ("full", "same", "valid")],
    case(np.convolve, LONG, LONG[:11], mode="same"),
    case(np.convolve, X[:4] > 0, X[3:5] > 0),
    case(np.convolve, X[:0], W),
    case(np.convolve, M, W),
    case(np.convolve, X, W, mode="around"),
    case(np.convolve, X.astype("f4"), W.astype("f4")),
    case(np.cov, Z, Z**2),
    case(np.cov, M.astype("f4")),
    case(np.cov, M, ddof=0.5),
    case(np.corrcoef, X),
    case(np.corrcoef, Z, Z**2),
    case(np.searchsorted, XP, X),
    case(np.searchsorted, XP, X, side="right"),
    case(np.searchsorted, XP, 0.3),
    case(np.searchsorted, X, Y, sorter=np.argsort(X)),
    case(np.searchsorted, np.array([0, 1, 1, 2.0, np.nan]), np.array([1, np.nan, 5, -1.0])),
    case(np.searchsorted, np.array([0, 1, 1, 2]), np.array([1.5, 1]), side="right"),
    case(np.searchsorted, np.sort(LONG), LONG),
    case(np.searchsorted, M, X),
    case(np.searchsorted, XP, X, side="middle"),
    case(np.digitize, X, XP),
    case(np.digitize, X, XP[::-1]),
    case(np.digitize, X, XP, right=True),
    case(np.digitize, M, XP),
    case(np.digitize, X, Y),
    case(np.bincount, np.array([0, 3, 1, 1])),
    case(np.bincount, np.array([0, 3, 1, 1]), minlength=9),
    case(np.bincount, np.array([0, -3])),
    case(np.bincount, np.array([0.0, 3])),
    case(np.bincount, np.array([0, 3]), weights=np.ones(3)),
    case(np.unwrap, np.array([0, 3, 8, 1, 9]), period=4),
    case(np.unwrap, np.array([0, 3, 8, 1, 9]), period=5),
    case(np.unwrap, M * 5, axis=0, discont=4.0),
    case(np.vander, np.arange(4)),
    case(np.vander, X[:3], N=0),
    case(np.vander, M),
    case(np.polyval, np.arange(3), np.arange(4)),
    case(np.polyder, np.arange(4)),
    case(np.polyder, X, m=-1),
    case(np.polyfit, X, Y, deg=2),
    case(np.polyfit, X, Y, deg=2, w=X**2),
    case(np.polyfit, X, Y, deg=-1),
    case(np.roots, X[:4]),
    case(np.roots, np.array([0, 1, 2.0, 0])),
    case(np.roots, np.zeros(3)),
    case(np.unique, np.array([np.nan, 1, np.nan])),
    case(np.unique, np.array([np.nan, 1, np.nan]), equal_nan=False),
    case(np.unique, np.zeros(0)),
    case(np.unique, M),
    case(np.isin, X, X[2:4]),
    case(np.isin, M, M[0], invert=True),
    case(np.setdiff1d, TIED, TIED[:2]),
    case(np.intersect1d, TIED, TIED[1:3]),
    case(np.setxor1d, TIED, np.array([1, 7.0])),
    case(np.lexsort, np.array([[1, 1, 0, 1.0], [2, 1, 1, 2]])),
    case(np.sort_complex, Z),
    case(np.sort_complex, X),
    case(np.sort_complex, np.arange(4, dtype="i1")),
    case(np.array_equiv, X, X[None]),
]


@pytest.mark.parametrize(("function", "arrays", "keywords"), VALUES)
def test_values_are_numpys(function, arrays, keywords):
    agrees(function, *arrays, **keywords)


USES = {
    "gradient along both axes": (
        np.gradient,
        lambda f: lambda a: f(a, 0.5, np.array([0, 1, 3.0, 4, 9]))[1],
        (M,),
    ),
    "counts": (np.histogram, lambda f: lambda a: f(a)[0], (X,)),
    "counts of equal values": (np.histogram, lambda f: lambda a: f(a)[0], (np.ones(4),)),
    "edges": (np.histogram, lambda f: lambda a: f(a, 3)[1], (X,)),
    "counts between edges": (np.histogram, lambda f: lambda a: f(a, [-1, 0, 0.2, 1.0])[0], (X,)),
    "counts of integers": (np.histogram, lambda f: lambda a: f(a)[0], (np.arange(9),)),
    "density": (np.histogram, lambda f: lambda a: f(a, [-1, 0, 0.2, 1.0], density=True)[0], (X,)),
    "weighted": (np.histogram, lambda f: lambda a, w: f(a, 4, (-1, 1), weights=w)[0], (X, Y)),
    "2d": (np.histogram2d, lambda f: lambda a, b: f(a, b, bins=[3, 4])[0], (X, Y)),
    "2d weighted": (
        np.histogram2d,
        lambda f: lambda a, b, w: f(a, b, 3, weights=w, density=True)[0],
        (X, Y, X**2),
    ),
    "nd": (np.histogramdd, lambda f: lambda a: f(a, bins=3)[0], (rng.normal(size=(8, 3)),)),
    "quotient": (np.polydiv, lambda f: lambda a, b: f(a, b)[0], (X, Y[:3])),
    "rest": (np.polydiv, lambda f: lambda a, b: f(a, b)[1], (X, Y[:3])),
    "covariance of a fit": (np.polyfit, lambda f: lambda a, b: f(a, b, 2, cov=True)[1], (X, Y)),
    "first places": (np.unique, lambda f: lambda a: f(a, return_index=True)[1], (TIED,)),
    "inverse": (np.unique_all, lambda f: lambda a: f(a).inverse_indices, (TIED.reshape(1, 5),)),
    "two keys": (np.lexsort, lambda f: lambda a, b: f((a, b)), (TIED, np.array([1, 0, 1, 0, 1]))),
    "column": (np.unravel_index, lambda f: lambda i: f(i, (3, 4))[1], (np.array([0, 5, 11]),)),
    "column, Fortran": (
        np.unravel_index,
        lambda f: lambda i: f(i, (3, 4), order="F")[1],
        (np.array([0, 5, 11]),),
    ),
    "out of bounds": (np.unravel_index, lambda f: lambda i: f(i, (3, 4))[1], (np.array([0, 5, 12]),)),
    **{
        f"raveled {order} {mode}": (
            np.ravel_multi_index,
            lambda f, o=order, m=mode: lambda i, j: f((i, j), (3, 4), order=o, mode=m),
            (np.array([0, 2, 1]), np.array([3, 0, 5 if mode != "raise" else 1])),
        )
        for order, mode in itertools.product("CF", ("raise", "wrap", "clip"))
    },
    "rows": (np.apply_along_axis, lambda f: lambda a: f(lambda r: np.multiply(r, 2), 1, a), (M,)),
    "open grid": (
        np.ix_,
        lambda f: lambda a, b: f(a, b)[1],
        (np.array([1, 2]), np.array([True, False, True])),
    ),
    "conversion": (np.astype, lambda f: lambda a: f(a, "f4"), (X,)),
}


@pytest.mark.parametrize("name", [n for n in USES if n != "rows"])
def test_uses(name):
    function, use, arrays = USES[name]
    agrees_on(use, function, *arrays)


# --- conventions --------------------------------------------------------------------------------------------


def test_interp_has_the_right_slope_at_a_knot():
    slopes = tj.elementwise_grad(lambda x: np.interp(x, XP, FP))(np.array([*XP, -1.5, 3.0]))
    np.testing.assert_allclose(slopes, [*(np.diff(FP) / np.diff(XP)), 0, 0, 0], rtol=1e-14)


def test_a_traced_period_and_zero():
    f = lambda x, p: np.interp(x, [0.1, 0.5, 0.9], [1.0, 3.0, 2.0], period=p)  # noqa: E731
    steps = 1e-6
    want = (f(0.3, 1 + steps) - f(0.3, 1 - steps)) / (2 * steps)
    assert tj.grad(f, argnums=1)(1.7, 1.0) == pytest.approx(
        (f(1.7, 1 + steps) - f(1.7, 1 - steps)) / (2 * steps)
    )
    assert tj.grad(f, argnums=1)(0.3, 1.0) == pytest.approx(want, abs=1e-9)
    with pytest.raises(ValueError, match="non-zero"):
        tj.jit(f)(0.3, 0.0)


def test_weights_of_a_histogram_go_to_their_bins():
    factors = np.array([1.0, 10.0, 100.0])
    slopes = tj.grad(lambda w: np.sum(factors * np.histogram(X, [-1, 0, 0.5, 1], weights=w)[0]))(Y)
    place = np.digitize(X, [-1, 0, 0.5, 1]) - 1
    np.testing.assert_array_equal(slopes, np.where((place >= 0) & (place < 3), factors[place % 3], 0))


def test_edges_are_plain_where_they_are_known():
    def f(x):
        counts, edges = np.histogram(x, bins=[0, 1, 2])
        assert type(edges) is np.ndarray
        return counts

    np.testing.assert_array_equal(tj.jit(f)(X), np.histogram(X, bins=[0, 1, 2])[0])


def test_one_trace_per_pattern_of_equal_entries():
    f = tj.jit(lambda x: np.unique(x, return_counts=True))
    for x in (TIED, TIED[::-1].copy(), np.array([1.0, 1, 1, 2, 5])):
        for got, want in zip(f(x), np.unique(x, return_counts=True), strict=True):
            np.testing.assert_array_equal(got, want)


# --- functions of the user's --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.piecewise(x, [x < 0, x >= 0.5], [lambda t: t**2, np.sin, 7.0]),
        lambda x: np.piecewise(x, [x < 0], [lambda t: t - t.mean(), 0]),
        lambda x: np.piecewise(x, x < 0, [-1, 1]),
        lambda x: np.piecewise(x, [x < 9], [lambda t, a, b: a * t + b, 0], 2.0, b=1.0),
        lambda x: np.piecewise(x, [x > 9], [np.mean]),
        lambda x: np.apply_along_axis(lambda r: r * r.sum(), 0, np.outer(x, x)),
        lambda x: np.apply_along_axis(lambda r: np.outer(r, r), 1, np.outer(x[:2], x)),
        lambda x: np.apply_over_axes(np.sum, np.outer(x, x), [0, -1]),
        lambda x: np.vectorize(lambda s, t: s * t if s > 0 else -s)(x[:3, None], x[:2]),
        lambda x: np.vectorize(lambda s: (s, 2 * s), otypes="df")(x)[1],
        lambda x: np.vectorize(np.sin)(np.array([1.0, 2.0])) * x[0],
    ],
)
def test_calls_of_functions(f):
    got, want = tj.jit(f)(X), f(X)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype == np.float32 else 1e-13)
    if want.dtype == np.float64:
        weights = np.cos(np.arange(want.size)).reshape(want.shape)
        step = 1e-6
        slopes = tj.grad(lambda x: np.sum(weights * f(x)))(X)
        for i in range(X.size):
            ends = [np.sum(weights * f(X + s * step * np.eye(7)[i])) for s in (1, -1)]
            assert slopes[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_piecewise_refuses_to_cut_fractions():
    with pytest.raises(IntegerStoreError):
        tj.jit(lambda x: np.piecewise(x, [x > 0], [lambda t: t / 2]))(np.arange(4))
    with pytest.raises(ValueError, match="either 1 or 2 functions"):
        tj.jit(lambda x: np.piecewise(x, [x > 0], [1, 2, 3]))(X)


def test_too_many_calls():
    with pytest.raises(UnsupportedError, match=r"with 5000 calls.*\n.*\n.*tj\.vmap"):
        tj.jit(lambda x: np.vectorize(np.sin)(x) + 1)(np.zeros(5000))


@pytest.mark.parametrize("f", [np.shares_memory, np.unpackbits], ids=lambda f: f.__name__)
def test_refusals(f):
    with pytest.raises(UnsupportedError, match=f.__name__):
        tj.jit(lambda x: f(x, x) if f is np.shares_memory else f(x))(np.arange(3, dtype="u1"))


# --- the ops ------------------------------------------------------------------------------------------------

LINES = rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 3, 4))


@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_sliding(dtype):
    arrays = [a.astype(dtype) + (1j * a[..., ::-1] if dtype == "c16" else 0) for a in LINES]
    tape = op_table.op_tape(sliding, arrays, {})
    (got,) = op_table.run_compiled(tape, arrays)
    want = [
        np.convolve(x, w[::-1], "valid")
        for x, w in zip(arrays[0].reshape(6, 9), arrays[1].reshape(6, 4), strict=True)
    ]
    np.testing.assert_allclose(got.reshape(6, 6), want, rtol=1e-4 if dtype == "f4" else 1e-13)
    if dtype != "f4":
        op_table.check_derivatives(tape, arrays, 2, 1e-11)


@pytest.mark.parametrize("right", [False, True])
def test_search_compiled(right):
    table = np.array([[0, 1, 1, 2, np.nan, np.nan], [-np.inf, 0, 0, 0, np.inf, np.inf]])
    values = np.array([[1, np.nan, -5, 2.5, 0], [0, -np.inf, np.inf, 7, np.nan]])
    tape = op_table.op_tape(search, [table, values], {"right": right})
    (got,) = op_table.run_compiled(tape, [table, values])
    side = "right" if right else "left"
    np.testing.assert_array_equal(
        got, [np.searchsorted(t, v, side) for t, v in zip(table, values, strict=True)]
    )
    np.testing.assert_array_equal(op_table.run(tape, [table, values])[0], got)


def test_search_of_scalars_and_grids():
    f = tj.jit(lambda x: np.searchsorted(XP, x))
    for x in (0.3, np.full((2, 3), 0.3), np.zeros((0, 2))):
        got = f(x)
        assert type(got) is type(np.searchsorted(XP, x))
        np.testing.assert_array_equal(got, np.searchsorted(XP, x))


@pytest.mark.parametrize(("op", "params"), [(sliding, {}), (search, {"right": True})], ids=str)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)], ids=str)
def test_batching(op, params, batched):
    rows = [np.sort(LINES[0][0], axis=-1), LINES[1][0]]
    tape = op_table.op_tape(op, [a[0] for a in rows], params)
    arrays = [a if b else a[0] for a, b in zip(rows, batched, strict=True)]
    with Builder() as builder:
        outputs, _ = vmap(tape, [builder.input(Aval(a.shape, a.dtype)) for a in arrays], batched, 3)
        (got,) = op_table.run(check(builder.finish(outputs)), arrays)
    for i in range(3):
        row = [a[i] if b else a for a, b in zip(arrays, batched, strict=True)]
        np.testing.assert_allclose(got[i], op_table.run(tape, row)[0], rtol=1e-14)


def test_compiled_slopes():
    def f(x, w, knots):
        smooth = np.convolve(x, w, "same") + np.interp(x, np.sort(knots), knots**2)
        return np.sum(np.gradient(smooth, 0.1) ** 2) + np.sum(np.cov(x, smooth)) + np.polyval(w, 0.5)

    arguments, step = (LONG, W, FP), 1e-6
    for number, slopes in enumerate(tj.grad(f, argnums=(0, 1, 2))(*arguments)):
        direction = rng.normal(size=slopes.shape)
        ends = [
            f(*(a + s * step * direction if k == number else a for k, a in enumerate(arguments)))
            for s in (1, -1)
        ]
        assert slopes @ direction == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_sizes_may_vary():
    f = tj.jit(lambda x: np.convolve(x, np.array([1.0, 2.0, 1.0]), "same") + np.gradient(x))
    for n in (10, 11, 30):
        x = rng.normal(size=n)
        np.testing.assert_allclose(f(x), np.convolve(x, [1.0, 2, 1], "same") + np.gradient(x), rtol=1e-12)
