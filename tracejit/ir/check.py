"""The verifier: what must hold of every tape.  Run after each pass in tests and under ``TRACEJIT_VERIFY=1``."""

from __future__ import annotations

from tracejit.errors import InternalError
from tracejit.ir.tape import Atom, Eqn, Lit, Names, Tape, Var, bodies

__all__ = ["check"]


def check(tape: Tape, stage: str = "") -> Tape:
    """Return ``tape`` if it is well formed; raise `InternalError` that shows the equation otherwise.

    Every operand is known before it is used, every variable is defined once, and every equation's results have the
    shape and dtype that its op infers.  The same holds of the bodies of loops and branches.
    """
    known: set[Var] = set()

    def define(var: Var, eqn: Eqn | None) -> None:
        if var in known:
            raise _broken(tape, eqn, stage, f"{var} is defined twice")
        known.add(var)

    def use(atom: Atom, eqn: Eqn | None) -> None:
        if not isinstance(atom, Lit) and atom not in known:
            raise _broken(tape, eqn, stage, f"{atom} is used before it is defined")

    for var in (*tape.inputs, *(v for v, _ in tape.consts)):
        define(var, None)
    for eqn in tape.eqns:
        for atom in eqn.operands:
            use(atom, eqn)
        for body in bodies(eqn):
            check(body, stage)
        inferred = eqn.op.infer(*(a.aval for a in eqn.operands), **eqn.params)
        expected = inferred if isinstance(inferred, tuple) else (inferred,)
        for var, aval in zip(eqn.results, expected, strict=True):
            define(var, eqn)
            if (var.aval.shape, var.aval.dtype) != (aval.shape, aval.dtype):
                raise _broken(tape, eqn, stage, f"result is {var.aval}, the op infers {aval}")
    for atom in (*tape.outputs, *(g.var for g in tape.guards)):
        use(atom, None)
    return tape


def _broken(tape: Tape, eqn: Eqn | None, stage: str, why: str) -> InternalError:
    names = Names()
    shown = ""
    if eqn is not None:
        place = tape.eqns.index(eqn)
        around = tape.eqns[max(place - 10, 0) : place + 10]
        shown = "\n".join(("> " if e is eqn else "  ") + names.equation(e) for e in around)
    return InternalError(f"Malformed tape{f' after {stage}' if stage else ''}: {why}", detail=shown)
