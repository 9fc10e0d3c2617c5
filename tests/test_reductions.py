"""NumPy's reductions, scans, sorts and order statistics on traced values, against NumPy."""

from typing import Any

import numpy as np
import op_table
import pytest
import tape_tools
from against_numpy import agrees, agrees_on, differentiates, meaning_of
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from tracejit.errors import AxisError, BroadcastError, EmptyReductionError, UnsupportedError

Array = np.ndarray[Any, Any]

FOLDS = [np.sum, np.prod, np.max, np.min]
MEANS = [np.mean, np.var, np.std]
NAN_FOLDS = [np.nansum, np.nanprod, np.nanmax, np.nanmin]
NAN_MEANS = [np.nanmean, np.nanvar, np.nanstd]
PLACES = [np.argmax, np.argmin, np.nanargmax, np.nanargmin]
METHODS = [
    "linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased",
    "normal_unbiased", "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
    "interpolated_inverted_cdf",
]  # fmt: skip
EXTREMES = (np.max, np.min, np.nanmax, np.nanmin)


def name(function: Any) -> str:
    return str(function.__name__)


def numbers(dtype: str, shape: tuple[int, ...], nan: bool = False) -> Array:
    rng = np.random.default_rng([7, *shape])
    x = np.asarray(rng.normal(size=shape) * 3)
    if dtype == "c16":
        x = x + 1j * rng.normal(size=shape)
    x = x.astype(dtype)
    if nan and x.dtype.kind in "fc" and x.size > 4:
        x.flat[[1, 4]] = np.nan
    return x


full_shapes = st.sampled_from([(3, 4), (2, 3, 12), (), (5,), (11,), (1, 3)])
shapes = st.sampled_from([(3, 4), (2, 3, 12), (), (5,), (11,), (1, 3), (0, 3), (3, 0)])
dtypes = st.sampled_from(["f8", "f4", "f2", "i4", "i8", "u1", "?", "c16"])
real_dtypes = st.sampled_from(["f8", "f4", "f2", "i4", "i8", "u1", "?"])
axes = st.sampled_from([None, 0, -1, 1, (0, 1), (-1, 0), (), 5, (0, 0)])


def scalar_axis_of_scalar(x: Array, axis: Any) -> bool:
    """NumPy takes axis 0 of a scalar in some functions, tracejit in all."""
    return x.ndim == 0 and axis in (0, -1)


@given(shapes, dtypes, axes, st.booleans(), st.booleans(), st.data())
def test_folds(shape: Any, dtype: str, axis: Any, keepdims: bool, masked: bool, data: Any) -> None:
    function = data.draw(st.sampled_from(FOLDS + NAN_FOLDS))
    x = numbers(dtype, shape, nan=function in NAN_FOLDS)
    if (dtype == "c16" and function in EXTREMES) or (dtype == "f2" and function is np.prod):
        return
    keywords: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if masked:
        keywords["where"] = numbers("f8", shape) > -1
    if data.draw(st.booleans()):
        keywords["initial"] = 1
    agrees(function, x, **keywords)


@given(shapes, dtypes, axes, st.booleans(), st.booleans(), st.sampled_from([0, 1, 2.5, 7]), st.data())
def test_means_and_spreads(
    shape: Any, dtype: str, axis: Any, keepdims: bool, masked: bool, ddof: Any, data: Any
) -> None:
    function = data.draw(st.sampled_from(MEANS + NAN_MEANS))
    x = numbers(dtype, shape, nan=function in NAN_MEANS)
    if scalar_axis_of_scalar(x, axis):
        return
    keywords: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if masked:
        keywords["where"] = numbers("f8", shape) > -1
    if function not in (np.mean, np.nanmean):
        keywords[data.draw(st.sampled_from(["ddof", "correction"]))] = ddof
    agrees(function, x, **keywords)


@given(shapes, dtypes, axes, st.booleans(), st.sampled_from([np.any, np.all, np.count_nonzero]))
def test_truth_and_counts(shape: Any, dtype: str, axis: Any, keepdims: bool, function: Any) -> None:
    x = numbers(dtype, shape)
    if not scalar_axis_of_scalar(x, axis):
        agrees(function, np.where(x == x.ravel()[:1].sum(), 0, x), axis=axis, keepdims=keepdims)


@given(
    shapes,
    real_dtypes,
    st.sampled_from([None, 0, -1, 1, 5]),
    st.booleans(),
    st.data(),
)
def test_places_of_extremes(shape: Any, dtype: str, axis: Any, keepdims: bool, data: Any) -> None:
    agrees(data.draw(st.sampled_from(PLACES)), numbers(dtype, shape, nan=True), axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c16"])
@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.var, np.cumsum], ids=name)
def test_dtype_argument(function: Any, dtype: str) -> None:
    agrees(function, numbers("f8", (3, 4)), axis=0, dtype=dtype if function is not np.var else "f4")


@pytest.mark.parametrize("function", FOLDS + MEANS + [np.ptp], ids=name)
@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
def test_derivatives_of_folds(function: Any, axis: Any) -> None:
    x = numbers("f8", (3, 3, 3))
    differentiates(function, x, axis=axis)
    if function is np.ptp:
        return
    mask = np.indices(x.shape).sum(axis=0) % 3 != 0
    start = {np.max: {"initial": -9.0}, np.min: {"initial": 9.0}}.get(function, {})
    differentiates(function, x, axis=axis, where=mask, **start)


@pytest.mark.parametrize("function", NAN_FOLDS + NAN_MEANS, ids=name)
def test_nan_entries_have_derivative_zero(function: Any) -> None:
    x = numbers("f8", (3, 4), nan=True)
    gap = np.isnan(x)
    tape = agrees(function, x, axis=0)
    assert tape is not None
    (y,) = tape_tools.run(tape, x)
    (back,) = tape_tools.run(tape_tools.pulled_tape(tape, [0]), x, np.ones_like(y))
    assert (back[gap] == 0).all() and np.isfinite(back).all()
    filled = np.where(gap, 1.0, x)
    without = agrees(function, filled, axis=0)
    assert without is not None
    columns = ~gap.any(axis=0)
    (whole,) = tape_tools.run(tape_tools.pulled_tape(without, [0]), filled, np.ones_like(y))
    np.testing.assert_allclose(back[:, columns], whole[:, columns])


def test_no_numbers_at_all_give_no_derivative() -> None:
    x = np.full((2, 3), np.nan)
    for function in (np.nansum, np.nanmax, np.nanmean, np.nanvar):
        tape = agrees(function, x, axis=1)
        assert tape is not None
        np.testing.assert_array_equal(tape_tools.run(tape_tools.pulled_tape(tape, [0]), x, np.ones(2))[0], 0)


@pytest.mark.parametrize("axis", [None, 1, (0, 1), (1, 0)])
def test_average(axis: Any) -> None:
    x, w = numbers("f8", (2, 3)), np.abs(numbers("f8", (2, 3))) + 1
    agrees(np.average, x, axis=axis)
    agrees_on(lambda f: lambda a, b: f(a, axis, b), np.average, x, w)
    agrees_on(lambda f: lambda a, b: f(a, axis, b, True, keepdims=True)[1], np.average, x, w)
    agrees_on(lambda f: lambda a, b: f(a, axis, b), np.average, x.astype("i4"), w.astype("f4"))
    agrees_on(lambda f: lambda a, b: f(a, 1, b), np.average, x, w[0])
    agrees_on(lambda f: lambda a, b: f(a, (2, 0), b), np.average, numbers("f8", (3, 4, 2)), w[:, :3])
    tape = agrees_on(lambda f: lambda a, b: f(a, axis, b), np.average, x, w)
    assert tape is not None
    op_table.check_derivatives(tape, (x, w), 2, 1e-10)


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(BroadcastError, match=r"Weights of shape \(4,\) do not fit"):
        tape_tools.trace(lambda x: meaning_of(np.average)(x, 0, np.ones(4)), np.ones((3, 4)))


def test_a_mean_that_is_given() -> None:
    x = numbers("f8", (3, 4))
    mean = x.mean(axis=1, keepdims=True)
    agrees_on(lambda f: lambda a, m: f(a, axis=1, mean=m), np.var, x, mean)


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [*FOLDS, *MEANS, np.argmax, np.cumsum, np.sort, np.any], ids=name)
def test_an_axis_out_of_range(function: Any) -> None:
    with pytest.raises(AxisError, match="axis 2 is out of bounds for array of dimension 2") as error:
        tape_tools.trace(lambda x: meaning_of(function)(x, axis=2), np.ones((3, 4)))
    assert isinstance(error.value, np.exceptions.AxisError) and "Valid are -2 to 1." in str(error.value)


@pytest.mark.parametrize("function", [np.max, np.argmin], ids=name)
def test_nothing_to_choose_from(function: Any) -> None:
    with pytest.raises(EmptyReductionError, match=r"The array has shape \(3, 0\)"):
        tape_tools.trace(lambda x: meaning_of(function)(x, axis=1), np.ones((3, 0)))


def test_forms_that_are_refused() -> None:
    x = np.ones((3, 4))
    with pytest.raises(UnsupportedError, match=r"`np\.sum` with `out=`"):
        tape_tools.trace(lambda a: meaning_of(np.sum)(a, out=np.empty(())), x)
    with pytest.raises(UnsupportedError, match="complex numbers"):
        tape_tools.trace(meaning_of(np.max), x + 1j)
    with pytest.raises(BroadcastError, match=r"A mask of shape \(2, 3, 4\) does not fit"):
        tape_tools.trace(lambda a: meaning_of(np.sum)(a, where=np.ones((2, 3, 4), bool)), x)
    with pytest.raises(ValueError, match="All-NaN slice"):
        tape_tools.trace(meaning_of(np.nanargmax), x * np.nan)


# --- scans, sorts and order statistics --------------------------------------------------------------------


@given(shapes, dtypes, st.sampled_from([None, 0, -1, 1, 5]), st.data())
def test_running(shape: Any, dtype: str, axis: Any, data: Any) -> None:
    function = data.draw(st.sampled_from([np.cumsum, np.cumprod, np.nancumsum, np.nancumprod]))
    x = numbers(dtype, shape, nan=True)
    if dtype != "f2":
        agrees(function, x, axis=axis)
        agrees(np.cumulative_sum, x, axis=axis, include_initial=True)
        agrees(np.cumulative_prod, x, axis=axis)


@pytest.mark.parametrize("function", [np.maximum.accumulate, np.minimum.accumulate])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes(function: Any, axis: int) -> None:
    for x in (numbers("f8", (4, 5)), numbers("f8", (4, 5), nan=True), numbers("i4", (4, 5))):
        agrees(function, x, axis=axis)
    differentiates(function, numbers("f8", (4, 5)), axis=axis)


@pytest.mark.parametrize("function", [np.cumsum, np.cumprod, np.sort, np.median], ids=name)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_derivatives_of_scans_and_sorts(function: Any, axis: Any) -> None:
    differentiates(function, numbers("f8", (3, 4)), axis=axis)


def test_cumprod_is_exact_at_zeros() -> None:
    differentiates(np.cumprod, np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]), order=3, axis=1)


def test_differences() -> None:
    x = numbers("f8", (3, 4))
    for dtype in ("f8", "?", "i4"):
        agrees(np.diff, x.astype(dtype), axis=0)
        agrees(np.ediff1d, x.astype(dtype)) if dtype != "?" else None
    differentiates(np.diff, x, n=2, axis=1, prepend=0.5, append=np.ones((3, 1)))
    differentiates(np.ediff1d, x, to_end=[1.0, 2.0], to_begin=3.0)
    agrees(np.diff, x, n=0)
    agrees(np.diff, x, n=-1)


def test_trapezoid() -> None:
    y, x = numbers("f8", (3, 4)), np.array([0.0, 1.0, 3.0, 3.5])
    differentiates(np.trapezoid, y, dx=0.5, axis=0)
    for at in (x, np.cumsum(np.abs(y), axis=1)):
        tape = agrees_on(lambda f: f, np.trapezoid, y, at)
        assert tape is not None
        op_table.check_derivatives(tape, (y, at), 2, 1e-10)
    agrees(np.trapezoid, y.astype("f4"), dx=2)


@given(
    full_shapes,
    st.sampled_from(["f8", "i4", "u1", "?"]),
    st.sampled_from([None, 0, -1]),
)
def test_sorting(shape: Any, dtype: str, axis: Any) -> None:
    x = numbers(dtype, shape, nan=True)
    agrees(np.sort, x, axis=axis)
    agrees(np.argsort, x, axis=axis, kind="stable")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("q", [0.3, [0.0, 0.55, 1.0], np.float32(0.25)])
def test_quantiles(method: str, q: Any) -> None:
    for x in (numbers("f8", (11, 3)), numbers("f8", (3, 4), nan=True), numbers("i4", (2, 3, 4))):
        for axis in (None, 0, (0, 1)):
            agrees(np.quantile, x, q=q, axis=axis, method=method, keepdims=axis == 0)
            agrees(np.nanquantile, x, q=q, axis=axis, method=method)
    x = numbers("f8", (3, 4))
    differentiates(np.quantile, x, q=0.3, axis=0, method=method, order=1)
    differentiates(np.nanquantile, x, q=[0.2, 0.9], axis=1, method=method, order=1)


def test_percentiles_and_their_range() -> None:
    x = numbers("f8", (5,))
    agrees(np.percentile, x, q=30)
    agrees(np.nanpercentile, x.astype("f4"), q=[30, 60])
    for q in (-1, [10, 101]):
        agrees(np.percentile, x, q=q)
    with pytest.raises(ValueError, match=r"Quantiles must be in the range \[0, 1\]"):
        tape_tools.trace(meaning_of(np.quantile), x, np.array([0.5, 1.5]))


def test_the_derivative_in_the_quantile_is_the_slope() -> None:
    x = np.array([10.0, 0.0, 40.0, 20.0, 35.0])
    tape = tape_tools.trace(meaning_of(np.quantile), x, np.array(0.3))
    op_table.check_derivatives(tape, (x, np.array(0.3)), 2, 1e-9)
    _, by_q = tape_tools.run(tape_tools.pulled_tape(tape, [0, 1]), x, np.array(0.3), np.array(1.0))
    np.testing.assert_allclose(by_q, 4 * (20.0 - 10.0))


@given(
    full_shapes,
    st.sampled_from(["f8", "f4", "i4"]),
    st.sampled_from([None, 0, (0, 1)]),
)
def test_medians(shape: Any, dtype: str, axis: Any) -> None:
    x = numbers(dtype, shape, nan=True)
    if not scalar_axis_of_scalar(x, axis):
        for function in (np.median, np.nanmedian):
            agrees(function, x, axis=axis)
            agrees(function, numbers(dtype, shape), axis=axis, keepdims=True)


# --- the whole way ----------------------------------------------------------------------------------------


def test_maximum_along_axes_with_ties() -> None:
    x = np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 2.0]])
    np.testing.assert_allclose(tj.grad(np.max)(x), (x == 2) / 4)
    np.testing.assert_allclose(tj.grad(lambda a: np.max(a, axis=1).sum())(x), (x == 2) / 2)
    np.testing.assert_allclose(tj.grad(lambda a: a.max(axis=(-1, 0)))(x), (x == 2) / 4)
    by_column = np.array([[0, 1, 0.5], [1, 0, 0.5]])
    np.testing.assert_allclose(tj.grad(lambda a: np.sum(np.max(a, -2)))(x), by_column)


def test_an_argument_that_only_says_where_is_disconnected() -> None:
    def f(x: Array) -> Any:
        return np.argmax(x) * 2.0

    np.testing.assert_array_equal(tj.grad(f)(np.array([1.0, 3.0, 2.0])), np.zeros(3))
    with pytest.raises(tj.errors.DisconnectedError):
        tj.grad(f, disconnected="raise")(np.array([1.0, 3.0, 2.0]))


def test_sizes_do_not_recompile() -> None:
    def spread(x: Array) -> Any:
        return np.std(x) + np.median(x) + x.mean() + np.cumsum(x)[-1] + np.sort(x)[3]

    gradient = tj.value_and_grad(spread)
    for n in (20, 37, 64):
        x = numbers("f8", (n,))
        value, slope = gradient(x)
        np.testing.assert_allclose(value, spread(x))
        direction = np.cos(np.arange(n))
        step = 1e-6 * direction
        np.testing.assert_allclose(slope @ direction, (spread(x + step) - spread(x - step)) / 2e-6, rtol=1e-6)


def test_hessian_of_a_product_with_zeros() -> None:
    x = np.array([0.0, 2.0, 0.0, 5.0])
    wanted = np.zeros((4, 4))
    wanted[0, 2] = wanted[2, 0] = 10.0
    np.testing.assert_array_equal(tj.hessian(np.prod)(x), wanted)
    np.testing.assert_array_equal(tj.grad(np.prod)(x), 0)


def test_variance_of_equal_numbers_is_smooth() -> None:
    x = np.full((2, 3), 1.7)
    np.testing.assert_allclose(tj.grad(np.var)(x), 0, atol=1e-15)
    np.testing.assert_allclose(tj.grad(lambda a: np.std(a) ** 2)(x), 0, atol=1e-15)
