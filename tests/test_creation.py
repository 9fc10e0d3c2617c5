"""Arrays made in traced code: ranges between traced ends, arrays of symbolic size or of traced scalars."""

from typing import Any

import numpy as np
import op_table
import pytest
from tape_tools import Handle, SizeHandle, integers, run, same_as_numpy, trace

import tracejit as tj
from tracejit.errors import UnsupportedError
from tracejit.frontend.numpy_api import CREATORS
from tracejit.frontend.registry import FUNCTIONS
from tracejit.ops.reduction import size_of

RANGES: dict[str, Any] = {
    "linspace": lambda m, a, b: m.linspace(a, b),
    "linspace few": lambda m, a, b: [m.linspace(a, b, n) for n in (0, 1, 2, 7)],
    "linspace open": lambda m, a, b: [m.linspace(a, b, n, endpoint=False) for n in (0, 1, 5)],
    "linspace step": lambda m, a, b: m.linspace(a, b, 4, retstep=True),
    "linspace integers": lambda m, a, b: m.linspace(a, b, 5, dtype=int),
    "linspace axis": lambda m, a, b: m.linspace(a, b, 3, axis=-1),
    "logspace": lambda m, a, b: [m.logspace(a, b, 5), m.logspace(a, b, 4, base=2.0, endpoint=False)],
    "geomspace": lambda m, a, b: [m.geomspace(a, b, 6), m.geomspace(b, a, 3, endpoint=False)],
}
ENDS = [
    (np.float64(0.3), np.float64(2.7)),
    (np.array([0.3, 1.1]), np.float64(1.7)),
    (np.float32(0.3), np.float32(1.9)),
    (np.array([[0.1], [0.2]]), np.array([0.7, 0.9, 0.4])),
]


class _Traced:
    def __getattr__(self, name: str) -> Any:
        return FUNCTIONS[getattr(np, name)]


traced: Any = _Traced()


def several(out: Any) -> list[Any]:
    return list(out) if isinstance(out, list | tuple) else [out]


@pytest.mark.parametrize("ends", ENDS, ids=range(len(ENDS)))
@pytest.mark.parametrize("name", RANGES)
def test_ranges_between_traced_ends(name: str, ends: Any) -> None:
    function = RANGES[name]
    a, b = map(np.asarray, ends)
    expected = several(function(np, *ends))
    tape = trace(lambda a, b: several(function(traced, a, b)), a, b)
    for got, want in zip(run(tape, a, b), expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(a.dtype).eps)
        if "linspace" in name:
            np.testing.assert_array_equal(got, want)
    if a.dtype == np.float64 and a.shape == b.shape and "integers" not in name:
        op_table.check_derivatives(tape, [a, b], 2, 1e-10)


def test_ranges_with_a_plain_end() -> None:
    tape = trace(lambda b: traced.linspace(0, b, 5), np.float32(2))
    assert tape.outputs[0].dtype == np.linspace(0, np.float32(2), 5).dtype
    (got,) = run(trace(lambda b: traced.geomspace(b, -8.0, 4), np.array(-1.0)), np.array(-1.0))
    np.testing.assert_allclose(got, [-1, -2, -4, -8])


def create(function: Any, *args: Any, **kwargs: Any) -> Any:
    return CREATORS[function](*args, **kwargs)


SIZED: dict[str, Any] = {
    "zeros": lambda c, n, m: c(np.zeros, (n, 3, m)),
    "zeros one axis": lambda c, n, m: c(np.zeros, n, dtype=np.float32),
    "ones": lambda c, n, m: c(np.ones, (n, m), int),
    "full": lambda c, n, m: c(np.full, (m, n), 7),
    "full dtype": lambda c, n, m: c(np.full, n, 7, dtype=np.float32),
    "eye": lambda c, n, m: c(np.eye, n),
    "eye offset": lambda c, n, m: c(np.eye, n, m, 2, dtype=np.float32),
    "identity": lambda c, n, m: c(np.identity, n),
    "tri": lambda c, n, m: c(np.tri, n, m, -1),
    "arange": lambda c, n, m: c(np.arange, n),
    "arange stop": lambda c, n, m: c(np.arange, 2, n, 3),
    "arange down": lambda c, n, m: c(np.arange, n, 0, -2, dtype=float),
    "arange from": lambda c, n, m: c(np.arange, n, n + 5),
    "arange empty": lambda c, n, m: c(np.arange, n, 2),
    "indices": lambda c, n, m: c(np.indices, (n, m)),
    "linspace": lambda c, n, m: c(np.linspace, 0, 8, n),
    "broadcast_to": lambda c, n, m: c(np.broadcast_to, np.arange(3.0), (n, 3)),
    "full_like": lambda c, n, m: c(np.full_like, np.zeros(3), n),
    "array of sizes": lambda c, n, m: c(np.array, [n, m, 3]),
}


class Size(SizeHandle):
    """A symbolic size with what the table asks of it."""

    def __add__(self, other: int) -> "Size":
        return Size(self._tracejit_dim + other)

    @property
    def atom(self) -> Any:
        return size_of(self._tracejit_dim)


@pytest.mark.parametrize("name", SIZED)
def test_arrays_of_symbolic_size(name: str) -> None:
    function = SIZED[name]
    x = np.zeros((12, 10))
    tape = trace(lambda x: function(create, *map(Size, x.atom.shape)), x)
    for n, m in ((12, 10), (21, 30), (9, 11)):
        want = function(lambda f, *args, **kwargs: f(*args, **kwargs), n, m)
        (got,) = run(tape, np.zeros((n, m)))
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_plain_arguments_give_plain_arrays() -> None:
    for function, args in ((np.zeros, (3,)), (np.array, ([1.0, 2.0],)), (np.arange, (2, 5)), (np.eye, (2,))):
        made = create(function, *args)
        assert type(made) is np.ndarray
        np.testing.assert_array_equal(made, function(*args))


def test_arrays_of_traced_scalars() -> None:
    def plain(x: Any, y: Any) -> Any:
        return np.array([[x, 2.0], [1, y]])

    def made(x: Any, y: Any) -> Any:
        return create(np.array, [[x, 2.0], [1, y]])

    same_as_numpy(made, plain, np.array(3.0), np.array(5.0), wrt=(0, 1))
    row = np.arange(3.0)
    same_as_numpy(lambda x: create(np.array, [x, [1, 2, 3]]), lambda x: np.array([x, [1, 2, 3]]), row)
    tape = trace(lambda x: create(np.array, [x, x], dtype=np.float32, ndmin=3), row)
    assert str(tape.outputs[0].aval) == "f32[1,2,3]"


def test_asarray_is_the_same_array() -> None:
    def same(x: Any) -> Any:
        assert create(np.asarray, x) is x
        return x.atom

    trace(lambda x: same(_WithDtype(x.atom)), np.zeros(3))


class _WithDtype(Handle):
    @property
    def dtype(self) -> Any:
        return self.atom.dtype


@pytest.mark.parametrize("dtype", [None, np.float32, int])
def test_filled_like(dtype: Any) -> None:
    x = integers(np.random.default_rng(0), (12, 3))
    for function, args in ((np.zeros_like, ()), (np.ones_like, ()), (np.full_like, (4.0,))):
        meaning = FUNCTIONS[function]
        (got,) = run(trace(lambda x, f=meaning, args=args: f(x, *args, dtype=dtype), x), x)
        want = function(x, *args, dtype=dtype)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    same_as_numpy(
        lambda v, x: traced.full_like(x, v), lambda v, x: np.full_like(x, v), np.array(2.0), x, wrt=(0, 1)
    )


def test_ranges_of_traced_length_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.linspace\(a, b, num\)"):
        trace(lambda x: create(np.arange, 0.0, x), np.array(3.0))


def test_ranges_of_integer_arguments_and_sizes() -> None:
    def by_arguments(x: Any, n: Any) -> Any:
        return np.sum(np.arange(n) * x[: int(n)] + np.arange(float(n)))

    slope = tj.grad(by_arguments)
    for n in (2, 4, 2):
        np.testing.assert_array_equal(slope(np.ones(4), n), [k if k < n else 0 for k in range(4)])

    def by_size(x: Any) -> Any:
        return np.sum(np.arange(1.0, 1.0 + x.shape[0]) * x)

    for size in (3, 12, 15):
        np.testing.assert_array_equal(tj.grad(by_size)(np.ones(size)), np.arange(1.0, 1.0 + size))
