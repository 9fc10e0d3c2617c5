"""NumPy's functions that reshape, move, join, cut, repeat, pad, pick: values, errors, exact derivatives."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape_tools import SizeHandle, integers, run, same_as_numpy, trace

from tracejit.errors import AxisError, BroadcastError, ShapeError, UnsupportedError
from tracejit.frontend.registry import FUNCTIONS


class _Traced:
    """Looks like the module ``numpy``, with the traced meanings of its functions."""

    def __getattr__(self, name: str) -> Any:
        return FUNCTIONS[getattr(np, name)]


traced: Any = _Traced()

# Functions of one array, as ``f(numpy or its traced stand-in, array)``; all of them are linear.
ONE: dict[str, Callable[[Any, Any], Any]] = {
    "reshape -1": lambda m, x: m.reshape(x, -1),
    "reshape rows": lambda m, x: m.reshape(x, (2, -1)),
    "reshape F": lambda m, x: m.reshape(x, (-1, 2), order="F"),
    "reshape ones": lambda m, x: m.reshape(x, (1, -1, 1)),
    "ravel": lambda m, x: m.ravel(x),
    "ravel F": lambda m, x: m.ravel(x, "F"),
    "transpose": lambda m, x: m.transpose(x),
    "transpose axes": lambda m, x: m.transpose(x, (1, -2)),
    "permute_dims": lambda m, x: m.permute_dims(x, (2, 0, 1)),
    "matrix_transpose": lambda m, x: m.matrix_transpose(x),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, -1),
    "moveaxis": lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)),
    "rollaxis": lambda m, x: [m.rollaxis(x, -1), m.rollaxis(x, 0, 2)],
    "squeeze": lambda m, x: m.squeeze(x),
    "squeeze axis": lambda m, x: m.squeeze(x, 0),
    "squeeze axes": lambda m, x: m.squeeze(x, (-1, 0)),
    "expand_dims": lambda m, x: m.expand_dims(x, (0, -1)),
    "atleast_1d": lambda m, x: m.atleast_1d(x),
    "atleast_2d": lambda m, x: m.atleast_2d(x, 1.0),
    "atleast_3d": lambda m, x: m.atleast_3d(x),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (2, 3, 4)),
    "broadcast_arrays": lambda m, x: m.broadcast_arrays(x, np.ones((3, 1))),
    "copy": lambda m, x: m.copy(x),
    "concatenate rows": lambda m, x: m.concatenate([x, np.ones((2, 4)), x]),
    "concatenate last": lambda m, x: m.concatenate((x, x), axis=-1),
    "concatenate flat": lambda m, x: m.concatenate([x, [[1.0, 2.0]]], axis=None),
    "stack": lambda m, x: m.stack([x, x, x], axis=1),
    "stack last": lambda m, x: m.stack([x, x], axis=-1),
    "vstack": lambda m, x: m.vstack([x, x]),
    "hstack": lambda m, x: m.hstack([x, x]),
    "dstack": lambda m, x: m.dstack([x, x]),
    "column_stack": lambda m, x: m.column_stack([x, x]),
    "block": lambda m, x: m.block([[x, x], [x, x]]),
    "append": lambda m, x: [m.append(x, 5.0), m.append(x, x, axis=0)],
    "split": lambda m, x: m.split(x, 2),
    "split places": lambda m, x: m.split(x, [1, 3], axis=-1),
    "array_split": lambda m, x: m.array_split(x, 5, axis=-1),
    "hsplit": lambda m, x: m.hsplit(x, 2),
    "vsplit": lambda m, x: m.vsplit(x, 3),
    "dsplit": lambda m, x: m.dsplit(x, [1]),
    "unstack": lambda m, x: m.unstack(x, axis=-1),
    "tile": lambda m, x: [m.tile(x, 2), m.tile(x, (2, 1, 3)), m.tile(x, ())],
    "repeat": lambda m, x: [m.repeat(x, 3), m.repeat(x, 2, axis=-1), m.repeat(x, 0, axis=0)],
    "repeat counts": lambda m, x: m.repeat(x, [1, 0, 3, 2], axis=-1),
    "resize": lambda m, x: m.resize(x, (3, 5)),
    "delete": lambda m, x: [m.delete(x, 0, axis=-1), m.delete(x, [0, -1], axis=0), m.delete(x, slice(0, 1))],
    "insert": lambda m, x: [
        m.insert(x, 1, 7.0),
        m.insert(x, 1, 7.0, axis=-1),
        m.insert(x, [0, -1], 5.0, axis=0),
    ],
    "flip": lambda m, x: [m.flip(x), m.flip(x, -1), m.flip(x, (0, 1))],
    "fliplr": lambda m, x: m.fliplr(x),
    "flipud": lambda m, x: m.flipud(x),
    "rot90": lambda m, x: [m.rot90(x, k) for k in (-1, 0, 1, 2, 3)],
    "rot90 axes": lambda m, x: m.rot90(x, 1, axes=(2, 0)),
    "roll": lambda m, x: [m.roll(x, k) for k in (0, 3, -2, 100)],
    "roll axes": lambda m, x: [m.roll(x, 5, -1), m.roll(x, (1, -2), (0, 1)), m.roll(x, 1, (0, 1))],
    "take": lambda m, x: [m.take(x, [0, -1]), m.take(x, [[0, 1], [1, 0]], axis=-1), m.take(x, 0, axis=0)],
    "take wrap": lambda m, x: [m.take(x, [5, -7], axis=-1, mode="wrap"), m.take(x, 30, axis=0, mode="wrap")],
    "take clip": lambda m, x: m.take(x, [[5, -7]], axis=-1, mode="clip"),
    "take_along_axis": lambda m, x: m.take_along_axis(x, np.array([[0, -1, 0]]), -1),
    "take_along_axis flat": lambda m, x: m.take_along_axis(x, np.array([0, -1, 0]), None),
    "compress": lambda m, x: [m.compress([True, False, True], x, axis=-1), m.compress([0, 1], x)],
    "diag": lambda m, x: [m.diag(x, k) for k in (0, 1, -2, 20)],
    "diagonal": lambda m, x: [m.diagonal(x, 1), m.diagonal(x, -1, 1, 0), m.diagonal(x, 0, -1, 0)],
    "diagflat": lambda m, x: m.diagflat(x, -1),
    "trace": lambda m, x: [m.trace(x), m.trace(x, 1, -1, 0)],
    "tril": lambda m, x: [m.tril(x), m.tril(x, 1), m.tril(x, -2)],
    "triu": lambda m, x: [m.triu(x), m.triu(x, 1), m.triu(x, -2)],
    "pad": lambda m, x: [m.pad(x, 2), m.pad(x, (1, 0)), m.pad(x, ((1, 2),), constant_values=3.0)],
    "pad axes": lambda m, x: m.pad(x, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))),
    "pad dict": lambda m, x: m.pad(x, {-1: (1, 2)}),
    "pad edge": lambda m, x: m.pad(x, (2, 1), "edge"),
    "pad reflect": lambda m, x: m.pad(x, (1, 2), "reflect"),
    "pad symmetric": lambda m, x: m.pad(x, 2, "symmetric"),
    "pad wrap": lambda m, x: m.pad(x, (3, 1), "wrap"),
    "pad far": lambda m, x: [m.pad(x, 11, mode) for mode in ("reflect", "symmetric", "wrap")],
    "pad ramp": lambda m, x: m.pad(x, (2, 4), "linear_ramp", end_values=(8, -8)),
    "meshgrid": lambda m, x: m.meshgrid(x, np.arange(2.0), x),
    "meshgrid open": lambda m, x: m.meshgrid(x, np.arange(2.0), sparse=True, indexing="ij"),
    "full_like": lambda m, x: m.full_like(np.zeros((2, 3)), m.take(x, 0)),
}

SHAPES = [
    (),
    (1,),
    (4,),
    (12,),
    (0,),
    (3, 4),
    (1, 4),
    (3, 1),
    (12, 10),
    (2, 3, 4),
    (10, 2, 1),
    (0, 3),
    (4, 0),
    (1, 1, 1),
]


@pytest.mark.parametrize("name", ONE)
def test_one_array(name: str) -> None:
    function, worked = ONE[name], 0
    for shape in SHAPES:
        x = integers(np.random.default_rng(0), shape)
        try:
            function(np, x)
        except Exception as error:  # whatever NumPy raises, the traced function raises too
            with pytest.raises((builtin(error), UnsupportedError, ShapeError)):
                run(trace(lambda x: flat(function(traced, x)), x), x)
        else:
            same_as_numpy(lambda x: flat(function(traced, x)), lambda x: flat(function(np, x)), x)
            worked += 1
    assert worked


def builtin(error: Exception) -> type[Exception]:
    """The built-in exception that code written for NumPy would catch."""
    kinds = (ValueError, IndexError, TypeError, ZeroDivisionError)
    return next(k for k in kinds if isinstance(error, k))


def flat(out: Any) -> Any:
    return list(itertools.chain.from_iterable(map(flat, out))) if isinstance(out, list | tuple) else [out]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_follow_numpy(dtype: Any) -> None:
    x = integers(np.random.default_rng(0), (3, 4), dtype)
    for name in ("stack", "concatenate rows", "pad", "take", "tril", "trace", "append", "insert", "pad ramp"):
        same_as_numpy(lambda x, f=ONE[name]: flat(f(traced, x)), lambda x, f=ONE[name]: flat(f(np, x)), x)


@given(st.permutations([12, 10, 3]), st.sampled_from(sorted(ONE)))
def test_other_sizes_need_no_new_trace(extents: list[int], name: str) -> None:
    """Where the guards hold, the tape of one size is right for another."""
    shape, other = tuple(extents[:2]), tuple(n + 20 if n > 8 else n for n in extents[:2])
    x, y = integers(np.random.default_rng(0), shape), integers(np.random.default_rng(1), other)
    function = ONE[name]
    try:
        expected = flat(function(np, y))
        tape = trace(lambda x: flat(function(traced, x)), x)
    except (ValueError, IndexError, TypeError, UnsupportedError):
        return
    sizes = {f"n{n}": m for n, m in zip(shape, other, strict=True)}
    free = {str(s) for v in tape.inputs for d in v.shape if not isinstance(d, int) for s in [d]}
    if free != {s for s in sizes if int(s[1:]) > 8} or any(not holds(g, sizes) for g in tape.sizes):
        return
    for got, want in zip(run(tape, y), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def holds(guard: Any, sizes: dict[str, int]) -> bool:
    value = eval(str(guard.size), {}, sizes)
    return {"!=": value != 0, ">=": value >= 0, "<": value < 0}[guard.relation]


def ops_of(tape: Any) -> list[str]:
    return [eqn.op.name for eqn in tape.eqns]


def test_cheap_forms() -> None:
    x = np.zeros((12, 1, 10))
    for function in (lambda x: traced.reshape(x, (1, 12, 10)), lambda x: traced.reshape(x, (-1, 1, 1, 10))):
        assert set(ops_of(trace(function, x))) <= {"squeeze", "expand_dims"}
    assert ops_of(trace(lambda x: traced.transpose(x, (0, 1, 2)), x)) == []
    assert ops_of(trace(lambda x: traced.reshape(x, tuple(map(SizeHandle, x.atom.shape))), x)) == []
    assert ops_of(trace(lambda x: traced.pad(x, 1), x)) == ["embed"]


@pytest.mark.parametrize(
    ("shape", "new", "expected"),
    [
        ((12, 10), lambda n, m: (-1,), "n12*n10"),
        ((12, 10), lambda n, m: (m, -1), "n12"),
        ((12, 10), lambda n, m: (n * m,), "n12*n10"),
        ((12, 10), lambda n, m: (2, -1, n), "((n10)//2)"),
        ((12, 10), lambda n, m: (m, 1, n), "n12"),
    ],
)
def test_symbolic_reshape(shape: Any, new: Any, expected: str) -> None:
    x = integers(np.random.default_rng(0), shape)

    def wanted(n: Any, m: Any) -> Any:
        return tuple(d if d == -1 else SizeHandle(d) for d in new(n, m))

    tape = same_as_numpy(
        lambda x: traced.reshape(x, wanted(*x.atom.shape)), lambda x: np.reshape(x, new(*x.shape)), x
    )
    shown = [str(d) for d in tape.outputs[0].shape]
    assert expected in shown or expected.replace("n12*n10", "n10*n12") in shown
    big = integers(np.random.default_rng(1), (30, 20))
    np.testing.assert_array_equal(run(tape, big)[0], np.reshape(big, new(30, 20)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda m, x: m.reshape(x, (5, 2)),
            ShapeError,
            r"Cannot reshape array of size 12 into shape \(5, 2\)",
        ),
        (
            lambda m, x: m.reshape(x, (-1, 5)),
            ShapeError,
            r"Cannot reshape array of size 12 into shape \(-1, 5\)",
        ),
        (
            lambda m, x: m.transpose(x, (0, 3)),
            AxisError,
            "Axis .* is out of bounds for an array of dimension 2",
        ),
        (lambda m, x: m.squeeze(x, 0), ShapeError, "size not equal to one"),
        (
            lambda m, x: m.concatenate([x, x[0] if m is np else m.take(x, 0, axis=0)]),
            ShapeError,
            "cannot be joined",
        ),
        (lambda m, x: m.broadcast_to(x, (3, 5)), BroadcastError, "cannot be broadcast"),
        (lambda m, x: m.split(x, 5), ShapeError, "no multiple of 5; `np.array_split` allows that"),
        (lambda m, x: m.take_along_axis(x, np.zeros((2, 1), int), 1), ShapeError, "take_along_axis"),
    ],
)
def test_errors(function: Any, error: type[Exception], message: str) -> None:
    x = np.zeros((3, 4))
    with pytest.raises((ValueError, IndexError)):
        function(np, x)
    with pytest.raises(error, match=message) as caught:
        trace(lambda x: function(traced, x), x)
    assert "test_shapes.py" in str(caught.value)


def test_layout_dependent_orders_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="memory layout"):
        trace(lambda x: traced.ravel(x, "K"), np.zeros((3, 4)))


def test_queries() -> None:
    x = np.zeros((3, 1, 4))
    found = []
    trace(
        lambda x: (
            found.extend([traced.shape(x), traced.size(x), traced.size(x, 1), traced.ndim(x)]) or x.atom
        ),
        x,
    )
    assert found == [(3, 1, 4), 12, 1, 3]
    rows = trace(lambda x: found.append(traced.triu_indices_from(x)) or x.atom, np.zeros((3, 5)))
    assert rows.outputs and np.array_equal(found[-1], np.triu_indices(3, 0, 5))
