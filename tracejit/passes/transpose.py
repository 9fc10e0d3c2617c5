"""Reverse mode: tape -> tape that runs forward, then carries cotangents backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tracejit.ir.tape import Atom, Eqn, Tape, Var, current
from tracejit.ops.base import Maybe
from tracejit.ops.region import Region
from tracejit.passes.activity import active_set, may_taint, tainted_set
from tracejit.passes.region_vjp import Backward, Restored
from tracejit.passes.regions import forward_region
from tracejit.passes.replay import Environment, replay_equation
from tracejit.passes.simplify import simplify
from tracejit.passes.totals import Totals

__all__ = ["Sweep", "vjp"]

Pullback = Callable[[Sequence[Maybe]], tuple[Maybe, ...]]


def vjp(
    tape: Tape, args: Sequence[Atom], wrt: Sequence[int], memory_budget: int | None = None
) -> tuple[tuple[Atom, ...], Pullback]:
    """Append ``tape`` to the current builder; return its outputs there and the pullback.

    Parameters
    ----------
    tape : Tape
    args : sequence of atoms
        One per input.
    wrt : sequence of int
        Numbers of the inputs to differentiate with respect to.
    memory_budget : int, optional
        Bytes that each outermost loop may keep for the backward sweep; above that, it computes parts of the
        forward sweep again.

    Returns
    -------
    outputs : tuple of atoms
    pullback : callable
        Takes one cotangent (or None) per output, appends the backward equations, and returns one cotangent
        (or None, where no output depends on it) per entry of ``wrt``.
    """
    if any(isinstance(eqn.op, Region) for eqn in tape.eqns):
        tape = simplify(tape)
    sweep = Sweep(
        tape, args, [i in wrt for i in range(len(tape.inputs))], False, memory_budget, outermost=True
    )

    def pullback(cotangents: Sequence[Maybe]) -> tuple[Maybe, ...]:
        found = sweep.pull(cotangents, {})
        return tuple(found[i] for i in wrt)

    return sweep.outputs, pullback


class Sweep:
    """A tape appended to the current builder in a form that can be run backward.

    Parameters
    ----------
    tape : Tape
    args : sequence of atoms
    flags : sequence of bool
        Which inputs are differentiated.
    absorb : bool
        The cotangents of the outputs may hold exact zeros (see `tracejit.ops.base`).
    budget : int, optional
        Bytes that each loop of the tape may keep.
    outermost : bool
        The tape is not the body of a loop or branch.

    Attributes
    ----------
    outputs : tuple of atoms
    restored : list of (atom, atom, atom)
        After `pull`: arrays that a loop or branch updated in place: before it, behind it, and before it
        again, as the backward sweep restored it.
    """

    def __init__(
        self,
        tape: Tape,
        args: Sequence[Atom],
        flags: Sequence[bool],
        absorb: bool,
        budget: int | None = None,
        outermost: bool = False,
    ) -> None:
        self._outermost = outermost
        self._tape, self._env, self._budget = tape, Environment(tape, args), budget
        self._active = active_set(tape, flags)
        self._absorb = [absorb] * len(tape.outputs)
        self._tainted = tainted_set(tape, self._active, self._absorb)
        self._regions: dict[Eqn, Backward] = {}
        self.restored: list[Restored] = []
        for eqn in tape.eqns:
            self._forward(eqn)
        self._env.copy_guards(tape, current())
        self.outputs = tuple(self._env.read(a) for a in tape.outputs)

    def _forward(self, eqn: Eqn) -> None:
        builder = current()
        wanted = [a in self._active for a in eqn.operands]
        if not isinstance(eqn.op, Region) or not any(wanted):
            replay_equation(eqn, self._env, builder)
            return
        operands = [self._env.read(a) for a in eqn.operands]
        absorb = any(v in self._tainted for v in eqn.results) or may_taint(eqn)
        with builder.at(eqn.source):
            results, self._regions[eqn] = forward_region(eqn, operands, wanted, absorb, Sweep, self._budget)
        self._env.write(eqn.results, results)

    def pull(self, cotangents: Sequence[Maybe], totals: Mapping[int, Atom]) -> list[Maybe]:
        """Append the backward equations; return the cotangent (or None) of each input.

        ``totals`` are sums, by number of the input, that its cotangents are to be added to.
        """
        builder = current()
        self._tainted = tainted_set(self._tape, self._active, self._absorb, self._env.read)
        sums = Totals(builder, in_place=not self._outermost)
        for number, total in totals.items():
            sums.replace(self._tape.inputs[number], total)
        for output, cotangent in zip(self._tape.outputs, cotangents, strict=True):
            self._add(sums, output, cotangent)
        for eqn in reversed(self._tape.eqns):
            outward = [sums.get(v) for v in eqn.results]
            wanted = [a in self._active for a in eqn.operands]
            if any(c is not None for c in outward) and any(wanted):
                with builder.at(eqn.source):
                    self._backward(eqn, outward, wanted, sums)
        return [sums.get(v) if v in self._active else None for v in self._tape.inputs]

    def _add(self, sums: Totals, atom: Atom, cotangent: Maybe) -> None:
        if cotangent is not None and isinstance(atom, Var) and atom in self._active:
            sums.add(atom, cotangent)

    def _backward(self, eqn: Eqn, outward: Sequence[Maybe], wanted: Sequence[bool], sums: Totals) -> None:
        if eqn in self._regions:
            self._backward_region(eqn, outward, sums)
            return
        operands = [self._env.read(a) for a in eqn.operands]
        results = [self._env.read(v) for v in eqn.results]
        absorb = any(v in self._tainted for v in eqn.results)
        inward = eqn.op.vjp(outward, operands, results, wanted, absorb, **eqn.params)
        for atom, cotangent in zip(eqn.operands, inward, strict=True):
            self._add(sums, atom, cotangent)

    def _backward_region(self, eqn: Eqn, outward: Sequence[Maybe], sums: Totals) -> None:
        region = self._regions[eqn]
        first: dict[Atom, int] = {}
        for place, atom in enumerate(eqn.operands):
            if atom in self._active and region.sums[place]:
                first.setdefault(atom, place)
        # An operand that stands in two places hands its sum to the first of them only.
        known = [sums.get(a) if first.get(a) == place else None for place, a in enumerate(eqn.operands)]
        updates, restored = region.run(outward, known)
        self.restored.extend(restored)
        for atom, update in zip(eqn.operands, updates, strict=True):
            if update is not None and update.whole:
                assert isinstance(atom, Var)
                sums.replace(atom, update.cotangent)
        for atom, update in zip(eqn.operands, updates, strict=True):
            if update is not None and not update.whole:
                self._add(sums, atom, update.cotangent)
