"""What traced code gets instead of functions that Python or NumPy do not dispatch on traced values.

Seen only through the shadow environment of a traced function: nothing is patched, other threads and other code keep the
originals.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tracejit.frontend.buffers import buffered
from tracejit.frontend.by_name import FUNCTIONS_BY_NAME
from tracejit.frontend.control_flow import DOORS
from tracejit.frontend.index_tricks import INDEX_TRICKS
from tracejit.frontend.numpy_api import CREATORS
from tracejit.frontend.registry import FUNCTIONS, contains_traced, is_traced, unsupported
from tracejit.frontend.scalars import FUNCTIONS_OF_NUMBERS, MODULES
from tracejit.frontend.tracer import TracedArray, dispatch, wrap
from tracejit.frontend.views import VIEWS
from tracejit.ir.tape import Atom

__all__ = ["DOORS", "replacements"]


class _ShadowModule(ModuleType):
    """A module with some attributes replaced; everything else is looked up in the original."""

    def __init__(self, original: ModuleType, replaced: Mapping[str, Any]) -> None:
        super().__init__(original.__name__, original.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __dir__(self) -> list[str]:
        return dir(self._original)


def _creator(original: Any, meaning: Any) -> Any:
    @functools.wraps(original, updated=())
    def create(*args: Any, **kwargs: Any) -> Any:
        if original in VIEWS and args and is_traced(args[0]):
            return dispatch(original, args, kwargs)
        result = meaning(*args, **kwargs)
        return wrap(result) if isinstance(result, Atom | tuple | list) else buffered(result, args)

    return create


class _Bracketed:
    """Stands for an object like ``np.mgrid``, whose brackets NumPy does not dispatch."""

    def __init__(self, original: Any, meaning: Callable[[Any], Any]) -> None:
        self._original, self._meaning = original, meaning

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        ends = [e for p in parts for e in ((p.start, p.stop, p.step) if isinstance(p, slice) else (p,))]
        if not any(map(contains_traced, ends)):
            return buffered(self._original[key])
        return wrap(self._meaning(key))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _with_lists(original: Any) -> Any:
    """Return a function that NumPy dispatches, but by its arguments alone: not by what is in a list among them."""

    @functools.wraps(original, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        lists = (a for a in (*args, *kwargs.values()) if isinstance(a, list | tuple))
        return (
            dispatch(original, args, kwargs)
            if any(map(contains_traced, lists))
            else original(*args, **kwargs)
        )

    return call


def _length(value: Any) -> Any:
    """Return ``len(value)``, symbolic for traced arrays."""
    return value.shape[0] if is_traced(value) and type(value) is TracedArray and value.ndim else len(value)


def _random_functions(module: ModuleType, state: object) -> dict[str, Any]:
    """Return the functions of a module that draw from its hidden state: name -> one that refuses."""
    drawing = {n: f for n, f in vars(module).items() if getattr(f, "__self__", None) is state}
    return {name: _refusing(f"{module.__name__}.{name}") for name in drawing}


def _refusing(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise unsupported(
            f"`{name}` in a traced function (compiled calls would repeat its numbers)",
            "Draw outside and pass the numbers as an argument, or use `np.random.default_rng(seed)` for constants.",
        )

    return refuse


_FRESH = (
    np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.copy, np.linspace, np.logspace, np.geomspace,
    np.meshgrid, np.tile, np.repeat, np.concatenate, np.stack, np.diag,
)  # fmt: skip
"""Functions that NumPy dispatches, which make arrays of plain arguments too."""


class _Replacements(dict[int, Any]):
    """The table, with functions of modules that are imported at some later time, perhaps by traced code."""

    def __init__(self, table: Mapping[int, Any]) -> None:
        super().__init__(table)
        self._awaited = set(FUNCTIONS_BY_NAME)

    def __contains__(self, key: object) -> bool:
        for name in self._awaited and self._awaited & sys.modules.keys():
            self._add(name)
            self._awaited = self._awaited - {name}
        return super().__contains__(key)

    def _add(self, name: str) -> None:
        module, package = sys.modules[name], sys.modules[name.partition(".")[0]]
        meanings = FUNCTIONS_BY_NAME[name]
        replaced = {
            n: _undispatched(getattr(module, n), m) for n, m in meanings.items() if hasattr(module, n)
        }
        self.update((id(getattr(module, n)), new) for n, new in replaced.items())
        self[id(module)] = _ShadowModule(module, replaced)
        shadow = self.setdefault(id(package), _ShadowModule(package, {}))
        shadow.__dict__[name.rpartition(".")[2]] = self[id(module)]


def _undispatched(original: Any, meaning: Callable[..., Any]) -> Any:
    @functools.wraps(original, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(map(contains_traced, (*args, *kwargs.values()))):
            return original(*args, **kwargs)
        return wrap(meaning(*args, **kwargs))

    return call


@functools.cache
def replacements() -> dict[int, Any]:
    """Return id of the original object -> its replacement in traced code."""
    created = {original: _creator(original, meaning) for original, meaning in CREATORS.items()}
    created |= {f: _creator(f, f) for f in _FRESH}
    created |= {original: _Bracketed(original, meaning) for original, meaning in INDEX_TRICKS.items()}
    created |= {f: _with_lists(f) for f in FUNCTIONS if f not in created}
    table: dict[int, Any] = {id(original): new for original, new in created.items()}
    # What lies there, not what `dir` promises: submodules that nobody has asked for take long to import.
    names = {name: created[value] for name, value in vars(np).items() if _hashable(value) in created}
    generators: Any = ((np.random, np.random.normal), (random, random.random))
    for module, method in generators:
        refusing = _random_functions(module, method.__self__)
        table |= {id(getattr(module, name)): refuse for name, refuse in refusing.items()}
        table[id(module)] = _ShadowModule(module, refusing)
    linalg = {name: created[value] for name, value in vars(np.linalg).items() if _hashable(value) in created}
    table[id(np.linalg)] = _ShadowModule(np.linalg, linalg)
    parts = {"random": table[id(np.random)], "linalg": table[id(np.linalg)]}
    table[id(np)] = _ShadowModule(np, {**names, **parts})
    table[id(len)] = _length
    table |= {id(original): new for original, new in FUNCTIONS_OF_NUMBERS.items()}
    for module, functions in MODULES.items():
        table |= {id(getattr(module, name)): new for name, new in functions.items()}
        table[id(module)] = _ShadowModule(module, functions)
    return _Replacements(table)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value
