"""NumPy functions that write into an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.indexing import fit
from tracejit.frontend.registry import FUNCTIONS, implements, is_traced, operand, unsupported
from tracejit.ir.tape import Atom
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import select

__all__: list[str] = []


def _target(a: Any, what: str) -> Any:
    """Return the handle to write into."""
    if not is_traced(a) or not hasattr(a, "_assign"):
        raise unsupported(
            f"`np.{what}` into a plain ndarray",
            "Make the array inside the traced function (`np.zeros(...)`).",
        )
    return a


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target, value = _target(dst, "copyto"), operand(src)
    if not value.aval.weak and not np.can_cast(value.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {value.dtype!r} to {target.dtype!r} "
            f"according to the rule '{casting}'"
        )
    target._assign(value if where is True else _chosen(target, operand(where), value))


def _chosen(target: Any, mask: Atom, value: Atom) -> Atom:
    old: Atom = target.atom
    new = fit(convert(value, dtype=old.dtype), old.shape)
    return select(fit(convert(mask, dtype=np.dtype(bool)), old.shape), new, old)


@implements(np.putmask)
def _putmask(a: Any, /, mask: Any, values: Any) -> None:
    target, value = _target(a, "putmask"), operand(values)
    if value.shape not in ((), target.atom.shape):
        raise unsupported(
            "`np.putmask` with values of another shape", "Write `a[mask] = value`, or `np.where`."
        )
    target._assign(_chosen(target, operand(mask), value))


@implements(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target, value = _target(a, "put"), operand(v)
    if mode != "raise":
        raise unsupported(f"`np.put` with mode={mode!r}", "Wrap or clip the indices first.")
    where = operand(ind)
    flat = FUNCTIONS[np.reshape](where, (-1,))
    if value.shape:
        value = FUNCTIONS[np.resize](value, flat.shape) if value.shape != flat.shape else value
    target.reshape(-1)[type(target)(flat) if is_traced(ind) else np.ravel(ind)] = type(target)(value)


@implements(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _target(a, "fill_diagonal")
    if target.ndim != 2 or wrap:
        raise unsupported(
            "`np.fill_diagonal` beyond matrices", "Write `a[i, i, i] = value` with `i = np.arange(n)`."
        )
    count = min(target.shape)
    places = np.arange(count)
    target[places, places] = val
