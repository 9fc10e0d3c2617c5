"""What the public functions have in common: the function that they make, decorators, ``argnums``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from tracejit.errors import ArgnumsError
from tracejit.ir.source import here
from tracejit.lowered import Lowered
from tracejit.pipeline import Transform, call_planned, entry_for
from tracejit.runtime.dispatch import Plans
from tracejit.tracebacks import boundary, hide_own_frames

__all__ = ["Argnums", "Function", "Transformed", "decorator", "number", "numbers"]

Function = Callable[..., Any]
Argnums = int | Sequence[int]


class Transformed:
    """A function made from another one: call it, or look at its compiled form with `lower`."""

    def __init__(self, function: Function, transform: Transform) -> None:
        functools.update_wrapper(self, function)
        self._function, self._transform = function, transform
        self._plans = Plans()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return call_planned(self._function, self._transform, self._plans, args, kwargs)
        except BaseException as error:
            hide_own_frames(error)
            raise

    @boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the compiled object for arguments of these shapes and dtypes; nothing is computed.

        Returns
        -------
        Lowered
            With ``source``, ``forward_tape``, ``backward_tape``, ``memory``, ``njit``; callable like this function.
        """
        entry, sizes = entry_for(self._function, self._transform, args, kwargs)
        return Lowered(entry, sizes, self._function, self._transform)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Let a decorated method be called on its object; ``argnums`` does not count ``self``."""
        if instance is None:
            return self
        return Transformed(MethodType(self._function, instance), self._transform)

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", repr(self._function))
        return f"<tracejit {self._transform.key[0]} of {name}>"


def decorator(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``make(f, **options)`` be written ``@make`` and ``@make(**options)`` too."""

    @functools.wraps(make)
    @boundary
    def decorate(function: Function | None = None, *args: Any, **options: Any) -> Any:
        if function is None:
            return lambda f: make(f, *args, **options)
        if not callable(function):
            raise TypeError(f"tracejit.{make.__name__} takes a function, not {type(function).__name__}.")
        return make(function, *args, **options)

    return decorate


def numbers(argnums: Argnums) -> int | tuple[int, ...]:
    """Return ``argnums`` as an int or a tuple of ints."""
    many = isinstance(argnums, Iterable) and not isinstance(argnums, str)
    return tuple(map(number, argnums)) if many else number(argnums)  # type: ignore[arg-type]


def number(argnum: object) -> int:
    """Return the number of one argument as an int."""
    if isinstance(argnum, bool) or not isinstance(argnum, int | np.integer):
        raise ArgnumsError(
            f"argnums must be an int or a sequence of ints, not {argnum!r}.",
            where=here(),
            hint="It names arguments by position: 0 is the first, -1 the last, (0, 2) first and third.",
        )
    return int(argnum)
