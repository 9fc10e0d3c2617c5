"""``x[key]``, ``x[key] = v`` and ``np.add.at`` against NumPy, with exact derivatives in both modes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tape_tools import Handle, SizeHandle, integers, run, same_as_numpy, trace

import tracejit as tj
from tracejit.errors import BroadcastError, IndexingError, IntegerStoreError
from tracejit.frontend.indexing import add_at, index, update
from tracejit.ir.tape import Tape
from tracejit.pipeline import trace_tape

EXTENTS = st.sampled_from([0, 1, 2, 3, 5, 9, 12])
SHAPES = st.lists(EXTENTS, max_size=3).map(tuple)


def read(key: Any) -> Any:
    return lambda x: index(x.atom, key)


@st.composite
def index_arrays(draw: Any, extent: int, size: int) -> Any:
    shape = draw(st.sampled_from([(size,), (1,), (2, size), (2, 1), (0,)]))
    if extent == 0:
        return np.zeros((0,), int)
    places = st.integers(-extent, extent - 1)
    entries = draw(st.lists(places, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.reshape(np.array(entries, int), shape)


def slices(extent: int) -> Any:
    bounds = st.none() | st.integers(-extent - 3, extent + 3)
    return st.builds(slice, bounds, bounds, st.none() | st.sampled_from([1, 2, 3, -1, -2, -3, 7]))


@st.composite
def keys(draw: Any, shape: tuple[int, ...], advanced: bool) -> Any:
    """Any key that NumPy takes for ``shape``, and some that it does not."""
    parts: list[Any] = []
    size = draw(st.integers(1, 3))
    axis = 0
    while axis < len(shape):
        extent = shape[axis]
        kinds = ["slice", "slice", "int", "stop"] + ["array", "array", "mask", "list"] * advanced
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "slice":
            parts.append(draw(slices(extent)))
        elif kind == "int":
            parts.append(draw(st.integers(-extent, max(extent - 1, 0))))
        elif kind == "mask":
            parts.append(np.arange(extent) % draw(st.integers(1, 3)) == 0)
        else:
            places = draw(index_arrays(extent, size))
            parts.append(places.tolist() if kind == "list" else places)
        axis += 1
    extras = [None, True, False, np.array(1 % max(shape[0], 1))] if advanced and shape else [None]
    for extra in draw(st.lists(st.sampled_from(extras), max_size=2)):
        parts.insert(draw(st.integers(0, len(parts))), extra)
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), ...)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@st.composite
def arrays_and_keys(draw: Any, advanced: bool) -> Any:
    shape = draw(SHAPES)
    return integers(np.random.default_rng(1), shape), draw(keys(shape, advanced))


def numpy_takes(x: Any, key: Any) -> bool:
    try:
        x[key]
    except IndexError:
        return False
    return True


@given(arrays_and_keys(False) | arrays_and_keys(True))
def test_reading_is_numpys(case: Any) -> None:
    x, key = case
    if numpy_takes(x, key):
        same_as_numpy(read(key), lambda x: x[key], x)
    else:
        with pytest.raises(IndexingError):
            trace(read(key), x)


def distinct_places(x: Any, key: Any) -> bool:
    counts = np.zeros(x.shape, int)
    np.add.at(counts, key, 1)
    return bool((counts <= 1).all())


@given(arrays_and_keys(False) | arrays_and_keys(True), st.sampled_from(["full", "scalar", "ones", "row"]))
def test_writing_is_numpys(case: Any, kind: str) -> None:
    x, key = case
    if not numpy_takes(x, key):
        with pytest.raises(IndexingError):
            trace(lambda x: update(x.atom, key, 1.0), x)
        return
    region = x[key].shape
    shape = {
        "full": region,
        "scalar": (),
        "ones": (1, *region),
        "row": (*(1 for _ in region[:-1]), *region[-1:]),
    }[kind]
    v = integers(np.random.default_rng(2), shape)

    def plain(x: Any, v: Any) -> Any:
        x[key] = v
        return x

    try:
        plain(x.copy(), v)
    except (TypeError, ValueError):
        assume(False)  # NumPy is not always lenient about leading axes of length one
    if distinct_places(x, key):
        same_as_numpy(lambda x, v: update(x.atom, key, v), plain, x, v, wrt=(0, 1))

    def plain_add(x: Any, v: Any) -> Any:
        np.add.at(x, key, v[0] if kind == "ones" else v)
        return x

    same_as_numpy(lambda x, v: add_at(x.atom, key, v), plain_add, x, v, wrt=(0, 1))


@pytest.mark.parametrize("places", [[0, 0, 2, 0], [1, 1, 1, 1], [-3, 0, 2, 9], [3, 2, 1, 0]])
@pytest.mark.parametrize("traced", [False, True])
def test_the_last_write_wins(places: list[int], traced: bool) -> None:
    x, v, i = (
        integers(np.random.default_rng(0), (10, 2)),
        integers(np.random.default_rng(1), (4, 2)),
        np.array(places),
    )

    def plain(x: Any, v: Any, i: Any) -> Any:
        x[i] = v
        return x

    same_as_numpy(lambda x, v, i: update(x.atom, i if traced else places, v), plain, x, v, i, wrt=(0, 1))


def test_traced_indices_and_masks() -> None:
    x, i = integers(np.random.default_rng(0), (10, 3)), np.array([[3, -1], [0, 3]])
    mask = np.arange(10) % 3 == 1
    same_as_numpy(lambda x, i: index(x.atom, i), lambda x, i: x[i], x, i)
    same_as_numpy(lambda x, i: index(x.atom, (i, 1)), lambda x, i: x[i, 1], x, i)
    same_as_numpy(lambda x, i: index(x.atom, ([i, 0],)), lambda x, i: x[[i, 0]], x, np.array(4))
    same_as_numpy(lambda x, i: index(x.atom, i), lambda x, i: x[i], x, np.array(-4))
    same_as_numpy(lambda x, i: update(x.atom, (i, slice(0, 2)), 5), _set((4, slice(0, 2)), 5), x, np.array(4))
    tape = same_as_numpy(lambda x, m: index(x.atom, m), lambda x, m: x[m], x, mask)
    assert not tape.guards


def _set(key: Any, value: Any) -> Any:
    def plain(x: Any, *_: Any) -> Any:
        x[key] = value
        return x

    return plain


def ops_of(tape: Tape) -> set[str]:
    return {eqn.op.name for eqn in tape.eqns}


def test_one_entry_at_a_computed_place_is_one_look_up() -> None:
    """Neither the row that it stands in is read, nor put back."""

    def moves(x: Any, j: Any) -> Any:
        x[1, j] = x[0, ..., j] * x[j, -1]
        np.add.at(x, (2, j), 1.0)
        return x

    tape = trace_tape(moves, (np.ones((3, 5)), np.int64(2)), {})
    assert all(v.shape in ((), tape.inputs[0].shape) for e in tape.eqns for v in e.results), tape
    expected, got = (np.arange(15.0).reshape(3, 5) for _ in range(2))
    np.testing.assert_array_equal(tj.jit(moves)(got, np.int64(2)), moves(expected, 2))


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("value", [np.array(3.0), np.array([3.0]), np.array([[1.0, 2.0, 3.0]])])
def test_masked_stores_are_selections(traced: bool, value: Any) -> None:
    x, mask = integers(np.random.default_rng(0), (10, 3)), np.arange(10) % 3 == 1

    def plain(x: Any, v: Any, m: Any) -> Any:
        x[m] = v
        return x

    tape = same_as_numpy(
        lambda x, v, m: update(x.atom, m if traced else mask, v), plain, x, value, mask, wrt=(0, 1)
    )
    assert "select" in ops_of(tape) and "scatter_set" not in ops_of(tape) and not tape.guards


def test_masked_store_of_masked_values() -> None:
    x, y = integers(np.random.default_rng(0), (10, 3)), integers(np.random.default_rng(1), (10, 3))
    mask = x > 0

    def plain(x: Any, y: Any, m: Any) -> Any:
        x[m] = y[m]
        return x

    def traced(x: Any, y: Any, m: Any) -> Any:
        return update(x.atom, m, Handle(index(y.atom, m)))

    same_as_numpy(traced, plain, x, y, mask, wrt=(0, 1))


def test_sizes_stay_symbols() -> None:
    x = integers(np.random.default_rng(0), (20, 12))
    key = (slice(1, -1), slice(None, None, -2))
    tape = trace(read(key), x)
    assert not tape.sizes  # 20 >= 9 is known, so nothing had to be guarded
    for shape in [(9, 30), (31, 9), (11, 11)]:
        other = integers(np.random.default_rng(1), shape)
        np.testing.assert_array_equal(run(tape, other)[0], other[key])


def test_symbolic_bounds() -> None:
    x = integers(np.random.default_rng(0), (20,))

    def half(x: Any) -> Any:
        n = x.atom.shape[0]
        return [index(x.atom, slice(SizeHandle(n // 2), None)), index(x.atom, SizeHandle(n - 1))]

    tape = same_as_numpy(half, lambda x: [x[len(x) // 2 :], x[len(x) - 1]], x)
    got = run(tape, np.arange(13.0))
    np.testing.assert_array_equal(got[0], np.arange(6.0, 13.0))
    assert got[1] == 12


def test_clipped_bounds_are_guarded() -> None:
    tape = trace(read(slice(0, 12)), np.arange(20.0))
    assert [str(g) for g in tape.sizes] == ["n20 - 12 >= 0"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "Index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), "Index -5 is out of bounds for axis 1 with size 4"),
        ((slice(None), [0, 4]), "Index 4 is out of bounds for axis 1 with size 4"),
        ((0, 0, 0), "array is 2-dimensional, but 3 were indexed"),
        ((..., 0, ...), "single ellipsis"),
        (([0, 1], [0, 1, 2]), "could not be broadcast together with shapes (2,) (3,)"),
        (np.ones(2, bool), "size of axis is 3 but that of the mask is 2"),
        (1.5, "must be of integer (or boolean) type"),
        ("field", "must be of integer (or boolean) type"),
    ],
)
def test_bad_keys(key: Any, message: str) -> None:
    with pytest.raises(IndexingError) as caught:
        trace(read(key), np.zeros((3, 4)))
    assert message in str(caught.value) and "test_indexing.py" in str(caught.value)
    with pytest.raises(IndexError):
        np.zeros((3, 4))[key]


def test_bad_stores() -> None:
    x = np.zeros((3, 4))
    with pytest.raises(BroadcastError, match=r"from shape \(3,\) into shape \(2, 4\)"):
        trace(lambda x: update(x.atom, slice(0, 2), np.ones(3)), x)
    with pytest.raises(BroadcastError, match=r"from shape \(2, 1, 4\) into shape \(4,\)"):
        trace(lambda x: update(x.atom, 0, np.ones((2, 1, 4))), x)
    with pytest.raises(IntegerStoreError):
        trace(lambda n, x: update(n.atom, 0, x), np.zeros(3, int), np.array(1.0))
    with pytest.raises(ValueError, match="step cannot be zero"):
        trace(read(slice(None, None, 0)), x)


def test_stores_cast_as_numpy() -> None:
    x = np.zeros(3, np.float32)
    same_as_numpy(lambda x, v: update(x.atom, 1, v), lambda x, v: _set(1, v)(x), x, np.array(2.0), wrt=(0, 1))
    (out,) = run(trace(lambda n: update(n.atom, 1, 2.7), np.zeros(3, int)), np.zeros(3, int))
    np.testing.assert_array_equal(out, [0, 2, 0])
