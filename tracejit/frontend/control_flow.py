"""The doors that lifted code goes through: loops, branches, truth values, and builtins that want plain
numbers.

Where nothing is traced, or a region cannot be made, each door does what Python does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tracejit.frontend.branching import branch, is_undecided, truth
from tracejit.frontend.buffers import buffered
from tracejit.frontend.doors import DOORS
from tracejit.frontend.exits import BREAK, CONTINUE, GO, RETURNED, Exit
from tracejit.frontend.iteration import enumerate_, range_, reversed_, zip_
from tracejit.frontend.looping import run_for, run_while
from tracejit.frontend.regions import RegionFailed
from tracejit.frontend.scalars import NUMBER_TYPES, as_numpy
from tracejit.frontend.tracer import TracedArray
from tracejit.ops.logic import logical_not

__all__ = ["DOORS"]

Body = Callable[..., Any]


def for_(iterable: Iterable[Any], body: Body, names: tuple[str, ...], leaves: bool) -> Any:
    """``for item in iterable: body``."""
    return run_for(iterable, body, names, leaves)


def while_(test: Body, body: Body, names: tuple[str, ...], leaves: bool) -> Any:
    """``while test: body``."""
    return run_while(test, body, names, leaves)


def if_(test: Any, true: Body | None, false: Body | None, names: tuple[str, ...]) -> Any:
    """``if test: true else: false``."""
    return branch(test, true, false, names)


def plain_exit(ended: Any) -> Any:
    """Return how a block ended, where that must be known now: inside ``try`` and the like."""
    if isinstance(ended, Exit):
        raise RegionFailed("it leaves a `try`, `with` or `match` on a traced condition")
    return ended


def value(ended: Any) -> Any:
    """Return what the function returns, given how its last block ended."""
    return ended.value if isinstance(ended, Exit) else None if ended is None else ended[0]


def returned(ended: Any) -> Any:
    """Return whether a loop ended by ``return``."""
    return ended.code == RETURNED if isinstance(ended, Exit) else isinstance(ended, tuple)


def completed(ended: Any) -> Any:
    """Return whether a loop ended without ``break``."""
    return ended.code == GO if isinstance(ended, Exit) else ended is None


def and_(first: Any, *others: Body) -> Any:
    """``first and other()...``."""
    result = first
    for other in others:
        if is_undecided(result):
            result = _combined(result, other, False)
        elif not result:
            return result
        else:
            result = other()
    return result


def or_(first: Any, *others: Body) -> Any:
    """``first or other()...``."""
    result = first
    for other in others:
        if is_undecided(result):
            result = _combined(result, other, True)
        elif result:
            return result
        else:
            result = other()
    return result


def _combined(first: Any, other: Body, if_true: bool) -> Any:
    """Return ``first`` if its truth is ``if_true``, else ``other()``."""
    return choose(first, lambda: first, other) if if_true else choose(first, other, lambda: first)


def not_(value: Any) -> Any:
    """``not value``."""
    return TracedArray(logical_not(truth(value))) if is_undecided(value) else not value


def choose(test: Any, true: Body, false: Body) -> Any:
    """``true if test else false``."""
    return value(branch(test, lambda: (true(),), lambda: (false(),), (), (true, false)))


def chain(pairs: tuple[Body, ...], left: Any, right: Any, *others: Body) -> Any:
    """``left < right < other()...``."""
    result = pairs[0](left, right)
    if not others or not (is_undecided(result) or result):
        return result
    return and_(result, lambda: chain(pairs[1:], right, others[0](), *others[1:]))


_TYPES: dict[Any, Any] = {
    **NUMBER_TYPES,
    enumerate: enumerate_,
    range: range_,
    reversed: reversed_,
    zip: zip_,
    np.ndarray: lambda *args, **kwargs: buffered(np.ndarray(*args, **kwargs)),
}


def type_(cls: Any) -> Any:
    """Return what a call of a type goes to, of Python's or NumPy's; the user's own function of that name stays."""
    if not isinstance(cls, type):
        return cls
    return partial(as_numpy, cls) if issubclass(cls, np.generic) else _TYPES.get(cls, cls)


DOORS.update(
    _tj_BREAK=BREAK,
    _tj_CONTINUE=CONTINUE,
    _tj_and=and_,
    _tj_chain=chain,
    _tj_choose=choose,
    _tj_completed=completed,
    _tj_for=for_,
    _tj_if=if_,
    _tj_not=not_,
    _tj_or=or_,
    _tj_plain_exit=plain_exit,
    _tj_returned=returned,
    _tj_type=type_,
    _tj_value=value,
    _tj_while=while_,
)
