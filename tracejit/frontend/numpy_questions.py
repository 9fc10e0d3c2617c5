"""NumPy's questions about arrays that dtypes and shapes answer, and text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.errors import BroadcastError
from tracejit.frontend.numpy_moving import plain_mask
from tracejit.frontend.numpy_ordering import sort
from tracejit.frontend.reducing import strong
from tracejit.frontend.registry import FUNCTIONS, contains_traced, implements, is_traced, operand, unsupported
from tracejit.frontend.symbolic import wrapped
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import broadcast_shapes, convert
from tracejit.ops.complex_parts import imag, real
from tracejit.ops.linear import reshape
from tracejit.ops.logic import equal
from tracejit.ops.ordering import take_along

__all__: list[str] = []


# --- dtypes -------------------------------------------------------------------------------------------------


def _example(value: Any) -> Any:
    """Return something plain of the same dtype: for weak scalars a Python number."""
    if not (is_traced(value) or isinstance(value, Atom)):
        return value
    atom = operand(value)
    return atom.dtype.type(0).item() if atom.aval.weak else np.empty((1,) * len(atom.shape), atom.dtype)


@implements(np.astype)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Atom:
    return convert(strong(x), dtype=dtype)


@implements(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    return np.result_type(*map(_example, arrays_and_dtypes))


@implements(np.common_type)
def _common_type(*arrays: Any) -> type:
    return np.common_type(*map(np.asarray, map(_example, arrays)))


@implements(np.can_cast)
def _can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    return np.can_cast(operand(from_).dtype, to, casting)


@implements(np.min_scalar_type)
def _min_scalar_type(a: Any, /) -> np.dtype[Any]:
    x = operand(a)
    if not x.shape:
        raise unsupported("`np.min_scalar_type` of a scalar, whose value decides,", "Use `x.dtype`.")
    return x.dtype


# --- shapes and places --------------------------------------------------------------------------------------


@implements(np.array_equiv)
def _array_equiv(a1: Any, a2: Any) -> Any:
    x, y = operand(a1), operand(a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except BroadcastError:
        return False
    return FUNCTIONS[np.all](equal(x, y))


@implements(np.ix_)
def _ix_(*args: Any) -> tuple[Any, ...]:
    places = []
    for axis, arg in enumerate(args):
        row = strong(arg)
        if len(row.shape) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if row.dtype.kind == "b":
            row = operand(np.flatnonzero(plain_mask(arg)))
        places.append(reshape(row, shape=tuple(row.shape[0] if k == axis else 1 for k in range(len(args)))))
    return tuple(places)


@implements(np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Atom:
    return FUNCTIONS[np.matrix_transpose](x)


@implements(np.einsum_path)
def _einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    plain = [_of_same_shape(o) if contains_traced(o) else o for o in operands]
    return np.einsum_path(*plain, optimize=optimize)


def _of_same_shape(value: Any) -> Any:
    x = operand(value)
    return np.broadcast_to(np.zeros((), x.dtype), tuple(map(current().pin, x.shape)))


@implements(np.sort_complex)
def _sort_complex(a: Any) -> Atom:
    x = strong(a)
    if x.dtype.kind != "c":
        narrow = x.dtype.char in "bhBH"
        return convert(sort(x, len(x.shape) - 1), dtype=np.result_type(x.dtype, "F" if narrow else "f", "F"))
    order = FUNCTIONS[np.lexsort]([wrapped(imag(x)), wrapped(real(x))])
    return take_along(x, order, len(x.shape) - 1)


# --- text ---------------------------------------------------------------------------------------------------


@implements(np.array2string, np.array_repr, np.array_str)
def _text(a: Any, *args: Any, **kwargs: Any) -> str:
    return repr(wrapped(operand(a)))
