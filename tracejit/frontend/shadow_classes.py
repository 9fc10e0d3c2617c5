"""Classes and their instances as the user's code sees them while it is traced.

A shadow of a class is rebuilt from its namespace, with methods that run in the shadow environment, and mirrors its
bases: the shadow of ``C(B)`` derives from the shadow of ``B``, so that ``super()`` stays among shadows.  The
user's classes come last in its method resolution order, behind ``object``, where nothing is ever looked up in them:
that makes ``isinstance`` and ``issubclass`` true, also for library code such as ``functools.singledispatch``.
They are not told of it (``__subclasses__()``, ``__init_subclass__`` and ``__set_name__`` notice nothing), except
classes with ``__slots__``, whose shadow must have the same layout and is a true subclass.

A shadow of an instance is empty at first; an attribute is fetched from the user's object, presented and kept when it
is read.  What the user's code stores stays in the shadow.
"""

from __future__ import annotations

import enum
import functools
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from tracejit.frontend.pytree import ORIGINAL, is_namedtuple
from tracejit.frontend.reads import Origin, shape_test
from tracejit.frontend.values import HEAP_TYPE, MISSING, is_user_class, is_user_function

if TYPE_CHECKING:
    from tracejit.frontend.environment import Environment

__all__ = ["CannotShadow", "Instance", "can_shadow", "shadow_class", "shadow_instance"]

_MRO = "_tracejit_mro"
_WRITTEN = "_tracejit_written"

# Bases whose instances can be made empty; those with contents are filled in `_fill`.
_BLANK = (object, dict, list, tuple, OrderedDict, defaultdict, types.SimpleNamespace)

# Made anew by type(), or of no use in a shadow.
_LEFT_OUT = frozenset({"__dict__", "__weakref__", "__slots__", "__abstractmethods__", "_abc_impl"})

# What a class statement has to find in the namespace, not later.
_AT_CREATION = ("__module__", "__qualname__", "__orig_bases__")

# Asking for one of these means asking for all attributes.
_WHOLE = frozenset({"__dict__", "__getstate__", "__reduce__", "__reduce_ex__"})


class CannotShadow(Exception):
    """Python cannot build a shadow of this class, or an empty instance of it; never leaves the environment."""


class ShadowMeta(type):
    """The metaclass of shadows; of those whose class has another one, it is the first base of their metaclass."""

    def mro(cls) -> list[type]:
        """Return the order that `shadow_class` left in the namespace."""
        order = vars(cls).get(_MRO)
        return super().mro() if order is None else [cls, *order]

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if _WRITTEN in vars(cls):
            vars(cls)[_WRITTEN][name] = value

    # Whatever is registered with, or hooked into, the user's class holds for the shadow.
    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or _is_original(isinstance, instance, cls)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return type.__subclasscheck__(cls, subclass) or _is_original(issubclass, subclass, cls)


def _is_original(check: Callable[[Any, type], bool], value: Any, cls: type) -> bool:
    original = vars(cls).get(ORIGINAL)
    return original is not None and check(value, original)


@functools.lru_cache(maxsize=64)
def _metaclass(meta: type) -> type[type]:
    """Return the metaclass of shadows of classes that have the metaclass ``meta``."""
    if meta is type:
        return ShadowMeta
    bases = [_metaclass(base) for base in meta.__bases__ if issubclass(base, type)]
    return type(f"Shadow{meta.__name__}", (*dict.fromkeys(bases), meta), {})


def can_shadow(cls: type) -> bool:
    """Return whether a class is the user's, and has code of its own that may read something.

    Enumerations and exceptions stay what they are: they are compared, and caught, by identity.
    """
    if isinstance(cls, ShadowMeta) or not is_user_class(cls) or issubclass(cls, (enum.Enum, BaseException, type)):
        return False
    return not is_namedtuple(cls) or any(map(_is_method, vars(cls).values()))


def _is_method(value: Any) -> bool:
    """Return whether an attribute of a named tuple was not generated."""
    value = getattr(value, "fget", getattr(value, "__func__", value))
    return is_user_function(value) and not value.__globals__["__name__"].startswith("namedtuple_")


def shadow_class(environment: Environment, cls: type) -> type:
    """Build the shadow of a user's class, or of a library's plain holder of attributes.

    Raises
    ------
    CannotShadow
        If Python cannot build such a class.
    """
    bases = tuple([environment.shadow_class(base) if can_shadow(base) else base for base in cls.__bases__])
    parents = cls.__mro__[1:] if can_shadow(cls) else cls.__mro__
    order = [environment.shadow_class(parent) if can_shadow(parent) else parent for parent in parents]
    behind = [parent for parent in cls.__mro__ if can_shadow(parent)]
    namespace = {name: vars(cls)[name] for name in _AT_CREATION if name in vars(cls)}
    written: dict[str, Any] = {}
    namespace.update({_MRO: (*order, *behind), _WRITTEN: written, ORIGINAL: cls, "__slots__": ()})
    if not can_shadow(cls) or _slots([cls]):
        bases = (*(base for base in bases if base is not object), cls)
    elif cls.__dictoffset__:
        del namespace["__slots__"]
    try:
        made = type.__new__(_metaclass(type(cls)), cls.__name__, bases, namespace)
    except TypeError as error:
        raise CannotShadow(f"class {cls.__qualname__}: {error}") from error
    environment.remember(cls, made)
    environment.track(lambda name: f"{cls.__qualname__}.{name}", cls, lambda: written)
    if can_shadow(cls):
        _copy_namespace(environment, cls, made)
    if not any(isinstance(base, ShadowMeta) for base in bases):
        _intercept(environment, made)
    return made


def _slots(classes: Iterable[type]) -> list[tuple[str, MemberDescriptorType]]:
    return [
        (name, value)
        for cls in classes
        if is_user_class(cls)
        for name, value in vars(cls).items()
        if isinstance(value, MemberDescriptorType)
    ]


def _copy_namespace(environment: Environment, cls: type, made: type) -> None:
    origin = Origin.constant(cls.__qualname__, cls)
    eager: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if name in _LEFT_OUT or name in _AT_CREATION or isinstance(value, MemberDescriptorType):
            continue
        shadow = _rebuild(environment, name, value)
        if shadow is not MISSING:
            eager[name] = value
        elif isinstance(value, FunctionType) or not hasattr(type(value), "__get__"):
            shadow = _Later(environment, made, name, value, origin.entry(name))
        else:  # a descriptor has to be in place before the first attribute is stored
            shadow = environment.present(value, origin.entry(name))
        # Not by the class statement: that would call __set_name__ of the user's descriptors.
        type.__setattr__(made, name, shadow)
    if "__abstractmethods__" in vars(cls):
        type.__setattr__(made, "__abstractmethods__", cls.__abstractmethods__)  # type: ignore[attr-defined]
    environment.reads.guard(
        Origin.constant(f"class {cls.__qualname__}", cls), cls, _unchanged_class(eager, len(vars(cls)))
    )


def _unchanged_class(eager: dict[str, Any], size: int) -> Callable[[Any], bool]:
    """What was copied is still there, and nothing was added; all other attributes are read one by one."""
    names, values = tuple(eager), tuple(eager.values())

    def holds(new: Any) -> bool:
        namespace = vars(new)
        return len(namespace) == size and all(
            namespace.get(name) is value for name, value in zip(names, values, strict=True)
        )

    return holds


def _rebuild(environment: Environment, name: str, value: Any) -> Any:
    """Return the shadow of a class attribute that has to be there at once, or MISSING."""
    code = environment.shadow_code
    if isinstance(value, property):
        return type(value)(code(value.fget), code(value.fset), code(value.fdel), value.__doc__)
    if isinstance(value, (classmethod, staticmethod)):
        wrapped = type(value)(code(value.__func__))
        return _only_for_users(wrapped) if name == "__init_subclass__" else wrapped
    if isinstance(value, functools.cached_property):
        made = functools.cached_property(code(value.func))
        made.attrname = value.attrname  # type: ignore[attr-defined]
        return made
    if isinstance(value, functools.partialmethod):
        return functools.partialmethod(code(value.func), *value.args, **value.keywords)
    if name.startswith("__") and name.endswith("__"):
        return code(value) if isinstance(value, FunctionType) else value
    return MISSING


def _only_for_users(hook: Any) -> classmethod[Any, Any, None]:
    """Keep ``__init_subclass__`` from running for shadows of subclasses that exist already."""

    def __init_subclass__(cls: type, **arguments: Any) -> None:
        if ORIGINAL not in vars(cls):
            hook.__get__(None, cls)(**arguments)

    return classmethod(__init_subclass__)


class _Later:
    """A class attribute that is presented when it is first read, and then replaces this."""

    def __init__(self, environment: Environment, owner: type, name: str, value: Any, origin: Origin) -> None:
        self.environment, self.owner, self.name, self.value, self.origin = (
            environment,
            owner,
            name,
            value,
            origin,
        )

    def __get__(self, instance: Any, cls: type | None = None) -> Any:
        shadow = self.environment.present(self.value, self.origin)
        binds = hasattr(type(self.value), "__get__")
        # A substitute for a builtin may be a function, and would take the instance for its first argument.
        stored = shadow if binds or not hasattr(type(shadow), "__get__") else staticmethod(shadow)
        type.__setattr__(self.owner, self.name, stored)
        return shadow.__get__(instance, cls) if binds and hasattr(type(shadow), "__get__") else shadow


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

    def holds(self, new: Any) -> bool:
        """Whether another object would have shown the same kind of attributes."""
        if type(new) is not type(self.real):
            return False
        absent = self.absent
        return absent.isdisjoint(own_dict(new)) and not any(
            _slot_value(self.slots[name], new) is not MISSING for name in absent.intersection(self.slots)
        )


def own_dict(value: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an object, without asking its class; empty for a class with slots only."""
    try:
        found: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found


def _slot_value(slot: MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _intercept(environment: Environment, made: type) -> None:
    """Have instances fetch attributes when they are asked for."""
    instances = environment.instances

    def __getattribute__(self: Any, name: str) -> Any:
        found = instances.get(id(self))
        if found is not None:
            found.before_read(name)
        return super(made, self).__getattribute__(name)

    def __delattr__(self: Any, name: str) -> None:
        found = instances.get(id(self))
        if found is not None:
            found.before_read(name)
        super(made, self).__delattr__(name)

    own = vars(made)
    type.__setattr__(made, "__getattribute__", own.get("__getattribute__", __getattribute__))
    type.__setattr__(made, "__delattr__", own.get("__delattr__", __delattr__))


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
    entry = Instance(environment, made, value, origin, dict(_slots(type(value).__mro__)))
    environment.track(lambda name: f"{origin.text}.{name}", value, entry.own, entry.seen)
    environment.instances[id(made)] = entry
    fits = shape_test(value) if isinstance(value, (dict, list, tuple)) else None
    environment.reads.structure(origin, value, lambda new: entry.holds(new) and (fits is None or fits(new)))
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
