"""Updates that overwrite an update: what the older one wrote is not read through the newer one.

A stencil that is stepped without a loop gives ``u1 = update(u0, v1)``, ``u2 = update(u1, v2)`` with the same
entries each time, and the older arrays stay in use.  An entry of ``u2`` is one of ``v2`` or of ``u0``, but would
be looked for in ``v1`` as well: code that grows with each step.
"""

from __future__ import annotations

from dataclasses import replace

from tracejit.ir.tape import Eqn, Tape, Var
from tracejit.ops.joining import SliceUpdate
from tracejit.passes.slices import region_of

__all__ = ["skip_overwritten"]


def skip_overwritten(tape: Tape) -> Tape:
    """Return ``tape`` with update(update(x, v), w) as update(x, w) where both write the same entries."""
    made: dict[Var, Eqn] = {}
    eqns = []
    for eqn in tape.eqns:
        if isinstance(eqn.op, SliceUpdate):
            x, v = eqn.operands
            older = made.get(x) if isinstance(x, Var) else None
            if older is not None and region_of(older) == region_of(eqn):
                eqn = replace(eqn, operands=(older.operands[0], v))
            made[eqn.results[0]] = eqn
        eqns.append(eqn)
    return replace(tape, eqns=tuple(eqns))
