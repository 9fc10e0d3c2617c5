"""Loops that are left early: once a branch of the body goes its idle way, no later iteration does anything."""

from __future__ import annotations

from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.branch import Cond
from tracejit.ops.region import Region
from tracejit.passes.access import symbols_of

__all__ = ["idle_side"]


def idle_side(body: Tape) -> tuple[Eqn, bool] | None:
    """Return the branch that all of a body is in, and the value of its predicate for which nothing changes for good.

    Parameters
    ----------
    body : Tape
        Output number k is what input number k is in the next iteration; the other inputs stay as they are.

    Returns
    -------
    (Eqn, bool) or None
        If the predicate has that value, all states stay as they are; and as it is computed from nothing else, it
        has that value ever after.
    """
    makers = {v: e for e in body.eqns for v in e.results}
    changing = [(n, v) for n, v in enumerate(body.outputs) if v is not body.inputs[n]]
    branches = {makers.get(v) for _, v in changing if isinstance(v, Var)}
    eqn = branches.pop() if len(branches) == 1 else None
    if eqn is None or not isinstance(eqn.op, Cond) or not _lasting(eqn.operands[0], makers):
        return None
    for value, branch in enumerate(eqn.params["branches"]):
        operands = dict(zip(branch.inputs, eqn.operands[1:], strict=True))
        after = dict(zip(eqn.results, (operands.get(a) for a in branch.outputs), strict=True))
        if all(isinstance(v, Var) and after.get(v) is body.inputs[n] for n, v in changing):
            return eqn, bool(value)
    return None


def _lasting(atom: Atom, makers: dict[Var, Eqn]) -> bool:
    """Return whether a value depends on nothing but the states: not on counters, nor on sizes that the body finds."""
    todo = [atom]
    while todo:
        eqn = makers.get(todo.pop())  # type: ignore[arg-type]
        if eqn is None:
            continue
        if isinstance(eqn.op, Region) or any(s.local for s in symbols_of(eqn.params)):
            return False
        todo += eqn.operands
    return True
