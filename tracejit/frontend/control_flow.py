"""The doors that lifted code goes through: loops, branches, truth values, and builtins that want plain numbers.

Where nothing is traced, or a region cannot be made, each door does what Python does.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["DOORS"]

Body = Callable[..., Any]


class _Code:
    """How a loop body ended, other than by falling through or returning a value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


BREAK, CONTINUE = _Code("break"), _Code("continue")


def for_(iterable: Iterable[Any], body: Body, names: tuple[str, ...], leaves: bool) -> Any:
    """``for item in iterable: body``."""
    for item in iterable:
        ended = body(item)
        if ended is not None and ended is not CONTINUE:
            return ended
    return None


def while_(test: Body, body: Body, names: tuple[str, ...], leaves: bool) -> Any:
    """``while test: body``."""
    while test():
        ended = body()
        if ended is not None and ended is not CONTINUE:
            return ended
    return None


def if_(test: Any, true: Body | None, false: Body | None, names: tuple[str, ...]) -> Any:
    """``if test: true else: false``."""
    branch = true if test else false
    return None if branch is None else branch()


def plain_exit(ended: Any) -> Any:
    return ended


def value(ended: Any) -> Any:
    """Return what the function returns, given how its last block ended."""
    return None if ended is None else ended[0]


def returned(ended: Any) -> Any:
    """Return whether a loop ended by ``return``."""
    return isinstance(ended, tuple)


def completed(ended: Any) -> Any:
    """Return whether a loop ended without ``break``."""
    return ended is None


def and_(first: Any, *others: Body) -> Any:
    """``first and other()...``."""
    result = first
    for other in others:
        if not result:
            return result
        result = other()
    return result


def or_(first: Any, *others: Body) -> Any:
    """``first or other()...``."""
    result = first
    for other in others:
        if result:
            return result
        result = other()
    return result


def not_(value: Any) -> Any:
    """``not value``."""
    return not value


def choose(test: Any, true: Body, false: Body) -> Any:
    """``true if test else false``."""
    return true() if test else false()


def chain(pairs: tuple[Body, ...], left: Any, right: Any, *others: Body) -> Any:
    """``left < right < other()...``."""
    result = pairs[0](left, right)
    for compare, other in zip(pairs[1:], others, strict=True):
        if not result:
            return result
        left, right = right, other()
        result = compare(left, right)
    return result


def type_(cls: Any) -> Any:
    """Return what a call of a builtin type goes to; the user's own function of that name stays."""
    return cls


DOORS: dict[str, Any] = {
    "_tj_BREAK": BREAK,
    "_tj_CONTINUE": CONTINUE,
    "_tj_and": and_,
    "_tj_chain": chain,
    "_tj_choose": choose,
    "_tj_completed": completed,
    "_tj_for": for_,
    "_tj_if": if_,
    "_tj_not": not_,
    "_tj_or": or_,
    "_tj_plain_exit": plain_exit,
    "_tj_returned": returned,
    "_tj_type": type_,
    "_tj_value": value,
    "_tj_while": while_,
}
"""Names in lifted code -> what stands behind them."""

assert builtins
