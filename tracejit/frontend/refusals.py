"""Errors for traced values that are asked for a plain value, or written where they do not fit."""

from __future__ import annotations

import dis
import sys

from tracejit.errors import ConcretizationError, IntegerStoreError, TracejitError
from tracejit.frontend.registry import unsupported
from tracejit.ir.tape import Atom, Var, current
from tracejit.ops.broadcasting import operands_text

__all__ = ["needs_value", "refuse_truncation", "store_outside", "stored", "unknown_layout"]


def refuse_truncation(value: Atom, target: Atom) -> None:
    """Raise if writing ``value`` into ``target`` would cut a traced fraction off."""
    if isinstance(value, Var) and value.aval.inexact and target.dtype.kind in "iub":
        raise IntegerStoreError(
            f"A traced {value.dtype} value is written into an array of integer dtype {target.dtype}.",
            where=current().source(),
            detail=f"array: {operands_text([target])}; value: {operands_text([value])}",
            hint="NumPy would cut the fraction and the gradient would vanish; make the array with dtype=float.",
        )


def needs_value(what: str, hint: str) -> TracejitError:
    return ConcretizationError(
        f"`{what}` needs a plain value, but the value is traced.", where=current().source(), hint=hint
    )


def stored() -> TracejitError | None:
    """Return the error for a store into an entry of a plain ndarray, if NumPy asks for a number because of one."""
    frame = sys._getframe(2)
    if frame.f_code.co_code[frame.f_lasti] != dis.opmap["STORE_SUBSCR"]:
        return None
    return ConcretizationError(
        "A traced value is written into a plain ndarray.",
        where=current().source(),
        hint="Make the array from traced ones, for example with `np.zeros_like(x)` or `np.stack`, or pass it in.",
    )


def unknown_layout() -> TracejitError:
    """Return the error for a store through a reshape that NumPy may have answered with a copy."""
    return unsupported(
        "A store into a reshaped array, or into an array that was reshaped before, if the memory layout decides "
        "whether the two share memory,",
        "Make a copy first (`y = x.copy()`, `v = x.reshape(...).copy()`), or store by indexing the array.",
    )


def store_outside() -> TracejitError:
    """Return the error for a store of an inner function into an array of the function around it."""
    return unsupported(
        "A store of a differentiated inner function into an array of the function around it",
        "Write into a copy (`y = y.copy()`), or return the new values.",
    )
