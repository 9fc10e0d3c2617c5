"""Functions, globals and modules as the user's code sees them while it is traced.

A shadow of a function has the user's code, with the doors of `control_flow` in place of loops and
branches and the same line numbers, but other globals and other closure cells. Nothing of the original
is touched.

Its globals are a dict that is still empty. A name that is looked up is fetched from the module,
presented (numbers as traced values, functions as shadows) and kept; a name that is stored stays here.
Two facts about CPython (seen in 3.11 to 3.13) make that complete. ``LOAD_GLOBAL`` respects
``__missing__`` of a dict that is not exactly a dict. ``LOAD_NAME``, in the bodies of classes, does not,
but then asks the builtins, which are such a dict too. Functions and classes defined by traced code get
the same globals from its frame.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable, Mapping
from types import CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from tracejit.frontend.doors import DOORS
from tracejit.frontend.lifting import lifted_code
from tracejit.frontend.reads import Origin
from tracejit.frontend.values import MISSING, is_user_class, is_user_function

if TYPE_CHECKING:
    from tracejit.frontend.environment import Environment

__all__ = [
    "LRU_CACHE",
    "ShadowGlobals",
    "ShadowModule",
    "shadow_cached",
    "shadow_dispatch",
    "shadow_function",
    "shadow_module",
]

LRU_CACHE = type(functools.lru_cache(lambda: None))

# Python 3.14 computes annotations when they are asked for, and not all of them can be computed.
_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"
_COPIED = ["__qualname__", "__doc__", "__module__", _ANNOTATIONS]
if sys.version_info >= (3, 12):
    _COPIED.append("__type_params__")

# What the interpreter itself, or the warnings module, keeps among the globals.
INTERNAL = frozenset({"__builtins__", "__name__", "__warningregistry__"})


class ShadowBuiltins(dict[str, Any]):
    """The builtins of shadow globals; see the module's text for why it asks these again."""

    def __init__(self, names: ShadowGlobals) -> None:
        super().__init__(__import__=names.importer, __build_class__=builtins.__build_class__)
        self.names = names

    def __missing__(self, name: str) -> Any:
        return self.names[name]


class ShadowGlobals(dict[str, Any]):
    """The globals of a module, presented name by name when they are read."""

    def __init__(self, environment: Environment, real: dict[str, Any]) -> None:
        self.environment, self.real = environment, real
        self.seen: dict[str, Any] = {}
        found = real.get("__builtins__", builtins)
        self.builtins: dict[str, Any] = vars(found) if isinstance(found, ModuleType) else found
        super().__init__(__name__=real.get("__name__", ""), __builtins__=ShadowBuiltins(self), **DOORS)

    def __missing__(self, name: str) -> Any:
        if name in self.real:
            return self.present(name, Origin.variable(self.real, name))
        builtin = self.builtins[name]
        return self.environment.replace.get(id(builtin), builtin)

    def present(self, name: str, origin: Origin) -> Any:
        """Return what the user's code sees under a name that the module has."""
        if not dict.__contains__(self, name):
            self[name] = self.seen[name] = self.environment.present(self.real[name], origin)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if dict.__contains__(self, name) or name in self.real:
            return True
        if isinstance(name, str):
            self.environment.reads.absence(Origin.variable(self.real, name))
        return False

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict, for code that asks ``globals()``."""
        if name not in self:
            return default
        return self[name]

    def importer(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        """Serve an import statement of the user's code."""
        real = self.real
        while isinstance(real, ShadowGlobals):
            real = real.real
        module = builtins.__import__(name, real, locals, fromlist, level)
        return self.environment.module(module)

    def written(self) -> dict[str, Any]:
        """Return what lies here, read or stored."""
        return {n: value for n, value in self.items() if n not in INTERNAL and n not in DOORS}


class ShadowModule(ModuleType):
    """A module of the user's whose attributes are presented when they are read."""

    _tracejit_real: ModuleType
    _tracejit_names: ShadowGlobals

    def __init__(self, real: ModuleType, names: ShadowGlobals) -> None:
        super().__init__(real.__name__, real.__doc__)
        # Found by __getattr__ from now on; only the name and the text stay.
        for name in ("__package__", "__loader__", "__spec__"):
            del self.__dict__[name]
        self.__dict__.update(_tracejit_real=real, _tracejit_names=names)

    def __getattr__(self, name: str) -> Any:
        names, real = self._tracejit_names, self._tracejit_real
        origin = Origin.constant(real.__name__, real).attribute(name)
        if dict.__contains__(names, name) or name in names.real:
            return names.present(name, origin)
        value = getattr(real, name, MISSING)  # a module may have a __getattr__ of its own
        if value is not MISSING:
            return names.environment.present(value, origin)
        # A part of a package that is imported later is no change of what this trace saw.
        names.environment.reads.absence(
            Origin(origin.path, origin.text, lambda: getattr(real, name, MISSING))
        )
        raise AttributeError(f"module {real.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        self._tracejit_names[name] = value

    def __dir__(self) -> list[str]:
        return dir(self._tracejit_real)


def shadow_module(environment: Environment, module: ModuleType) -> ShadowModule:
    """Return the shadow of a user's module."""
    return ShadowModule(module, environment.globals_of(module.__dict__))


def shadow_function(
    environment: Environment, function: FunctionType, origin: Origin | None = None, top: bool = False
) -> FunctionType:
    """Return the shadow of a Python function, found at ``origin``.

    A library's function keeps its globals, and is only rebuilt if it closes over functions of the user's
    (``contextlib.contextmanager`` makes such).  Numbers among the defaults of the traced function itself
    (``top``) are presented, those of its helpers are constants: a guard of the function covers them.
    """
    user = is_user_function(function)
    if not user and (_is_ours(function) or not any(map(_has_user_code, function.__closure__ or ()))):
        return function
    names = environment.globals_of(function.__globals__) if user else function.__globals__
    if user and function.__globals__ is names:  # made by the traced code itself
        return function
    cells = environment.cells_of(function)
    code = (lifted_code(function.__code__) if user else None) or function.__code__
    by_name = dict(zip(function.__code__.co_freevars, cells, strict=True))
    closure = tuple([by_name[name] for name in code.co_freevars]) or None
    made = FunctionType(code, names, function.__name__, None, closure)
    environment.remember(function, made)
    for name in _COPIED:
        setattr(made, name, getattr(function, name))
    # Only now: a function may close over itself.
    for number, (cell, name) in enumerate(
        zip(function.__closure__ or (), function.__code__.co_freevars, strict=True)
    ):
        if user or _has_user_code(cell):
            about = name, function.__name__
            if origin is not None and origin.rooted:
                environment.fill(cell, origin.closure(number, *about))
            else:
                environment.fill(cell, Origin.cell(cell, *about))
        else:
            environment.keep(cell)
    _copy_defaults(environment, function, made, top)
    _copy_attributes(environment, function, made, origin)
    return made


def _is_ours(function: FunctionType) -> bool:
    """A gradient that traced code calls traces its function itself."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == "tracejit"


def _has_user_code(cell: CellType) -> bool:
    try:
        value = cell.cell_contents
    except ValueError:
        return False
    value = getattr(value, "__func__", value)
    return is_user_function(value) or (isinstance(value, type) and is_user_class(value))


def _copy_defaults(environment: Environment, function: FunctionType, made: FunctionType, top: bool) -> None:
    values = function.__defaults__
    if values:
        code = function.__code__
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        found = dict(zip(names, values, strict=True))
        made.__defaults__ = tuple(_present_defaults(environment, function, found, top).values())
    if function.__kwdefaults__:
        made.__kwdefaults__ = _present_defaults(environment, function, function.__kwdefaults__, top)


def _present_defaults(
    environment: Environment, function: FunctionType, values: Mapping[str, Any], top: bool
) -> dict[str, Any]:
    prefix = f"of {function.__name__}"
    return {
        name: environment.present_fixed(value, Origin.constant(f"default {name} {prefix}", value), top)
        for name, value in values.items()
    }


def _copy_attributes(
    environment: Environment, function: FunctionType, made: FunctionType, origin: Origin | None
) -> None:
    if not function.__dict__:
        return
    if origin is None or not origin.rooted:
        origin = Origin.constant(function.__name__, function)
    for name, value in function.__dict__.items():
        # Tools look at __wrapped__; nobody computes with it.
        hidden = name == "__wrapped__"
        made.__dict__[name] = value if hidden else environment.present(value, origin.attribute(name))
    environment.track(lambda name: f"{function.__name__}.{name}", function, lambda: made.__dict__)


def shadow_cached(environment: Environment, cached: Any) -> Any:
    """Return the shadow of a function with ``functools.lru_cache``: its cache lives as long as the trace."""
    parameters = cached.cache_parameters()
    made = functools.lru_cache(**parameters)(environment.shadow_code(cached.__wrapped__))
    return environment.remember(cached, made)


def shadow_dispatch(environment: Environment, dispatcher: Any) -> Callable[..., Any]:
    """Return the shadow of a ``functools.singledispatch`` function."""
    registry: Mapping[type, Any] = dispatcher.registry
    made = functools.singledispatch(environment.shadow_code(registry[object]))
    environment.remember(dispatcher, made)
    for cls, implementation in registry.items():
        made.register(cls, environment.shadow_code(implementation))
    return made


def is_dispatcher(value: Any) -> bool:
    """Return whether ``value`` was made by ``functools.singledispatch``."""
    return (
        isinstance(value, FunctionType)
        and value.__globals__.get("__name__") == "functools"
        and isinstance(getattr(value, "registry", None), types.MappingProxyType)
    )
