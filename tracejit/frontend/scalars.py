"""Python's own functions of numbers on traced values: ``int``, ``round``, ``min``, and what ``math`` has.

They give Python scalars, so their results are weak: they adapt to the dtype of the arrays that they meet.
"""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from tracejit.frontend.branching import is_undecided, truth
from tracejit.frontend.registry import UFUNCS, contains_traced, is_traced, operand
from tracejit.frontend.tracer import TracedArray, dispatch
from tracejit.ir.tape import Atom, Lit, Var
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import select

__all__ = ["FUNCTIONS_OF_NUMBERS", "MODULES", "NUMBER_TYPES", "as_numpy", "weak"]

_INT, _FLOAT, _COMPLEX = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.complex128)


def weak(atom: Atom, dtype: np.dtype[Any]) -> TracedArray:
    """Return ``atom`` as a traced Python scalar."""
    if isinstance(atom, Lit):
        return TracedArray(Lit(atom.value.astype(dtype), weak=True))
    if atom.aval.weak and atom.dtype == dtype:
        return TracedArray(atom)
    fresh: Var = convert.bind(atom, dtype=dtype)
    fresh.aval = replace(fresh.aval, weak=True)
    return TracedArray(fresh)


def _scalar(value: Any, what: str) -> Atom:
    atom = operand(value)
    if atom.aval.size != 1:
        raise TypeError(f"only length-1 arrays can be converted to Python scalars, by {what}")
    return TracedArray(atom)._scalar() if atom.shape else atom


# --- types --------------------------------------------------------------------------------------------------


def _int(value: Any = 0, *base: Any) -> Any:
    if not is_traced(value):
        return int(value, *base)
    if hasattr(value, "_tracejit_dim"):
        return value
    atom = _scalar(value, "int()")
    if atom.dtype.kind == "c":
        raise TypeError("int() argument must be a real number, not 'complex'")
    return weak(UFUNCS[np.trunc](atom) if atom.dtype.kind == "f" else atom, _INT)


def _float(value: Any = 0.0) -> Any:
    if not is_traced(value):
        return float(value)
    atom = _scalar(value, "float()")
    if atom.dtype.kind == "c":
        raise TypeError("float() argument must be a real number, not 'complex'")
    return weak(atom, _FLOAT)


def _complex(real: Any = 0, imag: Any = 0) -> Any:
    if not (is_traced(real) or is_traced(imag)):
        return complex(real, imag)
    parts = [weak(_scalar(p, "complex()"), _COMPLEX) for p in (real, imag)]
    whole = UFUNCS[np.add](parts[0].atom, UFUNCS[np.multiply](operand(1j), parts[1].atom))
    return weak(whole, _COMPLEX)


def _bool(value: Any = False) -> Any:
    return TracedArray(truth(value)) if is_undecided(value) else bool(value)


def as_numpy(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return ``cls(value)`` for a type of NumPy's scalars; of an array it makes an array."""
    if not any(map(contains_traced, args)):
        return cls(*args, **kwargs)
    (value,) = args
    if hasattr(value, "_tracejit_dim") and issubclass(cls, np.integer):
        return value
    atom = operand(value)
    if atom.dtype.kind == "c" and not atom.shape and issubclass(cls, np.integer | np.floating):
        raise TypeError(f"{cls.__name__}() argument must be a real number, not 'complex'")
    return TracedArray(atom).astype(cls)


NUMBER_TYPES: dict[Any, Callable[..., Any]] = {int: _int, float: _float, complex: _complex, bool: _bool}
"""Builtin type -> what a call of it goes to."""


# --- builtin functions --------------------------------------------------------------------------------------


def _extreme(name: str, compare: np.ufunc, whole: Any) -> Callable[..., Any]:
    original = getattr(builtins, name)

    def better(best: Any, other: Any) -> Any:
        if not (is_traced(best) or is_traced(other)):
            return original(best, other)
        pair = [operand(other), operand(best)]
        if any(a.shape for a in pair):
            return other if dispatch_compare(compare, other, best) else best
        dtype = np.result_type(*(a.promotion(0) if a.weak else a.dtype for a in (p.aval for p in pair)))  # type: ignore[operator]
        chosen = select(UFUNCS[compare](*pair), *(convert(a, dtype=dtype) for a in pair))
        return weak(chosen, dtype) if all(a.aval.weak for a in pair) else TracedArray(chosen)

    def door(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not args:
            return original(*args, **kwargs)
        if len(args) == 1:
            if type(args[0]) is TracedArray and args[0].ndim == 1:
                return dispatch(whole, args, {})
            args = tuple(args[0])
        return reduce(better, args) if any(map(is_traced, args)) else original(args)

    return door


def dispatch_compare(compare: np.ufunc, left: Any, right: Any) -> bool:
    """Return the truth of a comparison of arrays, which has to be one."""
    return bool(TracedArray(UFUNCS[compare](operand(left), operand(right))))


def _sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    if type(iterable) is TracedArray and iterable.ndim:
        return start + dispatch(np.sum, (iterable,), {"axis": 0})
    return sum(iterable, start)


def _round(number: Any, ndigits: Any = None) -> Any:
    if not is_traced(number) or hasattr(number, "_tracejit_dim"):
        return round(number, ndigits)
    if ndigits is not None:
        return dispatch(np.round, (number, ndigits), {})
    atom = _scalar(number, "round()")
    return weak(UFUNCS[np.rint](atom) if atom.dtype.kind == "f" else atom, _INT)


def _divmod(a: Any, b: Any) -> Any:
    return (a // b, a % b) if is_traced(a) or is_traced(b) else divmod(a, b)


def _quantified(original: Any, whole: Any) -> Callable[[Any], Any]:
    def door(iterable: Any) -> Any:
        if type(iterable) is TracedArray and iterable.ndim == 1:
            return _bool(dispatch(whole, (iterable,), {}))
        return original(iterable)

    return door


FUNCTIONS_OF_NUMBERS: dict[Any, Callable[..., Any]] = {
    all: _quantified(all, np.all),
    any: _quantified(any, np.any),
    divmod: _divmod,
    max: _extreme("max", np.greater, np.max),
    min: _extreme("min", np.less, np.min),
    round: _round,
    sum: _sum,
}
"""Builtin function -> what traced code gets instead."""


# --- math and cmath -----------------------------------------------------------------------------------------

_SAME = (
    "sin cos tan sinh cosh tanh exp expm1 log1p log2 log10 sqrt fabs fmod copysign degrees radians cbrt exp2"
)
_NAMED = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power,
}  # fmt: skip
_TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
_ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def _by_ufunc(original: Any, ufunc: np.ufunc, dtype: np.dtype[Any]) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        if not any(map(is_traced, args)):
            return original(*args)
        atoms = [convert(_scalar(a, original.__name__), dtype=dtype) for a in args]
        return weak(UFUNCS[ufunc](*atoms), dtype)

    return function


def _tested(original: Any, ufunc: np.ufunc) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return TracedArray(UFUNCS[ufunc](_scalar(x, original.__name__))) if is_traced(x) else original(x)

    return function


def _rounded(original: Any, ufunc: np.ufunc) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if not is_traced(x) or hasattr(x, "_tracejit_dim"):
            return original(x) if not is_traced(x) else x
        atom = _scalar(x, original.__name__)
        return weak(UFUNCS[ufunc](atom) if atom.dtype.kind == "f" else atom, _INT)

    return function


def _log(original: Any, dtype: np.dtype[Any]) -> Callable[..., Any]:
    natural = _by_ufunc(original, np.log, dtype)

    def log(x: Any, *base: Any) -> Any:
        if not base or not (is_traced(x) or is_traced(base[0])):
            return natural(x, *base) if not base else original(x, *base)
        return natural(x) / natural(*base)

    return log


def _hypot(*coordinates: Any) -> Any:
    if not any(map(is_traced, coordinates)):
        return math.hypot(*coordinates)
    pair = _by_ufunc(math.hypot, np.hypot, _FLOAT)
    return reduce(pair, coordinates) if len(coordinates) > 1 else abs(_float(*coordinates))


def _fsum(values: Iterable[Any]) -> Any:
    items = list(values)
    return _float(sum(items)) if any(map(is_traced, items)) else math.fsum(items)


def _functions(module: Any, dtype: np.dtype[Any], names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    found = {n: _by_ufunc(getattr(module, n), getattr(np, n), dtype) for n in names if hasattr(module, n)}
    found |= {n: _by_ufunc(getattr(module, n), f, dtype) for n, f in _NAMED.items() if hasattr(module, n)}
    found |= {n: _tested(getattr(module, n), f) for n, f in _TESTS.items()}
    found["log"] = _log(module.log, dtype)
    return found


def _phase(z: Any) -> Any:
    return weak(dispatch(np.angle, (z,), {}).atom, _FLOAT) if is_traced(z) else cmath.phase(z)


MODULES: dict[Any, dict[str, Callable[..., Any]]] = {
    math: _functions(math, _FLOAT, _SAME.split())
    | {n: _rounded(getattr(math, n), f) for n, f in _ROUNDINGS.items()}
    | {"hypot": _hypot, "fsum": _fsum},
    cmath: _functions(cmath, _COMPLEX, ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "sqrt", "log10"))
    | {"phase": _phase},
}
"""Module -> those of its functions that traced code gets another meaning of."""
