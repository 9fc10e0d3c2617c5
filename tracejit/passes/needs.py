"""What a backward sweep needs of the forward values of a body, and which of them are kept.

A `Joint` is one tape with the forward and the backward equations of a body.  Its forward values are kept,
read again from arrays that are rolled back (`tracejit.passes.chains`), or computed again from those; a
minimum cut decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Linear
from tracejit.ops.broadcasting import Convert
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.indexing import Gather
from tracejit.ops.joining import Piecewise
from tracejit.ops.linear import Iota
from tracejit.ops.loop import BindSize, bind_size
from tracejit.ops.reduction import SizeOf
from tracejit.passes.chains import Chain, Step, chain_of, overwritten
from tracejit.passes.mincut import INFINITE, minimum_cut
from tracejit.passes.runtime_sizes import SizeMakers

__all__ = ["Joint", "Kept", "choose"]

_CHEAP = (Elementwise, Convert, Linear, Piecewise, Gather, Iota, SizeOf, BindSize)
"""Ops that may run again in the backward sweep instead of having their results kept."""


@dataclass(eq=False)
class Joint:
    """Forward and backward equations of a body in one tape.

    Attributes
    ----------
    tape : Tape
    late : set of Var
        Inputs that only the backward sweep has: cotangents and sums of cotangents.
    forward, backward : tuple of atoms
        Outputs of the two sweeps.
    restored : dict
        Array behind an inner loop or branch -> (array before it, its restored version).
    """

    tape: Tape
    late: set[Var]
    forward: tuple[Atom, ...]
    backward: tuple[Atom, ...]
    restored: dict[Var, tuple[Var, Var]]
    primal: list[Eqn] = field(init=False)
    linear: list[Eqn] = field(init=False)
    makers: dict[Var, Eqn] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = SizeMakers(self.tape)
        self.primal, self.linear = [], []
        reached = set(self.late)
        for eqn in self.tape.eqns:
            late = any(a in reached for a in self.sizes.operands(eqn))
            (self.linear if late else self.primal).append(eqn)
            if late:
                reached.update(eqn.results)
        self.makers = {v: e for e in self.primal for v in e.results}
        self._born = {v: place for place, e in enumerate(self.linear) for v in e.results}

    def chain(self, place: int) -> Chain | None:
        """Return the chain that ends in forward output number ``place``, an array of floats."""
        end = self.forward[place]
        if not end.shape or not end.aval.inexact:
            return None
        return chain_of(end, place, self.makers, self.restored)

    def old(self, step: Step) -> Var:
        """Return the variable with what ``step`` overwrites; a new one is read right before the step."""
        how = overwritten(step)
        if how is None:
            return step.before
        op, operands, params = how
        for eqn in self.primal:
            if eqn.op is op and eqn.operands == operands and dict(eqn.params) == params:
                return eqn.results[0]
        aval = op.infer(*(a.aval for a in operands), **params)  # type: ignore[attr-defined]
        eqn = Eqn(op, operands, params, (Var(aval),), step.eqn.source)  # type: ignore[arg-type]
        self.primal.insert(self.primal.index(step.eqn), eqn)
        self.makers[eqn.results[0]] = eqn
        return eqn.results[0]

    def rolled_back_at(self, chain: Chain) -> dict[Var, float]:
        """Return, per version of the array, from which backward equation on it can be had."""
        times: dict[Var, float] = {chain.end: 0}
        time: float = 0
        for step in reversed(chain.steps):
            if step.restored is not None:
                time = max(time, self._born.get(step.restored, float("inf")) + 1)
            times[step.before] = time
        return times

    def needed_at(self, extra: Iterable[Var]) -> dict[Var, float]:
        """Return the forward values in use, each with its first backward equation (``extra``: at once)."""
        found: dict[Var, float] = dict.fromkeys(extra, 0)
        for time, eqn in enumerate(self.linear):
            for atom in self.sizes.operands(eqn):
                if self.is_forward(atom):
                    found.setdefault(atom, time)  # type: ignore[arg-type]
        for atom in self.backward:
            if self.is_forward(atom):
                found.setdefault(atom, len(self.linear))  # type: ignore[arg-type]
        return found

    def is_forward(self, atom: Atom) -> bool:
        """Return whether ``atom`` is a variable of the forward sweep."""
        return isinstance(atom, Var) and atom not in self.late and atom not in self._born


@dataclass(eq=False)
class Kept:
    """The forward values that are kept.

    Attributes
    ----------
    values : list of Var
        What is kept for the cotangents.
    olds : dict of Step to Var
        What is kept to roll arrays back.
    cost : int
        Bytes per run of the body, of values and of the olds that they rely on.
    """

    values: list[Var]
    olds: dict[Step, Var]
    cost: int


def choose(joint: Joint, lost: set[Var], chains: Sequence[Chain]) -> Kept:
    """Return the cheaper one: what is kept if arrays are rolled back and read again, or if they are not."""
    steps = [step for chain in chains for step in chain.steps]
    olds = {step: joint.old(step) for step in steps if step.restored is None}
    rolled = _Choice(joint, lost, steps, chains, olds).result()
    kept = _Choice(joint, lost, steps, (), olds).result()
    return rolled if rolled.cost <= kept.cost else kept


class _Choice:
    def __init__(
        self,
        joint: Joint,
        lost: set[Var],
        steps: Sequence[Step],
        chains: Sequence[Chain],
        olds: dict[Step, Var],
    ) -> None:
        self.joint, self.chains, self.olds = joint, chains, olds
        self.lost = lost
        self.versions = {v for s in steps for v in (s.before, s.after)}
        self.times: dict[Var, float] = {}
        for chain in chains:
            self.times.update(joint.rolled_back_at(chain))
        self.have = set(olds.values()) if chains else set()
        indices = {a for s in olds for a in s.indices if isinstance(a, Var)}
        self.direct = joint.needed_at(indices)
        self.needed = dict(self.direct)
        for eqn in reversed(joint.primal):
            self._spread(eqn)

    def _spread(self, eqn: Eqn) -> None:
        """Pass on when the results of ``eqn`` are needed to what they can be computed from."""
        times = [self.needed[v] for v in eqn.results if v in self.needed and not self._given(v)]
        if times and not self._expensive(eqn):
            for atom in self.joint.sizes.operands(eqn):
                if isinstance(atom, Var):
                    self.needed[atom] = min(*times, self.needed.get(atom, float("inf")))

    def _given(self, var: Var) -> bool:
        """Return whether ``var`` is there when it is needed without having been kept for it."""
        return var in self.have or self.times.get(var, float("inf")) <= self.needed[var]

    def _source(self, var: Var) -> bool:
        """Return whether ``var`` is gone if it is not kept."""
        if self._given(var):
            return False
        eqn = self.joint.makers.get(var)
        return var in self.lost if eqn is None else self._expensive(eqn)

    def _expensive(self, eqn: Eqn) -> bool:
        if any(self.joint.sizes.made_inside(v.aval) for v in eqn.results):
            return False
        if any(v in self.versions for v in eqn.results):
            return True
        decides = not eqn.results[0].aval.inexact and any(a.aval.inexact for a in eqn.operands)
        return decides or not isinstance(eqn.op, _CHEAP)

    def result(self) -> Kept:
        costs = {v: self._cost(v) for v in self.needed if not self._given(v)}
        sources = [v for v in costs if self._source(v)]
        edges = [(a, v) for a, v in self._edges() if a in costs and v in costs]
        total, cut = minimum_cut(costs, edges, sources, [v for v in self.direct if v in costs])
        assert total < INFINITE, "a value of the forward sweep can be neither kept nor computed again"
        values = list(cut)
        rolling = self._rolling(set(values))
        used = [c for c in self.chains if any(v in rolling for v in (c.root, *(s.after for s in c.steps)))]
        total += sum(_bytes(self.olds[s].aval) for c in used for s in c.steps if s in self.olds)
        return Kept(values, self.olds, total)

    def _edges(self) -> Iterable[tuple[Var, Var]]:
        for eqn in self.joint.primal:
            if not self._expensive(eqn):
                for atom in self.joint.sizes.operands(eqn):
                    if isinstance(atom, Var):
                        yield from ((atom, v) for v in eqn.results)

    def _cost(self, var: Var) -> int:
        eqn = self.joint.makers.get(var)
        again = eqn is not None and eqn.op is bind_size  # it has an effect, so it must run
        return INFINITE if again or self.joint.sizes.made_inside(var.aval) else max(_bytes(var.aval), 1)

    def _rolling(self, values: set[Var]) -> set[Var]:
        """Return the versions of rolled back arrays that the values not kept are computed from."""
        wanted = {v for v in self.direct if v not in values}
        for eqn in reversed(self.joint.primal):
            if any(v in wanted and not self._given(v) for v in eqn.results):
                wanted.update(a for a in eqn.operands if isinstance(a, Var) and a not in values)
        return {v for v in wanted if v in self.times and v not in self.have}


def _bytes(aval: Aval) -> int:
    return dims.hint(aval.size) * aval.dtype.itemsize
