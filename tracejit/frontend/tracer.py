"""`TracedArray`: what user code holds while its function is traced; and the doors by which NumPy reaches it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracejit.errors import BroadcastError
from tracejit.frontend import symbolic
from tracejit.frontend.alternatives import way_out
from tracejit.frontend.concrete import guard
from tracejit.frontend.handles import ViewHandle
from tracejit.frontend.indexing import index, update
from tracejit.frontend.operators import BINARY, COMPARISONS, METHODS, UNARY
from tracejit.frontend.refusals import needs_value, refuse_truncation, stored
from tracejit.frontend.registry import FUNCTIONS, UFUNCS, operand, unsupported
from tracejit.frontend.symbolic import user_shape, user_size
from tracejit.frontend.ufunc_methods import call_ufunc
from tracejit.frontend.views import VIEWS, KeyStep, has_ellipsis, is_basic, picks, same_key, with_part
from tracejit.ir.tape import Atom, current
from tracejit.ops import complex_parts
from tracejit.ops.broadcasting import convert, shape_text

__all__ = ["TracedArray", "dispatch", "wrap"]


_KEYED = KeyStep(index, update)


class TracedArray(ViewHandle):
    """A traced array or scalar; behaves as the ndarray (or NumPy scalar) that it stands for."""

    __slots__ = ()
    _tracejit_traced = True
    __array_priority__ = 1000.0

    # --- attributes ---------------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.ndarray

    @property
    def shape(self) -> tuple[Any, ...]:
        return user_shape(self.atom.shape)

    @shape.setter
    def shape(self, value: Any) -> None:
        self._set_shape(value)

    @property
    def ndim(self) -> int:
        return len(self.atom.shape)

    @property
    def size(self) -> Any:
        return user_size(self.atom.aval.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.atom.dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        return self._view_by(np.transpose)

    @property
    def mT(self) -> Any:
        return self._view_by(np.matrix_transpose)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """As ``ndarray.reshape``: a view."""
        return self._view_by(np.reshape, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        """As ``ndarray.transpose``: a view."""
        return self._view_by(np.transpose, (axes[0] if len(axes) == 1 else axes) or None)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """As ``ndarray.swapaxes``: a view."""
        return self._view_by(np.swapaxes, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """As ``ndarray.squeeze``: a view."""
        return self._view_by(np.squeeze, axis)

    def ravel(self, order: str = "C") -> Any:
        """As ``ndarray.ravel``: a view."""
        return self._view_from(lambda: FUNCTIONS[np.ravel](self, order=order), how="packed")

    def flatten(self, order: str = "C") -> Any:
        """As ``ndarray.flatten``: a copy."""
        return TracedArray(FUNCTIONS[np.ravel](self, order=order))

    def view(self, dtype: Any = None) -> Any:
        """As ``ndarray.view`` without a change of dtype."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            raise unsupported("`ndarray.view` with another dtype", "Use `.astype(dtype)` to convert values.")
        return self._view(())

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """As ``ndarray.sort``: in place."""
        self._assign(dispatch(np.sort, (self, axis, kind, order), {}))

    @property
    def real(self) -> Any:
        return dispatch(np.real, (self,), {})

    @real.setter
    def real(self, value: Any) -> None:
        self._rebind(with_part(self.atom, complex_parts.real, operand(value)))

    @property
    def imag(self) -> Any:
        return dispatch(np.imag, (self,), {})

    @imag.setter
    def imag(self, value: Any) -> None:
        self._rebind(with_part(self.atom, complex_parts.imag, operand(value)))

    @property
    def flat(self) -> Any:
        base = current().resolve(self.atom)
        return self._as_view(base, FUNCTIONS[np.ravel](self), how="flat")

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """As ``ndarray.astype``."""
        dtype = np.dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
            rule = f"according to the rule '{casting}'"
            raise TypeError(f"Cannot cast array data from {self.dtype!r} to {dtype!r} {rule}")
        return TracedArray(convert(self.atom, dtype=dtype))

    def copy(self, order: str = "C") -> Any:
        """As ``ndarray.copy``."""
        return TracedArray(current().resolve(self.atom), c_order=True if order == "C" else None)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """As ``ndarray.partition``: in place."""
        self._assign(dispatch(np.partition, (self, kth, axis, kind, order), {}))

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """As ``ndarray.put``: in place."""
        dispatch(np.put, (self, indices, values, mode), {})

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """As ``ndarray.compress``."""
        return dispatch(np.compress, (condition, self, axis, out), {})

    def fill(self, value: Any) -> None:
        """As ``ndarray.fill``."""
        self._assign(value)

    def tolist(self) -> Any:
        """Return the entries as (nested) lists of traced scalars."""
        return [row.tolist() for row in self] if self.ndim else self

    # --- indexing and iteration ---------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if is_basic(key) and not self._is_scalar():
            view = self._view_from(lambda: index(self.atom, key))
            scalar = not view.ndim and not has_ellipsis(key)
            return TracedArray(view.atom) if scalar else view
        entry = index(self.atom, key)
        if entry.shape and picks(key):
            return TracedArray(entry, self, ((_KEYED, {"key": key}),))
        return TracedArray(entry)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is TracedArray and value._base is self and picks(key):
            (step, params), *rest = value._path
            if step is _KEYED and not rest and same_key(params["key"], key):
                return  # the last act of `x[key] += y`, as below
        if type(value) is TracedArray and value._base is self and is_basic(key):
            place = self._view_from(lambda: index(self.atom, key))
            if place._base is self and place._path == value._path:
                return  # the last act of `x[key] += y`, which has written through the view already
        refuse_truncation(operand(value), self.atom)
        self._rebind(update(self.atom, key, value))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool(dispatch(np.any, (self == value,), {}))

    # --- leaving the trace --------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        if self.atom.aval.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(guard(self._scalar()))

    def __index__(self) -> int:
        if self.dtype.kind not in "iub" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(guard(self.atom))

    def _scalar(self) -> Atom:
        return self.atom if not self.ndim else TracedArray(self.atom).reshape(()).atom

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise needs_value(
            "np.asarray()",
            "Use NumPy functions on it directly, or store it in an array made in the function.",
        )

    def __float__(self) -> float:
        hint = "Leave the call out: NumPy scalars work as they are; for `math.f` use `np.f`."
        return float(self._integer(stored(), "float()", hint))

    def __int__(self) -> int:
        hint = "Use `x.astype(int)` or `np.floor(x)`; an integer can be an index as it is."
        return self._integer(stored(), "int()", hint)

    def __complex__(self) -> complex:
        return complex(self._integer(stored(), "complex()", "Use `x + 0j` or `x.astype(complex)`."))

    def _integer(self, error: Exception | None, what: str, hint: str) -> int:
        """Return the value of one integer, which carries no derivative, and tie the trace to it; else raise."""
        if error is None and self.dtype.kind in "iub" and not self.ndim:
            return int(guard(self.atom))
        raise error or needs_value(what, hint)

    def item(self, *args: Any) -> Any:
        """Return one entry, still traced."""
        if not args:
            return TracedArray(self._scalar())
        flat = len(args) == 1 and not isinstance(args[0], tuple)
        return (
            TracedArray(FUNCTIONS[np.ravel](self))[args[0]]
            if flat
            else self[args if len(args) > 1 else args[0]]
        )

    def __round__(self, digits: int | None = None) -> Any:
        if self.ndim:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        rounded = dispatch(np.round, (self, digits or 0), {})
        return rounded.astype(np.int64) if digits is None else rounded

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def __repr__(self) -> str:
        return f"traced({self.atom.aval})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    # --- NumPy's doors ------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return wrap(call_ufunc(ufunc, method, inputs, kwargs))

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return dispatch(function, args, kwargs)


def wrap(result: Any) -> Any:
    """Return handles for the atoms in ``result`` (an atom, or a tuple, list or dict of them)."""
    if isinstance(result, tuple):
        items = [wrap(r) for r in result]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    if isinstance(result, list):
        return [wrap(r) for r in result]
    return TracedArray(current().resolve(result)) if isinstance(result, Atom) else result


def dispatch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the traced meaning of a NumPy function, or raise the error that names a way out."""
    meaning = FUNCTIONS.get(function)
    if meaning is None:
        name = f"{getattr(function, '__module__', 'numpy')}.{getattr(function, '__name__', function)}"
        raise unsupported(f"`{name}`", way_out(function))
    if function not in VIEWS:
        return wrap(meaning(*args, **kwargs))
    sources = [a for a in args if type(a) is TracedArray]
    bases = [current().resolve(a.atom) for a in sources]
    options = {"writeable": VIEWS[function], "how": "packed" if function is np.ravel else "shape"}
    return _views(meaning(*args, **kwargs), sources, bases, options)


def _views(result: Any, sources: list[TracedArray], bases: list[Atom], options: dict[str, Any]) -> Any:
    """Return handles for the atoms in ``result``; views of ``sources`` where they only move their entries."""
    if not isinstance(result, Atom):
        return type(result)(_views(r, sources, bases, options) for r in result)
    handles = (s._as_view(b, result, **options) for s, b in zip(sources, bases, strict=True))
    return next((h for h in handles if h._base is not None), TracedArray(result))


def _method(function: Any) -> Callable[..., Any]:
    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return dispatch(function, (self, *args), kwargs)

    method.__name__ = function.__name__
    return method


def _unary(ufunc: np.ufunc) -> Callable[..., Any]:
    def method(self: TracedArray) -> Any:
        return wrap(UFUNCS[ufunc](self.atom))

    return method


def _binary(ufunc: np.ufunc, swap: bool) -> Callable[..., Any]:
    def method(self: TracedArray, other: Any) -> Any:
        if other is None or isinstance(other, str | dict | set):
            return NotImplemented
        pair = (operand(other), self.atom) if swap else (self.atom, operand(other))
        return wrap(UFUNCS[ufunc](*pair))

    return method


def _in_place(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return ``__iadd__`` and the like: arrays are written, scalars (immutable in NumPy) are replaced."""

    def method(self: TracedArray, other: Any) -> Any:
        result = TracedArray(UFUNCS[ufunc](self.atom, operand(other)))
        if self._is_scalar():
            return result
        if len(result.atom.shape) > self.ndim:
            raise BroadcastError(
                f"A value of shape {shape_text(result.atom.shape)} does not fit into the array of shape "
                f"{shape_text(self.atom.shape)} that it updates.",
                where=current().source(),
                hint="In-place operators keep the shape of the left side; write `x = x + y` to get the larger one.",
            )
        self._assign(result)
        return self

    return method


for _name, _ufunc in BINARY.items():
    setattr(TracedArray, f"__{_name}__", _binary(_ufunc, False))
    setattr(TracedArray, f"__r{_name}__", _binary(_ufunc, True))
    setattr(TracedArray, f"__i{_name}__", _in_place(_ufunc))
for _name, _ufunc in COMPARISONS.items():
    setattr(TracedArray, f"__{_name}__", _binary(_ufunc, False))
for _name, _ufunc in UNARY.items():
    setattr(TracedArray, f"__{_name}__", _unary(_ufunc))
TracedArray.conj = TracedArray.conjugate = _unary(np.conjugate)  # type: ignore[attr-defined]
for _name in METHODS:
    setattr(TracedArray, _name, _method(getattr(np, _name)))
symbolic.set_handle(TracedArray)
