"""Classes as the user's code sees them while it is traced.

A shadow of a class is rebuilt from its namespace, with methods that run in the shadow environment, and
mirrors its bases: the shadow of ``C(B)`` derives from the shadow of ``B``, so that ``super()`` stays
among shadows. The user's classes come last in its method resolution order, behind ``object``, where
nothing is ever looked up in them: that makes ``isinstance`` and ``issubclass`` true, also for library
code like ``functools.singledispatch``. They are not told of it: ``__subclasses__()``,
``__init_subclass__`` and ``__set_name__`` notice nothing. Only a class with ``__slots__``, whose shadow
must have the same layout, gets it as a true subclass.
"""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Iterable
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, cast

from tracejit.frontend.pytree import ORIGINAL, is_namedtuple
from tracejit.frontend.reads import Origin
from tracejit.frontend.values import MISSING, is_user_class, is_user_function

if TYPE_CHECKING:
    from tracejit.frontend.environment import Environment

__all__ = ["CannotShadow", "can_shadow", "shadow_class", "slots_of"]

_MRO = "_tracejit_mro"
_WRITTEN = "_tracejit_written"

# Made anew by type(), or of no use in a shadow.
_LEFT_OUT = frozenset({"__dict__", "__weakref__", "__slots__", "__abstractmethods__", "_abc_impl"})

# What a class statement has to find in the namespace, not later.
_AT_CREATION = ("__module__", "__qualname__", "__orig_bases__")


class CannotShadow(Exception):
    """Python cannot build a shadow of a class, or an empty instance; never leaves the environment."""


class ShadowMeta(type):
    """The metaclass of shadows; if their class has another one, the first base of their metaclass."""

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
    if (
        isinstance(cls, ShadowMeta)
        or not is_user_class(cls)
        or issubclass(cls, (enum.Enum, BaseException, type))
    ):
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
    if not can_shadow(cls) or slots_of([cls]):
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


def slots_of(classes: Iterable[type]) -> list[tuple[str, MemberDescriptorType]]:
    """Return name and descriptor of the ``__slots__`` of users' classes."""
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
        return len(namespace) == size and all(map(operator.is_, map(namespace.get, names), values))

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
        made.attrname = value.attrname
        return made
    if isinstance(value, functools.singledispatchmethod):
        dispatching = functools.singledispatchmethod(code(value.func))
        dispatching.dispatcher = code(value.dispatcher)
        return dispatching
    if isinstance(value, functools.partialmethod):
        return functools.partialmethod(code(value.func), *value.args, **value.keywords)
    if name.startswith("__") and name.endswith("__"):
        return code(value) if isinstance(value, FunctionType) else value
    return MISSING


def _only_for_users(hook: Any) -> classmethod[Any, Any, None]:
    """Keep ``__init_subclass__`` from running for shadows of subclasses that exist already."""

    def __init_subclass__(cls: type, /, **arguments: Any) -> None:
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


def _intercept(environment: Environment, made: type) -> None:
    """Have instances fetch attributes when they are asked for."""
    instances, owner = environment.instances, cast(Any, made)

    def __getattribute__(self: Any, name: str) -> Any:
        found = instances.get(id(self))
        if found is not None:
            found.before_read(name)
        return super(owner, self).__getattribute__(name)

    def __delattr__(self: Any, name: str) -> None:
        found = instances.get(id(self))
        if found is not None:
            found.before_read(name)
        super(owner, self).__delattr__(name)

    own = vars(made)
    type.__setattr__(made, "__getattribute__", own.get("__getattribute__", __getattribute__))
    type.__setattr__(made, "__delattr__", own.get("__delattr__", __delattr__))
