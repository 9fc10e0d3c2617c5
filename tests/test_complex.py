"""Complex numbers: values as NumPy's, the conventions of derivatives, what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from samples_complex import SMOOTH, W, X, Z, numbers

import tracejit as tj
from tracejit import pipeline
from tracejit.errors import NonNumericError, NonScalarOutputError, UnsupportedError

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
CASES = [pytest.param(f, arrays, id=name) for name, (f, arrays) in SMOOTH.items()]
ITEMS = list(SMOOTH.items())
GROUPS = [ITEMS[i : i + 16] for i in range(0, len(ITEMS), 16)]


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def narrow(a: Array) -> Array:
    return a.astype({"D": "F", "d": "f"}[a.dtype.char])


def same(got: Any, want: Any, digits: float = 1e-12) -> None:
    assert np.asarray(got).dtype == np.asarray(want).dtype and np.shape(got) == np.shape(want)
    assert_allclose(got, want, rtol=digits, atol=digits)


@pytest.mark.parametrize("convert", [np.asarray, narrow], ids=["double", "single"])
@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_values(function: Function, arrays: tuple[Array, ...], convert: Any) -> None:
    arrays = tuple(map(convert, arrays))
    with pipeline.interpret():
        got = tj.jit(function)(*arrays)
    for g, w in zip(leaves(got), leaves(function(*arrays)), strict=True):
        same(g, w, 1e-12 if convert is np.asarray else 2e-5)


@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_derivatives(function: Function, arrays: tuple[Array, ...]) -> None:
    op_table.check_derivatives(pipeline.trace_tape(function, arrays, {}), arrays, 2, 1e-9)


def side_by_side(group: list[Any]) -> Function:
    """All functions of a group at once: a real number that depends on all of them, and their results."""

    def together(*arrays: Any) -> Any:
        total, results = 0.0, []
        for _, (function, own) in group:
            mine, arrays = arrays[: len(own)], arrays[len(own) :]
            results.append(tuple(leaves(function(*mine))))
            for result in results[-1]:
                total = total + np.sum(np.real(result * (0.3 - 0.7j)))
        return total, tuple(results)

    return together


@pytest.mark.parametrize("convert", [np.asarray, narrow], ids=["double", "single"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[0][0]} ff")
def test_compiled_values_and_gradients(group: list[Any], convert: Any) -> None:
    digits = 1e-11 if convert is np.asarray else 5e-5
    flat = [convert(a) for _, (_, arrays) in group for a in arrays]
    function = tj.value_and_grad(side_by_side(group), tuple(range(len(flat))), has_aux=True)
    (_, results), slopes = function(*flat)
    with pipeline.interpret():
        (_, wanted), wanted_slopes = function(*flat)
    for result, want in zip(results, wanted, strict=True):
        for g, w in zip(result, want, strict=True):
            same(g, w, digits)
    for slope, want, array in zip(slopes, wanted_slopes, flat, strict=True):
        assert slope.dtype == array.dtype
        same(slope, want, digits)


# --- conventions ------------------------------------------------------------------------------------------


def slope_by_differences(f: Function, z: Array) -> Array:
    """``df/dx - i df/dy``, one entry at a time."""
    slope, step = np.empty_like(z), 1e-6
    for place in np.ndindex(z.shape):
        move = np.zeros_like(z)
        move[place] = step
        by_x, by_y = ((f(z + d * move) - f(z - d * move)) / (2 * step) for d in (1, 1j))
        slope[place] = by_x - 1j * by_y
    return slope


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.sum(np.abs(z) ** 3),
        lambda z: np.sum(np.angle(z) * z.real),
        lambda z: np.sum((np.exp(z) * z.conj()).imag),
        lambda z: np.abs(np.prod(z)) + np.real(np.vdot(z, z**2)),
        lambda z: np.sum(np.abs(np.fft.fft(z)) ** 3),
    ],
)
def test_gradient_is_dx_minus_i_dy(f: Function) -> None:
    assert_allclose(tj.grad(f)(Z), slope_by_differences(f, Z), rtol=1e-7, atol=1e-8)


def test_cotangents_are_not_conjugated() -> None:
    value, pull = tj.vjp(lambda z: z**2, Z)
    assert_allclose(value, Z**2)
    assert_allclose(pull(W)[0], 2 * Z * W)
    assert_allclose(tj.jvp(lambda z: z**2, (Z,), (W,))[1], 2 * Z * W)
    assert_allclose(tj.jvp(np.conj, (Z,), (W,))[1], W.conj())
    assert_allclose(tj.vjp(np.conj, Z)[1](W)[0], W.conj())


def test_real_operands_get_the_real_part() -> None:
    weight = X[0]
    by_x, by_z = tj.grad(lambda x, z: np.sum(np.real(x * z * (2 + 1j))), (0, 1))(weight, Z)
    same(by_x, np.real(Z * (2 + 1j)).sum(0))
    same(by_z, np.broadcast_to(weight, Z.shape) * (2 + 1j))
    scalar = tj.grad(lambda a: np.sum(np.imag(a * Z)))(2.0)
    assert type(scalar) is np.float64 and np.isclose(scalar, Z.imag.sum())


def test_scalars_are_complex_numbers() -> None:
    slope = tj.grad(np.abs)(3 + 4j)
    assert type(slope) is np.complex128 and np.isclose(slope, 0.6 - 0.8j)


AT_ZERO: dict[str, tuple[Function, complex]] = {
    "abs": (np.abs, 0),
    "squared abs": (lambda z: np.abs(z) ** 2, 0),
    "angle": (np.angle, 0),
    "norm": (np.linalg.norm, 0),
    "sqrt of a square": (lambda z: np.sqrt(np.sum(z**2)), 0),
    "std": (lambda z: np.std(z * np.ones(3)), 0),
    "power 1": (lambda z: z**1, 1),
    "power 2": (lambda z: z**2, 0),
    "array power 1": (lambda z: z ** np.array([1.0]), 1),
    "complex power 1": (lambda z: z ** np.array([1 + 0j]), 1),
    "prod": (lambda z: np.prod(np.append(z, [2.0, 1j])), 2j),
    "masked log": (lambda z: np.where(z == 0, 1, np.log(z)), 0),
    "masked quotient": (lambda z: np.where(z == 0, 0, z / np.abs(z)), 0),
    "sinc": (np.sinc, 0),
}


@pytest.mark.parametrize(("function", "want"), AT_ZERO.values(), ids=AT_ZERO)
def test_choices_at_zero(function: Function, want: complex) -> None:
    with np.errstate(all="ignore"), pipeline.interpret():
        slope = tj.grad(lambda z: np.sum(np.real(function(z))))(np.zeros(1, complex))
    assert_array_equal(slope, [want])


def test_sinc_far_from_zero_on_the_imaginary_axis() -> None:
    z = np.array([2j, 0.1j, 1 - 3j, 0j])
    assert_allclose(tj.jit(np.sinc)(z), np.sinc(z), rtol=1e-14)


def test_second_derivatives_along_vectors() -> None:
    def f(z: Any) -> Any:
        return np.sum(np.abs(z) ** 4 + np.real(z**3))

    by_differences = (tj.grad(f)(Z + 1e-6 * W) - tj.grad(f)(Z - 1e-6 * W)) / 2e-6
    assert_allclose(tj.hvp(f)(Z, W), by_differences, rtol=1e-7)


# --- Jacobians --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_holomorphic_jacobians(mode: str) -> None:
    z = numbers(5)
    got = tj.jacobian(lambda z: np.exp(z) + z[0] * z, mode=mode, holomorphic=True)(z)
    want = np.diag(np.exp(z) + z[0])
    want[:, 0] += z
    same(got, want)


@pytest.mark.parametrize("shape", [(3, 6), (6, 3)])
@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobians_of_real_functions(mode: Any, shape: tuple[int, int]) -> None:
    a, z = numbers(*shape), numbers(shape[1])
    y = a @ z
    got = tj.jacobian(lambda z: np.abs(a @ z) ** 2, mode=mode)(z)
    same(got, 2 * y.conj()[:, None] * a)


def test_pointwise_derivatives() -> None:
    same(tj.elementwise_grad(lambda z: np.abs(z) ** 2)(Z), 2 * Z.conj())
    same(tj.jacobian(np.imag, structure="pointwise")(Z), np.full_like(Z, -1j))
    same(tj.jacobian(lambda z: z**3, structure="pointwise", holomorphic=True)(Z), 3 * Z**2)
    same(tj.elementwise_grad(lambda x: np.exp(2j * x))(X), 2j * np.exp(2j * X))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tj.grad(np.sum)(Z), NonScalarOutputError),
        (lambda: tj.grad(lambda x: np.sum(np.exp(1j * x)))(X), NonScalarOutputError),
        (lambda: tj.jacobian(lambda z: z**2)(Z), NonScalarOutputError),
        (lambda: tj.jacobian(lambda x: 1j * x)(X), NonScalarOutputError),
        (lambda: tj.jacobian(np.abs, holomorphic=True)(Z), NonScalarOutputError),
        (lambda: tj.jacobian(lambda x: 1j * x, holomorphic=True)(X), NonNumericError),
        (lambda: tj.elementwise_grad(lambda z: z**2)(Z), NonScalarOutputError),
        (lambda: tj.jacobian(np.abs, structure="pointwise", holomorphic=True)(Z), NonScalarOutputError),
        (lambda: tj.hessian(lambda z: np.sum(np.abs(z) ** 2))(Z), NonScalarOutputError),
    ],
)
def test_derivatives_that_do_not_exist(call: Function, error: type[Exception]) -> None:
    with pytest.raises(error, match="complex"):
        call()


# --- comparisons, values that decide, what is refused ------------------------------------------------------


def test_comparisons_look_at_real_parts_first() -> None:
    parts = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts])
    a, b = z[:, None], z[None, :]

    def compare(a: Any, b: Any) -> Any:
        return a < b, a <= b, a > b, a >= b, a == b, a != b

    with np.errstate(invalid="ignore"):
        wanted = compare(a, b)
    for got, want in zip(tj.jit(compare)(a, b), wanted, strict=True):
        assert_array_equal(got, want)
    assert_array_equal(tj.jit(lambda z: z > 0.5)(Z), Z > 0.5)


def test_predicates() -> None:
    z = np.array([0, 1j, np.nan, complex(1, np.nan), complex(np.inf, 1), 2])
    for function in (
        np.isnan,
        np.isinf,
        np.isfinite,
        np.iscomplex,
        np.isreal,
        np.logical_not,
        np.count_nonzero,
    ):
        assert_array_equal(tj.jit(function)(z), function(z))


def test_numbers_that_are_not_finite() -> None:
    z = np.array([complex(np.nan, 1), complex(np.inf, -np.inf), complex(2, np.nan)])
    for use in (np.nan_to_num, lambda z: np.nan_to_num(z, nan=3.0, posinf=4.0, neginf=5.0)):
        assert_array_equal(tj.jit(use)(z), use(z))


def test_infinite_parts_are_stored_as_they_are() -> None:
    def use(x: Any) -> Any:
        z = x + 0j
        z.imag = 1 / x
        return z

    with np.errstate(all="ignore"):
        assert_array_equal(tj.jit(use)(np.array([0.0, -0.0, 2.0])), use(np.array([0.0, -0.0, 2.0])))


def test_imaginary_parts_of_real_arrays_cannot_be_set() -> None:
    def use(x: Any) -> Any:
        y = x + 1
        y.imag = x
        return y

    for call in (use, tj.jit(use)):
        with pytest.raises(TypeError):
            call(X)


def test_real_if_close_decides_at_each_call() -> None:
    function = tj.jit(np.real_if_close)
    for z in (Z, Z.real + 0j, Z.real + 1e-15j, Z, X):
        same(function(z), np.real_if_close(z))


@pytest.mark.parametrize("function", [np.max, np.sort, np.argmax, np.median, np.maximum.reduce, np.ptp])
def test_orders_of_complex_numbers_are_refused(function: Function) -> None:
    with pytest.raises(UnsupportedError, match="complex"):
        tj.jit(function)(Z)


@pytest.mark.parametrize("function", [np.arctan2, np.hypot, np.logaddexp, np.remainder, np.copysign])
def test_what_numpy_refuses(function: Function) -> None:
    for call in (function, tj.jit(function)):
        with pytest.raises(TypeError):
            call(Z, W)


def test_new_sizes_and_layouts() -> None:
    function = tj.grad(lambda z, x: np.sum(np.abs(z * x[:, None] + z.conj()) ** 2))
    for z in (numbers(12, 10), numbers(10, 11).T, np.asfortranarray(numbers(9, 20)), numbers(24, 9)[::2]):
        x = np.linspace(0.5, 1.5, len(z))
        y = z * x[:, None] + z.conj()
        assert_allclose(function(z, x), 2 * (y.conj() * x[:, None] + y), rtol=1e-12)


def test_batches() -> None:
    same(tj.vmap(lambda z: np.vdot(z, z[::-1]))(Z), np.vecdot(Z, Z[:, ::-1]))
    slopes = tj.vmap(tj.grad(lambda z: np.abs(np.sum(z))))(Z)
    sums = Z.sum(1, keepdims=True)
    same(slopes, np.broadcast_to(sums.conj() / np.abs(sums), Z.shape))
