"""What traced code gets instead of functions that Python or NumPy do not dispatch on traced values.

Seen only through the shadow environment of a traced function: nothing is patched, other threads and other code keep the
originals.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tracejit.frontend.numpy_api import CREATORS
from tracejit.frontend.registry import is_traced
from tracejit.frontend.tracer import TracedArray, wrap
from tracejit.ir.tape import Atom

__all__ = ["replacements"]


class _ShadowModule(ModuleType):
    """A module with some attributes replaced; everything else is looked up in the original."""

    def __init__(self, original: ModuleType, replaced: Mapping[str, Any]) -> None:
        super().__init__(original.__name__, original.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __dir__(self) -> list[str]:
        return dir(self._original)


def _creator(original: Any, meaning: Any) -> Any:
    @functools.wraps(original, updated=())
    def create(*args: Any, **kwargs: Any) -> Any:
        result = meaning(*args, **kwargs)
        return wrap(result) if isinstance(result, Atom | tuple | list) else result

    return create


def _length(value: Any) -> Any:
    """Return ``len(value)``, symbolic for traced arrays."""
    return value.shape[0] if is_traced(value) and type(value) is TracedArray and value.ndim else len(value)


@functools.cache
def replacements() -> dict[int, Any]:
    """Return id of the original object -> its replacement in traced code."""
    created = {original: _creator(original, meaning) for original, meaning in CREATORS.items()}
    table: dict[int, Any] = {id(original): new for original, new in created.items()}
    names = {name: created[getattr(np, name)] for name in dir(np) if _hashable(getattr(np, name)) in created}
    table[id(np)] = _ShadowModule(np, names)
    table[id(len)] = _length
    return table


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value
