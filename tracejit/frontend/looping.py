"""``for`` and ``while`` as regions: one trace of the body stands for all iterations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tracejit.frontend.branching import branch
from tracejit.frontend.carries import State, fitted
from tracejit.frontend.carrying import Attempt, Pass
from tracejit.frontend.concrete import integers_behind
from tracejit.frontend.exits import CONTINUE, Leaving
from tracejit.frontend.iteration import Plan, plan_of
from tracejit.frontend.regions import RegionFailed, Specialise, active
from tracejit.frontend.symbolic import user_size
from tracejit.frontend.tracer import TracedArray
from tracejit.frontend.trip_bounds import most_trips
from tracejit.ir import dims
from tracejit.ir.dims import Dim, Undecided
from tracejit.ir.tape import Atom, Tape, Var, current, is_tracing
from tracejit.ops.loop import bind_size, counter, loop, runtime_size, while_
from tracejit.ops.region import close

__all__ = ["FEW", "Plainly", "closed", "for_region", "run_for", "run_while", "unrolled", "while_region"]

FEW = 3
"""Loops of up to this many trips are unrolled."""

_EXPECTED_TRIPS = 16
"""Of a loop whose number of trips is a traced integer."""

PLAIN = 100_000
"""Loops of up to this many trips are left to Python if nothing traced goes into them."""

_thread = threading.local()


def unrolled() -> list[tuple[str, str]]:
    """Return where loops of the present trace were unrolled, and why."""
    try:
        reasons: list[tuple[str, str]] = _thread.reasons
    except AttributeError:
        reasons = _thread.reasons = []
    return reasons


class Plainly(RegionFailed):
    """Nothing traced goes into the loop."""


# --- for ----------------------------------------------------------------------------------------------------


def run_for(iterable: Iterable[Any], body: Callable[..., Any], names: tuple[str, ...], leaves: bool) -> Any:
    """``for item in iterable: body(item)``; returns how it ended."""
    plan = plan_of(iterable) if is_tracing() else None
    if plan is None:
        return iterate(iterable, body)
    if plan.static is not None and plan.static <= FEW:
        return iterate(plan, body)
    region = _attempt(lambda: for_region(plan, body, names, leaves))
    if not isinstance(region, str):
        return region()
    if plan.static is not None or isinstance(plan.trips, dims.Poly):
        return _peeled(plan, body, names, leaves, region)
    if region and (integers := integers_behind(plan.trips)):
        raise Specialise(integers)
    _note(region)
    return iterate(plan, body)


def _peeled(plan: Plan, body: Callable[..., Any], names: tuple[str, ...], leaves: bool, reason: str) -> Any:
    """Run the first iteration by itself and try the others: what differed may be how it starts."""
    if reason and current().decide(">=", plan.trips - 1):
        ended = body(plan.item(0))
        if ended is not None and ended is not CONTINUE:
            return ended
        plan = plan.rest()
        region = _attempt(lambda: for_region(plan, body, names, leaves))
        if not isinstance(region, str):
            return region()
    _note(reason)
    return iterate(plan, body)


Commit = Callable[[], Any]
"""Appends a region that was traced, and returns how it ends."""


def iterate(items: Iterable[Any], body: Callable[..., Any]) -> Any:
    """Run a loop as Python does."""
    for item in items:
        ended = body(item)
        if ended is not None and ended is not CONTINUE:
            return ended
    return None


def _attempt(make: Callable[[], Commit]) -> Commit | str:
    """Return what ``make`` returns, or why it could not; all that the attempt changed is undone then.

    A whole number that is an argument would be constant in a loop that is unrolled; rather than that, the trace
    starts again with it as a constant.
    """
    try:
        return make()
    except (RegionFailed, Undecided) as failure:
        if isinstance(failure, RegionFailed) and failure.integers:
            raise Specialise(failure.integers) from None
        return "" if isinstance(failure, Plainly) else str(failure)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _note(reason: str) -> None:
    if reason:
        source = current().source()
        unrolled().append((str(source), reason))


def for_region(
    plan: Plan, body: Callable[..., Any], names: Collection[str], leaves: bool, roots: Sequence[Any] = ()
) -> Commit:
    """Trace a loop over the items of ``plan``."""
    leaving = Leaving() if leaves else None
    trips: Dim = plan.trips if not isinstance(plan.trips, Atom) else _bound(plan.trips)
    index = counter(trips, "ijklpqrst"[min(_depth(), 8)])
    item = dims.poly(index)

    def step() -> None:
        _take(leaving, lambda: body(plan.item(user_size(item))), names, [body])

    attempt = Attempt([body], names, [*([] if leaving is None else [leaving.state]), *roots])
    found = attempt.settle(step, lambda p: _refuse_plain(plan, p), body.__code__)

    def commit() -> Any:
        tape, carries, operands = closed(attempt, found)
        results, _ = loop(tape, carries, operands, index=index, trips=trips)
        attempt.commit(found, results)
        return None if leaving is None else leaving.ended()

    return commit


def _bound(count: Atom) -> Dim:
    symbol = runtime_size(_EXPECTED_TRIPS, most=most_trips(count))
    bind_size(count, symbol=symbol)
    return dims.poly(symbol)


def _depth() -> int:
    return len(current()._outer)


def _take(
    leaving: Leaving | None, run: Callable[[], Any], names: Collection[str], roots: Sequence[Any]
) -> None:
    if leaving is None:
        if run() not in (None, CONTINUE):
            raise RegionFailed("it leaves in the first iteration")
        return
    branch(leaving.going(), lambda: leaving.note(run()), None, names, [*roots, leaving.state])


def _refuse_plain(plan: Plan, found: Pass) -> None:
    static = plan.static
    if static is None or static > PLAIN or active() is not None:
        return
    if not found.builder.captured:
        raise Plainly("nothing traced goes into it")


def closed(
    attempt: Attempt, found: Pass, stacked: Sequence[Atom] = ()
) -> tuple[Tape, list[Atom], tuple[Var, ...]]:
    """Return the body's tape (``stacked`` after the carries), the initial carries, and what else it takes."""
    carries = list(attempt.carries.values())
    with found.builder:
        outputs = [
            fitted(atom, aval)
            for carry, atoms in zip(carries, found.outputs, strict=True)
            for atom, aval in zip(atoms, carry.avals, strict=True)
        ]
    tape, operands = close(found.builder, [v for row in found.inputs for v in row], [*outputs, *stacked])
    return tape, [atom for carry in carries for atom in carry.initial()], operands


# --- while --------------------------------------------------------------------------------------------------


def run_while(test: Callable[[], Any], body: Callable[[], Any], names: tuple[str, ...], leaves: bool) -> Any:
    """``while test(): body()``; returns how it ended."""
    go = test()
    if type(go) is not TracedArray and not go:
        return None
    if is_tracing():
        region = _attempt(lambda: while_region(go, test, body, names, leaves))
        if not isinstance(region, str):
            return region()
        _note(region)
    while go:
        ended = body()
        if ended is not None and ended is not CONTINUE:
            return ended
        go = test()
    return None


def while_region(
    go: Any,
    test: Callable[[], Any],
    body: Callable[[], Any],
    names: Collection[str],
    leaves: bool,
    roots: Sequence[Any] = (),
) -> Commit:
    """Trace a loop that goes on while ``test()`` holds, as it does at first: ``go``."""
    leaving = Leaving() if leaves else None
    state = State(go=go)

    def again() -> None:
        state["go"] = test()

    def step() -> None:
        if leaving is None:
            _take(None, body, names, ())
            again()
        else:
            leaving.note(body())
            state["go"] = False
            branch(leaving.going(), again, None, names, [test, state])

    doors = [state] if leaving is None else [state, leaving.state]
    attempt = Attempt([test, body], names, [*doors, *roots])
    found = attempt.settle(step, _refuse_plain_while, body.__code__)
    key = next(
        (k for k, c in attempt.carries.items() if c.place is not None and c.place.container.owner is state),
        None,
    )
    if key is None:
        raise RegionFailed("its condition is the same in every iteration")

    def commit() -> Any:
        tape, carries, operands = closed(attempt, found)
        condition = _condition(tape, list(attempt.carries).index(key), attempt)
        results, _ = while_(condition, tape, carries, operands)
        attempt.commit(found, results)
        return None if leaving is None else leaving.ended()

    return commit


def _refuse_plain_while(found: Pass) -> None:
    if active() is None and not found.builder.captured:
        raise Plainly("nothing traced goes into it")


def _condition(body: Tape, number: int, attempt: Attempt) -> Tape:
    """Return the tape that tells whether to go on: one of the carries says so."""
    inputs = tuple(Var(v.aval, v.name) for v in body.inputs)
    place = sum(len(c.avals) for c in list(attempt.carries.values())[:number])
    return Tape(inputs, (), (), (inputs[place],))
