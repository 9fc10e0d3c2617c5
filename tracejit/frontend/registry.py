"""The NumPy functions that traced values understand: NumPy's function object -> its traced meaning.

A traced meaning takes the arguments as the user wrote them, traced values among them, turns operands into atoms with
`operand`, calls ops, and returns an atom (or a tuple, list or dict of them); the caller wraps them for the user.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from tracejit.errors import NonNumericError, UnsupportedError
from tracejit.ir.dims import Dim, Poly
from tracejit.ir.tape import Atom, Lit, Var, current
from tracejit.ops.base import as_atom

__all__ = [
    "FUNCTIONS",
    "UFUNCS",
    "Traced",
    "contains_traced",
    "implements",
    "implements_ufunc",
    "is_traced",
    "operand",
    "size",
    "sizes",
    "unsupported",
]

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""Functions that NumPy dispatches through ``__array_function__``."""

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
"""Ufuncs, called with positional operands only; ``out=``, ``where=``, ``dtype=`` are handled by the dispatcher."""


class Traced(Protocol):
    """What the user's code holds: anything with a current ``atom``."""

    @property
    def atom(self) -> Atom: ...


def implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the traced meaning of NumPy functions (same signature as NumPy's)."""

    def register(meaning: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = meaning
        return meaning

    return register


def implements_ufunc(ufunc: np.ufunc, meaning: Callable[..., Any]) -> None:
    """Register the traced meaning of a ufunc."""
    UFUNCS[ufunc] = meaning


def is_traced(value: Any) -> bool:
    """Return whether ``value`` is a traced value (not: whether it contains one)."""
    return getattr(type(value), "_tracejit_traced", False)


def operand(value: Any) -> Atom:
    """Return ``value`` as an operand: traced values, numbers, arrays, and nested lists or tuples of them."""
    if is_traced(value):
        return value.atom
    if isinstance(value, Var | Lit):
        return value
    if isinstance(value, list | tuple) and contains_traced(value):
        return _stack([operand(v) for v in value])
    if not isinstance(value, bool | int | float | complex):
        value = np.asarray(value)
        if value.dtype.kind not in "biufc":
            raise NonNumericError(
                f"An operand of dtype {value.dtype} is not made of numbers.",
                where=current().source(),
                hint="Convert it to a numeric dtype first, for example with `np.asarray(a, dtype=float)`.",
            )
    return as_atom(value)


def contains_traced(value: Any) -> bool:
    """Return whether ``value``, or an entry of nested lists and tuples, is traced."""
    if isinstance(value, list | tuple):
        return any(contains_traced(v) for v in value)
    return is_traced(value)


def _stack(rows: list[Atom]) -> Atom:
    stacked: Atom = FUNCTIONS[np.stack](rows)
    return stacked


def unsupported(what: str, hint: str) -> UnsupportedError:
    """Return the error for a NumPy function, or a form of one, that cannot be traced."""
    return UnsupportedError(f"{what} is not supported on traced values.", where=current().source(), hint=hint)


def size(value: Any) -> Dim:
    """Return a size argument: an int or an extent as it is, a symbolic size (``x.shape[0]``) as its polynomial."""
    if isinstance(value, Poly):
        return value
    dim = getattr(value, "_tracejit_dim", None)
    return operator.index(value) if dim is None else dim


def sizes(value: Any) -> tuple[Dim, ...]:
    """Return a shape argument, which may be a single size."""
    single = isinstance(value, np.ndarray) and not value.ndim  # an integer, perhaps a traced one
    several = isinstance(value, Iterable) and not hasattr(value, "_tracejit_dim") and not single
    return tuple(map(size, value)) if several else (size(value),)
