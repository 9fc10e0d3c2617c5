"""Reverse mode: tape -> tape that runs forward, then carries cotangents backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejit.ir.tape import Atom, Lit, Tape, Var, current
from tracejit.ops.base import Maybe
from tracejit.ops.elementwise import accumulate
from tracejit.passes.replay import Environment, active_vars, replay_equation

__all__ = ["vjp"]

Pullback = Callable[[Sequence[Maybe]], tuple[Maybe, ...]]


def vjp(tape: Tape, args: Sequence[Atom], wrt: Sequence[int]) -> tuple[tuple[Atom, ...], Pullback]:
    """Append ``tape`` to the current builder; return its outputs there and the pullback.

    Parameters
    ----------
    tape : Tape
    args : sequence of atoms
        One per input.
    wrt : sequence of int
        Numbers of the inputs to differentiate with respect to.

    Returns
    -------
    outputs : tuple of atoms
    pullback : callable
        Takes one cotangent (or None) per output, appends the backward equations, and returns one cotangent (or None,
        where no output depends on it) per entry of ``wrt``.
    """
    builder, env = current(), Environment(tape, args)
    for eqn in tape.eqns:
        replay_equation(eqn, env, builder)
    env.copy_guards(tape, builder)

    def pullback(cotangents: Sequence[Maybe]) -> tuple[Maybe, ...]:
        totals = _backward(tape, env, cotangents, active_vars(tape, wrt))
        return tuple(totals.get(tape.inputs[i]) for i in wrt)

    return tuple(env.read(a) for a in tape.outputs), pullback


def _backward(tape: Tape, env: Environment, cotangents: Sequence[Maybe], active: set[Var]) -> dict[Var, Atom]:
    builder = current()
    totals: dict[Var, Atom] = {}
    tainted: set[Var] = set()

    def add_to(var: Atom, cotangent: Maybe, taint: bool) -> None:
        if cotangent is None or isinstance(var, Lit) or var not in active:
            return
        total = accumulate(totals.get(var), cotangent)
        assert total is not None
        totals[var] = total
        if taint:
            tainted.add(var)

    for output, cotangent in zip(tape.outputs, cotangents, strict=True):
        add_to(output, cotangent, False)
    for eqn in reversed(tape.eqns):
        outward = [totals.get(v) for v in eqn.results]
        wanted = [isinstance(a, Var) and a in active for a in eqn.operands]
        if all(c is None for c in outward) or not any(wanted):
            continue
        absorb = any(v in tainted for v in eqn.results)
        operands = [env.read(a) for a in eqn.operands]
        results = [env.read(v) for v in eqn.results]
        with builder.at(eqn.source):
            taints = eqn.op.may_taint(operands)
            inward = eqn.op.vjp(outward, operands, results, wanted, absorb, **eqn.params)
            for atom, cotangent in zip(eqn.operands, inward, strict=True):
                add_to(atom, cotangent, absorb or taints)
    return totals
