"""The traced meaning of a NumPy function against the function: values, dtypes, errors, derivatives."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import op_table
import tape_tools

from tracejit.frontend import numpy_api
from tracejit.ir.tape import Tape

Array = np.ndarray[Any, Any]

DIGITS = {"e": 5e-3, "f": 2e-6, "F": 2e-6}
"""Relative tolerance by the dtype of a result; 1e-12 for the wider ones."""


def meaning_of(function: Any) -> Callable[..., Any]:
    table = numpy_api.UFUNCS if isinstance(function, np.ufunc) else numpy_api.FUNCTIONS
    return table[function]


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or the exception that it raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return call()
        except Exception as error:
            return error


def agrees(function: Any, *arrays: Any, **keywords: Any) -> Tape | None:
    """Check ``function(*arrays, **keywords)`` against NumPy; return the tape, or None where both raise."""
    return agrees_on(lambda f: lambda *xs: f(*xs, **keywords), function, *arrays)


def agrees_on(use: Callable[[Any], Callable[..., Any]], function: Any, *arrays: Any) -> Tape | None:
    """As `agrees` for any use of the function: ``use(function)(*arrays)``."""
    arrays = tuple(map(np.asarray, arrays))
    wanted = outcome(lambda: use(function)(*arrays))
    traced = outcome(lambda: tape_tools.trace(use(meaning_of(function)), *arrays))
    if isinstance(wanted, Exception):
        kind = next(k for k in (ValueError, TypeError, IndexError) if isinstance(wanted, k))
        assert isinstance(traced, kind), (wanted, traced)
        return None
    if isinstance(traced, Exception):
        raise traced
    (got,) = tape_tools.run(traced, *arrays)
    wanted = np.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    digits = DIGITS.get(wanted.dtype.char, 1e-12)
    np.testing.assert_allclose(got, wanted, rtol=digits, atol=0 if wanted.dtype.kind in "biu" else 4 * digits)
    return traced


def differentiates(
    function: Any, *arrays: Array, order: int = 2, digits: float = 1e-10, **keywords: Any
) -> None:
    """Check values, and derivatives in both modes up to ``order`` against differences."""
    tape = agrees(function, *arrays, **keywords)
    assert tape is not None
    op_table.check_derivatives(tape, arrays, order, digits)
