"""Containers of values: take a tree apart into its leaves, and build one of the same structure again.

Containers are tuples, lists, dicts, named tuples, dataclass instances, ordered dicts and default dicts;
everything else is a leaf, None too.  Only these very types count, with named tuples and dataclasses of any
class: a class of the user's that derives from ``dict`` or ``list`` may mean something else by its entries.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.errors import StructureError

__all__ = [
    "LEAF",
    "ORIGINAL",
    "TreeDef",
    "flatten",
    "is_container",
    "is_namedtuple",
    "original_class",
    "paths",
    "sorted_keys",
    "tree_map",
]

ORIGINAL = "_tracejit_original"
"""Attribute of a class that stands in for one of the user's while a function is traced: the user's class."""

Predicate = Callable[[Any], bool]

_MAPPINGS = (dict, OrderedDict, defaultdict)
# A dataclass that also is one of these has contents besides its fields.
_NOT_RECORDS = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    int,
    float,
    complex,
    str,
    bytes,
    np.ndarray,
    np.generic,
    BaseException,
)


def original_class(cls: type) -> type:
    """Return the user's class that ``cls`` stands in for; ``cls`` itself, if it stands for none."""
    found: type = vars(cls).get(ORIGINAL, cls)
    return found


def is_namedtuple(cls: type) -> bool:
    """Return whether ``cls`` is a class of named tuples."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _is_record(cls: type) -> bool:
    return (
        hasattr(cls, "__dataclass_fields__")
        and not issubclass(cls, _NOT_RECORDS)
        and not cls.__module__.startswith("tracejit.")
    )


def is_container(value: Any) -> bool:
    """Return whether ``value`` has leaves of its own."""
    cls = type(value)
    return cls in (tuple, list) or cls in _MAPPINGS or is_namedtuple(cls) or _is_record(cls)


def sorted_keys(mapping: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the keys in an order that does not depend on how the dict was filled, where they have one."""
    keys = tuple(mapping)
    try:
        return tuple(sorted(keys))  # type: ignore[type-var]
    except TypeError:
        pass  # keys of several types, perhaps: those of each type may still have an order
    try:
        return tuple(sorted(keys, key=lambda key: (type(key).__qualname__, key)))
    except TypeError:
        return keys


@dataclass(frozen=True)
class TreeDef:
    """The structure of a tree: what remains when the leaves are taken out.

    Structures are equal if trees of the one can stand for trees of the other, leaf by leaf; the order in
    which a dict was filled does not matter.

    Parameters
    ----------
    cls
        Type of the container; None for a leaf.
    keys
        Index, dict key or attribute name of each child.
    children
        Structure of each child.
    extra
        What else belongs to the container: the ``default_factory`` of a defaultdict.
    order
        Keys of a dict as it was filled; a rebuilt dict has this order.
    """

    cls: type | None
    keys: tuple[Hashable, ...] = ()
    children: tuple[TreeDef, ...] = ()
    extra: Any = None
    order: tuple[Hashable, ...] = field(default=(), compare=False)
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        size = 1 if self.cls is None else sum(child.size for child in self.children)
        object.__setattr__(self, "size", size)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build a tree of this structure from its leaves.

        Raises
        ------
        StructureError
            If there are not ``size`` leaves.
        """
        leaves = list(leaves)
        if len(leaves) != self.size:
            raise StructureError(f"{len(leaves)} leaves for a structure of {self.size}", detail=str(self))
        return _build(self, iter(leaves))

    def __str__(self) -> str:
        if self.cls is None:
            return "*"
        children = [str(child) for child in self.children]
        if self.cls is tuple:
            return f"({', '.join(children)}{',' * (len(children) == 1)})"
        if self.cls is list:
            return f"[{', '.join(children)}]"
        if self.cls in _MAPPINGS:
            items = ", ".join(f"{key!r}: {text}" for key, text in zip(self.keys, children, strict=True))
            return f"{{{items}}}" if self.cls is dict else f"{self.cls.__name__}({{{items}}})"
        fields = ", ".join(f"{key}={text}" for key, text in zip(self.keys, children, strict=True))
        return f"{self.cls.__name__}({fields})"


LEAF = TreeDef(None)


def flatten(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[Any], TreeDef]:
    """Take a tree apart.

    Parameters
    ----------
    tree
        Any value; one that is no container is a single leaf.
    is_leaf
        Says of a container that it counts as a leaf all the same.

    Returns
    -------
    leaves : list
    structure : TreeDef
        ``structure.unflatten(leaves)`` is a tree equal to the given one.

    Raises
    ------
    StructureError
        If a container contains itself.

    Examples
    --------
    >>> leaves, structure = flatten({"w": [1.0, 2.0], "b": None})
    >>> leaves
    [None, 1.0, 2.0]
    >>> print(structure)
    {'b': *, 'w': [*, *]}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, is_leaf, leaves, [])


def _flatten(value: Any, is_leaf: Predicate | None, leaves: list[Any], around: list[Any]) -> TreeDef:
    if not is_container(value) or (is_leaf is not None and is_leaf(value)):
        leaves.append(value)
        return LEAF
    if any(value is outer for outer in around):
        raise StructureError(
            f"a {type(value).__name__} contains itself",
            hint="Only trees of containers can be arguments and results: break the cycle.",
        )
    cls = original_class(type(value))
    keys, items, extra, order = _parts(value)
    around.append(value)
    children = tuple([_flatten(item, is_leaf, leaves, around) for item in items])
    around.pop()
    return TreeDef(cls, keys, children, extra, order)


def _parts(value: Any) -> tuple[tuple[Hashable, ...], Sequence[Any], object, tuple[Hashable, ...]]:
    """Return the keys and children of a container, and what else it takes to rebuild it."""
    if isinstance(value, dict):
        keys = sorted_keys(value)
        return keys, [value[key] for key in keys], getattr(value, "default_factory", None), tuple(value)
    if isinstance(value, tuple):
        return getattr(value, "_fields", tuple(range(len(value)))), value, None, ()
    if isinstance(value, list):
        return tuple(range(len(value))), value, None, ()
    names = _attribute_names(value)
    return names, [getattr(value, name) for name in names], None, ()


def _attribute_names(value: Any) -> tuple[str, ...]:
    """Fields that are set, then attributes that are no fields (``__post_init__`` may have made some)."""
    names = [entry.name for entry in dataclasses.fields(value) if hasattr(value, entry.name)]
    return tuple(dict.fromkeys([*names, *getattr(value, "__dict__", ())]))


def _build(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build one tree, taking leaves from the front of an iterator."""
    cls = structure.cls
    if cls is None:
        return next(iter(leaves))
    children = [_build(child, leaves) for child in structure.children]
    if cls is list:
        return children
    if cls in _MAPPINGS:
        found = dict(zip(structure.keys, children, strict=True))
        mapping: dict[Any, Any] = defaultdict(structure.extra) if cls is defaultdict else cls()
        mapping.update((key, found[key]) for key in structure.order)
        return mapping
    if issubclass(cls, tuple):
        return tuple.__new__(cls, children)
    made = object.__new__(cls)
    for name, child in zip(structure.keys, children, strict=True):
        object.__setattr__(made, name, child)  # type: ignore[arg-type]
    return made


def step(structure: TreeDef, key: Hashable) -> str:
    """Return how a reader of Python writes the way from a container to one of its children."""
    cls = structure.cls
    by_index = cls in (tuple, list) or cls in _MAPPINGS
    return f"[{key!r}]" if by_index else f".{key}"


def paths(structure: TreeDef, prefix: str = "") -> list[str]:
    """Return, for each leaf, how a user would write it.

    Examples
    --------
    >>> paths(flatten({"layers": [1.0, (2.0,)]})[1], "p")
    ["p['layers'][0]", "p['layers'][1][0]"]
    """
    if structure.cls is None:
        return [prefix]
    pairs = zip(structure.keys, structure.children, strict=True)
    return [path for key, child in pairs for path in paths(child, prefix + step(structure, key))]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any, is_leaf: Predicate | None = None) -> Any:
    """Apply a function to corresponding leaves of trees of one structure; the result has that structure too.

    Raises
    ------
    StructureError
        If the structures differ; the message names the first place where they do.

    Examples
    --------
    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"y": (20, 30), "x": 10})
    {'x': 11, 'y': (22, 33)}
    """
    leaves, structure = flatten(tree, is_leaf)
    columns = [leaves]
    for number, other in enumerate(others, start=2):
        column, found = flatten(other, is_leaf)
        if found != structure:
            raise _mismatch(structure, found, number)
        columns.append(column)
    return structure.unflatten([function(*row) for row in zip(*columns, strict=True)])


def _mismatch(expected: TreeDef, found: TreeDef, number: int) -> StructureError:
    path, left, right = difference(expected, found)
    return StructureError(
        f"trees of different structure: at {path or 'the top'}, "
        f"the first has {left} and number {number} has {right}",
        detail=f"first:    {expected}\n  number {number}: {found}",
        hint="Give every tree the same containers, with the same keys and lengths.",
    )


def difference(left: TreeDef, right: TreeDef, path: str = "") -> tuple[str, str, str]:
    """Return where two unequal structures differ first, and what stands there in each."""
    if (left.cls, left.keys, left.extra) != (right.cls, right.keys, right.extra):
        return path, _describe(left), _describe(right)
    for key, one, two in zip(left.keys, left.children, right.children, strict=True):
        if one != two:
            return difference(one, two, path + step(left, key))
    return path, str(left), str(right)


def _describe(structure: TreeDef) -> str:
    if structure.cls is None:
        return "a leaf"
    if structure.cls in (tuple, list):
        return f"a {structure.cls.__name__} of {len(structure.keys)}"
    keys = ", ".join(str(key) for key in structure.keys) or "nothing"
    return f"a {structure.cls.__name__} of {keys}"
