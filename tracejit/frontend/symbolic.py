"""Sizes as user code sees them: ``x.shape[0]`` is an int that knows it can vary."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

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
        result: Atom = size_of(self._tracejit_dim)
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
        return self != 0

    def __repr__(self) -> str:
        return str(dims.hint(self._tracejit_dim))

    def __format__(self, spec: str) -> str:
        return format(dims.hint(self._tracejit_dim), spec)

    def __neg__(self) -> Any:
        return user_size(-self._tracejit_dim)

    def __pos__(self) -> SymbolicSize:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __eq__(self, other: object) -> bool:
        return self._compare("==", other, False)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: Any) -> bool:
        return self._compare(">=", other, NotImplemented)

    def __gt__(self, other: Any) -> bool:
        return self._compare(">=", other, NotImplemented, 1)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def _compare(self, relation: str, other: Any, otherwise: Any, more: int = 0) -> Any:
        dim = _dim(other)
        if dim is None:
            if isinstance(other, float):
                return {"==": operator.eq, ">=": operator.gt if more else operator.ge}[relation](float(self), other)
            return otherwise
        return current().decide(relation, self._tracejit_dim - dim - more)


def _dim(value: Any) -> Dim | None:
    if type(value) is SymbolicSize:
        return value._tracejit_dim
    try:
        return operator.index(value)
    except TypeError:
        return None


def user_size(dim: Dim) -> Any:
    """Return a size for user code: an int, or a symbolic size."""
    return dim if isinstance(dim, int) else SymbolicSize(dim)


def user_shape(shape: tuple[Dim, ...]) -> tuple[Any, ...]:
    """Return a shape for user code."""
    return tuple(map(user_size, shape))


def _arithmetic(on_sizes: Callable[[Any, Any], Any] | None, on_values: Callable[[Any, Any], Any], swap: bool) -> Any:
    """Return a binary method: sizes and ints stay sizes, anything else is arithmetic on the traced integer."""

    def method(self: SymbolicSize, other: Any) -> Any:
        dim = None if on_sizes is None or type(other).__module__ == "numpy" else _dim_plain(other)
        if on_sizes is not None and dim is not None:
            pair = (dim, self._tracejit_dim) if swap else (self._tracejit_dim, dim)
            result = on_sizes(*pair)
            if result is not None:
                return user_size(result)
        value = wrapped(self.atom)
        return on_values(other, value) if swap else on_values(value, other)

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
