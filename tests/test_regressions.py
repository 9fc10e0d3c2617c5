"""Wrong values and wrong gradients that were found by attacks on the whole pipeline, one test per kind."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime import limits

pytestmark = pytest.mark.usefixtures("each_mode")

Array = np.ndarray[Any, Any]


def test_plain_arrays_that_change_during_the_trace() -> None:
    def f(x: Array) -> Any:
        weights = np.fromiter([1.0, 2.0, -0.0], float)
        first = x * weights
        weights += 1
        second = x * weights
        weights[2] = 0.0
        return np.sum(first + second) + np.sum(np.copysign(1.0, weights) * x)

    x = np.array([1.0, 2.0, 4.0])
    value, slope = tj.value_and_grad(f)(x)
    assert value == f(x)
    np.testing.assert_array_equal(slope, [4.0, 6.0, 2.0])


def doubled_head(v: Array) -> None:
    v[0] *= 2.0


VIEWS: dict[str, Any] = {
    "whole": lambda y: y[...],
    "reshape function": lambda y: np.reshape(y, -1),
    "ravel": np.ravel,
    "flip": lambda y: np.flip(y, axis=0),
    "rot90": np.rot90,
    "split": lambda y: np.split(y, 2, axis=1)[1],
    "moveaxis": lambda y: np.moveaxis(y, 0, -1),
    "swapaxes": lambda y: np.swapaxes(y, 0, 1),
    "atleast_3d": np.atleast_3d,
    "squeeze": lambda y: np.squeeze(y[None]),
    "view": lambda y: y.view(),
    "astype without copy": lambda y: y.astype(float, copy=False),
    "einsum": lambda y: np.einsum("ii->i", y[:, :4]),
    "reshape of contiguous rows": lambda y: y[1:3].reshape(-1),
    "reshape of a column": lambda y: y[:, 0].reshape(2, 2),
    "reshape of a part of each row": lambda y: y[:, 1:].reshape(-1),
    "reshape of a transpose": lambda y: y.T.reshape(-1),
    "ravel of a reversed row": lambda y: y[0, ::-1].ravel(),
    "flat of a transpose": lambda y: y.T.flat,
}


@pytest.mark.parametrize("columns", [4, 12])
@pytest.mark.parametrize("name", VIEWS)
def test_stores_through_what_numpy_makes_a_view(name: str, columns: int) -> None:
    def f(x: Array) -> Any:
        y = x * 1.0
        before = VIEWS[name](y)
        doubled_head(VIEWS[name](y))
        y[-1] += 1.0
        return (
            np.sum(y**2) + np.sum(np.asarray(before)[:1]) if name != "flat of a transpose" else np.sum(y**2)
        )

    x = np.arange(4.0 * columns).reshape(4, columns) + 1
    with tj.interpret():
        value, slope = tj.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    numeric = (f(x + 1e-3 * np.eye(4 * columns)[5].reshape(x.shape)) - f(x)) / 1e-3
    np.testing.assert_allclose(slope[np.unravel_index(5, x.shape)], numeric, rtol=1e-3)


def test_views_that_cannot_be_written_are_read_anew() -> None:
    def f(x: Array) -> Any:
        y = x * 1.0
        diagonal, same, spread = np.diagonal(y), np.diag(y), np.broadcast_to(y[0], (2, 3))
        trimmed = np.trim_zeros(y[0])
        y[0] = 7.0
        return np.sum(diagonal + same) * np.sum(spread) + np.sum(trimmed)

    x = np.arange(9.0).reshape(3, 3)
    assert tj.jit(f)(x) == f(x)

    def store(x: Array) -> Any:
        np.broadcast_to(x, (2, 3))[...] = 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        tj.jit(store)(np.zeros(3))


def test_a_store_that_the_layout_decides_is_refused() -> None:
    def f(x: Array) -> Any:
        y = x + 1.0
        doubled_head(y.reshape(-1))
        return np.sum(y)

    with pytest.raises(tj.errors.UnsupportedError, match="memory layout"):
        tj.grad(f)(np.asfortranarray(np.ones((3, 4))))

    def copied(x: Array) -> Any:
        y = (x + 1.0).copy()
        doubled_head(y.reshape(-1))
        return np.sum(y)

    x = np.asfortranarray(np.ones((3, 4)))
    assert tj.jit(copied)(x) == copied(x)


def test_fortran_order_reads_through_to_fortran_arrays() -> None:
    def f(x: Array) -> Any:
        doubled_head(x.ravel("F"))
        return np.sum(x)

    x = np.ones((3, 4))
    assert tj.jit(f)(x) == 12.0  # a copy was doubled
    with pytest.raises(tj.errors.UnsupportedError, match="memory layout"):
        tj.jit(f)(np.asfortranarray(x))

    def strided(x: Array) -> Any:
        doubled_head(x.reshape(-1))
        return np.sum(x)

    assert tj.jit(strided)(np.ones(8)[::2]) == 5.0


def test_out_returns_the_array_itself() -> None:
    def f(x: Array) -> Any:
        out = np.zeros_like(x)
        result = np.multiply(x, x, out=out, where=x > 0)
        result[0] += 1.0
        return np.sum(out * result)

    x = np.array([[1.0, -2.0], [3.0, 4.0]])
    assert tj.jit(f)(x) == f(x)


def test_add_at_and_subtract_at() -> None:
    def f(x: Array) -> Any:
        y = x * 1.0
        np.add.at(y, [0, 1, 0], x[:3])
        np.subtract.at(y, ([2, 2],), 0.5)
        return np.sum(y**2)

    x = np.arange(4.0)
    value, slope = tj.value_and_grad(f)(x)
    assert value == f(x)
    y = np.array([0.0 + 0 + 2, 1 + 1, 2 - 1, 3])
    np.testing.assert_allclose(slope, 2 * y + 2 * np.array([y[0], y[1], y[0], 0]))


def test_a_pullback_stays_at_its_point() -> None:
    x = np.array([1.0, 2.0])
    _, pull = tj.vjp(lambda x: x**2, x)
    x[:] = 100.0
    np.testing.assert_array_equal(pull(np.ones(2))[0], [2.0, 4.0])

    def f(x: Array) -> Any:
        y = x * 1.0
        _, pull = tj.vjp(lambda y: y**3, y)
        y[0] = 7.0
        return np.sum(pull(np.ones(2))[0])

    np.testing.assert_array_equal(tj.grad(f)(np.array([1.0, 2.0])), [6.0, 12.0])


MASKED = np.ma.array([1.0, 2.0], mask=[True, False])


def test_arrays_that_compute_in_another_way_are_refused() -> None:
    with pytest.raises(tj.errors.NonNumericError, match="MaskedArray computes in another way"):
        tj.grad(np.sum)(MASKED)
    with pytest.raises(tj.errors.NonNumericError, match="MaskedArray computes in another way"):
        tj.grad(lambda x: np.sum(x * MASKED))(np.ones(2))


def test_overlap_of_arguments_is_decided_in_bounded_time() -> None:
    memory = np.zeros(2_000_000)

    def spread(start: int, strides: tuple[int, ...]) -> Array:
        steps = tuple(8 * s for s in strides)
        return np.lib.stride_tricks.as_strided(memory[start:], (11, 12, 13, 14, 15), steps)

    def f(a: Array, b: Array) -> Any:
        a[0] = 1.0
        return np.sum(b[0, 0, 0])

    first, second = spread(0, (1009, 2003, 3001, 4001, 9001)), spread(1, (1511, 2503, 3511, 4507, 8009))
    with pytest.raises(tj.errors.UnsupportedError, match="shares memory"):
        tj.jit(f)(first, second)


def test_views_without_axes_and_scalars() -> None:
    def f(x: Array) -> Any:
        y = x * 1.0
        one, other, number = y[0, ...], y[1:2].squeeze(), y[2]
        one *= 3.0
        other[...] = 5.0 * x[0]
        number *= 7.0
        grown = number[None]
        grown += 1.0
        return np.sum(y) + number

    x = np.array([1.0, 2.0, 3.0])
    value, slope = tj.value_and_grad(f)(x)
    assert value == f(x) == 32.0
    np.testing.assert_array_equal(slope, [8.0, 0.0, 8.0])


def test_inner_functions_and_arrays_of_the_function_around_them() -> None:
    def store(x: Array) -> Any:
        y = x * 1.0

        def inner(z: Array) -> Any:
            y[0] = 5.0
            return np.sum(z * y)

        return np.sum(y * tj.grad(inner)(x))

    with pytest.raises(tj.errors.UnsupportedError, match="array of the function around it"):
        tj.jit(store)(np.ones(3))

    def read(x: Array) -> Any:
        y = x * 1.0
        tail = y[1:]
        y[1] = 5.0

        def inner(z: Array) -> Any:
            own = y.copy()
            own[0] = 2.0
            mine = tail * 1.0
            mine[-1] *= 3.0
            return np.sum(z * mine) + np.sum(own)

        return np.sum(tail * tj.grad(inner)(x[1:]))

    # tail = (5, c), times (5, 3c)
    value, slope = tj.value_and_grad(read)(np.array([1.0, 2.0, 4.0]))
    assert value == 25 + 3 * 16
    np.testing.assert_array_equal(slope, [0.0, 0.0, 24.0])


SIZES: dict[str, Any] = {
    "ufunc of a size": lambda x: x * np.sqrt(x.shape[0]),
    "plain array by a size": lambda x: x[:3] * (np.arange(3) / x.shape[0]),
    "size keeps float32": lambda x: x.astype(np.float32) * x.shape[0] / x.size,
    "ufunc keeps float32": lambda x: np.multiply(x.astype(np.float32), x.size),
    "list repeated": lambda x: x + [0.5] * x.shape[0],
    "list repeated from the right": lambda x: x + x.shape[0] * [0.5],
    "compared with a plain array": lambda x: x[:2] * (x.shape[0] > np.array([5, 25])),
    "compared with a traced array": lambda x: x * (x.shape[0] < 20 * x),
    "equal to a plain array": lambda x: x[:2] * (x.shape[0] == np.array([12, 20])),
    "bits": lambda x: x * (x.shape[0] & 6) * x.shape[0].bit_length(),
    "divmod": lambda x: x * divmod(x.shape[0], 7)[1],
    "text": lambda x: x * {"12": 2.0, "20": 3.0}[f"{x.shape[0]}"],
    "round": lambda x: x[: round(x.shape[0] / 5)],
    "flat item": lambda x: x.reshape(2, -1).item(3) * x,
    "item of a tuple": lambda x: x.reshape(2, -1).item((1, 0)) * x,
    "compress": lambda x: x.compress(np.arange(3) > 0),
    "divmod of arrays": lambda x: divmod(x, 0.7)[1] + divmod(1.0, abs(x) + 0.1)[0],
    "where without branches": lambda x: x[np.where(x > 0)],
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_behave_as_python_ints(name: str) -> None:
    function = tj.jit(SIZES[name])
    with tj.interpret():
        for count in (12, 20, 4 if name not in ("text", "equal to a plain array") else 12):
            x = np.linspace(-1.0, 1.0, count)
            # Small extents are plain ints, which have all this by themselves.
            found, expected = function(x), SIZES[name](x)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert found.dtype == expected.dtype


def test_stores_by_method() -> None:
    def f(x: Array) -> Any:
        y = x * 1.0
        y.partition(2)
        y.put([0, -1], x[:2] * 2.0)
        return y

    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    found, expected = tj.jit(f)(x), f(x)
    np.testing.assert_array_equal(np.sort(found[1:-1]), np.sort(expected[1:-1]))
    np.testing.assert_array_equal(found[[0, -1]], expected[[0, -1]])


def test_arguments_without_axes_are_arrays_or_scalars() -> None:
    def f(x: Any) -> Any:
        y = x
        y *= 3.0
        view = y[None]
        view += 1.0
        return x * y

    # The array becomes 3 x + 1, the scalar stays x beside y = 3 x.
    assert tj.value_and_grad(f)(np.array(2.0)) == (49.0, 42.0)
    assert tj.value_and_grad(f)(np.float64(2.0)) == (12.0, 12.0)
    given = np.array(2.0)
    tj.jit(f)(given)
    assert given == 7.0


def test_a_trace_too_long_to_compile_is_run_by_numpy(each_mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        parts = []
        for k in range(250):
            parts.append(np.sin(x * k))  # noqa: PERF401  # a list that grows is unrolled
        return sum(parts)

    monkeypatch.setattr(limits, "MAX_EQUATIONS", 400)
    warned = pytest.warns(tj.errors.LongTraceWarning, match="equations")
    with (
        warned if each_mode == "compiled" else nullcontext()
    ):  # where NumPy runs it anyway there is nothing to say
        slope = tj.grad(f)(0.3)
    k = np.arange(250)
    np.testing.assert_allclose(slope, np.sum(k * np.cos(0.3 * k)), rtol=1e-9)


def test_a_row_that_a_traced_integer_picks_is_a_view(each_mode: str) -> None:
    def write(x: Array) -> Any:
        y = x * 1.0
        row = y[int(np.argmax(x[:, 0]))]
        row *= 3.0
        np.add(row, 1.0, out=row)
        y[int(np.argmin(x[:, 0])), 1:] += 2.0
        return np.sum(y * y)

    def read(x: Array) -> Any:
        y = x * 1.0
        row = y[int(np.argmax(x[:, 0]))]
        y[1] = 10.0 * x[0]
        return np.sum(row * row)

    x = np.array([[1.0, 2.0], [5.0, 1.0], [0.5, 3.0]])
    for f in (write, read):
        assert tj.jit(f)(x) == f(x)
        tj.check_grads(f, (x,), order=1)


def test_an_integer_argument_is_a_shape(each_mode: str) -> None:
    def f(x: Array, steps: int) -> Any:
        seen = np.zeros(steps)
        for n in range(steps):
            x = 0.5 * x
            seen[n] = x[0]
        return np.sum(seen) + np.sum(np.ones((steps, 2)))

    slope = tj.grad(f)
    for steps in (3, 4):
        np.testing.assert_array_equal(slope(np.ones(2), steps), [1 - 0.5**steps, 0.0])


def test_a_failure_on_a_path_that_is_not_gone_is_none(each_mode: str) -> None:
    def f(x: Array, n: int) -> Any:
        if n > 2:
            return np.sum(np.linalg.inv(x[:2, :2]))
        return np.sum(x) * n

    slope = tj.grad(f)
    regular, singular = np.diag([1.0, 2.0, 3.0]), np.ones((3, 3))
    np.testing.assert_allclose(slope(regular, 3)[:2, :2], [[-1.0, -0.5], [-0.5, -0.25]])
    np.testing.assert_array_equal(slope(singular, 2), np.full((3, 3), 2.0))
    with pytest.raises(np.linalg.LinAlgError):
        slope(singular, 3)


def test_code_too_long_to_compile_is_run_by_numpy(each_mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(u: Array, k: float) -> Any:
        u, seen = u.copy(), []
        for _ in range(6):
            u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
            seen.append(u[3])
        return sum(seen)

    u = np.cos(np.arange(20.0))
    monkeypatch.setattr(limits, "MAX_LINES", 100)
    warned = pytest.warns(tj.errors.LongTraceWarning, match="generated lines")
    with warned if each_mode == "compiled" else nullcontext() as caught:
        slope = tj.grad(f, argnums=1)(u, 0.05)
    assert caught is None or caught[0].filename == __file__
    np.testing.assert_allclose(slope, (f(u, 0.05 + 1e-6) - f(u, 0.05 - 1e-6)) / 2e-6, rtol=1e-6)


def entries_moved_and_regrouped(y: Array) -> Any:
    rows = np.transpose(np.reshape(y, (9, 3, 1)), (1, 0, 2)).reshape(27) * np.arange(27.0)
    return rows.reshape(3, 9).reshape(-1)


def digits_reversed(y: Array) -> Any:
    for i in range(3):
        parts = np.reshape(y, (3**i, 3, 3 ** (2 - i)))
        y = np.reshape(np.reshape(np.transpose(parts, (1, 0, 2)), 27) + np.arange(27.0), (3, 9)).reshape(27)
    return y


@pytest.mark.parametrize("f", [entries_moved_and_regrouped, digits_reversed])
def test_regrouped_entries_are_read_after_they_were_written(f: Any) -> None:
    y, weights = np.cos(np.arange(27.0)), np.sin(np.arange(27.0))
    np.testing.assert_array_equal(tj.jit(f)(y), f(y))
    tj.check_grads(lambda y: np.sum(f(y) * weights), (y,))


@pytest.mark.parametrize("place", [np.argmax, np.argmin, np.nanargmax])
def test_the_place_of_the_only_entry(place: Any, each_mode: str) -> None:
    def f(x: Any) -> Any:
        return x * (3 + place(x))

    assert tj.value_and_grad(f)(np.array(0.3)) == (0.3 * 3, 3.0)
