"""What goes from one iteration to the next, or out of a branch: leaves of places, contents of handles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import CellType
from typing import Any

import numpy as np

from tracejit.frontend.places import Place
from tracejit.frontend.pytree import LEAF, TreeDef, flatten
from tracejit.frontend.regions import Log, RegionFailed
from tracejit.frontend.registry import is_traced, operand
from tracejit.frontend.tracer import TracedArray
from tracejit.frontend.values import MISSING, same
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, Eqn
from tracejit.ops.broadcasting import convert, full

__all__ = [
    "Carry", "State", "Static", "alike", "arrays_in", "fitted", "grows", "merged", "of_handle", "of_place",
    "path_of", "refuse_alias", "root_of", "split", "unset",
]  # fmt: skip


class State(dict[str, Any]):
    """What a door itself keeps from one iteration to the next; entries may be added on the way."""


@dataclass(frozen=True)
class Static:
    """A leaf that is no number."""

    value: Any


def split(value: Any) -> tuple[list[Any], TreeDef]:
    """Return the leaves of a value, numbers as they are, anything else as `Static`, and the structure."""
    leaves, tree = flatten(value)
    return [leaf if _is_number(leaf) else Static(leaf) for leaf in leaves], tree


def _is_number(leaf: Any) -> bool:
    if is_traced(leaf):
        return True
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, bool | int | float | complex)


def merged(left: Aval, right: Aval) -> Aval:
    """Return the aval that holds values of both, by NumPy's promotion."""
    if left.shape != right.shape:
        raise RegionFailed(f"a value changes its shape from {left} to {right}")
    if left.weak and right.weak:
        return replace(left, dtype=np.result_type(left.dtype, right.dtype))
    return Aval(left.shape, np.result_type(_sample(left), _sample(right)))


def _sample(aval: Aval) -> Any:
    return aval.promotion(0) if aval.weak else aval.dtype  # type: ignore[operator]


@dataclass(eq=False)
class Carry:
    """A place, or a handle that is written into, whose contents go from one iteration to the next.

    Attributes
    ----------
    place : Place or None
    handle : TracedArray or None
    leaves : list
        What is there before, or after the first iteration if nothing is: numbers and `Static`.
    tree : TreeDef
    avals : list of Aval
        Of the numbers, wide enough for what every iteration leaves there.
    created : bool
        Nothing is there before the first iteration.
    shared : bool
        Somebody else holds the object too.
    """

    place: Place | None
    handle: Any
    leaves: list[Any]
    tree: TreeDef
    avals: list[Aval]
    created: bool = False
    shared: bool = False

    def initial(self) -> list[Atom]:
        """Append what goes into the first iteration."""
        if self.created:
            return [unset(a) for a in self.avals]
        return [fitted(operand(leaf), a) for leaf, a in zip(self.numbers(), self.avals, strict=True)]

    def numbers(self) -> list[Any]:
        return [leaf for leaf in self.leaves if not isinstance(leaf, Static)]

    def rebuilt(self, values: Iterable[Any], leaves: Sequence[Any]) -> Any:
        """Return the value with its numbers replaced."""
        new = iter(values)
        return self.tree.unflatten([leaf.value if isinstance(leaf, Static) else next(new) for leaf in leaves])


def unset(aval: Aval) -> Atom:
    """Return what stands for a variable that has no value yet: NaN where there is one."""
    return full(np.nan if aval.inexact else 0, aval.shape, aval.dtype)


def fitted(atom: Atom, aval: Aval) -> Atom:
    """Return ``atom`` in the dtype of ``aval``."""
    return atom if atom.dtype == aval.dtype else convert(atom, dtype=aval.dtype)


def alike(leaf: Any, before: Any) -> bool:
    """Return whether two leaves are the same where they are no numbers."""
    if not isinstance(leaf, Static):
        return True
    return leaf.value is before.value or _same_constant(leaf.value, before.value)


def _same_constant(left: Any, right: Any) -> bool:
    return (
        type(left) is type(right) and isinstance(left, str | bytes | tuple | type(None)) and same(left, right)
    )


def of_place(place: Place, atoms: list[Any], tree: TreeDef) -> Carry:
    if place.new is MISSING:
        raise RegionFailed(f"{place.path} is deleted")
    if place.old is MISSING:
        if not isinstance(place.container.owner, CellType | State):
            raise RegionFailed(f"{place.path} is added")
        return Carry(
            place, None, atoms, tree, [a.aval for a in atoms if not isinstance(a, Static)], created=True
        )
    leaves, tree = split(place.old)
    if all(isinstance(leaf, Static) for leaf in leaves):
        raise RegionFailed(f"{place.path} changes from {_short(place.old)} to {_short(place.new)}")
    return Carry(place, None, leaves, tree, [])


def of_handle(handle: Any) -> Carry:
    return Carry(None, handle, [handle], LEAF, [operand(handle).aval])


def root_of(handle: Any) -> Any:
    while handle._base is not None:
        handle = handle._base
    return handle


def arrays_in(value: Any) -> list[Any]:
    """Return the traced arrays among the leaves of a value."""
    return [v for v in split(value)[0] if type(v) is TracedArray and v.ndim]


def refuse_alias(path: str, arrays: Iterable[Any], log: Log) -> None:
    """Raise if an array was made before, or is a view: afterwards it would be one of its own."""
    if any(root_of(v)._born < log.serial or v._base is not None for v in arrays):
        raise RegionFailed(f"{path} becomes another name of an array, or a view of one")


_GROWING = frozenset({"mul", "power", "left_shift"})


def grows(eqns: Sequence[Eqn], starts: set[Any], ends: set[Any]) -> bool:
    """Return whether a product leads from one of ``starts`` to one of ``ends``."""
    later: dict[Any, bool] = dict.fromkeys(starts, False)
    for eqn in eqns:
        origins = [later[a] for a in eqn.operands if a in later]
        if origins:
            later.update(dict.fromkeys(eqn.results, any(origins) or eqn.op.name in _GROWING))
    return any(later.get(end, False) for end in ends)


def path_of(carry: Carry) -> str:
    return carry.place.path if carry.place is not None else "an array"


def _short(value: Any) -> str:
    return type(value).__name__ if not isinstance(value, str | bool | type(None)) else repr(value)
