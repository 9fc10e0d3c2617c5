"""The places that code can store into: variables, attributes, entries of containers; compared before and
after.

A `Snapshot` walks over everything that a body can reach through its variables, and notes what lies where.
After the
body has run, what differs is what it stored; and all of it can be put back.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from tracejit.frontend.regions import Handle, RegionFailed
from tracejit.frontend.registry import is_traced
from tracejit.frontend.shadow import ShadowGlobals
from tracejit.frontend.shadow_classes import slots_of
from tracejit.frontend.shadow_instances import own_dict
from tracejit.frontend.values import HEAP_TYPE, MISSING, changes_unseen

__all__ = ["Place", "Snapshot"]

Key = tuple[int, Any]
Items = dict[Any, Any]


@dataclass(frozen=True, eq=False)
class _Container:
    """An object with places in it."""

    owner: Any
    path: str
    items: Callable[[], Items]
    store: Callable[[Any, Any], None]
    remove: Callable[[Any], None]
    presented: Callable[[Any, Any], Any] = lambda key, otherwise: (
        otherwise
    )  # what it was when it was first read


class Place(NamedTuple):
    """One place, with what lay there before and what lies there now (`MISSING` for nothing)."""

    container: _Container
    key: Any
    old: Any
    new: Any
    shared: bool = True  # somebody else holds the object that lies here

    @property
    def id(self) -> Key:
        return id(self.container.owner), self.key

    @property
    def path(self) -> str:
        if isinstance(self.container.owner, CellType):
            return self.container.path
        text = f"[{self.key!r}]" if isinstance(self.container.owner, dict | list | deque) else f".{self.key}"
        return self.container.path + text

    def put(self, value: Any) -> None:
        """Store ``value`` here."""
        if value is MISSING:
            self.container.remove(self.key)
        else:
            self.container.store(self.key, value)


class Snapshot:
    """What lies in the places that some functions can reach.

    Parameters
    ----------
    roots : iterable
        Bodies of doors, whose variables are cells, and whatever else is to be looked into.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        roots = list(roots)
        self._containers: dict[int, tuple[_Container, Items]] = {}
        self._unshared: set[Key] = set()
        self._arrays: list[tuple[Any, Any]] = []
        self._visited: dict[int, Any] = {}
        self._roots = [(f, "") for f in roots if f is not None]
        self._environment = _environment_of(roots)
        self._walk(list(self._roots))
        self._known = len(self._environment._tracked) if self._environment else 0

    def _new(self) -> Iterator[tuple[_Container, Items]]:
        """Yield the containers that came into sight meanwhile, and what they held then."""
        for place in self._environment._tracked[self._known :] if self._environment else ():
            made = self._environment.made_for(place.owner)
            container = None if made is None else _container(made, place.path(""), self._environment)
            if container is not None and id(made) not in self._containers:
                yield (
                    container,
                    dict.fromkeys((None,), *place.seen.values())
                    if isinstance(made, CellType)
                    else place.seen,
                )

    def renewed(self) -> bool:
        """Look again if there is more to see than before; return whether there is."""
        if not self._environment or len(self._environment._tracked) == self._known:
            return False
        self._containers, self._unshared, self._arrays, self._visited = {}, set(), [], {}
        self._walk(list(self._roots))
        self._known = len(self._environment._tracked)
        return True

    def named(self) -> Iterator[Place]:
        """Yield every place as it is before."""
        for container, items in self._containers.values():
            for key, item in items.items():
                yield Place(container, key, item, item, (id(container.owner), key) not in self._unshared)

    def changes(self) -> list[Place]:
        """Return the places where something else lies now."""
        found = []
        for container, old in self._containers.values():
            new = container.items()
            for key in {**old, **new}:
                before, after = old.get(key, MISSING), new.get(key, MISSING)
                if before is MISSING:
                    before = container.presented(key, MISSING)
                if before is not after:
                    shared = (id(container.owner), key) not in self._unshared
                    found.append(Place(container, key, before, after, shared))
        for array, copy in self._arrays:
            if not np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc"):
                raise RegionFailed("it writes into a plain ndarray")
        return found

    def place(self, key: Key) -> Place | None:
        """Return the place of this id as it is now."""
        if key[0] not in self._containers:
            return None
        container, old = self._containers[key[0]]
        return Place(container, key[1], old.get(key[1], MISSING), container.items().get(key[1], MISSING))

    def restore(self) -> None:
        """Put everything back."""
        for place in self._all_changes():
            place.put(place.old)
        for container, seen in list(self._new()):
            for key, item in container.items().items():
                if item is not (old := seen.get(key, MISSING)):
                    Place(container, key, old, item).put(old)
        for array, copy in self._arrays:
            array[...] = copy

    def _all_changes(self) -> list[Place]:
        arrays, self._arrays = self._arrays, []
        try:
            return self.changes()
        finally:
            self._arrays = arrays

    # --- walking --------------------------------------------------------------------------------------------

    def _walk(self, stack: list[tuple[Any, str]]) -> None:
        while stack:
            value, path = stack.pop()
            if (
                is_traced(value)
                or issubclass(type(value), Handle)
                or id(value) in self._visited
                or isinstance(value, _PLAIN)
            ):
                continue
            self._visited[id(value)] = value
            stack.extend(self._inside(value, path))

    def _inside(self, value: Any, path: str) -> Iterator[tuple[Any, str]]:
        if isinstance(value, FunctionType):
            yield from _of_function(value, path)
        elif isinstance(value, MethodType):
            yield from ((value.__self__, path), (value.__func__, path))
        elif isinstance(value, partial):
            yield from ((v, path) for v in (value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, tuple | frozenset):
            yield from ((item, f"{path}[{i}]") for i, item in enumerate(value))
        elif isinstance(value, np.ndarray):
            self._arrays.append((value, value.copy()))
        else:
            container = _container(value, path, self._environment)
            if container is not None:
                yield from self._enter(container)
            elif changes_unseen(value):
                raise RegionFailed(
                    f"{path or 'a variable'} is a {type(value).__name__}, which may change unseen"
                )

    def _enter(self, container: _Container) -> Iterator[tuple[Any, str]]:
        self._unshared.update((id(container.owner), key) for key in _unshared(container.owner))
        items = container.items()
        self._containers[id(container.owner)] = container, items
        for key, item in items.items():
            yield item, Place(container, key, item, item).path


_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    bool,
    type(None),
    np.generic,
    np.dtype,
    range,
    slice,
    type,
    np.ufunc,
)


def _environment_of(roots: Iterable[Any]) -> Any:
    names = (f.__globals__ for f in roots if isinstance(f, FunctionType))
    return next((n.environment for n in names if isinstance(n, ShadowGlobals)), None)


def _of_function(function: FunctionType, path: str) -> Iterator[tuple[Any, str]]:
    if not isinstance(function.__globals__, ShadowGlobals) and "_tj_for" not in function.__globals__:
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield cell, name
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((value, path) for value in defaults)
    if isinstance(function.__globals__, ShadowGlobals):
        yield function.__globals__, "globals"


def _container(value: Any, path: str, environment: Any) -> _Container | None:
    if isinstance(value, CellType):
        return _Container(
            value, path, partial(_contents, value), partial(_fill, value), partial(_empty, value)
        )
    if isinstance(value, ShadowGlobals):
        return _Container(
            value, "global", value.written, value.__setitem__, value.__delitem__, value.seen.get
        )
    if isinstance(value, dict):
        return _Container(
            value,
            path,
            partial(dict, value),
            partial(dict.__setitem__, value),
            partial(dict.__delitem__, value),
        )
    if isinstance(value, list | deque):
        return _Container(
            value,
            path,
            lambda: dict(enumerate(value)),
            partial(_store_item, value),
            partial(_drop_item, value),
        )
    if isinstance(value, set):
        return _Container(
            value, path, lambda: dict.fromkeys(value, True), lambda k, v: value.add(k), value.discard
        )
    if type(value).__flags__ & HEAP_TYPE and not type(value).__module__.startswith(("tracejit", "numpy")):
        return _instance(value, path, environment)
    return None


def _instance(value: Any, path: str, environment: Any) -> _Container | None:
    slots = dict(slots_of(type(value).__mro__))
    entries = own_dict(value)
    if not slots and not hasattr(type(value), "__dict__"):
        return None

    def items() -> Items:
        found = dict(entries)
        for name, slot in slots.items():
            try:
                found[name] = slot.__get__(value)
            except AttributeError:
                continue
        return found

    def store(name: str, new: Any) -> None:
        if name in slots:
            slots[name].__set__(value, new)
        else:
            entries[name] = new

    def remove(name: str) -> None:
        if name in slots:
            slots[name].__delete__(value)
        else:
            entries.pop(name, None)

    return _Container(value, path, items, store, remove, _seen_of(value, environment))


def _seen_of(value: Any, environment: Any) -> Callable[[Any, Any], Any]:
    """Return how to look up what was presented of an instance; attributes are fetched when they are read."""
    known = None if environment is None else environment.instances.get(id(value))
    return (lambda key, otherwise: otherwise) if known is None else known.seen.get


def _contents(cell: CellType) -> Items:
    try:
        return {None: cell.cell_contents}
    except ValueError:
        return {}


def _fill(cell: CellType, key: None, value: Any) -> None:
    cell.cell_contents = value


def _empty(cell: CellType, key: None) -> None:
    with contextlib.suppress(ValueError):
        del cell.cell_contents


def _unshared(owner: Any) -> list[Any]:
    """Return the keys of the objects that only ``owner`` holds (one reference, and that of the call)."""
    if isinstance(owner, CellType):
        return [None] if _contents(owner) and sys.getrefcount(owner.cell_contents) <= 2 else []
    if type(owner) in (list, dict):
        keys = range(len(owner)) if isinstance(owner, list) else list(owner)
        return [key for key in keys if sys.getrefcount(owner[key]) <= 2]
    return []


def _store_item(value: Any, key: int, item: Any) -> None:
    if key < len(value):
        value[key] = item
    else:
        value.append(item)


def _drop_item(value: Any, key: int) -> None:
    while len(value) > key:
        value.pop()
