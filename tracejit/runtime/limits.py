"""What is too much: traces that are too long to compile, functions that are traced too often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.errors import LongTraceWarning, RetraceWarning
from tracejit.runtime.entry import Entry
from tracejit.tracebacks import warn_user

__all__ = ["MAX_PATHS", "runs_long", "warn_retraces"]

MAX_PATHS = 32
"""Traces of one signature before a `RetraceWarning`."""

MAX_EQUATIONS = 200_000
"""Longest tape that is written as loops at all: its text takes half a minute."""

MAX_LINES = 6000
"""Longest generated code that is compiled, repeated pieces counted once: a line takes up to 5 ms."""


def runs_long(entry: Entry) -> bool:
    """Return whether compiling would take a minute or more, so that NumPy runs the tape; say so once."""
    if _size_of(entry) is None:
        return False
    if not entry.told:
        entry.told = True
        warn_user(
            f"{entry.name} is a trace of {_size_of(entry)}, which would take long to compile; NumPy runs it instead. "
            "Loops over `range`, arrays, `zip` and `enumerate` whose body keeps shapes stay loops; lists that grow and "
            "functions without source are unrolled.",
            LongTraceWarning,
        )
    return True


def _size_of(entry: Entry) -> str | None:
    """Return how large an entry is if that is too much."""
    if len(entry.tape.eqns) > MAX_EQUATIONS:
        return f"{len(entry.tape.eqns)} equations"
    lines = entry.program.source.count("\n")
    return f"{lines} generated lines" if lines > MAX_LINES else None


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
