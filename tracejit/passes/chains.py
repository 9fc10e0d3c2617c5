"""Arrays that a body updates in place, step by step, and how a backward sweep takes the steps back.

A chain leads from an input of the body to one of its outputs.  Each of its steps is undone with what was
overwritten: the slice or the entries that were there before (`UPDATES`), the array that an inner loop or
branch restores itself, or, behind a loop of unknown length, the whole array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracejit.ir.tape import Atom, Eqn, Var
from tracejit.ops.indexing import gather, scatter_add, scatter_set
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import slice_
from tracejit.ops.loop import While

__all__ = ["UPDATES", "Chain", "Step", "chain_of", "one_to_one", "overwritten", "undo"]

UPDATES = {slice_update, slice_add, scatter_set, scatter_add}
"""Ops whose result is their first operand, changed in places."""


@dataclass(frozen=True, eq=False)
class Step:
    """``after`` is ``before``, updated by ``eqn``.

    ``restored`` is ``before`` again, where an inner loop or branch gives it back during the backward sweep.
    """

    before: Var
    after: Var
    eqn: Eqn
    restored: Var | None = None

    @property
    def indices(self) -> tuple[Atom, ...]:
        """The index operands of an update at computed places."""
        return self.eqn.operands[2:] if self.eqn.op in UPDATES else ()


@dataclass(frozen=True, eq=False)
class Chain:
    """The steps, first to last, from the input ``root`` to ``end``, the output number ``place``."""

    root: Var
    end: Var
    place: int
    steps: tuple[Step, ...]


def chain_of(
    end: Atom,
    place: int,
    makers: Mapping[Var, Eqn],
    restored: Mapping[Var, tuple[Var, Var]],
) -> Chain | None:
    """Return the chain that ends in an output, if it is one.

    ``restored`` maps the array behind an inner loop or branch to (the array before it, its restored version).
    """
    steps: list[Step] = []
    var = end
    while isinstance(var, Var):
        if var not in makers:
            return Chain(var, end, place, tuple(reversed(steps)))  # type: ignore[arg-type]
        step = _step(var, makers[var], restored)
        if step is None:
            return None
        steps.append(step)
        var = step.before
    return None


def _step(after: Var, eqn: Eqn, restored: Mapping[Var, tuple[Var, Var]]) -> Step | None:
    if after in restored:
        before, again = restored[after]
        return Step(before, after, eqn, again)
    if eqn.op in UPDATES:
        return _plain_step(eqn.operands[0], after, eqn)
    if isinstance(eqn.op, While):
        return _plain_step(eqn.operands[eqn.results.index(after)], after, eqn)
    return None


def _plain_step(before: Atom, after: Var, eqn: Eqn) -> Step | None:
    return Step(before, after, eqn) if isinstance(before, Var) else None


def one_to_one(chains: Sequence[Chain], inputs: Sequence[Var]) -> list[Chain]:
    """Return the chains that a backward loop can follow: among their inputs, each is the root of exactly one.

    ``inputs`` are the carries of the loop; the chain of output ``p`` gives what ``inputs[p]`` holds next.
    """
    kept: dict[Var, Chain] = {}
    for chain in sorted(chains, key=lambda c: inputs[c.place] is not c.root):
        kept.setdefault(chain.root, chain)
    while True:
        filled = {inputs[c.place] for c in kept.values()}
        closed = {root: c for root, c in kept.items() if root in filled and inputs[c.place] in kept}
        if len(closed) == len(kept):
            return list(closed.values())
        kept = closed


def overwritten(step: Step) -> tuple[object, tuple[Atom, ...], dict[str, object]] | None:
    """Return (op, operands, params) that read what ``step`` overwrites; None if that is the whole array."""
    eqn = step.eqn
    if eqn.op in (slice_update, slice_add):
        params = {"start": eqn.params["start"], "size": eqn.operands[1].shape, "step": eqn.params["step"]}
        return slice_, (step.before,), params
    if eqn.op in (scatter_set, scatter_add):
        return gather, (step.before, *eqn.operands[2:]), {"axes": eqn.params["axes"]}
    return None


def undo(step: Step, after: Atom, old: Atom, indices: Sequence[Atom]) -> Atom:
    """Append the equation that takes the step back."""
    eqn = step.eqn
    if eqn.op in (slice_update, slice_add):
        result: Atom = slice_update.bind(after, old, start=eqn.params["start"], step=eqn.params["step"])
    elif eqn.op in (scatter_set, scatter_add):
        unique = bool(eqn.params.get("unique", False))
        result = scatter_set(after, old, *indices, axes=eqn.params["axes"], unique=unique)
    else:
        result = old
    return result
