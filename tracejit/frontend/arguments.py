"""A call's arguments: matched to positions, flattened to leaves, sorted into numbers and static values."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracejit.errors import ArgnumsError, NonNumericError, StructureError
from tracejit.frontend.pytree import TreeDef, flatten, paths
from tracejit.frontend.registry import is_traced
from tracejit.frontend.trace import Static, is_numeric
from tracejit.ir.source import here

__all__ = ["Call", "Group", "arguments"]


@dataclass(frozen=True, slots=True)
class Group:
    """A differentiated argument.

    Attributes
    ----------
    tree : TreeDef
        Structure of the argument, and so of its gradient.
    leaves : tuple of (int or None)
        Numbers of its leaves among the dynamic leaves; None for leaves that are not numbers.
    name : str
    """

    tree: TreeDef
    leaves: tuple[int | None, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """What is the same for all calls of one signature.

    Attributes
    ----------
    tree : TreeDef
        Structure of ``(args, kwargs)``.
    names : tuple of str
        The user's name per leaf.
    groups : tuple of Group
        The differentiated arguments.
    single : bool
        ``argnums`` was an int, so that the gradient is not a tuple.
    zero_d : frozenset of int
        Numbers of the dynamic leaves that are 0-d arrays (not scalars).
    extra : int
        Trailing positional arguments that the function does not see: directions, cotangents.
    trailing : tuple of (int or None)
        Numbers of the leaves of these arguments.
    axes : tuple of (int or None)
        Per dynamic leaf the axis that the function does not see (`vmap`); empty if there is none.
    """

    tree: TreeDef
    names: tuple[str, ...]
    groups: tuple[Group, ...]
    single: bool
    zero_d: frozenset[int] = frozenset()
    extra: int = 0
    trailing: tuple[int | None, ...] = ()
    axes: tuple[int | None, ...] = ()

    @property
    def wrt(self) -> tuple[int, ...]:
        """Numbers of the differentiated dynamic leaves, in order."""
        return tuple(n for group in self.groups for n in group.leaves if n is not None)


def arguments(
    function: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    extra: int = 0,
    split: int | tuple[int | None, ...] | None = None,
) -> tuple[Call, list[Any]]:
    """Return the call and its leaves: `Static`, or numbers and arrays (differentiated ones are floating or complex)."""
    signature = _signature(function)
    seen = len(args) - extra
    positional, kwargs = _positional(signature, args[:seen], kwargs, -1 if extra else _most(argnums))
    args = (*positional, *args[seen:])
    leaves, tree = flatten((args, kwargs))
    single = argnums is None or isinstance(argnums, int)
    numbers = () if argnums is None else ((argnums,) if isinstance(argnums, int) else tuple(argnums))
    chosen = [_position(function, n, len(args)) for n in numbers]
    names = _names(signature, tree)
    starts = _starts(tree)
    differentiated = {i for n in chosen for i in range(starts[n], starts[n + 1])}
    sorted_leaves: list[Any] = []
    dynamic: dict[int, int] = {}
    for i, leaf in enumerate(leaves):
        if _is_dynamic(leaf, i in differentiated):
            dynamic[i] = len(dynamic)
            sorted_leaves.append(_differentiable(leaf) if i in differentiated else leaf)
        else:
            sorted_leaves.append(Static(leaf))
    groups = []
    for n in chosen:
        numbers_in = tuple(dynamic.get(i) for i in range(starts[n], starts[n + 1]))
        if all(number is None for number in numbers_in) and numbers_in:
            raise NonNumericError(
                f"Argument {names[starts[n]]!r} cannot be differentiated: it is a {type(args[n]).__name__}.",
                where=here(),
                hint="Differentiate a number, an array, or a container of them: choose it with `argnums`.",
            )
        groups.append(Group(tree.children[0].children[n], numbers_in, _argument_name(signature, n)))
    zero_d = frozenset(
        n for i, n in dynamic.items() if isinstance(leaves[i], np.ndarray) and not leaves[i].ndim
    )
    trailing = tuple(dynamic.get(i) for i in range(starts[len(args) - extra], starts[-1]))
    axes = () if split is None else _split_axes(split, tree, starts, leaves, dynamic)
    return Call(tree, names, tuple(groups), single, zero_d, extra, trailing, axes), sorted_leaves


def _split_axes(
    split: int | tuple[int | None, ...],
    tree: TreeDef,
    starts: Sequence[int],
    leaves: Sequence[Any],
    dynamic: Any,
) -> tuple[int | None, ...]:
    """Return the mapped axis of each dynamic leaf, checked."""
    count = len(starts) - 1
    per_argument = (split,) * count if isinstance(split, int) else split
    if len(per_argument) != count or tree.children[1].size:
        raise StructureError(
            f"in_axes has {len(per_argument)} entries for {count} positional arguments.",
            where=here(),
            hint="Give one entry per argument (None keeps it as it is), and pass all arguments by position.",
        )
    axes: dict[int, int | None] = {}
    for number, axis in enumerate(per_argument):
        for i in range(starts[number], starts[number + 1]):
            if i in dynamic:
                ndim = np.ndim(leaves[i]) if not is_traced(leaves[i]) else leaves[i].ndim
                axes[dynamic[i]] = (
                    None if axis is None else np.lib.array_utils.normalize_axis_index(axis, ndim)
                )
    if all(axis is None for axis in axes.values()):
        raise StructureError(
            "vmap needs at least one argument with an axis to map over.",
            where=here(),
            hint="Set an entry of `in_axes` to the number of an axis.",
        )
    return tuple(axes[n] for n in range(len(dynamic)))


def _is_dynamic(leaf: Any, differentiated: bool) -> bool:
    if isinstance(leaf, bool) and not is_traced(leaf):
        return differentiated
    return is_numeric(leaf)


def _differentiable(leaf: Any) -> Any:
    """Return ``leaf`` with integers and booleans promoted to float64."""
    if is_traced(leaf):
        return leaf if leaf.dtype.kind in "fc" else leaf.astype(np.float64)
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf if leaf.dtype.kind in "fc" else leaf.astype(np.float64)
    return leaf if isinstance(leaf, complex) else float(leaf)


def _most(argnums: int | Sequence[int] | None) -> int:
    if argnums is None:
        return -1
    return max((argnums,) if isinstance(argnums, int) else tuple(argnums), default=-1)


def _position(function: Callable[..., Any], number: int, count: int) -> int:
    if not -count <= number < count:
        name = getattr(function, "__name__", type(function).__name__)
        raise ArgnumsError(
            f"argnums={number} names no argument: `{name}` was called with {count} positional argument"
            f"{'' if count == 1 else 's'}.",
            where=here(),
            hint=f"Valid are 0 to {count - 1} (negative ones count from the end)." if count else "",
        )
    return number % count


# Weakly: a function that a fit makes anew in each iteration does not stay with its data.
_signatures: weakref.WeakKeyDictionary[Any, inspect.Signature | None] = weakref.WeakKeyDictionary()


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        if function in _signatures:
            return _signatures[function]
        found = _signatures[function] = _inspected(function)
    except TypeError:  # a callable that cannot be a key
        return _inspected(function)
    return found


def _inspected(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _positional(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any], most: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move keyword arguments to their positions; fill in defaults up to the last differentiated argument."""
    if signature is None or (not kwargs and most < len(args)):
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    positional = [
        p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    last = max((i for i, p in enumerate(positional) if p.name in bound.arguments), default=-1)
    gaps = any(p.name not in bound.arguments for p in positional[: last + 1])
    if gaps or most > last:
        bound.apply_defaults()
        bound.arguments.update({k: v for k, v in bound.arguments.items() if k in signature.parameters})
    return bound.args, bound.kwargs


def _starts(tree: TreeDef) -> list[int]:
    """Return the number of the first leaf of each positional argument (and where they end)."""
    starts = [0]
    for child in tree.children[0].children:
        starts.append(starts[-1] + child.size)
    return starts


def _argument_name(signature: inspect.Signature | None, number: int) -> str:
    if signature is not None:
        parameters = list(signature.parameters.values())
        if number < len(parameters) and parameters[number].kind is not inspect.Parameter.VAR_POSITIONAL:
            return parameters[number].name
        star = next((p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
        if star is not None:
            return f"{star.name}[{number - parameters.index(star)}]"
    return f"argument {number}"


def _names(signature: inspect.Signature | None, tree: TreeDef) -> tuple[str, ...]:
    positional, keyword = tree.children
    names: list[str] = []
    for number, child in enumerate(positional.children):
        names += paths(child, _argument_name(signature, number))
    for key, child in zip(keyword.keys, keyword.children, strict=True):
        names += paths(child, str(key))
    return tuple(names)
