"""When a value can be read, in a sequence of passes over memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["NOW", "Known", "joined"]


@dataclass(frozen=True, slots=True)
class Known:
    """A value can be read in passes later than ``after``, and, at its own index, from pass ``at`` on."""

    after: int = -1
    at: int = -1

    @property
    def earliest(self) -> int:
        """The first pass that can read it at its own index."""
        return max(self.after + 1, self.at)

    def moved(self) -> Known:
        """Return the same for a value that reads this one at another index."""
        return Known(max(self.after, self.at), -1)


def joined(known: Iterable[Known]) -> Known:
    """Return when all of several values can be read."""
    after = at = -1
    for each in known:
        after, at = max(after, each.after), max(at, each.at)
    return Known(after, at)


NOW = Known()
