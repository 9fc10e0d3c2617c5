"""Fusion: tape -> schedule of loop nests.

`Demands` says which values have memory.  `_Placement` then sweeps forward and puts every root (a store, a
fold, a scatter) into the first nest over the same space that comes after everything the root needs; what has
no memory is recomputed in each nest that reads it.  So the value and all gradients of an elementwise function
with a full reduction share one nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tracejit.errors import InternalError
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Symbol, prod
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Opaque, Reduction
from tracejit.ops.branch import Cond
from tracejit.ops.indexing import Gather
from tracejit.ops.indexing import Scatter as ScatterOp
from tracejit.ops.linear import Iota
from tracejit.ops.loop import BindSize, While
from tracejit.ops.reduction import ArgReduction, SizeOf
from tracejit.passes.access import is_pointwise, loops, reads, symbols_of
from tracejit.passes.aliasing import Aliasing, alias
from tracejit.passes.bodies import Lowered, lowered_regions
from tracejit.passes.demand import Demands, demands
from tracejit.passes.known import NOW, Known, joined
from tracejit.passes.overwrites import skip_overwritten
from tracejit.passes.schedule import (
    Bind,
    Call,
    Check,
    Fold,
    Nest,
    Pin,
    RegionStep,
    Root,
    Scatter,
    Schedule,
    Step,
    Store,
    Update,
)
from tracejit.passes.settling import settled

__all__ = ["fuse"]


def fuse(tape: Tape, contiguous: tuple[bool, ...]) -> Schedule:
    """Return the schedule of ``tape``.

    Parameters
    ----------
    tape : Tape
    contiguous : tuple of bool
        Per input and constant, whether it is C-contiguous.
    """
    tape = skip_overwritten(tape)
    regions = lowered_regions(tape)
    aliasing = alias(tape, regions, frozenset(), {})
    placement = _Placement(tape, _demands(tape, contiguous, aliasing, regions))
    placement.place()
    return placement.schedule(placement.outputs())


def _fuse_body(tape: Tape, states: Sequence[Var], contiguous: tuple[bool, ...], may_move: bool) -> Schedule:
    """Return the schedule of a body whose array outputs end in the memory of its first inputs, ``states``."""
    body = settled(tape, states, may_move)
    placement = _Placement(body.tape, _demands(body.tape, contiguous, body.aliasing, body.regions))
    placement.place()
    return placement.schedule((None,) * len(body.tape.outputs), body.moves)


def _demands(
    tape: Tape, contiguous: tuple[bool, ...], aliasing: Aliasing, regions: Mapping[Eqn, Lowered]
) -> Demands:
    arrays = (*tape.inputs, *(v for v, _ in tape.consts))
    in_order = {v for v, c in zip(arrays, contiguous, strict=True) if c}
    return demands(tape, in_order, set(arrays), aliasing, regions)


class _Placement:
    """Sweep from inputs to outputs: put every root into a nest."""

    def __init__(self, tape: Tape, demands: Demands) -> None:
        self.tape, self.demands, self.aliasing = tape, demands, demands.aliasing
        self.steps: list[Step] = []
        self._nests: dict[Shape, list[int]] = {}
        self._known: dict[Atom, Known] = {}
        self._checks: dict[tuple[Atom, Dim], int] = {}
        self._readers: dict[Var, int] = {}
        self._bound: dict[Symbol, int] = {}
        self._same: dict[Var, Var] = {}
        self._moving: set[Var] = set()

    def place(self) -> None:
        """Put everything but copies for the outputs."""
        for original, copy in self.demands.copies.items():
            self._store(copy, original, None, Known())
        for eqn in self.tape.eqns:
            if eqn in self.demands.live:
                self._place(eqn)

    def schedule(
        self, targets: tuple[Var | None, ...], moves: Mapping[int, Var] = MappingProxyType({})
    ) -> Schedule:
        """Return what was placed."""
        inputs = {n: v for n, v in enumerate(self.tape.inputs) if v in self._moving}
        stored = self.demands.stored | self.demands.arrays | set(self.demands.copies.values())
        stored.update(t for t in targets if t is not None)
        views = {v: self.demands.memory(v) for v in (*self.demands.views, *self.demands.copies)}
        moving = frozenset((*moves, *inputs))
        defs = self.demands.defs
        return Schedule(self.tape, self.steps, stored, views, targets, defs, self._same, moves, moving)

    def _when(self, atom: Atom) -> Known:
        memory = self.demands.memory(atom) if isinstance(atom, Var) else atom
        known = self._known.get(memory, NOW)
        return known if memory is atom else known.moved()

    def _place(self, eqn: Eqn) -> None:
        if isinstance(eqn.op, Opaque):
            self._place_call(eqn)
        elif isinstance(eqn.op, BindSize):
            self._bound[eqn.params["symbol"]] = self._append(Bind(eqn), eqn)
        elif eqn in self.demands.regions:
            self._place_region(eqn, self.demands.regions[eqn])
        elif isinstance(eqn.op, Reduction | ArgReduction):
            position = self._put(Fold(eqn), self._when(eqn.operands[0]))
            self._known[eqn.results[0]] = Known(after=position)
        elif eqn in self.aliasing.in_memory:
            self._place_update(eqn)
        else:
            self._place_fused(eqn)

    def _place_fused(self, eqn: Eqn) -> None:
        var = eqn.results[0]
        known = joined([self._reading(eqn), self._sized(eqn)])
        self._known[var] = known
        if var in self.demands.stored:
            self._store(var, var, eqn, known)
        elif var in self.aliasing.pinned:
            self._put(Pin(eqn), known)

    def _store(self, target: Var, value: Atom, eqn: Eqn | None, known: Known) -> None:
        position = self._put(Store(target, value, eqn), known)
        self._known[target] = Known(known.after, position)

    def _reading(self, eqn: Eqn) -> Known:
        """Return when the operands of a fused equation can all be read."""
        known = [self._when(a) for a in eqn.operands]
        if is_pointwise(eqn):
            return joined(known)
        if isinstance(eqn.op, Gather):
            checked = self._check_indices(eqn, 1)
            return joined([*(k.moved() for k in known), Known(after=checked)])
        if isinstance(eqn.op, Iota | SizeOf):
            return NOW
        if not eqn.operands:
            raise InternalError(f"No loop form is known for the op {eqn.op.name!r}.")
        index = loops(len(eqn.results[0].shape))
        same = {r.operand: r.index == index for r in reads(eqn, index)}
        return joined([k if same.get(n) else k.moved() for n, k in enumerate(known)])

    def _sized(self, eqn: Eqn) -> Known:
        """Return when the extents that ``eqn`` mentions are known."""
        return self._after_sizes((eqn.params, eqn.results[0].shape))

    def _after_sizes(self, mentioning: Any) -> Known:
        if not self._bound:
            return NOW
        return Known(after=max((self._bound.get(s, -1) for s in symbols_of(mentioning)), default=-1))

    def _append(self, step: Step, eqn: Eqn) -> int:
        """Append a step that does all of ``eqn``; return its position."""
        self.steps.append(step)
        position = len(self.steps) - 1
        self._read(eqn.operands, position)
        for var in eqn.results:
            self._known[var] = Known(after=position)
        return position

    def _place_call(self, eqn: Eqn) -> None:
        self._append(Call(eqn), eqn)

    def _place_region(self, eqn: Eqn, region: Lowered) -> None:
        for number, state in enumerate(region.states):
            if state.result.shape and state.initial is not None:
                self._take(eqn, number, state.initial, state.result)
        arrays = [v.result for v in region.states]
        in_order = [True] * len(arrays) + [self.demands.is_in_order(a) for a in region.consts]
        bodies = []
        for body in region.bodies:
            changes = body is region.bodies[-1] or not isinstance(eqn.op, While)
            states = body.inputs[: len(arrays) if changes else 0]
            bodies.append(_fuse_body(body, states, tuple(in_order), not isinstance(eqn.op, Cond)))
        moving = {n for body in bodies for n in body.moving}
        self._moving.update(self.aliasing.root[region.states[n].result] for n in moving)
        self._append(RegionStep(eqn, region, tuple(bodies)), eqn)

    def _take(self, eqn: Eqn, number: int, old: Atom, result: Var) -> Known:
        """Let ``result`` have the memory of ``old``, or a copy of it; return when that holds ``old``."""
        base = self.aliasing.base.get((eqn, number))
        if base is None:
            self._store(result, old, eqn, self._when(old))
            return Known(after=self._known[result].at)
        self._same[result] = base
        reader = self._readers.get(self.aliasing.root[base], -1)
        return joined([self._when(base).moved(), Known(after=reader)])

    def _place_update(self, eqn: Eqn) -> None:
        """First the result is ``x`` or a copy of it, then ``v`` is written to it."""
        x, result = eqn.operands[0], eqn.results[0]
        begun = self._take(eqn, 0, x, result)
        scatter = isinstance(eqn.op, ScatterOp)
        checked = Known(after=self._check_indices(eqn, 2) if scatter else -1)
        known = joined([*map(self._when, eqn.operands[1:]), begun, checked, self._sized(eqn)])
        position = self._put(Scatter(eqn) if scatter else Update(eqn), known)
        self._known[result] = Known(after=position)

    def _read(self, atoms: Sequence[Atom], position: int) -> None:
        """Remember that arrays which are overwritten later are read at ``position``."""
        for root in self.aliasing.read_by(atoms):
            self._readers[root] = max(self._readers.get(root, -1), position)

    def _check_indices(self, eqn: Eqn, first: int) -> int:
        """Check index operands before anything is read or written with them; return the last such step."""
        last = -1
        extents = [eqn.operands[0].shape[axis] for axis in eqn.params["axes"]]
        for number, extent in enumerate(extents, first):
            atom = eqn.operands[number]
            if self._is_own_index(atom, extent):
                continue
            if (atom, extent) not in self._checks:
                known = joined([self._when(atom), self._after_sizes((extent,))])
                self._checks[atom, extent] = self._put(Check(eqn, number), known)
            last = max(last, self._checks[atom, extent])
        return last

    def _is_own_index(self, atom: Atom, extent: Dim) -> bool:
        """Return whether ``atom`` counts along an axis of the same extent, which needs no check."""
        eqn = self.demands.defs.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and isinstance(eqn.op, ArgReduction):
            return prod(tuple(eqn.operands[0].shape[a] for a in eqn.params["axes"])) == extent
        return (
            eqn is not None
            and isinstance(eqn.op, Iota)
            and eqn.results[0].shape[eqn.params["axis"]] == extent
        )

    def _put(self, root: Root, known: Known) -> int:
        """Put ``root`` into the first nest over its space that comes late enough; return its position."""
        positions = self._nests.setdefault(root.space, [])
        for position in positions:
            if position >= known.earliest:
                break
        else:
            position = len(self.steps)
            self.steps.append(Nest(root.space))
            positions.append(position)
        step = self.steps[position]
        assert isinstance(step, Nest)
        step.roots.append(root)
        self._read(_reads_of(root), position)
        return position

    def outputs(self) -> tuple[Var | None, ...]:
        """Return per output its memory: the first use of a computed value is itself, others are copies."""
        taken: set[Var] = set()
        targets: list[Var | None] = []
        for atom in self.tape.outputs:
            if not atom.shape:
                targets.append(None)
                continue
            assert isinstance(atom, Var)
            target = atom
            moves = self.aliasing.root.get(atom) in self._moving
            if moves or atom in taken or atom in self.demands.arrays or atom not in self.demands.stored:
                target = Var(atom.aval, atom.name)
                self._store(target, atom, None, self._when(atom))
            taken.add(target)
            targets.append(target)
        return tuple(targets)


def _reads_of(root: Root) -> Sequence[Atom]:
    """Return what ``root`` computes from."""
    if isinstance(root, Store):
        return root.eqn.operands if root.eqn is not None and root.value is root.target else (root.value,)
    if isinstance(root, Check):
        return (root.eqn.operands[root.operand],)
    if isinstance(root, Scatter | Update):
        return root.eqn.operands[1:]
    return root.eqn.operands
