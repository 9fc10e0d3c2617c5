"""NumPy's functions that write into an array, and those whose result has a size that depends on values."""

from typing import Any

import numpy as np
import pytest
from tape_tools import trace

import tracejit as tj
from tracejit.errors import UnsupportedError
from tracejit.frontend.registry import FUNCTIONS


def stored(m: Any, name: str, x: Any, v: Any) -> Any:
    y = x * 1.0
    mask = np.arange(20).reshape(4, 5) % 3 == 0
    if name == "put":
        np.put(y, [0, -1, 7], v)
    elif name == "put wrap":
        np.put(y, [25, -22, 3], v, mode="wrap")
    elif name == "put clip":
        np.put(y, [25, -22, 3], v[:2], mode="clip")
    elif name == "place":
        np.place(y, mask, v)
    elif name == "putmask":
        np.putmask(y, mask, v)
    elif name == "copyto":
        np.copyto(y, v[:1])
    elif name == "copyto where":
        np.copyto(y, v[0], where=mask)
    elif name == "put_along_axis":
        np.put_along_axis(y, np.array([[0], [1], [1], [4]]), v[:1], axis=1)
    elif name == "fill_diagonal":
        np.fill_diagonal(y, v)
    else:
        np.fill_diagonal(y.T, v[:2], wrap=True)
    return y


STORES = [
    "put", "put wrap", "put clip", "place", "putmask", "copyto", "copyto where", "put_along_axis",
    "fill_diagonal", "wrap",
]  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_stores(name: str) -> None:
    x, v = np.arange(20.0).reshape(4, 5), np.array([30.0, 40.0, 50.0])
    weights = np.arange(20.0).reshape(4, 5) + 1
    plain = stored(np, name, x, v)
    with tj.interpret():
        np.testing.assert_array_equal(tj.jit(lambda x, v: stored(np, name, x, v))(x, v), plain)
        dx, dv = tj.grad(lambda x, v: (stored(np, name, x, v) * weights).sum(), argnums=(0, 1))(x, v)
    # Entries of the result are entries of x or v: those that move with them say where the weights go.
    from_x = stored(np, name, x + 100, v) - plain == 100
    np.testing.assert_array_equal(dx, np.where(from_x, weights, 0))
    for k in range(3):
        moved = stored(np, name, x, v + 1000 * (np.arange(3) == k)) - plain
        assert dv[k] == (moved / 1000 * weights).sum()


def test_stores_into_plain_arrays_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Make the array in the function"):
        trace(lambda x: FUNCTIONS[np.copyto](np.zeros(3), x), np.ones(3))


def test_sizes_that_depend_on_values() -> None:
    x = np.array([0.0, 3.0, 0.0, -2.0, 5.0, 0.0])

    def functions(x: object) -> list[object]:
        return [np.nonzero(x)[0], np.flatnonzero(x), np.argwhere(x), np.trim_zeros(x)]

    traced = tj.jit(functions)
    with tj.interpret():
        for values in (x, x[::-1].copy(), x + 1, x * 0):  # other values, other traces
            for got, want in zip(traced(values), functions(values), strict=True):
                np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(tj.grad(lambda x: (np.trim_zeros(x) ** 2).sum())(x), 2 * x)
