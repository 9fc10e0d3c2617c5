"""Reverse mode of branches: see `tracejit.passes.region_vjp`."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, Builder, Eqn, Tape, Var
from tracejit.ops.base import Maybe
from tracejit.ops.branch import cond
from tracejit.ops.broadcasting import full
from tracejit.passes.activity import active_set
from tracejit.passes.chains import Chain
from tracejit.passes.halves import backward_half, forward_half
from tracejit.passes.needs import Kept, choose
from tracejit.passes.ordering import in_place
from tracejit.passes.region_vjp import Backward, Derived, Restored, Sweeper, Update, derive, zero_if_absent

__all__ = ["forward_cond"]


class _Side:
    """One branch: its derivative, what is kept of it, and in which slot each kept value goes."""

    def __init__(self, derived: Derived, chains: Sequence[Chain]) -> None:
        self.derived, self.chains = derived, chains
        self.kept: Kept = choose(derived.joint, {c.root for c in chains}, chains)
        values = dict.fromkeys([*self.kept.values, *self.kept.olds.values()])
        self.places: dict[Var, int] = dict.fromkeys(values, -1)


class _Plan:
    def __init__(self, eqn: Eqn, wanted: Sequence[bool], absorb: bool, sweep: Sweeper) -> None:
        branches = eqn.params["branches"]
        self.flags = list(wanted[1:])
        active = [active_set(branch, self.flags) for branch in branches]
        pairs = zip(*(b.outputs for b in branches), strict=True)
        self.live = [any(a in s for a, s in zip(pair, active, strict=True)) for pair in pairs]
        # What the cotangent of a result updated in place is, the sum of its operand goes on from.
        updated = {operand - 1 for operand, _ in in_place(eqn)}
        summed = [bool(v.shape) and n not in updated for n, v in enumerate(branches[0].inputs)]
        derived = [derive(b, self.flags, self.live, self.flags, summed, absorb, sweep) for b in branches]
        self.sums = [n for n in derived[0].sums if any(d.adds_to(n) for d in derived)]
        self.returned = [n for n, f in enumerate(self.flags) if f and (n in self.sums or not summed[n])]
        self.arrays = self._arrays(derived)
        self.sides = [_Side(d, [_chain(d, r) for r, _ in self.arrays]) for d in derived]
        self.slots = self._slots()

    def _arrays(self, derived: Sequence[Derived]) -> list[tuple[int, int]]:
        """Return the pairs (result, operand) of arrays that both branches update in place, if at all."""
        found: list[tuple[int, int]] = []
        taken: set[int] = set()
        for place in range(len(self.live)):
            chains = [d.joint.chain(place) for d in derived]
            roots = {
                d.inputs.index(c.root)
                for d, c in zip(derived, chains, strict=True)
                if c and c.root in d.inputs
            }
            if None not in chains and len(roots) == 1 and not roots & taken:
                found.append((place, next(iter(roots))))
                taken |= roots
        return found

    def _slots(self) -> list[Aval]:
        """Give each kept value a slot; branches share slots of one shape and dtype."""
        slots: list[Aval] = []
        for side in self.sides:
            free = list(range(len(slots)))
            for var in side.places:
                wanted = Aval(var.shape, var.dtype)
                place = next((n for n in free if slots[n] == wanted), None)
                if place is None:
                    place = len(slots)
                    slots.append(wanted)
                else:
                    free.remove(place)
                side.places[var] = place
        return slots

    def run_forward(self, operands: Sequence[Atom]) -> tuple[tuple[Var, ...], Backward]:
        extra = [x for side in self.sides for x in side.derived.operands]
        branches = tuple(self._forward_branch(side) for side in self.sides)
        results = cond.bind(*operands, *extra, branches=branches)
        results, saved = results[: len(self.live)], results[len(self.live) :]
        sums = (False, *(n in self.sums for n in range(len(operands) - 1)))
        return results, Backward(
            sums, lambda out, known: self._run_backward(operands, results, saved, out, known)
        )

    def _inputs(self, side: _Side) -> list[Var]:
        """Return the inputs of a branch: the operands, then the constants of both sides."""
        others = [s.derived.extra if s is side else _fresh(s.derived.extra) for s in self.sides]
        return [*side.derived.inputs, *(v for extra in others for v in extra)]

    def _forward_branch(self, side: _Side) -> Tape:
        joint = side.derived.joint
        body = forward_half(joint, self._inputs(side), [*joint.forward, *side.places], {})
        kept = dict(zip(side.places.values(), body.outputs[len(self.live) :], strict=True))
        with Builder() as builder:
            filled = [kept[n] if n in kept else full(0, a.shape, a.dtype) for n, a in enumerate(self.slots)]
        eqns = (*body.eqns, *builder.eqns)
        return Tape(body.inputs, (), eqns, (*body.outputs[: len(self.live)], *filled))

    def _run_backward(
        self,
        operands: Sequence[Atom],
        results: Sequence[Var],
        saved: Sequence[Var],
        outward: Sequence[Maybe],
        known: Sequence[Maybe],
    ) -> tuple[list[Update | None], list[Restored]]:
        predicate, *values = operands
        cotangents = [zero_if_absent(c, r) for c, r, f in zip(outward, results, self.live, strict=True) if f]
        sums = [zero_if_absent(known[n + 1], values[n]) for n in self.sums]
        ends = [results[r] for r, _ in self.arrays]
        extra = [x for side in self.sides for x in side.derived.operands]
        branches = tuple(self._backward_branch(side) for side in self.sides)
        passed = [*cotangents, *sums, *ends, *values, *extra, *saved]
        found = list(cond.bind(predicate, *passed, branches=branches))
        updates: list[Update | None] = [None] * len(operands)
        for n in self.returned:
            updates[n + 1] = Update(found.pop(0), whole=n in self.sums and known[n + 1] is not None)
        return updates, [(values[q], results[r], found.pop(0)) for r, q in self.arrays]

    def _backward_branch(self, side: _Side) -> Tape:
        derived = side.derived
        late = [*(c for c in derived.cotangents if c is not None), *(derived.sums[n] for n in self.sums)]
        by_slot = {n: v for v, n in side.places.items()}
        slots = [by_slot.get(n) or Var(a) for n, a in enumerate(self.slots)]
        ends = [c.end for c in side.chains]
        # Arrays updated in place come in as they are behind the branch, not as the operand before it.
        hidden = {*ends, *(c.root for c in side.chains), *by_slot.values()}
        values = [Var(v.aval) if v in hidden else v for v in self._inputs(side)]
        slots = [Var(v.aval) if v in ends else v for v in slots]
        inward = [c for c in (derived.inward[n] for n in self.returned) if c is not None]
        assert len(inward) == len(self.returned)
        outputs = [*inward, *(c.root for c in side.chains)]
        inputs = [*late, *ends, *values, *slots]
        return backward_half(derived.joint, side.chains, side.kept, inputs, outputs, {})


def _chain(derived: Derived, place: int) -> Chain:
    chain = derived.joint.chain(place)
    assert chain is not None
    return chain


def _fresh(variables: Sequence[Var]) -> list[Var]:
    return [Var(v.aval) for v in variables]


def forward_cond(
    eqn: Eqn, operands: Sequence[Atom], wanted: Sequence[bool], absorb: bool, sweep: Sweeper
) -> tuple[tuple[Var, ...], Backward]:
    """Append a branch that also gives what is kept; return its results and its backward sweep."""
    return _Plan(eqn, wanted, absorb, sweep).run_forward(operands)
