"""The lock that is held while something is compiled or loaded."""

from __future__ import annotations

import functools
import importlib
import os
import threading

__all__ = ["lock"]


class _Lock:
    """A lock whose holders a fork waits for: a child made in the middle of a compilation could never compile again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._hold_forks()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @functools.cache  # noqa: B019 -- there is one, which lives as long as the process
    def _hold_forks(self) -> None:
        # Last registered is first asked, and Numba logs while it compiles: with the lock of logging taken before this
        # one, each would wait for the other.
        importlib.import_module("logging")
        if hasattr(os, "register_at_fork"):
            take, give = self._lock.acquire, self._lock.release
            os.register_at_fork(before=take, after_in_parent=give, after_in_child=give)


lock = _Lock()
"""Held while something is compiled or loaded."""
