"""What a captured value is: a number that becomes an input, a plain constant that is compared, or
something else.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import operator
import os
import pathlib
import re
import sys
import types
from collections import deque, namedtuple
from functools import cache
from typing import Any, Final

import numpy as np

from tracejit.errors import NonNumericError
from tracejit.frontend.regions import Handle
from tracejit.frontend.registry import is_traced
from tracejit.ir.source import here

__all__ = [
    "HEAP_TYPE",
    "MISSING",
    "changes_unseen",
    "is_constant",
    "is_library",
    "is_numeric",
    "is_user_class",
    "is_user_function",
    "require_plain",
    "same",
]


class _Missing(enum.Enum):
    """Stands for what is no longer, or not yet, there."""

    MISSING = "missing"


MISSING: Final = _Missing.MISSING

HEAP_TYPE: Final = 1 << 9
"""Flag of classes that were made by a class statement, not compiled."""

_NUMERIC_KINDS = frozenset("biufc")

# Equal values of one of these types cannot be told apart.  Floats are not among them: they become inputs.
_ATOMS = (int, bool, str, bytes, type(None), type(...), type(NotImplemented), range, np.dtype)

# Instances of library classes that never change: the same object is the same value.
_IMMUTABLE = (
    *(type, types.ModuleType, types.FunctionType, types.GenericAlias, types.UnionType, property),
    *(types.MemberDescriptorType, types.GetSetDescriptorType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType),
    type(vars(namedtuple("_Probe", "field"))["field"]),
    *(
        np.ufunc,
        type(np.sum),
        np.dtype,
        enum.Enum,
        re.Pattern,
        pathlib.PurePath,
        fractions.Fraction,
        decimal.Decimal,
    ),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)

# Packages that know nothing of the user's variables, so that their functions run as they are.
_LIBRARIES = frozenset(
    name
    for row in (
        "tracejit numpy scipy numba llvmlite numexpr Cython matplotlib pandas xarray dask sympy",
        "jax jaxlib torch tensorflow autograd IPython ipykernel joblib tqdm typing_extensions",
        "pytest _pytest pluggy hypothesis",
    )
    for name in row.split()
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


@cache
def is_library(module: str) -> bool:
    """Return whether the code of a module (by its name) is none of the user's."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return top in _LIBRARIES
    # A user's own random.py or profile.py has the name of a standard module, and is found before it.
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is None or file.startswith(_STANDARD_LIBRARY)


def is_user_function(value: Any) -> bool:
    """Return whether ``value`` is a Python function written by the user.

    Where its code comes from counts, not ``__module__``: that is what ``functools.wraps`` copies.
    """
    if not isinstance(value, types.FunctionType):
        return False
    module = value.__globals__.get("__name__", "")
    own = module.startswith("tracejit.")
    return not is_library(module) or (own and _is_example(value.__code__.co_filename))


def _is_example(file: str) -> bool:
    """Return whether code in a module of tracejit's is a user's: its doctests and its demonstration."""
    return not file.startswith(_PACKAGE) or file == _PACKAGE + "demo.py"


def is_user_class(cls: type) -> bool:
    """Return whether a class is the user's, and made by a class statement (or a call of ``type``)."""
    return bool(cls.__flags__ & HEAP_TYPE) and not is_library(cls.__module__)


def is_numeric(value: Any) -> bool:
    """Return whether a captured value is passed in anew at each call.

    Arrays and numbers are; Python's ints and bools are not, they are sizes, exponents and flags.
    """
    if type(value) is float:
        return True
    if isinstance(value, (np.ndarray, np.generic)) and not is_traced(value):
        require_plain(value)
        return value.dtype.kind in _NUMERIC_KINDS
    return (isinstance(value, (float, complex)) and not isinstance(value, enum.Enum)) or is_traced(value)


def require_plain(value: Any) -> None:
    """Raise for arrays of a subclass that computes in another way: masks, units, products of matrices."""
    if type(value) is np.ndarray or isinstance(value, np.generic | Handle):
        return
    changed = type(value).__array_ufunc__ is not np.ndarray.__array_ufunc__
    if changed or isinstance(value, (np.ma.MaskedArray, np.matrix)):
        raise NonNumericError(
            f"An array of type {type(value).__name__} computes in another way than plain arrays do.",
            where=here(),
            hint="Pass the plain array `np.asarray(a)`, and a mask as a second array for `np.where`.",
        )


def is_constant(value: Any) -> bool:
    """Return whether ``value`` is immutable, has no numeric parts, and is known by its value."""
    cls = type(value)
    if cls in (tuple, frozenset):
        return all(map(is_constant, value))
    if cls is slice:
        return is_constant((value.start, value.stop, value.step))
    return cls in _ATOMS or (isinstance(value, (np.dtype, np.generic)) and not is_numeric(value))


def same(left: Any, right: Any) -> bool:
    """Return whether two constants, or containers of them, are equal and of equal types: 1 is not True."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list, deque)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        # A loop over a dict depends on the order of its keys.
        return same(list(left), list(right)) and all(map(same, left.values(), right.values()))
    return bool(left == right)


def changes_unseen(value: Any) -> bool:
    """Return whether ``value``, which the user's code gets as it is, may change without being noticed."""
    if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
        return not isinstance(getattr(value, "__self__", None), (types.ModuleType, type, type(None)))
    package = type(value).__module__.partition(".")[0]
    return not (isinstance(value, _IMMUTABLE) or package in ("typing", "numba", "tracejit"))
