"""The one place that knows which op has which reverse mode."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.errors import InternalError
from tracejit.ir.tape import Atom, Eqn, Var
from tracejit.ops.branch import Cond
from tracejit.ops.loop import Loop, While
from tracejit.passes.cond_vjp import forward_cond
from tracejit.passes.loop_vjp import forward_loop, forward_while
from tracejit.passes.region_vjp import Backward, Sweeper

__all__ = ["forward_region"]


def forward_region(
    eqn: Eqn,
    operands: Sequence[Atom],
    wanted: Sequence[bool],
    absorb: bool,
    sweep: Sweeper,
    budget: int | None,
) -> tuple[tuple[Var, ...], Backward]:
    """Append the forward sweep of a loop or branch; return its results and its backward sweep.

    A loop may keep ``budget`` bytes.
    """
    if isinstance(eqn.op, Loop):
        return forward_loop(eqn, operands, wanted, absorb, sweep, budget)
    if isinstance(eqn.op, While):
        return forward_while(eqn, operands, wanted, absorb, sweep)
    if isinstance(eqn.op, Cond):
        return forward_cond(eqn, operands, wanted, absorb, sweep)
    raise InternalError(f"No reverse mode for `{eqn.op.name}`.")
