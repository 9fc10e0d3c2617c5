"""Loops and branches written as function calls, with JAX's names and order of arguments.

In traced code each becomes one region or an error that says why not; outside of a trace they just run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.errors import StructureError
from tracejit.frontend.branching import branch
from tracejit.frontend.buffers import Buffer
from tracejit.frontend.carries import State, Static, split
from tracejit.frontend.carrying import Attempt
from tracejit.frontend.exits import value_of
from tracejit.frontend.iteration import Plan, range_
from tracejit.frontend.looping import Commit, closed, for_region, while_region
from tracejit.frontend.pytree import flatten, tree_map
from tracejit.frontend.regions import RegionFailed
from tracejit.frontend.registry import operand, size
from tracejit.frontend.symbolic import user_size
from tracejit.frontend.tracer import TracedArray
from tracejit.ir import dims
from tracejit.ir.dims import Undecided
from tracejit.ir.tape import Atom, current, is_tracing
from tracejit.ops.loop import counter, loop

__all__ = ["cond", "fori_loop", "scan", "while_loop"]


def _region(what: str, make: Callable[[], Commit]) -> Any:
    """Append the region that ``make`` traces."""
    try:
        commit = make()
    except (RegionFailed, Undecided) as failure:
        raise StructureError(
            f"`tj.{what}` cannot be one loop: {failure}.",
            where=current().source(),
            hint="What is carried must keep its structure, shapes and kinds of values; or write a loop.",
        ) from None
    return commit()


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Return ``init_val`` after ``val = body_fun(i, val)`` for ``i`` from ``lower`` to ``upper - 1``.

    Parameters
    ----------
    lower, upper : int
        May be traced.
    body_fun : callable
    init_val : tree of arrays

    Examples
    --------
    >>> fori_loop(0, 4, lambda i, total: total + i, 0)
    6
    """
    if not is_tracing():
        value = _owned(init_val)
        for i in range(lower, upper):
            value = body_fun(i, value)
        return value
    items = range_(lower, upper)
    plan = items if isinstance(items, Plan) else Plan(len(items), lambda k: lower + k)
    state = State(value=_owned(init_val))

    def step(i: Any) -> None:
        state["value"] = body_fun(i, state["value"])

    _region("fori_loop", lambda: for_region(plan, step, (), False, [body_fun, state]))
    return state["value"]


def _owned(tree: Any) -> Any:
    """Return the values of a tree in handles of their own, so that writes into them reach nobody else."""
    return tree_map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) and leaf.ndim else leaf, tree)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Return ``init_val`` after ``val = body_fun(val)`` while ``cond_fun(val)``.

    Examples
    --------
    >>> while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    192
    """
    if not is_tracing():
        value = _owned(init_val)
        while cond_fun(value):
            value = body_fun(value)
        return value
    state = State(value=_owned(init_val))

    def test() -> Any:
        return cond_fun(state["value"])

    def step() -> None:
        state["value"] = body_fun(state["value"])

    go = test()
    if type(go) is not TracedArray and not go:
        return state["value"]
    _region("while_loop", lambda: while_region(go, test, step, (), False, [cond_fun, body_fun, state]))
    return state["value"]


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Return ``true_fun(*operands)`` if ``pred``, else ``false_fun(*operands)``; a traced ``pred`` is no
    guard.

    Examples
    --------
    >>> cond(2 > 1, lambda x: x + 1, lambda x: x - 1, 10)
    11
    """
    if type(pred) is not TracedArray:
        return true_fun(*operands) if pred else false_fun(*operands)
    try:
        ended = branch(
            pred,
            lambda: (true_fun(*operands),),
            lambda: (false_fun(*operands),),
            (),
            [true_fun, false_fun],
            wait=True,
        )
    except RegionFailed as failure:
        raise StructureError(
            f"`tj.cond` needs branches that give the same kinds of values: {failure}.",
            where=current().source(),
            hint="Return the same structure, shapes and dtypes from both.",
        ) from None
    return value_of(ended)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Fold ``carry, y = f(carry, x)`` over the leading axis of ``xs``; return the last carry and the ys,
    stacked.

    Parameters
    ----------
    f : callable
    init : tree of arrays
    xs : tree of arrays, optional
        With leading axes of one length; None gives each ``x`` as None.
    length : int, optional
        Needed if ``xs`` is None.
    reverse : bool
        Run from the last entry to the first; the ys are in the order of the xs all the same.

    Examples
    --------
    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    leaves = [leaf for leaf in flatten(xs)[0] if leaf is not None]
    if not leaves and length is None:
        raise StructureError("`tj.scan` without xs needs `length=`.")
    trips = leaves[0].shape[0] if leaves else length
    if not is_tracing():
        return _plain_scan(f, _owned(init), xs, trips, reverse)
    return _scan(f, init, xs, size(trips), reverse)


def _entry(xs: Any, k: Any) -> Any:
    return tree_map(lambda leaf: None if leaf is None else leaf[k], xs)


def _plain_scan(f: Callable[..., Any], carry: Any, xs: Any, trips: int, reverse: bool) -> tuple[Any, Any]:
    rows = []
    for k in reversed(range(trips)) if reverse else range(trips):
        carry, y = f(carry, _entry(xs, k))
        rows.append(y)
    if reverse:
        rows.reverse()
    return carry, tree_map(lambda *ys: None if ys[0] is None else np.stack(ys), *rows) if rows else None


def _scan(f: Callable[..., Any], init: Any, xs: Any, trips: Any, reverse: bool) -> tuple[Any, Any]:
    xs = tree_map(lambda leaf: Buffer(leaf) if type(leaf) is np.ndarray else leaf, xs)
    state = State(value=_owned(init))
    index = counter(trips)
    entries: dict[str, Any] = {}

    def step() -> None:
        state["value"], y = f(state["value"], _entry(xs, user_size(dims.poly(index))))
        leaves, entries["tree"] = split(y)
        entries["ys"] = [leaf if isinstance(leaf, Static) else operand(leaf) for leaf in leaves]

    def make() -> Commit:
        attempt = Attempt([], (), [f, state])
        found = attempt.settle(step, lambda found: None, step.__code__)

        def commit() -> Any:
            stacked: list[Atom] = [y for y in entries["ys"] if not isinstance(y, Static)]
            tape, carries, operands = closed(attempt, found, stacked)
            final, ys = loop(tape, carries, operands, index=index, trips=trips, reverse=reverse)
            attempt.commit(found, final)
            rows = iter(map(TracedArray, ys))
            leaves = [y.value if isinstance(y, Static) else next(rows) for y in entries["ys"]]
            return state["value"], entries["tree"].unflatten(leaves)

        return commit

    result: tuple[Any, Any] = _region("scan", make)
    return result
