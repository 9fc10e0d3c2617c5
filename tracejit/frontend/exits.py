"""How a block ends: by falling through, ``break``, ``continue`` or ``return``; perhaps only values know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracejit.frontend.carries import State
from tracejit.frontend.registry import is_traced

__all__ = ["BREAK", "CONTINUE", "Exit", "Leaving", "code_of", "exit_from", "has_value", "value_of"]


class Code:
    """A way to end a block without a value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


BREAK, CONTINUE = Code("break"), Code("continue")

GO, BROKEN, RETURNED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Exit:
    """An end that depends on traced values: a traced code, and what is returned if that says so."""

    code: Any
    value: Any = None
    has_value: bool = False


def code_of(ended: Any) -> Any:
    """Return the code of an end: 0 to go on, 1 for break, 2 for return; traced if only the values know."""
    if isinstance(ended, Exit):
        return ended.code
    return RETURNED if isinstance(ended, tuple) else BROKEN if ended is BREAK else GO


def has_value(ended: Any) -> bool:
    """Return whether something is returned, or may be."""
    return isinstance(ended, tuple) or (isinstance(ended, Exit) and ended.has_value)


def value_of(ended: Any) -> Any:
    """Return what is returned."""
    return ended[0] if isinstance(ended, tuple) else ended.value


def exit_from(code: Any, value: Any, has_value: bool) -> Any:
    """Return the end for a code and the value that goes with it."""
    if is_traced(code):
        return Exit(code, value, has_value)
    return (value,) if code == RETURNED else BREAK if code == BROKEN else None


class Leaving:
    """Whether a loop was left, as state that the region carries along.

    After the loop was left the remaining iterations do nothing.
    """

    def __init__(self) -> None:
        self.state = State(code=GO)

    def going(self) -> Any:
        """Return whether the loop goes on."""
        return self.state["code"] == GO

    def note(self, ended: Any) -> None:
        """Keep how an iteration ended."""
        self.state["code"] = code_of(ended)
        if has_value(ended):
            self.state["value"] = value_of(ended)

    def ended(self) -> Any:
        """Return how the loop ended."""
        return exit_from(self.state["code"], self.state.get("value"), "value" in self.state)
