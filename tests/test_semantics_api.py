"""The promises about values, inputs and Jacobians, each through the public functions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
EXTREMES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -2.2e-308, 1.7e308, 0.1, -3.7]


def identical(found: Any, expected: Any) -> None:
    """Same type, dtype, shape and bits (any nan is like any other)."""
    assert type(found) is type(expected)
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


# --- values: what NumPy gives -------------------------------------------------------------------------------

EXACT: dict[str, Callable[[Array, Array], Any]] = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y),
    "one operand": lambda x, y: (-x, abs(x), np.sqrt(x), x**2, 1 / y, np.sign(x)),
    "comparisons": lambda x, y: (x < y, x <= y, x == y, x != y, x > y, np.isnan(x), np.isfinite(y)),
    "choices": lambda x, y: (np.where(x > y, x, y), np.maximum(x, y), np.minimum(x, y), np.clip(x, -1, 2)),
    "rounding": lambda x, y: (np.floor(x), np.ceil(x), np.trunc(x), np.rint(x)),
    "products": lambda x, y: x * x * y + x * 0.5 - y / 3,
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_operations_are_bitwise_those_of_numpy(name: str) -> None:
    x, y = (a.ravel() for a in np.meshgrid(EXTREMES, EXTREMES))
    with np.errstate(all="ignore"):
        expected = EXACT[name](x, y)
    found = tj.jit(EXACT[name])(x, y)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        identical(a, b)


@given(hnp.arrays(np.float64, st.integers(9, 40), elements=st.floats(-1e6, 1e6)), st.floats(-1e3, 1e3))
def test_exact_operations_on_random_numbers(x: Array, k: float) -> None:
    identical(compiled_chain(x, k), chain(x, k))


def chain(x: Array, k: float) -> Any:
    return np.sqrt(x * x + k * k) / (1 + abs(x)) - k * x


compiled_chain = tj.jit(chain)

DTYPES = ["b", "B", "h", "i", "l", "L", "e", "f", "d", "F", "D", "?"]


@pytest.mark.parametrize("left", DTYPES)
def test_result_types_follow_numpy(left: str) -> None:
    def f(x: Array, y: Array) -> Any:
        return x + y, x * 2, y * 1.5, x + np.float32(1), np.multiply(x, y).sum()

    compiled = tj.jit(f)
    for right in ("i", "f", "d", left):
        x, y = np.array([0, 1, 1]).astype(left), np.array([1, 0, 1]).astype(right)
        for found, expected in zip(compiled(x, y), f(x, y), strict=True):
            assert found.dtype == expected.dtype and type(found) is type(expected)
            np.testing.assert_allclose(found, expected)


def test_scalars_come_back_as_numpy_scalars() -> None:
    def f(x: Any, y: Array) -> Any:
        return x * 2, np.sin(x), y[0], y.sum(), y.max() > 1, y.argmax(), y[:1], np.array(3.0) * x

    found, expected = tj.jit(f)(np.float64(0.5), np.arange(3.0)), f(np.float64(0.5), np.arange(3.0))
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log1p", "tanh", "arctan", "cbrt", "expm1"])
def test_transcendental_functions_are_within_four_ulp(name: str) -> None:
    x = np.linspace(-0.99, 3.0, 20001)
    function = getattr(np, name)
    found = tj.jit(function)(x)
    exact = function(x.astype(np.longdouble))
    error = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(float)))
    assert float(np.max(error)) <= 4


@pytest.mark.parametrize("size", [1000, 100_000])
def test_sums_are_as_good_as_pairwise_sums(size: int) -> None:
    x = np.random.default_rng(3).lognormal(0, 3, size)
    # pairwise summation: log2(n) roundings per term
    bound = math.log2(size) * np.finfo(float).eps * math.fsum(x)
    assert abs(float(tj.jit(np.sum)(x)) - math.fsum(x)) <= bound
    assert abs(float(tj.jit(np.mean)(x)) * size - math.fsum(x)) <= 2 * bound


def test_division_by_zero_and_invalid_operations_do_not_warn() -> None:
    def f(x: Array) -> Any:
        return 1 / x, np.log(x), np.sqrt(x), x / x

    found = tj.jit(f)(np.array([0.0, -1.0, 2.0]))
    np.testing.assert_array_equal(found[0], [np.inf, -1.0, 0.5])
    np.testing.assert_array_equal(found[1][:2], [-np.inf, np.nan])
    np.testing.assert_array_equal(found[2][1], np.nan)
    np.testing.assert_array_equal(found[3][0], np.nan)


def test_indices_in_data_are_checked_and_negative_ones_wrap() -> None:
    pick = tj.jit(lambda x, i: x[i])
    x = np.arange(12.0)
    np.testing.assert_array_equal(pick(x, np.array([0, -1, 11, -12])), [0.0, 11.0, 11.0, 0.0])
    for wrong in (12, -13):
        with pytest.raises(IndexError):
            pick(x, np.array([0, 1, wrong, 2]))
    np.testing.assert_array_equal(pick(x, np.array([1, 1, 1, 1])), np.ones(4))


def test_results_do_not_change_from_call_to_call() -> None:
    f = tj.value_and_grad(lambda x: np.sum(np.sin(x) * np.exp(-x * x)))
    x = np.random.default_rng(4).normal(size=5000)
    first, second = f(x), f(x)
    identical(first[0], second[0])
    identical(first[1], second[1])


# --- broadcasting: any mix, in both modes -------------------------------------------------------------------


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=1, max_side=11))
    return shapes.input_shapes


@settings(max_examples=15)  # each compiles
@given(broadcastable(), st.integers(0, 2))
def test_broadcasting_is_reversed_exactly(shapes: Any, argnum: int) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.integers(-3, 4, shape).astype(float) for shape in shapes]

    def f(x: Any, y: Any, z: Any) -> Any:
        return (x * y + z) * 2 - x

    tangent = rng.integers(-3, 4, shapes[argnum]).astype(float)

    def along(moved: Any) -> Any:
        return f(*(moved if n == argnum else a for n, a in enumerate(arrays)))

    value, pushed = tj.jvp(along, (arrays[argnum],), (tangent,))
    np.testing.assert_array_equal(value, along(arrays[argnum]))
    # linear in each argument, so differences are exact
    np.testing.assert_array_equal(pushed, along(arrays[argnum] + tangent) - along(arrays[argnum]))
    weights = rng.integers(-3, 4, np.shape(value)).astype(float)
    (pulled,) = tj.vjp(along, arrays[argnum])[1](weights)
    assert np.shape(pulled) == shapes[argnum]
    assert np.sum(pulled * tangent) == np.sum(weights * pushed)


INSERTED: dict[str, Callable[[Any], Any]] = {
    "none in the middle": lambda x: x[..., None, :],
    "none everywhere": lambda x: x[None, :, None, ..., None],
    "ellipsis and an index": lambda x: x[..., 0],
    "negative step": lambda x: x[::-1, ..., ::2],
    "an integer and none": lambda x: x[1, None],
    "reshape": lambda x: x.reshape(-1, 1, 2),
    "expand and squeeze": lambda x: np.squeeze(np.expand_dims(x, (0, 3)), 0),
    "against a column": lambda x: x + np.ones((3, 1, 1)),
    "against a number": lambda x: x * np.array(2.0),
}


@pytest.mark.parametrize("extent", [3, 12])
@pytest.mark.parametrize("name", INSERTED)
def test_axes_put_in_and_taken_out(name: str, extent: int) -> None:
    x = np.arange(4.0 * extent).reshape(extent, 4)
    take = INSERTED[name]
    identical(tj.jit(take)(x), np.array(take(x)))
    slope = tj.grad(lambda x: np.sum(take(x) * take(x)) / 2)(x)
    # each entry of x enters as often, and as many times over, as the function shows it
    unit = [np.sum(take(x) * (take(x + e.reshape(x.shape)) - take(x))) for e in np.eye(x.size)]
    np.testing.assert_allclose(slope.ravel(), unit, rtol=1e-12)


# --- Jacobians ----------------------------------------------------------------------------------------------


def test_a_wide_and_a_tall_jacobian_agree_in_both_modes() -> None:
    matrix = np.random.default_rng(6).normal(size=(3, 40))
    for a in (matrix, matrix.T):
        x = np.linspace(-1, 1, a.shape[1])
        expected = (1 - np.tanh(a @ x) ** 2)[:, None] * a
        for mode in (None, "forward", "reverse"):
            found = tj.jacobian(lambda x, a: np.tanh(a @ x), mode=mode)(x, a)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_jacobian_by_several_arguments() -> None:
    found = tj.jacobian(lambda x, y: x[:, None] * y, argnums=(0, 1))(np.array([1.0, 2.0]), np.arange(3.0))
    assert found[0].shape == (2, 3, 2) and found[1].shape == (2, 3, 3)
    np.testing.assert_array_equal(found[0], np.einsum("j,ik->ijk", np.arange(3.0), np.eye(2)))
    np.testing.assert_array_equal(found[1], np.einsum("i,jk->ijk", [1.0, 2.0], np.eye(3)))


def test_jacobian_of_a_scalar_by_a_scalar() -> None:
    found = tj.jacobian(np.sin)(0.5)
    assert isinstance(found, float) and found == np.cos(0.5)


@pytest.mark.parametrize("sparse", [False, True])
def test_pointwise_on_a_grid_has_the_shape_of_the_output(sparse: bool) -> None:
    axes = np.linspace(0, 1, 10), np.linspace(1, 2, 4), np.linspace(-1, 1, 3)
    x, y, z = np.meshgrid(*axes, indexing="ij", sparse=sparse)
    slopes = tj.jacobian(lambda x, y, z: np.sin(x) * y + z**2, structure="pointwise", argnums=(0, 1, 2))
    dx, dy, dz = slopes(x, y, z)
    full = np.broadcast_arrays(x, y, z)
    np.testing.assert_allclose(dx, np.cos(full[0]) * full[1], rtol=1e-12)
    np.testing.assert_allclose(dy, np.sin(full[0]), rtol=1e-12)
    np.testing.assert_allclose(dz, 2 * full[2], rtol=1e-12)


def test_pointwise_keeps_leading_axes_of_vector_fields() -> None:
    def field(x: Array, y: Array) -> Any:
        return np.stack([x * y, x + y, y**2 + 0 * x])

    x, y = np.ogrid[0:1:10j, 1:2:4j]
    found = tj.jacobian(field, structure="pointwise", argnums=(0, 1))(x, y)
    assert [f.shape for f in found] == [(3, 10, 4)] * 2
    ones = np.ones((10, 4))
    np.testing.assert_allclose(found[0], [y * ones, ones, 0 * ones], rtol=1e-12)
    np.testing.assert_allclose(found[1], [x * ones, ones, 2 * y * ones], rtol=1e-12)


MIXING: dict[str, Callable[[Array], Any]] = {
    "sum": lambda x: x - np.sum(x),
    "shift": lambda x: np.roll(x, 1) * x,
    "stencil": lambda x: x[1:] - x[:-1],
    "flip": lambda x: x[::-1] * 2,
    "cumsum": np.cumsum,
    "outer": lambda x: x[:, None] * x,
    "gather": lambda x: x[np.arange(x.size)],
    "matmul": lambda x: np.ones((x.size, x.size)) @ x,
    "sort": np.sort,
    "reshape": lambda x: x.reshape(3, -1).T.ravel(),
}


@pytest.mark.parametrize("name", MIXING)
def test_pointwise_is_proved_not_assumed(name: str) -> None:
    with pytest.raises(tj.errors.PointwiseError):
        tj.elementwise_grad(MIXING[name])(np.arange(12.0))


def test_pointwise_may_reduce_over_what_is_no_coordinate() -> None:
    table = np.arange(1.0, 4.0)
    x = np.linspace(0, 1, 12)
    found = tj.elementwise_grad(lambda x: np.sum(np.sin(x * table[:, None]), axis=0))(x)
    np.testing.assert_allclose(found, np.sum(table[:, None] * np.cos(x * table[:, None]), axis=0), rtol=1e-12)


def test_max_dense_bytes_counts_the_result() -> None:
    f = tj.jacobian(np.sin, max_dense_bytes=8 * 20 * 20)
    assert f(np.zeros(20)).shape == (20, 20)
    with pytest.raises(MemoryError):
        f(np.zeros(21))
