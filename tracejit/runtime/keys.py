"""Which calls share an entry: what compiled code depends on, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.frontend.trace import Static
from tracejit.ir.dims import SMALL
from tracejit.runtime.entry import layout_of, native

__all__ = ["owner_of", "signature_of"]


def owner_of(function: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the object that entries belong to: a bound method is made anew at each look-up, its object stays."""
    instance = getattr(function, "__self__", None)
    inner = getattr(function, "__func__", None)
    return (function, None) if inner is None else (instance, inner)


def signature_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return what compiled code depends on: dtypes, ranks, layouts, small extents, and which extents are equal."""
    seen: dict[int, str] = {}
    parts: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Static):
            parts.append(_static_key(leaf.value))
            continue
        if isinstance(leaf, np.ndarray):
            extents = tuple(d if d <= SMALL else seen.setdefault(d, f"s{len(seen)}") for d in leaf.shape)
            parts.append((leaf.dtype.char, extents, layout_of(native(leaf))))
        else:
            parts.append(leaf.dtype.char if isinstance(leaf, np.generic) else type(leaf))
    return tuple(parts)


class _Same:
    """Key of an unhashable static value: the object itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _static_key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value
