"""Sample operands and parameters of reductions, scans, sorts and products, for the tables of `op_table`."""

from typing import Any

import numpy as np
from op_table import SAMPLES, Sample

_RNG = np.random.default_rng(12)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.normal(size=shape)


_X = _normal(3, 4, 2)
_WITH_ZEROS = _X * np.array([[1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1]])[..., None]
_WITH_NAN = np.where(_X < -0.9, np.nan, _X)
_TIED = np.array([[1.0, 3.0, 3.0, 2.0], [2.0, 2.0, 2.0, 2.0]])
_LONG = _normal(11, 12)


def _over_axes(*arrays: np.ndarray[Any, Any]) -> list[Sample]:
    """Every array over one, the last and all of its axes."""
    return [((a,), {"axes": axes}) for a in arrays for axes in ((0,), (a.ndim - 1,), tuple(range(a.ndim)))]


def _along(*operands: np.ndarray[Any, Any]) -> list[Sample]:
    """The operands along every axis, one way or the other."""
    return [(operands, {"axis": k, "reverse": k % 2 == 1}) for k in range(operands[0].ndim)]


def _products(*shapes: tuple[Any, Any, int, int, tuple[bool, bool]]) -> list[Sample]:
    return [
        ((_normal(*a), _normal(*b)), {"batch": batch, "summed": summed, "first": first})
        for a, b, batch, summed, first in shapes
    ]


_PRODUCTS = _products(
    ((3, 4), (4, 2), 0, 1, (False, True)),
    ((4, 3), (4, 2), 0, 1, (True, True)),
    ((3, 4), (2, 4), 0, 1, (False, False)),
    ((4, 3), (2, 4), 0, 1, (True, False)),
    ((2, 3, 4), (2, 4, 5), 1, 1, (False, True)),
    ((3, 4), (4,), 0, 1, (False, True)),
    ((2, 3, 4), (3, 4, 5, 2), 0, 2, (False, True)),
    ((11, 12), (12, 10), 0, 1, (False, True)),
)


def _absorbing() -> list[Sample]:
    """Products in which an infinity meets zeros, beside their result as BLAS gives it."""
    samples: list[Sample] = []
    for (a, b), params in _PRODUCTS[:5]:
        a, b = a.copy(), b.copy()
        a.flat[2], b.flat[1], b.flat[3] = np.inf, 0.0, 0.0
        b[..., 0] = 0.0
        y = np.zeros((*a.shape[: params["batch"]], *_rest(a, params, 0), *_rest(b, params, 1)))
        samples.append(((y + np.nan, a, b), params))
    return samples


def _rest(x: np.ndarray[Any, Any], params: dict[str, Any], side: int) -> tuple[int, ...]:
    shape = x.shape[params["batch"] :]
    return shape[params["summed"] :] if params["first"][side] else shape[: len(shape) - params["summed"]]


SMOOTH: dict[str, list[Sample]] = {
    "reduce_sum": _over_axes(_X, _normal(0, 3)),
    "reduce_prod": _over_axes(_X, _WITH_ZEROS[:, :3, 0], np.zeros((2, 2)), _normal(0, 3)),
    "reduce_max": _over_axes(_X),
    "reduce_min": _over_axes(_X),
    "reduce_fmax": _over_axes(_X),
    "reduce_fmin": _over_axes(_X),
    "cumsum": _along(_X) + _along(_normal(0, 3)) + _along(_normal(1)),
    "prefix_prod": _along(_X) + _along(_WITH_ZEROS) + _along(_normal(0, 3)),
    "linear_scan": _along(_X, _normal(3, 4, 2)) + _along(_WITH_ZEROS, _X) + _along(_normal(0), _normal(0)),
    "contract": _PRODUCTS,
}
"""Differentiable at these operands."""

OTHERS: dict[str, list[Sample]] = {
    "reduce_sum": _over_axes(_WITH_NAN, np.arange(6).reshape(2, 3)),
    "reduce_prod": _over_axes(np.arange(1, 7).reshape(2, 3)),
    "reduce_max": _over_axes(_WITH_NAN, _TIED, np.arange(6).reshape(2, 3)),
    "reduce_min": _over_axes(_WITH_NAN, _TIED, np.arange(6).reshape(2, 3)),
    "reduce_fmax": _over_axes(_WITH_NAN, np.full((2, 2), np.nan)),
    "reduce_fmin": _over_axes(_WITH_NAN, np.full((2, 2), np.nan)),
    "reduce_any": _over_axes(_X > 0.5, np.zeros((2, 0), bool)),
    "reduce_all": _over_axes(_X > -0.5, np.zeros((2, 0), bool)),
    "argmax": _over_axes(_X, _WITH_NAN, _TIED, _X > 0, np.arange(6).reshape(2, 3), np.full((2, 2), -np.inf)),
    "argmin": _over_axes(_X, _WITH_NAN, _TIED, _X > 0, np.arange(6).reshape(2, 3), np.full((2, 2), np.inf)),
    "cumsum": _along(np.arange(6).reshape(2, 3)) + _along(_WITH_NAN),
    "prefix_max": _along(_X) + _along(_WITH_NAN) + _along(_TIED) + _along(np.arange(6)),
    "prefix_min": _along(_X) + _along(_WITH_NAN) + _along(_TIED) + _along(np.arange(6)),
    "argsort": [((a,), {"axis": k}) for a in (_WITH_NAN, _TIED, _LONG, _X > 0) for k in range(a.ndim)],
    "contract": [((_normal(3, 4).round().astype(int), _normal(4, 2).round().astype(int)), _PRODUCTS[0][1])],
    "absorb_zeros": _absorbing(),
}
"""Integers, booleans, ties and what is not a number."""

for _table in (SMOOTH, OTHERS):
    for _name, _samples in _table.items():
        SAMPLES.setdefault(_name, []).extend(_samples)
