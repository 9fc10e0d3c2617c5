"""Where entries are kept: with the function that they were made for, and for others that have the same code.

A lambda around new data in each iteration of a fit is a new function, but its code is the same object. Its entry reads
what the lambda closes over by way of the lambda, so it serves the next one as it is, without a trace.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FunctionType
from typing import Any

from tracejit.frontend.trace import Static
from tracejit.frontend.values import is_constant
from tracejit.runtime.entry import Entry
from tracejit.runtime.keys import owner_of

__all__ = ["Shelf", "clear_entries", "shelf_of"]

MAX_SHARED = 8
"""Entries that one code object keeps for functions to come, per signature."""

Table = dict[Hashable, list[Entry]]

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # No other thread holds it when the process is forked: nobody in the child would ever release it.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_own: weakref.WeakKeyDictionary[Any, Table] = weakref.WeakKeyDictionary()
_shared: weakref.WeakKeyDictionary[CodeType, Table] = weakref.WeakKeyDictionary()


class Shelf:
    """The entries of one function for one signature.

    Attributes
    ----------
    own : list of Entry
        Those that the function has run, the latest first.
    """

    __slots__ = ("_shared", "own")

    def __init__(self, own: list[Entry], shared: list[Entry]) -> None:
        self.own, self._shared = own, shared

    def candidates(self) -> Iterator[Entry]:
        """Yield the function's own entries, then those of other functions with the same code."""
        own = list(self.own)
        yield from own
        yield from (entry for entry in list(self._shared) if entry not in own)

    def add(self, entry: Entry) -> None:
        """Keep an entry that was made or found for the function."""
        with _lock:
            if entry not in self.own:
                self.own.insert(0, entry)
            if entry in self._shared or not _serves_others(entry):
                return
            self._shared.insert(0, entry)
            del self._shared[MAX_SHARED:]


def shelf_of(function: Callable[..., Any], key: Hashable) -> Shelf:
    """Return where the entries of ``function`` are for a signature; in a callable that cannot be a key, nowhere."""
    owner, part = owner_of(function)
    with _lock:
        try:
            own = _own.setdefault(owner, {}).setdefault((part, key), [])
        except TypeError:
            own = []
        if type(function) is not FunctionType:
            return Shelf(own, [])
        return Shelf(own, _shared.setdefault(function.__code__, {}).setdefault(key, []))


def clear_entries() -> None:
    """Forget all entries."""
    with _lock:
        _own.clear()
        _shared.clear()


def _serves_others(entry: Entry) -> bool:
    outputs = [leaf.value for leaf in entry.outputs if isinstance(leaf, Static)]
    return entry.reads.serves_others and not entry.warned and all(map(is_constant, outputs))
