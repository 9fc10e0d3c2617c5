"""Arguments: which one is differentiated, what counts as a number, containers, dtypes, memory layouts."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]
X = np.array([0.3, -1.2, 2.5])


def same(found: Any, expected: Any) -> None:
    """Equal to rounding, and of the same shape and dtype."""
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    assert np.asarray(found).dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=4 * float(np.finfo(expected.dtype).eps), atol=1e-15)


# --- argnums ------------------------------------------------------------------------------------------------


def weighted(x: Array, k: float = 2.0, *rest: Any, scale: float = 1.0) -> Any:
    """Gradients: scale*k*w, scale*sum(w*x), and scale*rest[...] by the others."""
    total = k * np.sum(x)
    for r in rest:
        total = total + np.sum(r * r) / 2
    return scale * total


def test_argnums_negative_and_tuple() -> None:
    same(tj.grad(weighted, argnums=-1)(X, 3.0), np.sum(X))
    same(tj.grad(weighted, argnums=-2)(X, 3.0), np.full(3, 3.0))
    found = tj.grad(weighted, argnums=(1, 0, -1))(X, 3.0)
    assert isinstance(found, tuple) and len(found) == 3
    same(found[0], np.sum(X))
    same(found[1], np.full(3, 3.0))
    same(found[2], np.sum(X))
    (only,) = tj.grad(weighted, argnums=[0])(X, 3.0)
    same(only, np.full(3, 3.0))


def test_argnums_may_be_numpy_integers() -> None:
    same(tj.grad(weighted, argnums=np.int64(1))(X, 3.0), np.sum(X))
    same(tj.grad(weighted, argnums=np.array([1, 0]))(X, 3.0)[0], np.sum(X))


def test_keyword_calls_are_matched_to_positions() -> None:
    same(tj.grad(weighted)(x=X, k=3.0), np.full(3, 3.0))
    same(tj.grad(weighted, argnums=1)(k=3.0, x=X), np.sum(X))
    same(tj.grad(weighted, argnums=1)(X, k=3.0, scale=2.0), 2 * np.sum(X))


def test_a_default_can_be_differentiated() -> None:
    same(tj.grad(weighted, argnums=1)(X), np.sum(X))
    same(tj.grad(weighted)(X), np.full(3, 2.0))


def test_star_arguments() -> None:
    same(tj.grad(weighted, argnums=3)(X, 3.0, 5.0, X), X)
    same(tj.grad(weighted, argnums=(2, -1))(X, 3.0, 5.0, X)[0], 5.0)
    same(tj.grad(lambda *a: a[0] * a[1], argnums=1)(2.0, 3.0), 2.0)


def test_keyword_only_arguments_are_no_constants() -> None:
    slope = tj.grad(weighted)
    same(slope(X, scale=2.0), np.full(3, 4.0))
    same(slope(X, scale=5.0), np.full(3, 10.0))


def test_double_star_arguments() -> None:
    slope = tj.grad(lambda x, **more: sum(v * x for v in more.values()))
    same(slope(2.0, a=1.0, b=3.0), 4.0)
    same(slope(2.0, a=1.0), 1.0)


# --- containers ---------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "u v")


@dataclass
class Parameters:
    """A record of numbers and one setting."""

    w: Any
    b: Any = 0.0
    name: str = "sin"


def sum_of_squares(tree: Any) -> Any:
    """Half the sum of squares of all numbers: each is its own gradient."""
    if isinstance(tree, dict):
        return sum(sum_of_squares(v) for v in tree.values())
    if isinstance(tree, Parameters):
        return sum_of_squares(tree.w) + sum_of_squares(tree.b)
    if isinstance(tree, tuple | list):
        return sum(sum_of_squares(v) for v in tree)
    return 0.5 * np.sum(tree**2)


@pytest.mark.parametrize(
    "tree",
    [
        (X, 2.0),
        [X, [2.0, (3.0,)]],
        {"b": X, "a": {"c": 1.0}},
        OrderedDict(z=X, a=2.0),
        Pair(X, 2.0),
        Parameters(X, 2.0),
        {"p": Parameters([X, 1.0], Pair(1.0, (2.0,)))},
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_containers_keep_their_structure(tree: Any) -> None:
    found = tj.grad(sum_of_squares)(tree)
    assert type(found) is type(tree)
    left, right = tj.trace(sum_of_squares)(tree).inputs, tj.trace(sum_of_squares)(found).inputs
    assert [v.name for v in left] == [v.name for v in right]
    _compare(found, tree)


def _compare(found: Any, tree: Any) -> None:
    assert type(found) is type(tree) or not isinstance(tree, tuple | list | dict | Parameters)
    if isinstance(tree, dict):
        assert list(found) == list(tree)
        for key in tree:
            _compare(found[key], tree[key])
    elif isinstance(tree, Parameters):
        _compare(found.w, tree.w)
        _compare(found.b, tree.b)
    elif isinstance(tree, tuple | list):
        for a, b in zip(found, tree, strict=True):
            _compare(a, b)
    else:
        same(found, tree)


def test_a_setting_inside_a_container_has_no_gradient() -> None:
    def f(p: Parameters) -> Any:
        return np.sum(getattr(np, p.name)(p.w))

    found = tj.grad(f)(Parameters(X, 1.0, "cos"))
    same(found.w, -np.sin(X))
    same(found.b, 0.0)
    assert found.name is None
    same(tj.grad(f)(Parameters(X, 1.0, "sin")).w, np.cos(X))


def test_containers_of_outputs() -> None:
    found = tj.jit(lambda x: Pair(x + 1, {"n": None, "l": [x * 2, "text"]}))(X)
    assert isinstance(found, Pair) and found.v["n"] is None and found.v["l"][1] == "text"
    same(found.u, X + 1)
    same(found.v["l"][0], X * 2)


def test_empty_containers() -> None:
    found = tj.grad(lambda x, more: np.sum(x))(X, ())
    same(found, np.ones(3))
    assert tj.grad(lambda more, x: np.sum(x))((), X) == ()
    assert tj.jit(lambda x: ())(X) == ()


def test_another_structure_is_another_trace() -> None:
    slope = tj.grad(sum_of_squares)
    _compare(slope([X, 1.0]), [X, 1.0])
    _compare(slope([X, 1.0, 2.0]), [X, 1.0, 2.0])
    _compare(slope((X, 1.0)), (X, 1.0))


# --- arguments that are no numbers --------------------------------------------------------------------------


class Scheme:
    """An object whose attributes the traced function reads."""

    def __init__(self, k: float) -> None:
        self.k = k


def test_static_arguments() -> None:
    def f(x: Array, name: str, flag: bool, nothing: None, g: Any) -> Any:
        assert nothing is None
        y = getattr(np, name)(x)
        return np.sum(g(y) if flag else y)

    slope = tj.grad(f)
    same(slope(X, "sin", False, None, np.exp), np.cos(X))
    same(slope(X, "cos", False, None, np.exp), -np.sin(X))
    same(slope(X, "sin", True, None, np.exp), np.cos(X) * np.exp(np.sin(X)))
    same(slope(X, "sin", True, None, lambda y: 2 * y), 2 * np.cos(X))
    same(slope(X, "sin", True, None, lambda y: 3 * y), 3 * np.cos(X))


def test_objects_as_arguments_are_read_anew() -> None:
    scheme = Scheme(2.0)
    slope = tj.grad(lambda x, s: s.k * np.sum(x))
    same(slope(X, scheme), np.full(3, 2.0))
    scheme.k = 5.0
    same(slope(X, scheme), np.full(3, 5.0))
    same(slope(X, Scheme(7.0)), np.full(3, 7.0))


def test_unhashable_static_arguments() -> None:
    slope = tj.grad(lambda x, names: sum(np.sum(x) for _ in names))
    same(slope(X, {"a", "b"}), np.full(3, 2.0))
    same(slope(X, {"a", "b", "c"}), np.full(3, 3.0))


def test_integers_that_are_not_differentiated_are_data() -> None:
    before = tj.stats.traces
    power = tj.grad(lambda x, n: np.sum(x * n))
    found = [power(X, n) for n in range(5)]
    for n, slope in enumerate(found):
        same(slope, np.full(3, float(n)))
    assert tj.stats.traces == before + 1


# --- scalars and dtypes -------------------------------------------------------------------------------------


def test_scalars_in_scalars_out() -> None:
    found = tj.grad(np.sin)(0.5)
    assert isinstance(found, float) and not isinstance(found, np.ndarray)
    same(found, np.cos(0.5))
    value, slope = tj.value_and_grad(lambda x: x * x)(np.float64(3.0))
    assert isinstance(value, np.float64) and isinstance(slope, np.float64)
    same(slope, 6.0)
    assert isinstance(tj.grad(lambda x: x * x)(np.float32(3.0)), np.float32)


def test_0d_arrays_give_0d_arrays() -> None:
    found = tj.grad(lambda x: x * x)(np.array(3.0))
    assert isinstance(found, np.ndarray) and found.shape == ()
    same(found, 6.0)


def test_integers_and_booleans_are_promoted() -> None:
    found = tj.grad(lambda x: x**2)(3)
    assert isinstance(found, float)
    same(found, 6.0)
    same(tj.grad(lambda x: np.sum(x**2))(np.array([1, 2, 3])), np.array([2.0, 4.0, 6.0]))
    same(tj.grad(lambda x: np.sum(x * 3.0))(np.array([True, False])), np.array([3.0, 3.0]))
    same(tj.grad(lambda x: x * 3.0)(True), 3.0)
    same(tj.grad(lambda x: np.sum(x**2))(np.arange(3, dtype=np.int8)), np.array([0.0, 2.0, 4.0]))


def test_jit_does_not_promote() -> None:
    found = tj.jit(lambda x: x**2)(np.array([1, 2]))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [1, 4])


@pytest.mark.parametrize("dtype", ["e", "f", "d", "g", "F", "D"])
def test_the_gradient_has_the_dtype_of_the_input(dtype: Any) -> None:
    x = np.array([1.0, 2.0, 4.0], dtype)
    value, slope = tj.value_and_grad(lambda x: np.real(np.sum(x * x * 0.5)))(x)
    assert slope.dtype == x.dtype
    assert value.dtype == np.real(np.sum(x)).dtype
    np.testing.assert_array_equal(slope, [1.0, 2.0, 4.0])


def test_weak_scalars_do_not_widen_float32() -> None:
    x = X.astype(np.float32)
    value = tj.jit(lambda x, k: k * x + 1.0)(x, 2.0)
    assert value.dtype == np.float32
    wide = tj.jit(lambda x, k: k * x + 1.0)(x, np.float64(2.0))
    assert wide.dtype == np.float64
    slope_x, slope_k = tj.grad(lambda x, k: np.sum(k * x), argnums=(0, 1))(x, 2.0)
    assert slope_x.dtype == np.float32 and isinstance(slope_k, float)


def test_complex_input_of_a_real_function() -> None:
    z = np.array([1 + 2j, -3j])
    # |z|^2 = x^2 + y^2: the gradient is 2x - 2iy
    same(tj.grad(lambda z: np.sum(np.real(z) ** 2 + np.imag(z) ** 2))(z), 2 * np.conj(z))
    same(tj.grad(lambda z: np.real(z * z))(1 + 2j), 2 * (1 + 2j))


# --- memory layouts -----------------------------------------------------------------------------------------


def _unaligned(x: Array) -> Array:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    made = raw.view(x.dtype).reshape(x.shape)
    made[...] = x
    assert not made.flags.aligned
    return made


def _read_only(x: Array) -> Array:
    made = x.copy()
    made.flags.writeable = False
    return made


GRID = np.linspace(-1, 2, 24).reshape(4, 6)
LAYOUTS = {
    "fortran": np.asfortranarray(GRID),
    "strided": np.repeat(np.repeat(GRID, 2, 0), 3, 1)[::2, ::3],
    "negative": GRID[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": np.ascontiguousarray(GRID.T).T,
    "broadcast": np.broadcast_to(GRID[:1], (4, 6)),
    "zero strides": np.broadcast_to(np.float64(0.5), (4, 6)),
    "read-only": _read_only(GRID),
    "byte-swapped": GRID.astype(GRID.dtype.newbyteorder()),
    "unaligned": _unaligned(GRID),
    "subclass": GRID.view(type("Grid", (np.ndarray,), {})),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    x = LAYOUTS[name]
    plain = np.array(x, dtype=float)
    before = plain.copy()
    value, slope = tj.value_and_grad(lambda x: np.sum(np.sin(x[1:]) * x[:-1]))(x)
    same(value, np.sum(np.sin(plain[1:]) * plain[:-1]))
    expected = np.zeros((4, 6))
    expected[1:] += np.cos(plain[1:]) * plain[:-1]
    expected[:-1] += np.sin(plain[1:])
    np.testing.assert_allclose(slope, expected, rtol=1e-14)
    assert type(slope) is np.ndarray and slope.dtype == np.float64 and slope.flags.writeable
    np.testing.assert_array_equal(np.asarray(x), before)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_do_not_matter_to_large_arrays(name: str) -> None:
    x = np.asarray(LAYOUTS[name])
    wide = np.lib.stride_tricks.as_strided(x, (4, 6), x.strides)
    assert wide.shape == (4, 6)
    same(tj.jit(lambda x: x.T + 1)(wide), np.array(wide, float).T + 1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 12)])
def test_zero_size(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    value, slope = tj.value_and_grad(lambda x: np.sum(np.sin(x)) + 1.0)(x)
    assert value == 1.0 and slope.shape == shape
    assert tj.jit(lambda x: x * 2)(x).shape == shape
    assert tj.jacobian(np.sin)(x).shape == shape + shape


def test_lists_of_numbers_are_containers_and_arrays_inside() -> None:
    same(np.array(tj.grad(lambda x: np.sum(np.array(x) ** 2))([1.0, 2.0])), np.array([2.0, 4.0]))
