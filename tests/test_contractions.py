"""NumPy's matrix products, einsum, norms and powers of matrices on traced values, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import pytest
import tape_tools
from against_numpy import agrees_on, meaning_of
from hypothesis import given
from hypothesis import strategies as st

import tracejit as tj
from tracejit.errors import ContractionError

Array = np.ndarray[Any, Any]

PRODUCTS = [np.matmul, np.dot, np.inner, np.vdot, np.outer, np.kron, np.vecdot, np.matvec, np.vecmat]


def name(function: Any) -> str:
    return str(function.__name__)


def numbers(*shape: int, dtype: str = "f8") -> Array:
    rng = np.random.default_rng([3, *shape])
    x = rng.normal(size=shape) * 3
    return np.asarray(x + 1j * rng.normal(size=shape) if dtype == "c16" else x).astype(dtype)


def check(use: Callable[[Any], Callable[..., Any]], function: Any, *arrays: Array, order: int = 1) -> None:
    """Values against NumPy; for float64, derivatives against differences."""
    tape = agrees_on(use, function, *arrays)
    if tape is not None and all(a.dtype == np.float64 for a in arrays):
        op_table.check_derivatives(tape, arrays, order, 1e-9)


def plain(function: Any) -> Any:
    return function


stacks = st.sampled_from(
    [(), (3,), (4,), (11,), (3, 4), (4, 3), (11, 12), (12, 11), (2, 3, 4), (2, 4, 3), (1, 4, 3), (5, 1, 3, 4),
     (6, 1, 2), (0, 3), (3, 0), (1, 1, 11, 3)]
)  # fmt: skip


@given(stacks, stacks, st.sampled_from(PRODUCTS), st.sampled_from(["f8", "i8"]))
def test_products_of_any_shapes(a: Any, b: Any, function: Any, dtype: str) -> None:
    check(plain, function, numbers(*a, dtype=dtype), numbers(*b, dtype=dtype))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 2)),
        ((11, 12), (12, 10)),
        ((11,), (11,)),
        ((2, 1, 3, 11), (5, 11, 2)),
        ((12,), (12, 3)),
        ((3, 12), (12,)),
        ((2, 3, 10), (2, 10, 1)),
        ((1, 1, 9, 9), (9, 9)),
    ],
)
def test_second_derivatives_of_matmul(a: Any, b: Any) -> None:
    check(plain, np.matmul, numbers(*a), numbers(*b), order=2)


@pytest.mark.parametrize("dtype", ["f4", "?", "u1", "c16"])
@pytest.mark.parametrize("function", PRODUCTS[:6], ids=name)
def test_products_of_other_dtypes(function: Any, dtype: str) -> None:
    check(plain, function, numbers(3, 3, dtype=dtype), numbers(3, 3, dtype=dtype))
    if function in (np.matmul, np.dot):
        check(plain, function, numbers(11, 12, dtype=dtype), numbers(12, 10, dtype="f4"))


def test_half_precision_is_summed_in_single() -> None:
    x, y = numbers(11, 12, dtype="f2"), numbers(12, 10, dtype="f2")
    (got,) = tape_tools.run(tape_tools.trace(meaning_of(np.matmul), x, y), x, y)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, (x.astype("f4") @ y.astype("f4")).astype("f2"))


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [0]), ((0, 1), (1, 0)), (-1, 0), ([1, 0], [0, 1])])
def test_tensordot(axes: Any) -> None:
    for a, b in (((3, 4), (4, 3)), ((3, 3), (3, 3)), ((2, 3, 4), (3, 4, 2))):
        check(lambda f: lambda x, y: f(x, y, axes=axes), np.tensordot, numbers(*a), numbers(*b))


def test_vector_products() -> None:
    for function in (np.cross, np.linalg.cross):
        check(plain, function, numbers(2, 3), numbers(4, 1, 3), order=2)
        check(lambda f: lambda x, y: f(x, y, axis=0), function, numbers(3, 2), numbers(3, 1))
    check(lambda f: lambda x, y: f(x, y, 0, -1, 0), np.cross, numbers(3, 2), numbers(2, 3))
    check(lambda f: lambda x, y: f(x, y, axis=0), np.linalg.vecdot, numbers(3, 2), numbers(3, 1))
    check(plain, np.linalg.outer, numbers(2), numbers(3))
    check(plain, np.linalg.outer, numbers(2, 1), numbers(3))
    check(lambda f: lambda x: f(x, offset=1), np.linalg.trace, numbers(2, 3, 4))
    check(lambda f: lambda x: f(x, offset=-1), np.linalg.diagonal, numbers(2, 3, 4))


# --- einsum -----------------------------------------------------------------------------------------------

SUBSCRIPTS = [
    ("i,i", (3,), (3,)),
    ("ij,jk", (3, 4), (4, 2)),
    ("ij,jk->ki", (3, 4), (4, 2)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij->ji", (3, 4)),
    ("ba", (3, 4)),
    ("ij->", (3, 4)),
    ("->", ()),
    (",ij", (), (3, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("ii->i", (11, 11)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("ii...->...", (3, 3, 2)),
    ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)),
    ("i...->...", (3, 2, 4)),
    ("...,...", (2, 3), (3,)),
    ("ij,jk,kl", (3, 4), (4, 2), (2, 5)),
    ("ij,jk,kl,lm->im", (3, 9), (9, 2), (2, 11), (11, 3)),
    ("a,b,c->abc", (2,), (3,), (4,)),
    ("ab,ac,ad->bcd", (2, 3), (2, 4), (2, 2)),
    ("ij,ij,ij->j", (3, 4), (3, 4), (3, 4)),
    ("i,i->i", (1,), (4,)),
    ("ij,jk->ik", (3, 1), (4, 2)),
    ("bij,bjk->bik", (2, 3, 10), (2, 10, 3)),
    ("ba,ca->", (3, 4), (2, 4)),
    (" i j , j k -> i k ", (3, 4), (4, 2)),
    ("ij,jk->ii", (3, 4), (4, 3)),
    ("ij,jk->il", (3, 4), (4, 3)),
    ("ij,jk", (3, 4), (3, 4)),
    ("ijk", (3, 4)),
    ("i", (3, 4)),
    ("i,j", (3,)),
    ("i+j", (3, 4)),
]


@pytest.mark.parametrize("example", SUBSCRIPTS, ids=lambda e: str(e[0]))
def test_einsum(example: Any) -> None:
    subscripts, *shapes = example
    check(lambda f: lambda *xs: f(subscripts, *xs), np.einsum, *(numbers(*s) for s in shapes))
    integers = [numbers(*s, dtype="i4") for s in shapes]
    check(lambda f: lambda *xs: f(subscripts, *xs, optimize=True), np.einsum, *integers)


def test_einsum_by_lists() -> None:
    x, y = numbers(3, 4), numbers(4, 2)
    check(lambda f: lambda a, b: f(a, [0, 1], b, [1, 2]), np.einsum, x, y)
    check(lambda f: lambda a, b: f(a, [0, 1], b, [1, 2], [2, 0]), np.einsum, x, y)
    check(
        lambda f: lambda a, b: f(a, [..., 0, 1], b, [1, 2], [..., 2, 0]),
        np.einsum,
        numbers(2, 3, 4),
        y,
    )


@given(st.data())
def test_einsum_of_random_subscripts(data: Any) -> None:
    sizes = {"a": 2, "b": 3, "c": 11, "d": 1}
    terms = data.draw(st.lists(st.text("abcd", min_size=0, max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))])
    arrays = [numbers(*(sizes[c] for c in term)) for term in terms]
    check(lambda f: lambda *xs: f(",".join(terms) + "->" + output, *xs), np.einsum, *arrays)


def test_long_chains_are_contracted_in_pairs() -> None:
    arrays = [numbers(10, 11), numbers(11, 12), numbers(12, 13)]
    tape = tape_tools.trace(lambda *xs: meaning_of(np.einsum)("ij,jk,kl", *xs), *arrays)
    assert [e.op.name for e in tape.eqns] == ["contract", "contract"]


# --- norms, powers, chains --------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 2.5, -1, np.inf, -np.inf, "fro", "bad"])
def test_norms(order: Any) -> None:
    shapes = ((5,), (3, 4), (2, 3, 4))
    for x in (*(numbers(*s) for s in shapes), numbers(3, 4, dtype="i4"), numbers(3, 4, dtype="c16")):
        for axis in (None, 0, -1, (0, 1), (-1, 0), (0, 0), 7):
            matrix = isinstance(axis, tuple) or (axis is None and x.ndim == 2)
            if matrix and order == 2:
                continue
            use = lambda f: lambda a: f(a, order, axis, axis == 0)  # noqa: E731, B023
            (agrees_on if order == 0 else check)(use, np.linalg.norm, x)
    if isinstance(order, int | float):
        check(lambda f: lambda a: f(a, axis=(0, 1), ord=order), np.linalg.vector_norm, numbers(3, 4))
    agrees_on(lambda f: lambda a: f(a, ord=order), np.linalg.norm, np.zeros((0,)))


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms_by_singular_values(order: Any) -> None:
    use = lambda f: lambda a: f(a, order)  # noqa: E731
    x = numbers(3, 4)
    tape = agrees_on(use, np.linalg.norm, x)
    assert tape is not None
    left, values, right = np.linalg.svd(x, full_matrices=False)
    chosen = {2: [1, 0, 0], -2: [0, 0, 1], "nuc": [1, 1, 1]}[order]
    (got,) = tape_tools.run(tape_tools.pulled_tape(tape, [0]), x, np.ones(()))
    np.testing.assert_allclose(got, (left * chosen) @ right, rtol=1e-10, atol=1e-12)
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5, 7])
def test_matrix_power(power: int) -> None:
    for x in (numbers(3, 3) / 4, numbers(2, 3, 3) / 4, numbers(2, 3), numbers(10, 10) / 9):
        check(lambda f: lambda a: f(a, power), np.linalg.matrix_power, x)


@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 4), (4, 2)],
        [(3, 4), (4, 9), (9, 2)],
        [(3,), (3, 11), (11, 2), (2,)],
        [(2, 3), (3, 10), (10, 2), (2, 12), (12, 3)],
        [(3, 4), (5, 2)],
        [(3, 4)],
    ],
)
def test_multi_dot(shapes: Any) -> None:
    check(lambda f: lambda *xs: f(list(xs)), np.linalg.multi_dot, *(numbers(*s) for s in shapes))


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [np.matmul, np.dot, np.inner, np.vecdot], ids=name)
def test_sizes_that_differ(function: Any) -> None:
    with pytest.raises(ContractionError, match="sums over sizes that differ") as error:
        tape_tools.trace(meaning_of(function), np.ones((2, 30)), np.ones((20, 20)))
    assert "(2, 30)" in str(error.value) and "(20, 20)" in str(error.value)


def test_matmul_of_a_scalar() -> None:
    with pytest.raises(ContractionError, match="needs at least 1 dimension"):
        tape_tools.trace(meaning_of(np.matmul), np.ones(()), np.ones(3))


def test_einsum_of_sizes_that_differ() -> None:
    with pytest.raises(ContractionError, match="size of subscript 'j': 4 and 3"):
        tape_tools.trace(lambda a, b: meaning_of(np.einsum)("ij,jk", a, b), np.ones((2, 4)), np.ones((3, 2)))


# --- the whole way ----------------------------------------------------------------------------------------


def test_a_length_has_gradient_zero_at_zero() -> None:
    np.testing.assert_array_equal(tj.grad(lambda x: np.sqrt(x.dot(x)))(np.zeros(20)), 0)
    np.testing.assert_array_equal(tj.grad(lambda x: 3 * np.linalg.norm(x) ** 2)(np.zeros(3)), 0)
    rows = np.array([[0.0, 0.0], [5.0, 12.0]])
    wanted = np.array([[0.0, 0.0], [5 / 13, 12 / 13]])
    np.testing.assert_allclose(tj.grad(lambda x: np.sum(np.linalg.norm(x, axis=1)))(rows), wanted)


def test_a_length_behind_a_matrix_has_gradient_zero_at_zero() -> None:
    def f(x: Array, a: Array) -> Any:
        return np.sum(np.sqrt(np.sum((x @ a) ** 2, axis=1)))

    x, a = np.zeros((10, 11)), numbers(11, 12)
    for gradient in tj.grad(f, argnums=(0, 1))(x, a):
        np.testing.assert_array_equal(gradient, 0)


def test_a_masked_row_does_not_spoil_a_product() -> None:
    x, a = numbers(10, 11), numbers(11, 12)
    a[3] = np.inf
    mask = np.arange(12) > 5

    def f(x: Array) -> Any:
        return np.sum(np.where(mask, np.where(np.isfinite(a), a, 0).T @ x.T @ np.ones(10), 0.0))

    np.testing.assert_allclose(tj.grad(f)(x)[0], np.where(np.isfinite(a), a, 0)[:, mask].sum(axis=1))


def test_broadcast_matmul_at_many_sizes() -> None:
    @tj.grad
    def gradient(w: Array, x: Array) -> Any:
        return np.sum(np.tanh(x @ w) ** 2)

    for rows, columns in ((20, 30), (31, 17), (12, 12), (40, 1), (1, 5)):
        x, w = numbers(rows, columns), numbers(columns, 3) / 5
        t = np.tanh(x @ w)
        np.testing.assert_allclose(gradient(w, x), x.T @ (2 * t * (1 - t * t)), rtol=1e-10, atol=1e-12)


def test_newton_matrix_of_a_quadratic_form() -> None:
    a = numbers(12, 12)
    hessian = tj.hessian(lambda x: x @ a @ x)(numbers(12))
    np.testing.assert_allclose(hessian, a + a.T, rtol=1e-12)


def test_a_broadcast_axis_before_a_dot() -> None:
    x = np.ones((5, 10), np.float32)
    a = np.ones((1, 3), np.float32)
    gradient = tj.grad(lambda x, a: x[..., None, :][..., 0].dot(a).sum(), argnums=1)(x, a)
    assert gradient.dtype == np.float32
    np.testing.assert_array_equal(gradient, [[5, 5, 5]])
