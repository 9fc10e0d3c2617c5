"""Get ready before the first call: the compiler, and functions for arguments to come."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tracejit.runtime.compile import prepare_compiler
from tracejit.tracebacks import boundary

__all__ = ["warmup"]


@boundary
def warmup(*calls: Sequence[Any], wait: bool = True) -> None:
    """Import the compiler, and compile functions for arguments to come; nothing is computed.

    The first compilation of a process imports Numba, which takes as long as a small function itself. What an earlier
    process kept on the disk needs no compiler, and no warming.

    Parameters
    ----------
    *calls : tuple
        A function that tracejit made, and the arguments that it will be called with: arrays of the same dtypes, ranks
        and kinds of memory do.
    wait : bool, default True
        Return when all is ready. If false, it is done in a thread of its own, while this one reads data, say.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> gradient = tj.grad(lambda x: np.sum(x**2))
    >>> tj.warmup((gradient, np.zeros(1000)))
    >>> gradient(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    if wait:
        _warm(calls)
    else:
        threading.Thread(target=_warm, args=(calls,), name="tracejit warmup", daemon=True).start()


def _warm(calls: Sequence[Sequence[Any]]) -> None:
    if not calls:
        prepare_compiler()
    for function, *args in calls:
        function.lower(*args).compile()
