"""The functions that generated loops call, against NumPy and against numbers of higher precision."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

import tracejit as tj
from tracejit.codegen.intrinsics.libm import has_vector_library
from tracejit.codegen.vector_math import NAMESPACE
from tracejit.runtime.compile import ArgSpec, CompiledFunction, compile_function

F4, F8, I8 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")

needs_libmvec = pytest.mark.skipif(not has_vector_library(), reason="needs glibc's libmvec")


def words(text):
    return text.split()


LIBM_UNARY = words("""
    arccos arccosh arcsin arcsinh arctan arctanh cbrt cos cosh erf erfc exp exp2 expm1 log log10 log1p
    log2 sin sinh tan tanh
""")
LIBM_BINARY = ["arctan2", "hypot", "power"]
EXACT_UNARY = words("""
    absolute ceil deg2rad degrees fabs floor rad2deg radians reciprocal rint sign spacing sqrt square
    trunc isnan isinf isfinite signbit
""")
EXACT_BINARY = words("""
    copysign divide floor_divide fmax fmin fmod heaviside maximum minimum nextafter remainder
""")

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 7.0, 0.1, -0.3]
SPECIAL += [1e300, -1e300, 1e-300, 5e-324, -5e-324, 1e17, 2.0**52 + 0.5]


@pytest.fixture(autouse=True)
def _silent_reference(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    with np.errstate(all="ignore"):
        yield


def array(dtype, ndim=1, layout="C", *, writable=False):
    return ArgSpec(np.dtype(dtype), ndim, layout, writable)


def table(names: list[str], arity: int, dtype, result_dtype=None) -> CompiledFunction:
    """One kernel with one loop per function: row ``k`` of the output belongs to ``names[k]``."""
    operands = "xy"[:arity]
    loads = ", ".join(f"load({x}, i)" for x in operands)
    lines = [f"def table({', '.join(operands)}, out):", "    out = distinct(out, 1)"]
    for row, name in enumerate(names):
        lines.append("    for i in range(x.shape[0]):")
        lines.append(f"        store(out, {name}({loads}), {row}, i)")
    inputs = (array(dtype),) * arity
    return compile_function(
        "\n".join(lines) + "\n", "table", (*inputs, array(result_dtype or dtype, 2, writable=True))
    )


def evaluate(names, operands, result_dtype=None):
    """Name -> result of the compiled function on whole arrays."""
    dtype = operands[0].dtype
    out = np.empty((len(names), len(operands[0])), result_dtype or dtype)
    table(names, len(operands), dtype, result_dtype)(*operands, out)
    return dict(zip(names, out, strict=True))


def wide_sample(dtype, rng, count=4000):
    """Numbers of all exponents, of everyday size, next to 1, and the special ones."""
    integer = {F8: np.uint64, F4: np.uint32}[dtype]
    bits = rng.integers(0, np.iinfo(integer).max, count, dtype=integer, endpoint=True).view(dtype)
    sizes = [rng.uniform(-a, a, count) for a in (1.0, 10.0, 100.0, 800.0, 1e5)]
    near_one = 1 + rng.uniform(-1, 1, count) * 10.0 ** rng.uniform(-16, 0, count)
    return np.concatenate([bits, *sizes, near_one, SPECIAL]).astype(dtype)


def ulps(result, exact):
    """Distance in units of the last place; infinite where one is NaN or infinite and the other is not."""
    rounded = exact.astype(result.dtype)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    unit = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), 1)).astype(np.longdouble)
    comparable = np.isfinite(result) & np.isfinite(rounded)
    error = np.where(comparable, np.abs(result.astype(np.longdouble) - exact) / unit, np.inf)
    return np.where(same & ~comparable, 0, error)


def exact_value(name, *operands):
    if name in ("erf", "erfc"):
        function = np.frompyfunc(getattr(math, name), 1, 1)
        return function(operands[0].astype(float)).astype(np.longdouble)
    return getattr(np, name)(*(x.astype(np.longdouble) for x in operands))


def assert_same_bits(result, expected, what):
    both_nan = np.isnan(result) & np.isnan(expected) if result.dtype.kind == "f" else False
    equal = (result == expected) | both_nan
    if result.dtype.kind == "f":
        equal &= both_nan | (np.signbit(result) == np.signbit(expected))
    assert equal.all(), (what, np.flatnonzero(~equal)[:5], result[~equal][:5], expected[~equal][:5])


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_unary_functions_stay_within_four_ulp(dtype, rng):
    x = wide_sample(dtype, rng)
    for name, result in evaluate(LIBM_UNARY, [x]).items():
        exact = exact_value(name, x)
        # The reference for erf is itself a rounded float64.
        allowed = 4.5 if name in ("erf", "erfc") else 4.0
        error = ulps(result, exact)
        assert error.max() <= allowed, (name, error.max(), x[error.argmax()])
        zero = (result == 0) & (exact == 0)
        assert_same_bits(result[zero], exact[zero].astype(dtype), name)


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_binary_functions_stay_within_four_ulp(dtype, rng):
    grid = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    base = np.concatenate(
        [grid[0], np.exp(rng.uniform(-200, 200, 4000)), np.exp(rng.uniform(-1e-3, 1e-3, 4000))]
    )
    other = np.concatenate([grid[1], rng.uniform(-3, 3, 4000), rng.uniform(-1e5, 1e5, 4000)])
    x, y = base.astype(dtype), other.astype(dtype)
    for name, result in evaluate(LIBM_BINARY, [x, y]).items():
        exact = exact_value(name, x, y)
        error = ulps(result, exact)
        assert error.max() <= 4.0, (name, error.max(), x[error.argmax()], y[error.argmax()])
        zero = (result == 0) & (exact == 0)
        assert_same_bits(result[zero], exact[zero].astype(dtype), name)


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_short_functions_are_numpy_bit_for_bit(dtype, rng):
    x = wide_sample(dtype, rng, 300)
    for name, result in evaluate(EXACT_UNARY, [x]).items():
        assert_same_bits(result, getattr(np, name)(x).astype(dtype), name)
    some = rng.uniform(-9, 9, (2, 500))
    a, b = np.hstack([np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1), some]).astype(dtype)
    for name, result in evaluate(EXACT_BINARY, [a, b]).items():
        expected = getattr(np, name)(a, b)
        if name in ("maximum", "minimum", "fmax", "fmin"):  # of two zeros NumPy takes either
            result, expected = result + 0.0, expected + 0.0
        assert_same_bits(result, expected, name)


@pytest.mark.parametrize("dtype", ["i8", "i4", "i1", "u8", "u1"])
def test_integers_divide_and_wrap_as_in_numpy(dtype):
    limits = np.iinfo(dtype)
    values = np.array([0, 1, 2, 3, 7, 100, limits.max, limits.min, limits.max - 1], dtype)
    if limits.min:
        values = np.concatenate([values, -values])
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    names = ["floor_divide", "remainder", "fmod", "maximum", "minimum"]
    for name, result in evaluate(names, [a, b]).items():
        assert_same_bits(result, getattr(np, name)(a, b), name)
    for name, result in evaluate(["absolute", "sign", "square", "reciprocal", "floor"], [values]).items():
        assert_same_bits(result, getattr(np, name)(values).astype(dtype), name)
    a, b = a[(b >= 0) & (b < 9)], b[(b >= 0) & (b < 9)]
    assert_same_bits(evaluate(["power"], [a, b])["power"], np.power(a, b), "power")


@pytest.mark.parametrize("exponent", [-1.5, -0.5, 1.5, 2.5])
def test_powers_of_halves_are_numpys(exponent, rng):
    """Roots and products in the place of the general function: also where those are special."""
    x = np.concatenate([wide_sample(F8, rng), 10.0 ** rng.uniform(-320, 308, 4000)])
    with np.errstate(all="ignore"):
        expected = x**exponent
        result = tj.jit(lambda x: x**exponent)(x)
    special = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(result[special], expected[special])
    np.testing.assert_array_equal(np.signbit(result[special]), np.signbit(expected[special]))
    np.testing.assert_array_max_ulp(result[~special], expected[~special], maxulp=2)


def test_negative_power_of_integers_raises():
    with pytest.raises(ValueError, match="negative integer powers"):
        evaluate(["power"], [np.array([2]), np.array([-1])])


def test_booleans_and_integers_become_float64_where_numpy_makes_floats():
    assert evaluate(["exp"], [np.array([1, 2])], F8)["exp"] == pytest.approx(np.exp([1, 2]))
    assert evaluate(["sqrt"], [np.array([True])], F8)["sqrt"] == 1


COMPLEX_UNARY = words("""
    arccos arccosh arcsin arcsinh arctan arctanh conjugate cos cosh exp exp2 expm1 log log10 log1p log2
    reciprocal rint sin sinh sqrt square tan tanh
""")


@pytest.mark.parametrize(("dtype", "tolerance"), [("c16", 1e-13), ("c8", 2e-5)])
def test_complex_functions(dtype, tolerance, rng):
    z = (rng.normal(size=200) + 1j * rng.normal(size=200)).astype(dtype)
    for name, result in evaluate(COMPLEX_UNARY, [z]).items():
        np.testing.assert_allclose(result, getattr(np, name)(z), rtol=tolerance, err_msg=name)
    parts = evaluate(["absolute", "angle", "real", "imag"], [z], z.real.dtype)
    for name, result in parts.items():
        np.testing.assert_allclose(result, getattr(np, name)(z), rtol=tolerance, err_msg=name)
    w = z[::-1].copy()
    for name, result in evaluate(["power", "divide"], [z, w]).items():
        np.testing.assert_allclose(result, getattr(np, name)(z, w), rtol=100 * tolerance, err_msg=name)
    products = {"mul_reassoc": z * w, "add_reassoc": z + w, "absorb_mul": z * w}
    for name, result in evaluate(list(products), [z, w]).items():
        np.testing.assert_allclose(result, products[name], rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_an_exact_zero_absorbs(dtype):
    a = np.array([0.0, -0.0, np.inf, np.nan, 2.0, np.nan], dtype)
    b = np.array([np.inf, np.nan, 0.0, 0.0, 3.0, 1.0], dtype)
    result = evaluate(["absorb_mul"], [a, b])["absorb_mul"]
    assert (result[:4] == 0).all()
    assert result[4] == 6
    assert np.isnan(result[5])


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_exponent_and_mantissa(dtype, rng):
    x = wide_sample(dtype, rng, 300)
    mantissa, exponent = np.frexp(x)
    assert_same_bits(evaluate(["frexp_mantissa"], [x])["frexp_mantissa"], mantissa, "mantissa")
    assert_same_bits(evaluate(["frexp_exponent"], [x], np.int32)["frexp_exponent"], exponent, "exponent")
    assert_same_bits(evaluate(["modf_fraction"], [x])["modf_fraction"], np.modf(x)[0], "fraction")
    source = "def f(x, n, out):\n    for i in range(x.shape[0]):\n        out[i] = ldexp(x[i], n[i])\n"
    scale = compile_function(source, "f", (array(dtype), array("i8"), array(dtype, writable=True)))
    n = rng.choice([0, 1, -3, 60, -60, 1100, -1100, 2**40, -(2**40)], len(x))
    out = np.empty_like(x)
    scale(x, n, out)
    assert_same_bits(out, np.ldexp(x, np.clip(n, -5000, 5000)), "ldexp")


@pytest.mark.parametrize("dtype", ["i8", "i4", "i1", "u8", "u1"])
def test_shifts_and_divisors(dtype, rng):
    limits = np.iinfo(dtype)
    a = np.concatenate([[limits.max, limits.min], rng.integers(0, 100, 40)]).astype(dtype)
    b = np.concatenate([[1, 7], rng.integers(0, 80, 40)]).astype(dtype)
    if limits.min:
        a[5::7], b[4::9] = -a[5::7], -1
    for name, result in evaluate(["left_shift", "right_shift"], [a, b]).items():
        assert_same_bits(result, getattr(np, name)(a, b), name)
    a, b = a[2:] % 11, b[2:] % 13
    for name, result in evaluate(["gcd", "lcm"], [a, b]).items():
        assert_same_bits(result, getattr(np, name)(a, b), name)


def test_float_power_is_at_least_float64():
    x, y = np.array([2.0, 3.0], "f4"), np.array([0.5, -1.0], "f4")
    result = evaluate(["float_power"], [x, y], F8)["float_power"]
    np.testing.assert_allclose(result, np.float_power(x, y), rtol=1e-15)
    assert NAMESPACE["float_power"] is not NAMESPACE["power"]


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_expit_neither_overflows_nor_cancels(dtype, rng):
    x = np.concatenate(
        [rng.uniform(-750, 750, 500), rng.normal(size=500), [-np.inf, np.inf, np.nan, 0]]
    ).astype(dtype)
    exact = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    assert ulps(evaluate(["expit"], [x])["expit"], exact).max() <= 4


@pytest.mark.parametrize("dtype", [F8, F4], ids=str)
def test_sech_squared_has_its_digits_in_the_tails(dtype, rng):
    x = np.concatenate([rng.uniform(-40, 40, 500), rng.normal(size=500), [0, 400, -400]]).astype(dtype)
    exact = 1 / np.cosh(x.astype(np.longdouble)) ** 2
    assert ulps(evaluate(["sech_squared"], [x])["sech_squared"], exact).max() <= 4


def test_logaddexp(rng):
    a, b = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    a, b = np.concatenate([a, rng.uniform(0, 50, 300)]), np.concatenate([b, rng.uniform(0, 50, 300)])
    for name, result in evaluate(["logaddexp", "logaddexp2"], [a, b]).items():
        np.testing.assert_allclose(result, getattr(np, name)(a, b), rtol=1e-14, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("dtype", ["f8", "i8", "c16", "?"])
def test_where_chooses(dtype):
    source = """def choose(c, x, y, out):
    for i in range(c.shape[0]):
        out[i] = where(c[i], x[i], y[i])
"""
    spec = array(dtype)
    choose = compile_function(source, "choose", (array("?"), spec, spec, array(dtype, writable=True)))
    c, x, y = np.array([True, False, True]), np.array([1, 1, 0], dtype), np.array([0, 0, 1], dtype)
    out = np.empty(3, dtype)
    choose(c, x, y, out)
    assert_same_bits(out.real, np.where(c, x, y).real, dtype)


ACCUMULATORS = {
    "max_accumulate": ("-np.inf", np.max),
    "min_accumulate": ("np.inf", np.min),
    "fmax_accumulate": ("np.nan", np.fmax.reduce),
    "fmin_accumulate": ("np.nan", np.fmin.reduce),
    "add_reassoc": ("0.0", np.sum),
    "mul_reassoc": ("1.0", np.prod),
}


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_accumulators_vectorise_and_treat_nan_as_numpy(name, rng):
    start, reference = ACCUMULATORS[name]
    source = f"""def fold(x):
    acc = {start}
    for i in range(x.shape[0]):
        acc = {name}(acc, load(x, i))
    return acc
"""
    fold = compile_function(source, "fold", (array("f8"),))
    assert re.search(r"phi <\d+ x double>", fold.llvm())
    for size in (1, 7, 1000):
        x = rng.normal(1, 0.1, size)
        for place in (0, size // 2, size - 1):
            y = x.copy()
            y[place] = np.nan
            np.testing.assert_allclose(fold(y), reference(y), rtol=1e-12)
        np.testing.assert_allclose(fold(x), reference(x), rtol=1e-12)
    assert np.isnan(fold(np.full(100, np.nan)))


def test_only_the_accumulating_add_is_reordered():
    source = """def total(x):
    acc = 0.0
    for i in range(x.shape[0]):
        acc = add_reassoc(acc, (load(x, i) + 1.0) - 1.0)
    return acc
"""
    total = compile_function(source, "total", (array("f8"),))
    assert total(np.full(64, 1e-20)) == 0.0
    assert re.search(r"= fadd double|= fadd <", total.llvm())


@needs_libmvec
@pytest.mark.parametrize(("dtype", "letter"), [(F8, ""), (F4, "f")], ids=str)
def test_every_elementary_function_has_vector_variants(dtype, letter):
    for arity, names in ((1, LIBM_UNARY), (2, LIBM_BINARY)):
        text = table(names, arity, dtype).llvm()
        called = set(re.findall(r"call <\d+ x \w+> @_ZGV[bde]N\d+v+_(\w+)\(", text))
        assert len(called) == len(names), sorted(called)
        assert all(name.endswith(letter) for name in called)


@needs_libmvec
def test_wide_vectors_asks_for_512_bits():
    source = (
        "def f(x, out):\n    wide_vectors()\n    for i in range(x.shape[0]):\n        out[i] = exp(x[i])\n"
    )
    compiled = compile_function(source, "f", (array("f8"), array("f8", writable=True)))
    assert '"prefer-vector-width"="512"' in compiled.llvm()


def test_names_cover_numpy_spelling():
    assert all(callable(entry) for entry in NAMESPACE.values())
    assert set(LIBM_UNARY + LIBM_BINARY + EXACT_UNARY + EXACT_BINARY) <= set(NAMESPACE)


FALLBACK = """
import numpy as np
from tracejit.runtime.compile import ArgSpec, compile_function
source = '''def f(x, out):
    for i in range(x.shape[0]):
        out[i] = exp(x[i]) + arctan2(x[i], 2.0)
'''
f8 = np.dtype("f8")
f = compile_function(source, "f", (ArgSpec(f8, 1), ArgSpec(f8, 1, "C", True)))
x, out = np.linspace(-2, 2, 99), np.empty(99)
f(x, out)
np.testing.assert_allclose(out, np.exp(x) + np.arctan2(x, 2.0), rtol=1e-15)
assert "_ZGV" not in f.llvm()
"""


def test_scalar_functions_stand_in_without_the_vector_library(monkeypatch):
    monkeypatch.setenv("TRACEJIT_VECTOR_MATH", "0")
    subprocess.run([sys.executable, "-W", "error", "-c", FALLBACK], check=True)
