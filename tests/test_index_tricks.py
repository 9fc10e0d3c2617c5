"""What NumPy does not dispatch by its arguments' types: grids and joins in brackets, lists of traced values, types
that are called."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

X = np.linspace(1.0, 3.0, 11)
A = np.arange(33.0).reshape(11, 3) / 7


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    assert (np.shape(found), np.asarray(found).dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_array_equal(found, expected)


GRIDS: dict[str, tuple[Any, ...]] = {
    "dense, of integer arguments": (lambda n, m: np.mgrid[0:n, 1:m:2], 5, 9),
    "one axis": (lambda n: np.mgrid[2:n], 12),
    "by sizes": (lambda x: np.mgrid[0 : x.shape[0], 1:4:2], X),
    "open": (lambda x: np.ogrid[0 : x.shape[0], 1:4:2], X),
    "backwards": (lambda x: np.mgrid[x.size : 0 : -3, 0:2], X),
    "fractions between plain ends": (lambda x: np.ogrid[0 : x.size : 0.5, 1:4:2.5], X),
    "a number of points": (lambda a, b: np.mgrid[a:b:5j, 0:3], 0.5, 2.5),
    "a number of points, one axis": (lambda a, b: np.mgrid[a:b:5j], 0.5, 2.5),
    "one point": (lambda a, b: np.mgrid[a:b:1j, 0:2], 0.5, 2.5),
    "a traced number of points": (lambda a, b, n: np.mgrid[a : b : n * 1j, 0:1:3j], 0.5, 2.5, 4),
    "in single precision": (lambda a, b: np.ogrid[a:b:5j, 0:3], np.float32(0.5), 2.5),
    "nothing traced": (lambda x: np.mgrid[0:3, 0:2:4j] * x[0], X),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name: str) -> None:
    f, *args = GRIDS[name]
    same(tj.jit(f)(*args), f(*args))


def test_an_unknown_number_of_points_is_refused() -> None:
    with pytest.raises(tj.errors.UnsupportedError, match="length would depend on values"):
        tj.jit(lambda a: np.mgrid[0:a:0.5])(2.0)


def test_plain_grids_can_be_written() -> None:
    def f(x: Any) -> Any:
        i, j = np.mgrid[0:3, 0:4] * 1.0
        i[1] = x[0] * x[1]
        return np.sum(i * j)

    assert tj.value_and_grad(f)(X)[0] == f(X)
    np.testing.assert_allclose(tj.grad(f)(X)[:3], [6 * X[1], 6 * X[0], 0])


JOINS: dict[str, Any] = {
    "numbers and parts": lambda x, a: np.r_[x, 1, x[2:4], 0],
    "a range first": lambda x, a: np.r_[0:5, x],
    "points between traced ends": lambda x, a: np.r_[x[0] : x[1] : 4j, x],
    "columns": lambda x, a: np.c_[x, x**2],
    "columns beside a matrix": lambda x, a: np.c_[x, a, np.ones(11), 0:11],
    "rows": lambda x, a: np.r_[a, 2 * a],
    "lifted, own axis last": lambda x, a: np.r_["0,2", x, x],
    "lifted, own axis first": lambda x, a: np.r_["1,2,0", x, 2 * x],
    "lifted twice, own axis in the middle": lambda x, a: np.r_["0,3,1", x, 2 * x],
    "along the last axis": lambda x, a: np.r_["-1", a, 2 * a],
    "numbers alone": lambda x, a: np.r_[x[0], x[1], 3],
    "columns of numbers": lambda x, a: np.c_[x[0], x[1]],
    "lists": lambda x, a: np.r_[[x[0], x[1]], (1, 2)],
}


@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str) -> None:
    f = JOINS[name]
    same(tj.jit(f)(X, A), f(X, A))
    weights = np.cos(np.arange(f(X, A).size)).reshape(f(X, A).shape)
    tj.check_grads(lambda x, a: np.sum(f(x, a) * weights), (X, A))


def test_a_number_does_not_promote() -> None:
    x = X.astype(np.float32)
    same(tj.jit(lambda x: np.r_[2.0, x])(x), np.r_[2.0, x])


def test_joins_serve_all_sizes() -> None:
    join = tj.jit(lambda x: np.r_[x, 0.0])
    join(np.ones(20))
    before = tj.stats.traces
    same(join(np.ones(30)), np.r_[np.ones(30), 0.0])
    assert tj.stats.traces == before


def test_directives_that_numpy_does_not_know() -> None:
    with pytest.raises(ValueError, match="unknown special directive"):
        tj.jit(lambda x: np.r_["a,b", x])(X)
    with pytest.raises(tj.errors.UnsupportedError, match="matrix"):
        tj.jit(lambda x: np.r_["r", x])(X)


LISTS: dict[str, Any] = {
    "mean": lambda x: np.mean([x[0], x[1]]),
    "std of a tuple": lambda x: np.std((x[0], x[1], 5.0)),
    "sum of rows": lambda x: np.sum([x, 2 * x], axis=0),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "det of nested lists": lambda x: np.linalg.det([[x[0], 1.0], [2.0, x[1]]]),
    "dot": lambda x: np.dot([x[0], x[1]], [1.0, 2.0]),
    "max": lambda x: np.max((x[0], x[3], -5.0)),
    "append": lambda x: np.append([[1.0, x[0]]], [[x[1], 4.0]], axis=0),
    "keyword": lambda x: np.cumsum(a=[x[0], x[1], 5.0]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_traced_values(name: str) -> None:
    f = LISTS[name]
    np.testing.assert_allclose(tj.jit(f)(X), f(X), rtol=1e-15)
    tj.check_grads(lambda x: np.sum(f(x)), (X,))


def test_functions_imported_by_name() -> None:
    from numpy import median
    from numpy.linalg import norm

    def f(x: Any) -> Any:
        return norm([x[0], 2.0]) + median([x[1], x[2], x[3]])

    np.testing.assert_allclose(tj.jit(f)(X), f(X), rtol=1e-15)


def types_of_numbers(x: Any) -> Any:
    return np.float64(x[0]) * 2, np.float32(x[0]), np.bool_(x[0] - 1), np.complex128(x[1]), x.dtype.type(x[2])


def types_of_arrays(x: Any) -> Any:
    return np.float32(x), np.int64(3 * x), np.float64([x[0], 2]), np.float64(3.5) + x


def types_of_sizes(x: Any) -> Any:
    return np.float64(x.size) / 2, np.zeros(np.int64(x.size)), np.intp(x.size) * 2.0


@pytest.mark.parametrize("f", [types_of_numbers, types_of_arrays, types_of_sizes])
def test_types_that_are_called(f: Any) -> None:
    same(tj.jit(f)(X), f(X))


def test_types_keep_derivatives() -> None:
    def f(x: Any) -> Any:
        i = np.int64(x[3])
        return np.float64(x[i]) * np.float32(x[0]) + i * x[1]

    np.testing.assert_allclose(tj.grad(f)(X)[:3], [X[1], 1 + X[0], 0], rtol=1e-6)


def test_a_complex_number_is_no_real_one() -> None:
    def f(z: Any) -> Any:
        return np.float64(z)

    with pytest.raises(TypeError, match="complex"):
        tj.jit(f)(1j)
