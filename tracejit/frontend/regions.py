"""Attempts at regions: what is changed while a loop body is traced once for all iterations, and how to
undo it.

While a body or branch is traced, a `Log` is open.  It keeps the state of every handle made before that is
changed
meanwhile; the changes are then undone, and what they amount to becomes the result of one op.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

__all__ = ["Handle", "Log", "RegionFailed", "active", "become", "born", "touch", "versions"]


class RegionFailed(BaseException):
    """Raised where a body cannot be traced for all iterations at once; no user code catches it.

    ``integers`` are the arguments, by their number, that might be constants to let it be traced.
    """

    def __init__(self, reason: str, integers: frozenset[int] = frozenset()) -> None:
        super().__init__(reason)
        self.integers = integers


class Specialise(BaseException):
    """Raised to start a trace again with some of its arguments, whole numbers, as constants."""

    def __init__(self, integers: frozenset[int]) -> None:
        super().__init__()
        self.integers = integers


class Handle:
    """What user code holds in place of an array: one object, whose contents may be replaced.

    Its class says what the contents are; it changes when a traced value is written into a plain array.
    """

    __slots__ = (
        "__weakref__", "_atom", "_base", "_born", "_c_order", "_first", "_how", "_path", "_seen", "_under",
        "_version", "_writeable",
    )  # fmt: skip
    _atom: Any
    _base: Any
    _path: Any
    _seen: Any
    _under: Any
    _born: int
    _version: int
    _writeable: bool
    _first: Any
    _how: str
    _c_order: bool | None

    def _state(self) -> Any:
        return (
            type(self),
            self._atom,
            self._base,
            self._path,
            self._seen,
            self._under,
            self._first,
            self._version,
        )

    def _restore(self, state: Any) -> None:
        """Undo what happened since `_state` was called; views read anew."""
        cls, self._atom, self._base, self._path, self._seen, self._under, self._first, version = state
        become(self, cls)
        self._version = next(versions) if self._base is None and version != self._version else version


def become(handle: Handle, cls: type[Handle]) -> None:
    """Let ``handle`` be of another class from now on; ``__class__`` itself says ``numpy.ndarray``."""
    object.__dict__["__class__"].__set__(handle, cls)


versions = itertools.count(1)
"""Contents of arrays are numbered, so that a view knows whether it has seen the present ones."""

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
