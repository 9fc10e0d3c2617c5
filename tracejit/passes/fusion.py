"""Fusion: tape -> schedule of loop nests.

`Demands` says which values have memory.  `_Placement` then sweeps forward and puts every root (a store, a
fold, a scatter) into the first nest over the same space that comes after everything the root needs; what has
no memory is recomputed in each nest that reads it.  So the value and all gradients of an elementwise function
with a full reduction share one nest.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracejit.errors import InternalError
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, prod
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Opaque, Reduction
from tracejit.ops.indexing import Gather
from tracejit.ops.indexing import Scatter as ScatterOp
from tracejit.ops.linear import Iota
from tracejit.ops.reduction import ArgReduction, SizeOf
from tracejit.passes.access import is_pointwise, loops, reads
from tracejit.passes.demand import Demands, demands
from tracejit.passes.schedule import Call, Check, Fold, Nest, Root, Scatter, Schedule, Store

__all__ = ["fuse"]


def fuse(tape: Tape, contiguous: tuple[bool, ...]) -> Schedule:
    """Return the schedule of ``tape``.

    Parameters
    ----------
    tape : Tape
    contiguous : tuple of bool
        Per input and constant, whether it is C-contiguous.
    """
    arrays = (*tape.inputs, *(v for v, _ in tape.consts))
    in_order = {v for v, c in zip(arrays, contiguous, strict=True) if c}
    return _Placement(tape, demands(tape, in_order, set(arrays))).schedule()


@dataclass(frozen=True, slots=True)
class _Known:
    """When a value can be read: in steps later than ``after``, and, at its own index, from step ``at`` on."""

    after: int = -1
    at: int = -1

    def moved(self) -> _Known:
        """Return the same for a value that reads this one at another index."""
        return _Known(max(self.after, self.at), -1)


class _Placement:
    """Sweep from inputs to outputs: put every root into a nest."""

    def __init__(self, tape: Tape, demands: Demands) -> None:
        self.tape, self.demands = tape, demands
        self.steps: list[Nest | Call] = []
        self._nests: dict[Shape, list[int]] = {}
        self._known: dict[Atom, _Known] = {}
        self._checks: dict[tuple[Atom, Dim], int] = {}

    def schedule(self) -> Schedule:
        for original, copy in self.demands.copies.items():
            self._store(copy, original, None, _Known())
        for eqn in self.tape.eqns:
            if eqn in self.demands.live:
                self._place(eqn)
        targets = self._outputs()
        stored = self.demands.stored | self.demands.arrays | set(self.demands.copies.values())
        stored.update(t for t in targets if t is not None)
        views = {v: self.demands.memory(v) for v in (*self.demands.views, *self.demands.copies)}
        return Schedule(self.tape, self.steps, stored, views, targets, self.demands.defs)

    def _when(self, atom: Atom) -> _Known:
        copy = self.demands.copies.get(atom) if isinstance(atom, Var) else None
        return self._known.get(atom, _NOW) if copy is None else self._known[copy].moved()

    def _joined(self, known: list[_Known]) -> _Known:
        return _Known(max((k.after for k in known), default=-1), max((k.at for k in known), default=-1))

    def _place(self, eqn: Eqn) -> None:
        if isinstance(eqn.op, Opaque):
            self._place_call(eqn)
        elif isinstance(eqn.op, Reduction | ArgReduction):
            position = self._put(Fold(eqn), self._when(eqn.operands[0]))
            self._known[eqn.results[0]] = _Known(after=position)
        elif isinstance(eqn.op, ScatterOp):
            self._place_scatter(eqn)
        else:
            self._place_fused(eqn)

    def _place_fused(self, eqn: Eqn) -> None:
        var = eqn.results[0]
        known = self._reading(eqn)
        self._known[var] = known
        if var in self.demands.stored:
            self._store(var, var, eqn, known)

    def _store(self, target: Var, value: Atom, eqn: Eqn | None, known: _Known) -> None:
        position = self._put(Store(target, value, eqn), known)
        self._known[target] = _Known(known.after, position)

    def _reading(self, eqn: Eqn) -> _Known:
        """Return when the operands of a fused equation can all be read."""
        known = [self._when(a) for a in eqn.operands]
        if is_pointwise(eqn):
            return self._joined(known)
        if isinstance(eqn.op, Gather):
            checked = self._check_indices(eqn, 1)
            return self._joined([*(k.moved() for k in known), _Known(after=checked)])
        if isinstance(eqn.op, Iota | SizeOf):
            return _NOW
        if not eqn.operands:
            raise InternalError(f"No loop form is known for the op {eqn.op.name!r}.")
        index = loops(len(eqn.results[0].shape))
        same = {r.operand: r.index == index for r in reads(eqn, index)}
        return self._joined([k if same.get(n) else k.moved() for n, k in enumerate(known)])

    def _place_call(self, eqn: Eqn) -> None:
        self.steps.append(Call(eqn))
        for var in eqn.results:
            self._known[var] = _Known(after=len(self.steps) - 1)

    def _place_scatter(self, eqn: Eqn) -> None:
        """First the result is a copy of ``x``, then ``v`` is written to it."""
        x = eqn.operands[0]
        (result,) = eqn.results
        self._store(result, x, eqn, self._when(x))
        copied = self._known[result].at
        checked = self._check_indices(eqn, 2)
        known = self._joined([*map(self._when, eqn.operands[1:]), _Known(after=max(copied, checked))])
        self._known[result] = _Known(after=self._put(Scatter(eqn), known))

    def _check_indices(self, eqn: Eqn, first: int) -> int:
        """Check index operands before anything is read or written with them; return the last such step."""
        last = -1
        extents = [eqn.operands[0].shape[axis] for axis in eqn.params["axes"]]
        for number, extent in enumerate(extents, first):
            atom = eqn.operands[number]
            if self._is_own_index(atom, extent):
                continue
            if (atom, extent) not in self._checks:
                self._checks[atom, extent] = self._put(Check(eqn, number), self._when(atom))
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

    def _put(self, root: Root, known: _Known) -> int:
        """Put ``root`` into the first nest over its space that comes late enough; return its position."""
        earliest = max(known.after + 1, known.at)
        positions = self._nests.setdefault(root.space, [])
        for position in positions:
            if position >= earliest:
                break
        else:
            position = len(self.steps)
            self.steps.append(Nest(root.space))
            positions.append(position)
        step = self.steps[position]
        assert isinstance(step, Nest)
        step.roots.append(root)
        return position

    def _outputs(self) -> tuple[Var | None, ...]:
        """Return per output its memory: the first use of a computed value is itself, others are copies."""
        taken: set[Var] = set()
        targets: list[Var | None] = []
        for atom in self.tape.outputs:
            if not atom.shape:
                targets.append(None)
                continue
            assert isinstance(atom, Var)
            target = atom
            if atom in taken or atom in self.demands.arrays or atom not in self.demands.stored:
                target = Var(atom.aval, atom.name)
                self._store(target, atom, None, self._when(atom))
            taken.add(target)
            targets.append(target)
        return tuple(targets)


_NOW = _Known()
