"""Attempts at regions: what is changed while a loop body is traced once for all iterations, and how to undo it.

While a body or branch is traced, a `Log` is open.  It keeps the state of every handle made before that is changed
meanwhile; the changes are then undone, and what they amount to becomes the result of one op.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Protocol

__all__ = ["Log", "RegionFailed", "active", "born", "touch"]


class RegionFailed(BaseException):
    """Raised where a body cannot be traced for all iterations at once; a ``BaseException`` that no user code catches."""


class Handle(Protocol):
    """What the log needs of a traced array."""

    _born: int

    def _state(self) -> Any: ...

    def _restore(self, state: Any) -> None: ...


_serial = itertools.count(1)
_thread = threading.local()


def _logs() -> list[Log]:
    try:
        logs: list[Log] = _thread.logs
    except AttributeError:
        logs = _thread.logs = []
    return logs


class Log:
    """The handles that are changed inside a ``with`` block, with their states before."""

    def __init__(self) -> None:
        self.serial = next(_serial)
        self._saved: dict[int, tuple[Handle, Any]] = {}
        self.written: dict[int, Any] = {}

    def __enter__(self) -> Log:
        _logs().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _logs().remove(self)

    def save(self, handle: Handle, write: bool) -> None:
        """Note that ``handle`` is about to change."""
        if handle._born >= self.serial:
            return
        if id(handle) not in self._saved:
            self._saved[id(handle)] = handle, handle._state()
        if write:
            self.written[id(handle)] = handle

    def undo(self) -> None:
        """Give every handle the contents that it had before."""
        for handle, state in self._saved.values():
            handle._restore(state)


def active() -> Log | None:
    """Return the innermost open log of this thread."""
    logs = _logs()
    return logs[-1] if logs else None


def born() -> int:
    """Return the time stamp for a handle that is made now."""
    logs = _logs()
    return logs[-1].serial if logs else 0


def touch(handle: Handle, write: bool) -> None:
    """Tell the innermost log that ``handle`` is about to change."""
    logs = _logs()
    if logs:
        logs[-1].save(handle, write)
