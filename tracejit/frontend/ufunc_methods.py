"""``__array_ufunc__``: the keyword arguments and methods that every ufunc has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.frontend.by_name import ufunc_meaning
from tracejit.frontend.indexing import add_at
from tracejit.frontend.refusals import refuse_truncation
from tracejit.frontend.registry import FUNCTIONS, is_traced, operand, unsupported
from tracejit.ir.tape import Atom
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert
from tracejit.ops.elementwise import neg, select

__all__ = ["call_ufunc"]

_REDUCE: dict[np.ufunc, Any] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
_ACCUMULATE: dict[np.ufunc, Any] = {
    np.add: np.cumsum,
    np.multiply: np.cumprod,
    np.maximum: np.maximum.accumulate,
    np.minimum: np.minimum.accumulate,
}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what ``getattr(ufunc, method)(*inputs, **kwargs)`` means on traced values."""
    out = kwargs.pop("out", None)
    if method == "at":
        return _at(ufunc, *inputs)
    result = _METHODS[method](ufunc, inputs, kwargs) if method in _METHODS else _refuse(ufunc, method)
    return result if out is None else _store(result, out)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    meaning = ufunc_meaning(ufunc)
    if meaning is None:
        raise unsupported(f"The ufunc `{ufunc.__name__}`", "Write it with supported NumPy functions.")
    where, dtype = kwargs.pop("where", True), kwargs.pop("dtype", None)
    kwargs.pop("casting", None), kwargs.pop("order", None), kwargs.pop("subok", None)
    if kwargs and ufunc is not np.matmul:
        raise unsupported(f"`{ufunc.__name__}` with {', '.join(kwargs)}", "Leave these arguments out.")
    atoms = [operand(x) for x in inputs]
    if dtype is not None:
        atoms = [convert(a, dtype=dtype) for a in atoms]
    elif all(a.aval.weak for a in atoms):
        atoms = [convert(a, dtype=a.dtype) for a in atoms]  # a ufunc on Python scalars gives NumPy scalars
    result = meaning(*atoms, **kwargs)
    if where is True:
        return result
    return _Masked(result, operand(where))


class _Masked:
    """A result that is defined where a mask holds; NumPy leaves the rest of ``out`` as it was."""

    def __init__(self, result: Atom, mask: Atom) -> None:
        self.result, self.mask = result, mask


def _store(result: Any, out: Any) -> Any:
    targets = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for target, value in zip(targets, results, strict=True):
        if target is None:
            continue
        if hasattr(type(target), "_become_traced"):
            target._become_traced()
        if not is_traced(target):
            raise unsupported(
                "`out=` with a plain ndarray",
                "Make the array inside the traced function (`np.empty_like(x)`).",
            )
        if isinstance(value, _Masked):
            shape = broadcast_shapes(target.atom.shape, value.result.shape)
            value = select(broadcast_to(value.mask, shape), broadcast_to(value.result, shape), target.atom)
        target._assign(value)
    return targets[0] if len(targets) == 1 else targets


def _reduce(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if ufunc not in _REDUCE:
        _refuse(ufunc, "reduce")
    array, *rest = inputs
    kwargs = {"axis": 0, **dict(zip(("axis", "dtype"), rest, strict=False)), **kwargs}
    if _REDUCE[ufunc] in (np.max, np.min, np.all, np.any):
        kwargs.pop("dtype", None)
    return FUNCTIONS[_REDUCE[ufunc]](array, **kwargs)


def _accumulate(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if ufunc not in _ACCUMULATE:
        _refuse(ufunc, "accumulate")
    return FUNCTIONS[_ACCUMULATE[ufunc]](inputs[0], **{"axis": 0, **kwargs})


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    a, b = (operand(x) for x in inputs)
    ones = FUNCTIONS[np.reshape](a, (*a.shape, *(1,) * len(b.shape)))
    return _call(ufunc, (ones, b), kwargs)


def _at(ufunc: np.ufunc, target: Any, key: Any, *values: Any) -> None:
    if hasattr(type(target), "_become_traced"):
        target._become_traced()
    if not is_traced(target):
        raise unsupported(
            f"`{ufunc.__name__}.at` on a plain ndarray", "Make the array inside the traced function."
        )
    if ufunc not in (np.add, np.subtract) or len(values) != 1:
        raise unsupported(
            f"`{ufunc.__name__}.at`", "`np.add.at` and `np.subtract.at` are; else write a loop."
        )
    value = operand(values[0])
    refuse_truncation(value, target.atom)
    target._rebind(add_at(target.atom, key, value if ufunc is np.add else neg(value)))


def _refuse(ufunc: np.ufunc, method: str) -> Any:
    raise unsupported(
        f"`{ufunc.__name__}.{method}`", "Use the NumPy function of the same meaning, or a loop."
    )


_METHODS = {"__call__": _call, "reduce": _reduce, "accumulate": _accumulate, "outer": _outer}
