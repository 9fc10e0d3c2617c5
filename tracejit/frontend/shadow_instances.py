"""Instances of the user's classes as the user's code sees them while it is traced.

The shadow of an instance is empty at first; an attribute is fetched from the user's object, presented
and kept when it is read. What the user's code stores stays in the shadow.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from tracejit.frontend.reads import Origin, shape_test
from tracejit.frontend.shadow_classes import CannotShadow, can_shadow, slots_of
from tracejit.frontend.values import HEAP_TYPE, MISSING

if TYPE_CHECKING:
    from tracejit.frontend.environment import Environment

__all__ = ["Instance", "own_dict", "shadow_instance"]

# Bases whose instances can be made empty; those with contents are filled in `_fill`.
_BLANK = (object, dict, list, tuple, OrderedDict, defaultdict, SimpleNamespace)

# Asking for one of these means asking for all attributes.
_WHOLE = frozenset({"__dict__", "__getstate__", "__reduce__", "__reduce_ex__"})


@dataclass(slots=True)
class Instance:
    """What is known of one shadow of an instance.

    Parameters
    ----------
    names
        Attributes of the real object, in its order.
    pending
        Those that were not read yet.
    absent
        Names that were asked for, and are none of its own attributes.
    """

    environment: Environment
    shadow: Any
    real: Any
    origin: Origin
    slots: dict[str, MemberDescriptorType]
    seen: dict[str, Any] = field(default_factory=dict)
    names: dict[str, None] = field(init=False)
    pending: set[str] = field(init=False)
    absent: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        slots = [name for name, slot in self.slots.items() if _slot_value(slot, self.real) is not MISSING]
        self.names = dict.fromkeys([*own_dict(self.real), *slots])
        self.pending = set(self.names)

    def own(self) -> dict[str, Any]:
        """Return the attributes that the shadow has by now."""
        found = dict(own_dict(self.shadow))
        for name, slot in self.slots.items():
            if (value := _slot_value(slot, self.shadow)) is not MISSING:
                found[name] = value
        return found

    def before_read(self, name: str) -> None:
        """Have the attribute in the shadow, if the real object has it."""
        if name in self.pending:
            self.load(name)
        elif name in _WHOLE:
            self.load_all()
        elif name not in self.names:
            self.absent.add(name)

    def load_all(self) -> None:
        """Have all attributes in the shadow, in the order in which the real object has them."""
        for name in self.names:
            if name in self.pending:
                self.load(name)

    def load(self, name: str) -> None:
        """Fetch an attribute, unless the user's code has stored one under this name before."""
        self.pending.discard(name)
        slot = self.slots.get(name)
        stored = (
            name in own_dict(self.shadow) if slot is None else _slot_value(slot, self.shadow) is not MISSING
        )
        if stored:
            return
        if slot is None:
            raw, origin = own_dict(self.real)[name], self.origin.entry(name)
        else:
            raw, origin = slot.__get__(self.real), self.origin.attribute(name)
        value = self.environment.present(raw, origin)
        self.seen[name] = value
        if slot is None:
            own_dict(self.shadow)[name] = value
        else:
            slot.__set__(self.shadow, value)

    def test(self) -> Callable[[Any], bool]:
        """Return the test whether another object would have shown the same kind of attributes."""
        cls, absent, slots = type(self.real), self.absent, self.slots

        def holds(new: Any) -> bool:
            return type(new) is cls and absent.isdisjoint(own_dict(new))

        def holds_with_slots(new: Any) -> bool:
            return holds(new) and all(
                _slot_value(slots[name], new) is MISSING for name in absent.intersection(slots)
            )

        def holds_with_contents(new: Any) -> bool:
            return holds_with_slots(new) and fits(new)

        if isinstance(self.real, (dict, list, tuple)):
            fits = shape_test(self.real)
            return holds_with_contents
        return holds_with_slots if slots else holds


_own_attribute = object.__getattribute__


def own_dict(value: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an object, without asking its class; empty for a class with slots only."""
    try:
        return _own_attribute(value, "__dict__")
    except AttributeError:
        return {}


def _slot_value(slot: MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def shadow_instance(environment: Environment, value: Any, origin: Origin) -> Any:
    """Build the shadow of an instance, and record that the object on this path has to stay one of its class.

    Raises
    ------
    CannotShadow
        If an empty instance of its class cannot be made.
    """
    cls = environment.shadow_class(type(value))
    base = next(parent for parent in type(value).__mro__ if not parent.__flags__ & HEAP_TYPE)
    made = _blank(environment, cls, base, value, origin)
    environment.remember(value, made, origin)
    entry = Instance(environment, made, value, origin, dict(slots_of(type(value).__mro__)))
    environment.track(lambda name: f"{origin.text}.{name}", value, entry.own, entry.seen)
    environment.instances[id(made)] = entry
    environment.reads.structure(origin, value, entry.test())
    _fill(environment, base, value, made, origin)
    if any("__getattribute__" in vars(parent) for parent in type(value).__mro__ if can_shadow(parent)):
        entry.load_all()  # its code may look for attributes behind our back
    return made


def _blank(environment: Environment, cls: type, base: type, value: Any, origin: Origin) -> Any:
    if base not in _BLANK:
        raise CannotShadow(f"instances of {base.__qualname__} have contents of their own")
    try:
        return base.__new__(cls, *([_items(environment, value, origin)] if base is tuple else []))
    except TypeError as error:
        raise CannotShadow(f"instances of {type(value).__qualname__}: {error}") from error


def _items(environment: Environment, value: Iterable[Any], origin: Origin) -> list[Any]:
    return [environment.present(item, origin.item(index)) for index, item in enumerate(value)]


def _fill(environment: Environment, base: Any, value: Any, made: Any, origin: Origin) -> None:
    """Present the contents of an instance of a class that derives from a container."""
    if isinstance(value, defaultdict):
        made.default_factory = environment.present(value.default_factory, origin.attribute("default_factory"))
    if isinstance(value, dict):
        for key, item in base.items(value):
            base.__setitem__(made, key, environment.present(item, origin.item(key)))
    elif isinstance(value, list):
        list.extend(made, _items(environment, list.__iter__(value), origin))
