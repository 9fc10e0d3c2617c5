"""Arrays made in traced code that hold plain values until a traced one is written into them.

A `Buffer` computes with NumPy, so that tables, index arrays and constants stay what they are.  The first
write that
involves a traced value turns it, its base and all their views into traced arrays: same objects, other class.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.frontend.indexing import index
from tracejit.frontend.regions import Handle, active, become, born, touch, versions
from tracejit.frontend.registry import is_traced, operand
from tracejit.frontend.tracer import TracedArray, dispatch, wrap
from tracejit.frontend.ufunc_methods import call_ufunc
from tracejit.frontend.views import is_basic

__all__ = ["Buffer", "buffered"]

_IN_PLACE = frozenset({"fill", "sort", "partition", "put", "itemset", "resize", "setflags"})
_STORING = frozenset({np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis})


class Buffer(Handle):
    """A plain array behind a handle.

    Its slots hold: ``_atom`` the ndarray, ``_base`` the buffer that it is a view of, ``_path`` how to get
    the view from
    a traced base, ``_seen`` the views of it.
    """

    __slots__ = ()
    __array_priority__ = 900.0

    def __init__(
        self, array: Any, base: Buffer | None = None, path: Callable[[Any], Any] | None = None
    ) -> None:
        self._atom, self._base, self._path = array, base, path
        self._version, self._born = 0, born()
        self._first = self._under = None
        self._seen: list[weakref.ref[Buffer]] = []
        if base is not None:
            base._seen.append(weakref.ref(self))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    # --- becoming traced ------------------------------------------------------------------------------------

    def _become_traced(self) -> None:
        """Turn this array, what it is a view of, and their views into traced ones."""
        root = self
        while root._base is not None:
            root = root._base
        root._turn(TracedArray(operand(root._atom.copy()), c_order=root._atom.flags.c_contiguous))

    def _turn(self, traced: Any) -> None:
        views = [v for v in (ref() for ref in self._seen) if v is not None]
        paths = [v._path for v in views]
        touch(self, self._base is None)
        self._atom, self._base, self._path, self._seen, self._under = (
            traced._atom,
            traced._base,
            traced._path,
            traced._seen,
            traced._under,
        )
        self._writeable, self._first, self._how, self._c_order = (
            traced._writeable,
            traced._first,
            traced._how,
            traced._c_order,
        )
        become(self, TracedArray)
        self._version = next(versions)
        for view, path in zip(views, paths, strict=True):
            assert path is not None
            view._turn(path(self))

    def _present(self, atom: Any) -> None:
        touch(self, False)
        self._become_traced()
        self._present(atom)

    def _rebind(self, atom: Any) -> None:
        self._become_traced()
        self._rebind(atom)

    def _is_outside(self) -> bool:
        """Return whether a write would reach beyond the body that is being traced."""
        log = active()
        return log is not None and self._born < log.serial

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._atom.shape
        return shape

    @shape.setter
    def shape(self, value: Any) -> None:
        if self._is_outside() or _traced_in(value):
            self._become_traced()
            self.shape = value
            return
        old = self._atom.shape
        touch(self, self._base is None)
        self._atom.shape = value
        if self._path is not None:
            self._path = _then_reshaped(self._path, self._atom.shape)
        for view in (ref() for ref in self._seen):
            if view is not None and view._path is not None:
                view._path = _of_shape(old, view._path)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._atom, dtype=dtype, copy=copy)

    def __getitem__(self, key: Any) -> Any:
        if not _traced_in(key):
            plain = _plain(key)
            return self._result(self._atom[plain], lambda base: base[plain])
        if is_basic(key) and not self._is_entry(key):
            self._become_traced()
            return self[key]  # a view
        return TracedArray(index(operand(self), key))

    def _is_entry(self, key: Any) -> bool:
        parts = key if isinstance(key, tuple) else (key,)
        return len(parts) == self._atom.ndim and all(isinstance(p, int) for p in parts)

    def _result(self, value: Any, path: Callable[[Any], Any]) -> Any:
        if isinstance(value, np.ndarray) and np.may_share_memory(value, self._atom):
            return Buffer(value, self, path)
        return buffered(value)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._atom, name)
        if not callable(value):
            return self._result(value, operator.attrgetter(name))

        def method(*args: Any, **kwargs: Any) -> Any:
            traced = _traced_in((args, kwargs))
            if name in _IN_PLACE and (traced or self._is_outside()):
                self._become_traced()
                return getattr(self, name)(*args, **kwargs)
            if traced:
                return getattr(TracedArray(operand(self)), name)(*args, **kwargs)
            result = getattr(self._atom, name)(*_plain(args), **_plain(kwargs))
            return self._result(result, lambda base: getattr(base, name)(*args, **kwargs))

        return method

    def __len__(self) -> int:
        return len(self._atom)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __bool__(self) -> bool:
        return bool(self._atom)

    def __index__(self) -> int:
        return operator.index(self._atom)

    def __int__(self) -> int:
        return int(self._atom)

    def __float__(self) -> float:
        return float(self._atom)

    def __complex__(self) -> complex:
        return complex(self._atom)

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __repr__(self) -> str:
        return repr(self._atom)

    def __str__(self) -> str:
        return str(self._atom)

    def __format__(self, spec: str) -> str:
        return format(self._atom, spec)

    def __copy__(self) -> Buffer:
        return Buffer(self._atom.copy())

    def __deepcopy__(self, memo: Any) -> Buffer:
        return Buffer(self._atom.copy())

    # --- writing --------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._is_outside() or _traced_in(key) or _traced_in(value):
            self._become_traced()
            self[key] = value
        else:
            self._atom[_plain(key)] = _plain(value)

    # --- NumPy's doors --------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        targets = [t for t in (*out, *(inputs[:1] if method == "at" else ())) if type(t) is Buffer]
        traced = _traced_in((inputs, kwargs))
        if traced or any(t._is_outside() for t in targets):
            for target in targets:
                target._become_traced()
            return wrap(call_ufunc(ufunc, method, inputs, kwargs))
        result = getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))
        return (out[0] if len(out) == 1 else out) if out else buffered(result)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        out = kwargs.get("out")
        target = args[0] if function in _STORING else out
        traced = _traced_in((args, kwargs))
        if type(target) is Buffer and (traced or target._is_outside()):
            target._become_traced()
            traced = True
        if traced:
            return dispatch(function, args, kwargs)
        result = function(*_plain(args), **_plain(kwargs))
        if out is not None:
            return out
        return self._result(
            result, lambda base: function(*(base if a is self else a for a in args), **kwargs)
        )


def buffered(value: Any, arguments: tuple[Any, ...] = ()) -> Any:
    """Return fresh arrays (also in tuples and lists) as buffers; an argument that is returned, as itself."""
    if isinstance(value, tuple | list):
        items = [buffered(v, arguments) for v in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value) is not np.ndarray or value.dtype.kind not in "biufc":
        return value
    for argument in arguments:
        if type(argument) is Buffer and argument._atom is value:
            return argument
    return Buffer(value)


def _then_reshaped(path: Callable[[Any], Any], shape: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda base: path(base).reshape(shape)


def _of_shape(shape: tuple[int, ...], path: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda base: path(base.reshape(shape))


def _traced_in(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_traced_in, value))
    if isinstance(value, dict):
        return any(map(_traced_in, value.values()))
    if isinstance(value, slice):
        return any(map(is_traced, (value.start, value.stop, value.step)))
    return is_traced(value)


def _plain(value: Any) -> Any:
    """Return arguments with plain arrays in place of buffers."""
    if type(value) is Buffer:
        return value._atom
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    return {k: _plain(v) for k, v in value.items()} if type(value) is dict else value


def _binary(name: str) -> Callable[..., Any]:
    def method(self: Buffer, other: Any) -> Any:
        if is_traced(other):
            return getattr(TracedArray(operand(self)), name)(other)
        result = getattr(self._atom, name)(_plain(other))
        return result if result is NotImplemented else buffered(result)

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Buffer, other: Any) -> Any:
        if is_traced(other) or self._is_outside():
            self._become_traced()
            return getattr(self, name)(other)
        getattr(self._atom, name)(_plain(other))
        return self

    return method


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: buffered(getattr(self._atom, name)())


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]:
    setattr(Buffer, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(Buffer, f"__r{_name}__", _binary(f"__r{_name}__"))
    setattr(Buffer, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ["eq", "ne", "lt", "le", "gt", "ge", "divmod", "rdivmod"]:
    setattr(Buffer, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ["neg", "pos", "abs", "invert"]:
    setattr(Buffer, f"__{_name}__", _unary(f"__{_name}__"))
