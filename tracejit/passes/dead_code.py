"""Dead code: equations, and carries, rows and operands of loops and branches, that nothing needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.ir.dims import Symbol
from tracejit.ir.tape import Atom, Eqn, Tape
from tracejit.ops.branch import Cond
from tracejit.ops.loop import Loop, While, bind_size
from tracejit.passes.activity import spread
from tracejit.passes.runtime_sizes import local_symbols

__all__ = ["remove_dead"]

Flags = list[bool]


def remove_dead(tape: Tape) -> Tape:
    """Return ``tape`` without equations and constants that its outputs and guards do not need."""
    needed: set[Atom] = {*tape.outputs, *(g.var for g in tape.guards)}
    extents: set[Symbol] = set()
    kept = []
    for eqn in reversed(tape.eqns):
        live = [v in needed for v in eqn.results]
        if any(live) or (eqn.op is bind_size and eqn.params["symbol"] in extents):
            eqn = _shrink(eqn, live)
            kept.append(eqn)
            needed.update(eqn.operands)
            extents.update(local_symbols(eqn))
    consts = tuple((v, array) for v, array in tape.consts if v in needed)
    return Tape(tape.inputs, consts, tuple(reversed(kept)), tape.outputs, tape.sizes, tape.guards)


def _shrink(eqn: Eqn, live: Flags) -> Eqn:
    """Return ``eqn`` without the results that are not live and what only they need."""
    if isinstance(eqn.op, Loop):
        return _shrink_loop(eqn, live)
    if isinstance(eqn.op, While):
        return _shrink_while(eqn, live)
    if isinstance(eqn.op, Cond):
        return _shrink_cond(eqn, live)
    return eqn


def _shrink_loop(eqn: Eqn, live: Flags) -> Eqn:
    body, nc, nx = eqn.params["body"], eqn.params["carries"], eqn.params["xs"]
    ys = live[nc:]
    kept = spread(live[:nc], nc, lambda flags: _used(_with_outputs(body, [*flags, *ys])))
    body = remove_dead(_with_outputs(body, [*kept, *ys]))
    used = [*kept, *_used(body)[nc:]]
    start = len(used) - nx
    body = Tape(_pick(body.inputs, used), body.consts, body.eqns, body.outputs)
    params = {**eqn.params, "body": body, "carries": sum(kept), "xs": sum(used[start:])}
    return _replaced(eqn, used, [*kept, *ys], params)


def _shrink_while(eqn: Eqn, live: Flags) -> Eqn:
    test, body, nc = eqn.params["cond"], eqn.params["body"], eqn.params["carries"]
    asked = _used(test)
    start = [a or b for a, b in zip(live[:nc], asked[:nc], strict=True)]
    kept = spread(start, nc, lambda flags: _used(_with_outputs(body, flags)))
    body = remove_dead(_with_outputs(body, kept))
    consts = [a or b for a, b in zip(_used(body)[nc:], asked[nc:], strict=True)]
    used = [*kept, *consts]
    test, body = (Tape(_pick(t.inputs, used), t.consts, t.eqns, t.outputs) for t in (test, body))
    return _replaced(eqn, used, [*kept, True], {"cond": test, "body": body, "carries": sum(kept)})


def _shrink_cond(eqn: Eqn, live: Flags) -> Eqn:
    branches = [remove_dead(_with_outputs(branch, live)) for branch in eqn.params["branches"]]
    used = [a or b for a, b in zip(*map(_used, branches), strict=True)]
    params = {"branches": tuple(Tape(_pick(b.inputs, used), b.consts, b.eqns, b.outputs) for b in branches)}
    return _replaced(eqn, [True, *used], live, params)


def _replaced(eqn: Eqn, used: Flags, live: Flags, params: dict[str, Any]) -> Eqn:
    """Return the smaller equation, or ``eqn`` itself if nothing was dropped."""
    smaller = Eqn(eqn.op, _pick(eqn.operands, used), params, _pick(eqn.results, live), eqn.source)
    same = all(used) and all(live) and _length(smaller) == _length(eqn)
    return eqn if same else smaller


def _length(eqn: Eqn) -> int:
    """Return the number of equations in the bodies, at all depths."""
    tapes = [*eqn.params.get("branches", ()), *(eqn.params[k] for k in ("cond", "body") if k in eqn.params)]
    return sum(1 + _length(inner) for tape in tapes for inner in tape.eqns)


def _with_outputs(body: Tape, flags: Flags) -> Tape:
    """Return ``body`` with the flagged ones of its outputs."""
    return Tape(body.inputs, body.consts, body.eqns, _pick(body.outputs, flags))


def _pick(items: Sequence[Any], flags: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(x for x, flag in zip(items, flags, strict=True) if flag)


def _used(tape: Tape) -> Flags:
    """Return which inputs the outputs of ``tape`` need."""
    needed: set[Atom] = set(tape.outputs)
    for eqn in remove_dead(tape).eqns:
        needed.update(eqn.operands)
    return [v in needed for v in tape.inputs]
