"""What is too much: traces that are too long to compile, functions that are traced too often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.errors import LongTraceWarning, RetraceWarning
from tracejit.ir.tape import Tape
from tracejit.runtime.entry import Entry
from tracejit.tracebacks import warn_user

__all__ = ["MAX_PATHS", "is_long", "warn_long", "warn_retraces"]

MAX_PATHS = 32
"""Traces of one signature before a `RetraceWarning`."""

MAX_EQUATIONS = 4000
"""Longest tape that is compiled; each equation costs up to 10 ms and a megabyte then."""


def is_long(tape: Tape) -> bool:
    """Return whether compiling would take minutes and gigabytes."""
    return len(tape.eqns) > MAX_EQUATIONS


def warn_long(entry: Entry) -> None:
    """Say, once, that NumPy runs what would take too long to compile, and how to avoid it."""
    if entry.told:
        return
    entry.told = True
    warn_user(
        f"The trace of {entry.name} has {len(entry.tape.eqns)} equations, more than the {MAX_EQUATIONS} that are "
        "compiled; NumPy runs it instead. Loops over `range`, arrays, `zip` and `enumerate` whose body keeps shapes "
        "stay loops; lists that grow and functions without source are unrolled.",
        LongTraceWarning,
    )


def warn_retraces(function: Callable[..., Any], entry: Entry) -> None:
    name = getattr(function, "__qualname__", repr(function))
    guards = entry.tape.guards
    where = f" The last decision on a traced value was {guards[-1].source}." if guards else ""
    warn_user(
        f"{name} was traced {MAX_PATHS} times for one signature of its arguments.{where} Each Python branch on a "
        "traced value and each captured setting that changes is a trace of its own: use `np.where` for branches, "
        "or pass what changes as an array or a float.",
        RetraceWarning,
    )
