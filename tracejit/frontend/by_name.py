"""Traced meanings for modules that tracejit does not import: module and name -> meaning.

A module's functions are recognised once it has been imported, by whomever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tracejit.frontend.registry import UFUNCS

__all__ = ["FUNCTIONS_BY_NAME", "UFUNCS_BY_NAME", "replaces", "ufunc_meaning"]

Meaning = Callable[..., Any]

UFUNCS_BY_NAME: dict[str, dict[str, Meaning]] = {}
"""Ufuncs, which NumPy dispatches on traced values."""

FUNCTIONS_BY_NAME: dict[str, dict[str, Meaning]] = {}
"""Python functions without a door: traced code is given their meanings instead (see `replacements`)."""

_adopted: set[str] = set()


def replaces(module: str, *names: str) -> Callable[[Meaning], Meaning]:
    """Register the decorated function as the traced meaning of functions of ``module``."""

    def register(meaning: Meaning) -> Meaning:
        FUNCTIONS_BY_NAME.setdefault(module, {}).update(dict.fromkeys(names, meaning))
        return meaning

    return register


def ufunc_meaning(ufunc: np.ufunc) -> Meaning | None:
    """Return the traced meaning of a ufunc, None if there is none."""
    if ufunc not in UFUNCS:
        for name in UFUNCS_BY_NAME.keys() - _adopted:
            if name in sys.modules:
                _adopt(sys.modules[name], UFUNCS_BY_NAME[name])
                _adopted.add(name)
    return UFUNCS.get(ufunc)


def _adopt(module: ModuleType, meanings: dict[str, Meaning]) -> None:
    for attribute, value in vars(module).items():
        if isinstance(value, np.ufunc) and attribute in meanings:
            UFUNCS.setdefault(value, meanings[attribute])
