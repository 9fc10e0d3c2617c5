"""Which variables carry a derivative, and which cotangents may hold exact zeros, bodies included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejit.ir.tape import Atom, Eqn, Tape, Var, bodies
from tracejit.ops.branch import Cond
from tracejit.ops.loop import Loop, While

__all__ = ["active_set", "body_flags", "may_taint", "spread", "tainted_set"]

Flags = list[bool]


def active_set(tape: Tape, flags: Sequence[bool]) -> set[Var]:
    """Return the variables through which the flagged inputs can carry a derivative."""
    active = {v for v, flag in zip(tape.inputs, flags, strict=True) if flag and v.aval.inexact}
    for eqn in tape.eqns:
        inward = [a in active for a in eqn.operands]
        if any(inward):
            outward = _results(eqn, inward)
            active.update(v for v, flag in zip(eqn.results, outward, strict=True) if flag and v.aval.inexact)
    return active


def _outputs(tape: Tape, flags: Sequence[bool]) -> Flags:
    active = active_set(tape, flags)
    return [a in active for a in tape.outputs]


def _results(eqn: Eqn, inward: Sequence[bool]) -> Flags:
    """Return which results depend on the flagged operands."""
    if isinstance(eqn.op, Cond):
        sides = [_outputs(branch, inward[1:]) for branch in eqn.params["branches"]]
        return [any(pair) for pair in zip(*sides, strict=True)]
    if isinstance(eqn.op, Loop | While):
        flags = body_flags(eqn, inward)
        ys = _outputs(eqn.params["body"], flags)[eqn.params["carries"] :]
        return [*flags[: eqn.params["carries"]], *ys, *([False] if isinstance(eqn.op, While) else [])]
    return [True] * len(eqn.results)


def body_flags(eqn: Eqn, inward: Sequence[bool]) -> Flags:
    """Return which inputs of a loop's body are active in some iteration."""
    return spread(list(inward), eqn.params["carries"], lambda flags: _outputs(eqn.params["body"], flags))


def spread(flags: Flags, carries: int, through: Callable[[Flags], Sequence[bool]]) -> Flags:
    """Return the smallest flags above ``flags`` that one more iteration leaves alone.

    ``through`` gives the flags of a body's outputs, of which the first ``carries`` are its first inputs
    again.
    """
    while True:
        out = through(flags)
        grown = [a or b for a, b in zip(flags[:carries], out[:carries], strict=True)] + flags[carries:]
        if grown == flags:
            return flags
        flags = grown


def may_taint(eqn: Eqn, operands: Sequence[Atom] | None = None) -> bool:
    """Return whether the rules of an equation can put exact zeros or infinities into a (co)tangent.

    ``operands`` are those of the tape being built, of which more may be known.
    """
    inner = bodies(eqn)
    if inner:
        return any(may_taint(e) for tape in inner for e in tape.eqns)
    return eqn.op.may_taint(eqn.operands if operands is None else operands)


def tainted_set(
    tape: Tape, active: set[Var], flags: Sequence[bool], read: Callable[[Atom], Atom] | None = None
) -> set[Var]:
    """Return the variables whose cotangents may hold exact zeros, if those of the flagged outputs may.

    ``read`` gives the atoms of the tape being built.
    """
    tainted = {a for a, flag in zip(tape.outputs, flags, strict=True) if flag and isinstance(a, Var)}
    for eqn in reversed(tape.eqns):
        reached = [a for a in eqn.operands if isinstance(a, Var) and a in active]
        if not reached:
            continue
        operands = None if read is None else [read(a) for a in eqn.operands]
        if any(v in tainted for v in eqn.results) or may_taint(eqn, operands):
            tainted.update(reached)
    return tainted
