"""Containers as the user's code sees them while it is traced: copies whose entries are presented.

The type and the keys are guarded; entries are read anew on their own paths. A container of nothing but
constants is compared as a whole.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

from tracejit.frontend.pytree import is_namedtuple
from tracejit.frontend.reads import Origin, shape_test
from tracejit.frontend.shadow_classes import can_shadow
from tracejit.frontend.values import is_constant, is_numeric, same

if TYPE_CHECKING:
    from tracejit.frontend.environment import Environment

__all__ = ["is_copied", "shadow_container"]

_SETS = (set, frozenset)
_COPIED = (tuple, list, dict, OrderedDict, defaultdict, deque, *_SETS)


def is_copied(value: Any) -> bool:
    """Return whether ``value`` is a container of exactly a known type, or a named tuple."""
    return type(value) in _COPIED or is_namedtuple(type(value))


def shadow_container(environment: Environment, value: Any, origin: Origin) -> Any:
    """Return a copy of a container with presented entries, and record what is guarded."""
    if isinstance(value, tuple):
        return _tuple(environment, value, origin)
    made = copy.copy(value)  # of the same type, length limit and default factory
    if made is not value:  # a frozenset
        environment.remember(value, made, origin)
    if type(value) in _SETS:
        _set(environment, value, origin)
    elif isinstance(value, dict):
        _dict(environment, value, made, origin)
    else:
        _sequence(environment, value, made, origin)
    environment.track(lambda key: f"{origin.text}[{key!r}]", value, lambda: _entries(made))
    return made


def _entries(value: Any) -> dict[Any, Any]:
    if isinstance(value, dict):
        return dict(value)
    return dict.fromkeys(value) if type(value) in _SETS else dict(enumerate(value))


def _tuple(environment: Environment, value: tuple[Any, ...], origin: Origin) -> Any:
    environment.reads.guard(origin, value, shape_test(value))
    items = [environment.present(item, origin.item(index)) for index, item in enumerate(value)]
    cls = type(value)
    return tuple.__new__(environment.shadow_class(cls) if can_shadow(cls) else cls, items)


def _set(environment: Environment, value: Any, origin: Origin) -> None:
    record = environment.reads.structure if isinstance(value, set) else environment.reads.guard
    record(origin, value, partial(same, copy.copy(value)))
    if not all(is_constant(item) or is_numeric(item) for item in value):
        environment.reads.opaque[origin.path] = type(value).__name__


def _sequence(environment: Environment, value: Any, made: Any, origin: Origin) -> None:
    if all(map(is_constant, value)):
        environment.reads.structure(origin, value, partial(same, copy.copy(value)))
        return
    environment.reads.structure(origin, value, shape_test(value))
    for index, item in enumerate(value):
        made[index] = environment.present(item, origin.item(index))


def _dict(environment: Environment, value: dict[Any, Any], made: dict[Any, Any], origin: Origin) -> None:
    if isinstance(made, defaultdict) and made.default_factory is not None:
        made.default_factory = environment.present(made.default_factory, origin.attribute("default_factory"))
    if type(value) is dict and all(map(is_constant, value.values())) and all(map(is_constant, value)):
        environment.reads.structure(origin, value, partial(same, dict(value)))
        return
    environment.reads.structure(origin, value, shape_test(value))
    made.clear()
    for key, item in value.items():
        made[_key(environment, key, origin)] = environment.present(item, origin.item(key))


def _key(environment: Environment, key: Any, origin: Origin) -> Any:
    """The user's code looks a function, class or object up by the shadow that it knows."""
    if is_constant(key) or is_numeric(key):
        return key
    return environment.present(key, Origin.constant(f"a key of {origin.text}", key))
