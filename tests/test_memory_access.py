"""Loads, stores and pairwise sums of generated loops: right for every layout, and vectorised."""

import math
import re

import numpy as np
import pytest

from tracejit.codegen.intrinsics.libm import has_vector_library
from tracejit.errors import CompileError
from tracejit.runtime.compile import ArgSpec, compile_function

needs_libmvec = pytest.mark.skipif(not has_vector_library(), reason="needs glibc's libmvec")

INDICES = ("i", "j", "k")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def spec(dtype, ndim, layout="C", *, writable=False):
    return ArgSpec(np.dtype(dtype), ndim, layout, writable)


def kernel_source(inputs: int, outputs: int, ndim: int) -> str:
    """A value and ``outputs`` arrays from ``inputs`` arrays, one loop nest."""
    xs, gs = [f"x{n}" for n in range(inputs)], [f"g{n}" for n in range(outputs)]
    index = ", ".join(INDICES[:ndim])
    lines = [f"def kernel({', '.join(xs + gs)}):"]
    lines += [f"    {g} = distinct({g}, {n})" for n, g in enumerate(gs, 1)]
    lines.append("    acc = 0.0")
    for depth, name in enumerate(INDICES[:ndim]):
        lines.append("    " * (depth + 1) + f"for {name} in range(x0.shape[{depth}]):")
    pad = "    " * (ndim + 1)
    lines += [f"{pad}v{n} = load({x}, {index})" for n, x in enumerate(xs)]
    lines.append(f"{pad}s = {' + '.join(f'v{n}' for n in range(inputs))}")
    lines.append(f"{pad}e = exp(-v0 * v0)")
    lines.append(f"{pad}acc = add_reassoc(acc, s * e)")
    lines += [f"{pad}store({g}, e * {n}.0 + s, {index})" for n, g in enumerate(gs)]
    return "\n".join([*lines, "    return acc", ""])


def vector_calls(text: str) -> int:
    return len(re.findall(r"call <\d+ x double> @_ZGV", text))


@needs_libmvec
@pytest.mark.parametrize("layout", ["C", "A"])
@pytest.mark.parametrize(("inputs", "outputs", "ndim"), [(4, 4, 1), (4, 4, 3), (8, 8, 2)])
def test_many_arrays_vectorise_without_overlap_checks(inputs, outputs, ndim, layout, rng):
    specs = (spec("f8", ndim, layout),) * inputs + (spec("f8", ndim, writable=True),) * outputs
    compiled = compile_function(kernel_source(inputs, outputs, ndim), "kernel", specs)
    text = compiled.llvm()
    assert vector_calls(text) > 0
    assert re.search(r"store <[48] x double>", text)
    assert "memcheck" not in text
    x = [rng.normal(size=(5, 6, 37)[-ndim:]) for _ in range(inputs)]
    g = [np.empty(x[0].shape) for _ in range(outputs)]
    acc = compiled(*x, *g)
    s, e = sum(x), np.exp(-x[0] * x[0])
    assert acc == pytest.approx((s * e).sum(), rel=1e-12)
    for n, result in enumerate(g):
        np.testing.assert_allclose(result, e * n + s, rtol=1e-14, atol=1e-14)


@needs_libmvec
def test_strided_inputs_are_gathered():
    specs = (spec("f8", 1, "A"), spec("f8", 1, writable=True))
    source = """def f(x, out):
    out = distinct(out, 1)
    for i in range(x.shape[0]):
        store(out, exp(load(x, i)), i)
"""
    compiled = compile_function(source, "f", specs)
    assert "masked.gather" in compiled.llvm()
    rows = compile_function(source.replace("load(x, i)", "load(unit_stride(x), i)"), "f", specs)
    assert "masked.gather" not in rows.llvm()
    x = np.linspace(0, 1, 100)
    for view in (x, x[::-1], x[::3], np.broadcast_to(x[3], 40)):
        out = np.empty(len(view))
        compiled(view, out)
        np.testing.assert_allclose(out, np.exp(view), rtol=1e-15)
    out = np.empty(50)
    rows(x[50:], out)
    np.testing.assert_allclose(out, np.exp(x[50:]), rtol=1e-15)


COPY = """def copy(x, out):
    out = distinct(out, 1)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            store(out, load(x, i, j), i, j)
"""


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "?", "c16", "c8"])
@pytest.mark.parametrize("layout", ["C", "F", "A"])
def test_every_layout_and_dtype_is_read_and_written(dtype, layout, rng):
    copy = compile_function(COPY, "copy", (spec(dtype, 2, layout), spec(dtype, 2, layout, writable=True)))
    if np.dtype(dtype).kind == "c":
        values = rng.integers(-9, 9, (6, 11)) + 1j * rng.integers(-9, 9, (6, 11))
    else:
        values = rng.integers(0, 2, (6, 11))
    values = values.astype(dtype)
    if layout == "F":
        x, out = np.asfortranarray(values), np.asfortranarray(np.zeros_like(values))
    elif layout == "C":
        x, out = values, np.zeros_like(values)
    else:
        x, out = values[::-2, 1::3], np.zeros((4, 20), dtype)[:3, ::5]
    copy(x, out)
    np.testing.assert_array_equal(out, x)


def test_strides_that_are_no_multiple_of_the_element():
    """A complex field of a record: aligned to 8 bytes, 24 bytes apart."""
    copy = compile_function(COPY, "copy", (spec("c16", 2, "A"), spec("c16", 2, writable=True)))
    records = np.zeros((3, 4), [("z", "c16"), ("w", "f8")])
    records["z"] = np.arange(12).reshape(3, 4) * (1 + 2j)
    out = np.empty((3, 4), "c16")
    copy(records["z"], out)
    np.testing.assert_array_equal(out, records["z"])


def test_one_index_counts_elements_of_a_contiguous_array():
    source = "def get(x, i):\n    return load(x, i)\n"
    x = np.arange(24.0).reshape(2, 3, 4)
    for layout, array in (("C", x), ("F", np.asfortranarray(x))):
        get = compile_function(source, "get", (spec("f8", 3, layout), ArgSpec(np.dtype("i8"))))
        assert [get(array, i) for i in (0, 7, 23)] == list(array.ravel("K")[[0, 7, 23]])


def test_zero_dimensional_arrays_take_no_index():
    source = "def bump(x, out):\n    store(out, load(x) + 1, )\n"
    bump = compile_function(source, "bump", (spec("f8", 0), spec("f8", 0, writable=True)))
    out = np.empty(())
    bump(np.array(2.0), out)
    assert out == 3


def test_the_same_array_twice_as_an_input():
    compiled = compile_function(
        kernel_source(2, 1, 1), "kernel", (*(spec("f8", 1),) * 2, spec("f8", 1, writable=True))
    )
    x, out = np.linspace(0, 1, 33), np.empty(33)
    compiled(x, x, out)
    np.testing.assert_allclose(out, 2 * x, rtol=1e-15)


def test_a_recurrence_on_one_distinct_array_keeps_its_order():
    source = """def cumulate(x, out):
    out = distinct(out, 1)
    store(out, load(x, 0), 0)
    for i in range(1, x.shape[0]):
        store(out, load(out, i - 1) + load(x, i), i)
"""
    cumulate = compile_function(source, "cumulate", (spec("f8", 1), spec("f8", 1, writable=True)))
    x, out = np.arange(100.0), np.empty(100)
    cumulate(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x))


def test_buffers_that_share_memory_share_a_number():
    """Each step reads the element that the next one writes; several steps at once would read too late."""
    source = """def f(x, a, b, out):
    a = distinct(a, 1)
    b = distinct(b, 1)
    out = distinct(out, 2)
    for i in range(x.shape[0]):
        store(a, 2.0 * load(x, i), i)
        store(out, load(b, i), i)
"""
    writable = spec("f8", 1, writable=True)
    f = compile_function(source, "f", (spec("f8", 1), writable, writable, writable))
    x, shared, out = np.arange(50.0), np.zeros(51), np.empty(50)
    f(x, shared[:-1], shared[1:], out)
    np.testing.assert_array_equal(out, np.zeros(50))


@pytest.mark.parametrize(
    "statement",
    ["store(x, 1.0, 0)", "load(x, 0, 0)", "load(x, 0.5)", "store(distinct(x, n), 1.0, 0)", "load(3.0, 0)"],
)
def test_misuse_is_refused(statement):
    with pytest.raises(CompileError):
        compile_function(f"def f(x, n):\n    {statement}\n", "f", (spec("f8", 1), ArgSpec(np.dtype("i8"))))


# --- pairwise sums ------------------------------------------------------------------------------------------

PAIRWISE = """def total(x):
    stack = pairwise_stack(ZERO)
    count = 0
    for start in range(0, x.shape[0], 128):
        acc = ZERO
        for i in range(start, min(start + 128, x.shape[0])):
            acc = add_reassoc(acc, load(x, i))
        count = pairwise_push(stack, count, acc)
    return pairwise_total(stack, count)
"""


def pairwise(dtype):
    zero = {"f8": "0.0", "f4": "np.float32(0.0)", "c16": "0j", "i8": "0"}[dtype]
    return compile_function(PAIRWISE.replace("ZERO", zero), "total", (spec(dtype, 1),))


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 1000, 12_345])
def test_pairwise_total_is_the_sum(dtype, size, rng):
    x = rng.integers(-50, 50, size).astype(dtype)
    assert pairwise(dtype)(x) == x.sum()


def test_pairwise_error_is_no_worse_than_numpys(rng):
    """On numbers of one sign, where a plain float32 sum loses several digits."""
    total, plain = pairwise("f4"), np.float32(0)
    errors, numpy_errors = [], []
    for _ in range(20):
        x = rng.uniform(0.5, 1, 200_000).astype("f4")
        exact = math.fsum(x.tolist())
        errors.append(abs(total(x) - exact))
        numpy_errors.append(abs(float(x.sum()) - exact))
    assert np.mean(errors) <= 1.5 * np.mean(numpy_errors)
    plain = float(np.cumsum(x, dtype="f4")[-1])
    assert max(errors) < 0.05 * abs(plain - exact)
