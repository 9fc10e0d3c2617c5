"""Sizes as user code sees them: ``x.shape[0]`` is an int that knows it can vary."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.dims import Dim, Poly
from tracejit.ir.tape import Atom, current
from tracejit.ops.reduction import size_of

__all__ = ["SymbolicSize", "set_handle", "user_shape", "user_size", "wrapped"]


class SymbolicSize:
    """An extent of a traced array.

    Arithmetic with ints stays symbolic; comparisons are answered from the traced call and guarded; everything that
    needs a plain int (``range(n)``, ``int(n)``, ``hash(n)``) gets one and ties the trace to this extent.
    """

    __slots__ = ("_tracejit_dim",)
    _tracejit_traced = True

    def __init__(self, dim: Poly) -> None:
        self._tracejit_dim = dim

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    @property
    def atom(self) -> Atom:
        """The extent as a traced integer."""
        result: Atom = size_of(self._tracejit_dim, weak=True)
        return result

    def __index__(self) -> int:
        return current().pin(self._tracejit_dim)

    __int__ = __index__
    __trunc__ = __index__

    def __float__(self) -> float:
        return float(operator.index(self))

    def __hash__(self) -> int:
        return hash(operator.index(self))

    def __bool__(self) -> bool:
        return not current().decide("==", self._tracejit_dim)

    def __repr__(self) -> str:
        return str(dims.hint(self._tracejit_dim))

    def __str__(self) -> str:
        return str(operator.index(self))

    def __format__(self, spec: str) -> str:
        return format(operator.index(self), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy and copy ask for protocols that ints do not have
            raise AttributeError(name)
        return getattr(operator.index(self), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute with the traced integer: ``np.sqrt(x.shape[0])``, ``weights / x.size``."""
        values = (wrapped(i.atom) if type(i) is SymbolicSize else i for i in inputs)
        return getattr(ufunc, method)(*values, **kwargs)

    def __neg__(self) -> Any:
        return user_size(-self._tracejit_dim)

    def __pos__(self) -> SymbolicSize:
        return self

    def __abs__(self) -> Any:
        return self if current().decide(">=", self._tracejit_dim) else -self


def user_size(dim: Dim) -> Any:
    """Return a size for user code: an int, or a symbolic size."""
    return dim if isinstance(dim, int) else SymbolicSize(dim)


def user_shape(shape: tuple[Dim, ...]) -> tuple[Any, ...]:
    """Return a shape for user code."""
    return tuple(map(user_size, shape))


def _arithmetic(
    on_sizes: Callable[[Any, Any], Any] | None, on_values: Callable[[Any, Any], Any], swap: bool
) -> Any:
    """Return a binary method: sizes and ints stay sizes, anything else is arithmetic on the traced integer."""

    def method(self: SymbolicSize, other: Any) -> Any:
        if isinstance(other, _NO_NUMBERS):
            return NotImplemented
        dim = None if on_sizes is None or type(other).__module__ == "numpy" else _dim_plain(other)
        if on_sizes is not None and dim is not None:
            pair = (dim, self._tracejit_dim) if swap else (self._tracejit_dim, dim)
            result = on_sizes(*pair)
            if result is not None:
                return user_size(result)
        value = wrapped(self.atom)
        return on_values(other, value) if swap else on_values(value, other)

    return method


def _comparison(on_sizes: Callable[[Dim, Dim], bool], on_values: Callable[[Any, Any], Any]) -> Any:
    """Return a comparison: with ints and sizes it is answered and guarded, else it is one of the traced integer."""

    def method(self: SymbolicSize, other: Any) -> Any:
        dim = int(other) if isinstance(other, np.integer) else _dim_plain(other)
        if dim is not None:
            return on_sizes(self._tracejit_dim, dim)
        if isinstance(other, float):
            return on_values(float(self), other)
        if isinstance(other, complex | np.ndarray | np.generic):  # traced arrays are ndarrays too
            return on_values(wrapped(self.atom), other)
        return NotImplemented

    return method


def _pinned(on_ints: Callable[[Any, Any], Any], swap: bool) -> Any:
    def method(self: SymbolicSize, other: Any) -> Any:
        own = operator.index(self)
        return on_ints(other, own) if swap else on_ints(own, other)

    return method


def _dim_plain(value: Any) -> Dim | None:
    """Return the dim of an int or symbolic size (not of a traced integer, which varies by value)."""
    if type(value) is SymbolicSize:
        return value._tracejit_dim
    return int(value) if type(value) in (int, bool) else None


def _floordiv(a: Dim, b: Dim) -> Dim | None:
    return a // b if isinstance(b, int) and b > 0 else None


def _mod(a: Dim, b: Dim) -> Dim | None:
    quotient = _floordiv(a, b)
    return None if quotient is None else a - quotient * b


def _pow(a: Dim, b: Dim) -> Dim | None:
    return dims.prod((a,) * b) if isinstance(b, int) and 0 <= b <= 8 else None


_NO_NUMBERS = (list, tuple, str, bytes, dict, set)
"""Types that ints do not compute with, except that sequences are repeated, which Python does by itself."""

_handle: list[Callable[[Atom], Any]] = []


def wrapped(atom: Atom) -> Any:
    """Return the user's handle of a traced integer."""
    return _handle[0](atom)


def set_handle(handle: Callable[[Atom], Any]) -> None:
    """State what makes the user's handle of a traced integer: `TracedArray`, which is built on this file."""
    _handle[:] = [handle]


for _name, _on_sizes, _on_values in [
    ("add", operator.add, operator.add),
    ("sub", operator.sub, operator.sub),
    ("mul", operator.mul, operator.mul),
    ("floordiv", _floordiv, operator.floordiv),
    ("mod", _mod, operator.mod),
    ("pow", _pow, operator.pow),
    ("truediv", None, operator.truediv),
]:
    setattr(SymbolicSize, f"__{_name}__", _arithmetic(_on_sizes, _on_values, False))
    setattr(SymbolicSize, f"__r{_name}__", _arithmetic(_on_sizes, _on_values, True))

for _name, _on_sizes, _on_values in [
    ("eq", lambda a, b: current().decide("==", a - b), operator.eq),
    ("ne", lambda a, b: not current().decide("==", a - b), operator.ne),
    ("ge", lambda a, b: current().decide(">=", a - b), operator.ge),
    ("gt", lambda a, b: current().decide(">=", a - b - 1), operator.gt),
    ("lt", lambda a, b: not current().decide(">=", a - b), operator.lt),
    ("le", lambda a, b: not current().decide(">=", a - b - 1), operator.le),
]:
    setattr(SymbolicSize, f"__{_name}__", _comparison(_on_sizes, _on_values))

for _name in ("and", "or", "xor", "lshift", "rshift", "divmod"):
    _on_ints = divmod if _name == "divmod" else getattr(operator, f"__{_name}__")
    setattr(SymbolicSize, f"__{_name}__", _pinned(_on_ints, False))
    setattr(SymbolicSize, f"__r{_name}__", _pinned(_on_ints, True))
