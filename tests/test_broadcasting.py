"""Broadcasting and its reverse: any mix of new axes, ellipses, length-one axes and scalars, in both modes."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tape_tools import integers, same_as_numpy

from tracejit.frontend.indexing import index
from tracejit.frontend.numpy_api import FUNCTIONS, UFUNCS
from tracejit.frontend.registry import operand

COMMON = st.lists(st.sampled_from([1, 2, 3, 12, 15]), max_size=3).map(tuple)
PARTS = st.sampled_from([None, None, 0, -1, slice(None), slice(0, 1), slice(None, None, -1)])


@st.composite
def shapes(draw: Any, common: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts against ``common``: axes left out in front, others of length one."""
    kept = common[draw(st.integers(0, len(common))) :]
    return tuple(draw(st.sampled_from([n, n, 1])) for n in kept)


@st.composite
def keys(draw: Any, ndim: int) -> Any:
    """New axes, whole axes, single entries, in any order, with or without an ellipsis."""
    parts: list[Any] = []
    used = 0
    for part in draw(st.lists(PARTS, max_size=4)):
        used += part is not None
        if used <= ndim:
            parts.append(part)
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
    return tuple(parts)


MASK = np.arange(2)[:, None, None, None] > 0
add, multiply, subtract = UFUNCS[np.add], UFUNCS[np.multiply], UFUNCS[np.subtract]
OPERATIONS: dict[str, tuple[Any, Any]] = {
    "add": (np.add, add),
    "multiply": (np.multiply, multiply),
    "subtract": (np.subtract, subtract),
    "where": (lambda a, b: np.where(MASK, a, b), lambda a, b: FUNCTIONS[np.where](MASK, a, b)),
    "scaled": (
        lambda a, b: (2 * a) * (1.0 - b) + 3,
        lambda a, b: add(multiply(multiply(operand(2), a), subtract(operand(1.0), b)), operand(3)),
    ),
}


@st.composite
def cases(draw: Any) -> Any:
    common = draw(COMMON)
    one, other = draw(shapes(common)), draw(shapes(common))
    return one, other, draw(keys(len(one))), draw(keys(len(other)))


@given(cases(), st.sampled_from(sorted(OPERATIONS)), st.booleans())
def test_any_mix_broadcasts_and_comes_back(case: Any, name: str, single: bool) -> None:
    one, other, key, other_key = case
    dtype = np.float32 if single else np.float64
    x = integers(np.random.default_rng(0), one, dtype)
    y = integers(np.random.default_rng(1), other, dtype)

    numpys, traced = OPERATIONS[name]
    try:
        numpys(x[key], y[other_key])
    except ValueError:  # the keys made shapes that do not broadcast
        key, other_key = (), ()
    same_as_numpy(
        lambda x, y: traced(index(x.atom, key), index(y.atom, other_key)),
        lambda x, y: numpys(x[key], y[other_key]),
        x,
        y,
        wrt=(0, 1),
    )


@given(st.data(), st.booleans())
def test_sums_of_broadcasts(data: Any, keepdims: bool) -> None:
    common = data.draw(COMMON)
    x = integers(np.random.default_rng(0), data.draw(shapes(common)))
    y = integers(np.random.default_rng(1), data.draw(shapes(common)))
    ndim = max(x.ndim, y.ndim)
    axes = tuple(data.draw(st.sets(st.integers(0, ndim - 1)))) if ndim else ()

    def traced(x: Any, y: Any) -> Any:
        return FUNCTIONS[np.sum](UFUNCS[np.multiply](x.atom, y.atom), axis=axes, keepdims=keepdims)

    same_as_numpy(traced, lambda x, y: np.sum(x * y, axis=axes, keepdims=keepdims), x, y, wrt=(0, 1))
