"""``numpy.linalg``: values against NumPy's, both modes of differentiation, degenerate matrices, errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from samples_linalg import SMOOTH

import tracejit as tj
from tracejit.pipeline import interpret, trace_tape

L = np.linalg
CASES = [pytest.param(f, arrays, id=name) for name, (f, arrays) in SMOOTH.items()]
Array = np.ndarray[Any, Any]


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def same(got: Any, want: Any, digits: float = 1e-11) -> None:
    assert type(got) is type(want)
    for x, y in zip(leaves(got), leaves(want), strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        assert_allclose(x, y, rtol=digits, atol=digits)


@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_values(function: Callable[..., Any], arrays: tuple[Array, ...]) -> None:
    want = function(*arrays)
    with interpret():
        same(tj.jit(function)(*arrays), want)


@pytest.mark.parametrize(("function", "arrays"), CASES)
def test_derivatives(function: Callable[..., Any], arrays: tuple[Array, ...]) -> None:
    op_table.check_derivatives(trace_tape(function, arrays, {}), arrays, 2, 3e-8)


# --- determinants of singular matrices ----------------------------------------------------------------------

RANKS = [
    np.diag([1.0, 2.0, 3.0, 0.0]),
    np.diag([1.0, 2.0, 0.0, 0.0]),
    np.zeros((4, 4)),
    np.eye(4),
    np.ones((4, 4)),
]


def minors(a: Array) -> Array:
    """The matrix of cofactors, one determinant per entry."""
    n = len(a)
    return np.array(
        [[(-1) ** (i + j) * L.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    )


def turned(a: Array) -> Array:
    """A matrix of the same rank without zeros."""
    rng = np.random.default_rng(5)
    return rng.normal(size=a.shape) @ a @ rng.normal(size=a.shape)


@pytest.mark.parametrize("a", RANKS)
@pytest.mark.parametrize("place", [np.copy, turned])
def test_gradient_of_det_is_the_matrix_of_cofactors_at_every_rank(
    a: Array, place: Any, each_mode: str
) -> None:
    a = place(a)
    assert_allclose(tj.grad(L.det)(a), minors(a), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("a", RANKS)
@pytest.mark.parametrize("place", [np.copy, turned])
def test_hessian_of_det_is_exact_at_every_rank(a: Array, place: Any) -> None:
    a = place(a)
    along = np.random.default_rng(6).normal(size=a.shape)
    want = (minors(a + 1e-4 * along) - minors(a - 1e-4 * along)) / 2e-4  # exact but for the third derivative
    with interpret():
        got = tj.jvp(tj.grad(L.det), (a,), (along,))[1]
    assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_third_derivative_of_det() -> None:
    a = np.random.default_rng(8).normal(size=(4, 4))
    op_table.check_derivatives(trace_tape(tj.grad(L.det), (a,), {}), [a], 2, 1e-7)


def test_slogdet_of_singular_matrices(each_mode: str) -> None:
    a = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, -3.0]]])
    same(tj.jit(L.slogdet)(a), L.slogdet(a))
    gradient = tj.grad(lambda x: np.sum(np.where(np.array([False, True]), L.slogdet(x)[1], 0.0)))(a)
    assert_allclose(gradient, [np.zeros((2, 2)), L.inv(a[1]).T])


# --- equal eigenvalues and singular values ------------------------------------------------------------------


@pytest.mark.parametrize("a", [np.eye(3), np.zeros((3, 3)), turned(np.eye(3)) @ turned(np.eye(3)).T])
def test_functions_of_eigenvalues(a: Array, each_mode: str) -> None:
    assert_allclose(tj.grad(lambda x: np.sum(L.eigvalsh(x) ** 2))(a), 2 * a, rtol=1e-12, atol=1e-12)
    assert_allclose(tj.grad(lambda x: np.sum(L.eigh(x)[0] ** 3))(a), 3 * a @ a, rtol=1e-12, atol=1e-12)


def test_projector_on_a_degenerate_space() -> None:
    q, _ = L.qr(np.random.default_rng(1).normal(size=(4, 4)))
    a = q @ np.diag([1.0, 1.0, 1.0, 3.0]) @ q.T
    weight = np.arange(16.0).reshape(4, 4)

    def projected(x: Any) -> Any:
        v = L.eigh(x)[1][:, :3]
        return np.sum(weight * (v @ v.T))

    step = np.random.default_rng(2).normal(size=(4, 4))
    step = step + step.T
    want = (projected(a + 1e-5 * step) - projected(a - 1e-5 * step)) / 2e-5
    with interpret():
        assert_allclose(np.sum(tj.grad(projected)(a) * step), want, rtol=1e-7)


@pytest.mark.parametrize("a", [np.eye(3), np.zeros((3, 2)), np.ones((2, 3)), np.diag([2.0, 2.0, 1.0])])
def test_functions_of_singular_values(a: Array, each_mode: str) -> None:
    assert_allclose(tj.grad(lambda x: np.sum(L.svd(x)[1] ** 2))(a), 2 * a, atol=1e-14)
    assert np.isfinite(tj.grad(lambda x: np.sum(np.abs(L.svd(x, full_matrices=False)[0])))(a)).all()


@pytest.mark.parametrize("order", [2, -2, "nuc", "fro", 1])
def test_norms_at_zero(order: Any) -> None:
    with interpret():
        assert_array_equal(tj.grad(lambda x: L.norm(x, order))(np.zeros((2, 3))), np.zeros((2, 3)))


def test_gradients_of_symmetric_functions_are_symmetric(each_mode: str) -> None:
    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]])
    weight = np.arange(9.0).reshape(3, 3)
    for function in (L.cholesky, lambda x: L.cholesky(x, upper=True), lambda x: L.eigh(x, "U")[1]):
        gradient = tj.grad(lambda x, f=function: np.sum(weight * f(x)))(a)
        assert_allclose(gradient, gradient.T, rtol=1e-12)
        assert np.abs(gradient).max() > 0.1
    log_det = tj.grad(lambda x: 2 * np.sum(np.log(np.diag(L.cholesky(x)))))
    assert_allclose(log_det(a), L.inv(a), rtol=1e-12)


def test_pinv_of_lower_rank() -> None:
    """Along matrices of the same rank; elsewhere the pseudo-inverse jumps."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(2, 4))
    op_table.check_derivatives(trace_tape(lambda p, q: L.pinv(p @ q), (x, y), {}), [x, y], 2, 1e-7)


def test_matrix_rank() -> None:
    a = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    for function in (
        L.matrix_rank,
        lambda x: L.matrix_rank(x, tol=0.5),
        lambda x: L.matrix_rank(x, rtol=1e-3),
        lambda x: L.matrix_rank(x, hermitian=True),
    ):
        with interpret():
            assert_array_equal(tj.jit(function)(a), function(a))
            assert_array_equal(
                tj.grad(lambda x, f=function: np.sum(f(x) * x[:, 0, 0]))(a)[:, 0, 0], function(a)
            )


# --- sizes, dtypes, stacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 30])
def test_larger_matrices_compiled(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, 2))

    def likelihood(x: Any, y: Any) -> Any:
        factor = L.cholesky(positive(x))
        return np.sum(L.solve(x, y) * y) + L.slogdet(x)[1] + np.sum(np.log(np.diag(factor)))

    def positive(x: Any) -> Any:
        return x @ x.T + n * np.eye(n)

    value, gradients = tj.value_and_grad(likelihood, (0, 1))(a, b)
    assert_allclose(value, likelihood(a, b), rtol=1e-12)
    one, other = L.inv(a).T, L.inv(positive(a))
    assert_allclose(gradients[0], -(one @ b) @ L.solve(a, b).T + one + other @ a, rtol=1e-9, atol=1e-9)
    assert_allclose(gradients[1], L.solve(a, b) + one @ b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_nothing(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for function in (
        L.inv,
        L.det,
        L.slogdet,
        L.cholesky,
        L.eigh,
        L.eigvalsh,
        L.svd,
        L.svdvals,
        L.qr,
        L.eig,
        L.pinv,
    ):
        with interpret():
            same(tj.jit(function)(a), function(a))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_rows_or_columns(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for function in (
        L.svd,
        lambda x: L.svd(x, full_matrices=False),
        L.qr,
        lambda x: L.qr(x, "complete"),
        L.pinv,
        L.matrix_rank,
    ):
        with interpret():
            same(tj.jit(function)(a), function(a))


@pytest.mark.parametrize(
    "function", [L.inv, L.det, L.slogdet, L.cholesky, L.eigh, L.svd, L.qr, L.pinv, L.eig, L.cond]
)
def test_single_precision(function: Any) -> None:
    a = np.array([[2.0, 0.5], [0.5, 3.0]], np.float32)
    with interpret():
        same(tj.jit(function)(a), function(a), 1e-6)
        gradient = tj.grad(lambda x: sum(np.sum(np.abs(r)) for r in leaves(function(x))))(a)
    assert gradient.dtype == np.float32 and gradient.shape == a.shape


def test_integers() -> None:
    a = np.array([[2, 1], [1, 3]])
    for function in (L.inv, L.det, L.eigh):
        with interpret():
            same(tj.jit(function)(a), function(a))


def test_vmap_is_the_stack() -> None:
    a, b = SMOOTH["solve"][1]
    with interpret():
        assert_allclose(tj.vmap(L.solve)(a, b), L.solve(a, b), rtol=1e-12)
        assert_allclose(tj.vmap(L.solve, in_axes=(None, 0))(a[0], b), L.solve(a[0], b), rtol=1e-12)
        assert_allclose(tj.vmap(lambda x: L.svd(x)[1])(a), L.svd(a)[1], rtol=1e-12)


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "matrix"),
    [
        (L.inv, np.ones((3, 3))),
        (lambda x: L.solve(x, x[0]), np.zeros((20, 20))),
        (L.cholesky, -np.eye(3)),
        (L.cholesky, np.diag(np.arange(20.0) - 3)),
        (L.eigh, np.full((3, 3), np.nan)),
        (L.svd, np.full((3, 3), np.nan)),
    ],
)
def test_values_that_numpy_refuses(function: Any, matrix: Array, each_mode: str) -> None:
    with pytest.raises(L.LinAlgError) as expected:
        function(matrix)
    with pytest.raises(L.LinAlgError, match=str(expected.value)):
        tj.jit(function)(matrix)


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (L.inv, (2, 3), float),
        (L.det, (3,), float),
        (L.solve, (2, 3), float),
        (lambda x, y=None: L.solve(x, np.ones(3)), (2, 2), float),
        (L.svd, (3,), float),
        (L.cond, (0, 2), float),
        (lambda x: L.eigh(x, "X"), (2, 2), float),
        (lambda x: L.qr(x, "no such mode"), (2, 2), float),
        (lambda x: L.tensorsolve(x, np.ones(2)), (2, 3), float),
        (lambda x: L.tensorinv(x, 0), (2, 2), float),
        (lambda x: L.lstsq(x, np.ones(3)), (2, 2), float),
        (lambda x: L.lstsq(x, np.ones(2)), (2, 2, 2), float),
        (lambda x: L.pinv(x, 1e-3, rtol=1e-3), (2, 2), float),
        (L.inv, (2, 2), np.float16),
    ],
)
def test_mistakes_raise_what_numpy_raises(function: Any, shape: tuple[int, ...], dtype: Any) -> None:
    arrays = (np.ones(shape, dtype),) * (2 if function is L.solve else 1)
    with pytest.raises(Exception) as expected:  # NumPy's own
        function(*arrays)
    with pytest.raises(expected.type):
        tj.jit(function)(*arrays)
