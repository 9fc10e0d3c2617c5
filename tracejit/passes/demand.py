"""Which values get memory: a sweep from the outputs to the inputs.

The rule that replaces a search: a value has memory if something must find it there (an output, an operand of
an op that loops do not look into, the result of a fold), or if recomputing it would cost more than reading it
back.  That is so

* where it is read through several index maps (a stencil step) or in several passes over memory, and
  expensive; what reads an array at another index must wait for the pass that writes it, so that a chain of
  such steps is one of passes;
* where it is read in a space with more outer loops than its own (``row`` in ``x + sin(row)``): then even
  cheap work repeats.

What a value costs depends on who reads it, hence the direction.  A chain of a hundred stencil steps is cut at
each step, and its cost stays linear.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracejit.ir.aval import Shape
from tracejit.ir.tape import Atom, Eqn, Lit, Tape, Var
from tracejit.ops.base import Opaque
from tracejit.ops.branch import Cond
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.indexing import Gather
from tracejit.ops.linear import Iota
from tracejit.ops.loop import BindSize
from tracejit.passes.access import (
    Flat,
    Index,
    index_symbols,
    is_pointwise,
    keeps_order,
    loop_symbols,
    loops,
    reads,
)
from tracejit.passes.aliasing import Aliasing, computed_whole
from tracejit.passes.bodies import Lowered
from tracejit.passes.known import NOW, Known, joined

__all__ = ["Demands", "demands"]

CHEAP = 4
"""Work up to this cost is repeated inside an outer loop rather than stored: a load is not cheaper."""

SEVERAL_MAPS = 24
"""Total cost of recomputing a value at all places but one, above which it is stored instead."""

SEVERAL_PASSES = 80
"""The same for passes over memory that read a value at the same index; storing needs full size here."""

MOVED = 1
"""Cost of an equation that is not elementwise: a load."""


def demands(
    tape: Tape, contiguous: set[Var], arrays: set[Var], aliasing: Aliasing, regions: Mapping[Eqn, Lowered]
) -> Demands:
    """Return what is stored, by two sweeps: the first one does not know yet what others find in memory.

    Costs count from there, and what is read there at another index must be written in an earlier pass.
    """
    first = Demands(tape, contiguous, arrays, aliasing, regions)
    return Demands(tape, contiguous, arrays, aliasing, regions, frozenset(first.stored))


def _vars(atoms: tuple[Atom, ...]) -> Iterator[Var]:
    return (a for a in atoms if isinstance(a, Var))


@dataclass(frozen=True, slots=True)
class _Demand:
    """An entry of a value is read at ``index`` in loops over ``space``, in pass number ``level``."""

    index: Index
    space: Shape
    level: int


class Demands:
    """Sweep from outputs to inputs: who reads each value, and so whether it is stored.

    Parameters
    ----------
    tape : Tape
    contiguous : set of Var
        The inputs and constants that are C-contiguous.
    arrays : set of Var
        All inputs and constants.
    aliasing : Aliasing
    regions : mapping of Eqn to Lowered
        The loops and branches.
    before : frozenset of Var
        What an earlier sweep has stored.
    """

    def __init__(  # facts found before
        self,
        tape: Tape,
        contiguous: set[Var],
        arrays: set[Var],
        aliasing: Aliasing,
        regions: Mapping[Eqn, Lowered],
        before: frozenset[Var] = frozenset(),
    ) -> None:
        self.tape, self.arrays, self._before = tape, arrays, before
        self.aliasing, self.regions = aliasing, regions
        self.defs: dict[Var, Eqn] = {v: e for e in tape.eqns for v in e.results}
        self.stored: set[Var] = {v for v in aliasing.pinned if v.shape}
        self.views: dict[Var, Var] = {}
        self.copies: dict[Var, Var] = {}
        self.live: set[Eqn] = set()
        self.level: dict[Var, int] = {}
        self.in_order: set[Var] = set(contiguous)
        self._forward()
        self._asked: dict[Var, dict[_Demand, None]] = {}
        bound = (e.results[0] for e in tape.eqns if isinstance(e.op, BindSize))
        for atom in (*tape.outputs, *(g.var for g in tape.guards), *bound):
            self._need(atom)
        for eqn in reversed(tape.eqns):
            self._visit(eqn)

    def is_whole(self, eqn: Eqn) -> bool:
        """Return whether the results must be computed as a whole, and so have memory."""
        return computed_whole(eqn) or eqn in self.regions or eqn in self.aliasing.in_memory

    def is_in_order(self, atom: Atom) -> bool:
        """Return whether ``atom``, which was needed, is a scalar or lies in memory in C order."""
        return not atom.shape or atom in self.stored or (atom in self.arrays and atom in self.in_order)

    def memory(self, var: Var) -> Var:
        """Return the stored variable that has the entries: itself, what it is a view of, or a C copy."""
        var = self.views.get(var, var)
        return self.copies.get(var, var)

    def _forward(self) -> None:
        """Find the pass in which each value is known, and the values that can be read in C order."""
        known: dict[Atom, Known] = {}
        for eqn in self.tape.eqns:
            found = joined(known.get(a, NOW) for a in eqn.operands)
            whole = self.is_whole(eqn)
            if not is_pointwise(eqn) and not whole:
                found = found.moved()
            place = found.earliest
            for var in eqn.results:
                self.level[var] = place + whole
                if whole:
                    known[var] = Known(after=place)
                elif var in self._before:
                    known[var] = Known(found.after, place)
                else:
                    known[var] = found
                if whole or (self._passes_order(eqn) and all(self._orderly(a) for a in eqn.operands)):
                    self.in_order.add(var)

    @staticmethod
    def _passes_order(eqn: Eqn) -> bool:
        scalar = all(not a.shape for a in eqn.operands) and not isinstance(eqn.op, Iota)
        return is_pointwise(eqn) or keeps_order(eqn) or scalar

    def _orderly(self, atom: Atom) -> bool:
        return not atom.shape or atom in self.in_order

    def _need(self, atom: Atom) -> None:
        """Ask for the whole of ``atom``: in memory if it is an array."""
        if isinstance(atom, Lit):
            return
        if atom.shape and atom not in self.arrays:
            self.stored.add(atom)
        self._ask(atom, _Demand(loops(len(atom.shape)), atom.shape, self.level.get(atom, 0)))

    def _need_in_order(self, atom: Atom) -> None:
        """Ask for ``atom`` in C-contiguous memory."""
        if isinstance(atom, Lit) or not atom.shape:
            self._need(atom)
            return
        origin = atom
        while origin in self.defs and keeps_order(self.defs[origin]) and origin not in self.stored:
            operand = self.defs[origin].operands[0]
            if isinstance(operand, Lit) or not operand.shape:
                break
            origin = operand
        if origin is not atom:
            self.views[atom] = origin
        if origin in self.arrays and origin not in self.in_order:
            self.copies.setdefault(origin, Var(origin.aval, origin.name))
        self._need(origin)

    def _ask(self, atom: Atom, demand: _Demand) -> None:
        if isinstance(atom, Var):
            self._asked.setdefault(atom, {})[demand] = None

    def _visit(self, eqn: Eqn) -> None:
        demands = {d: None for v in eqn.results for d in self._asked.get(v, ())}
        if not demands:
            return
        self.live.add(eqn)
        if self.is_whole(eqn):
            self.stored.update(v for v in eqn.results if v.shape or isinstance(eqn.op, Opaque))
            self._visit_whole(eqn)
            return
        var = eqn.results[0]
        if var.shape and (var in self.stored or self._worth_storing(var, list(demands))):
            self.stored.add(var)
            demands = {_Demand(loops(len(var.shape)), var.shape, self.level[var]): None}
        for demand in demands:
            self._pass_on(eqn, demand)

    def _visit_whole(self, eqn: Eqn) -> None:
        if isinstance(eqn.op, Opaque):
            for atom in eqn.operands:
                self._need_in_order(atom)
        elif eqn in self.regions:
            self._visit_region(eqn, self.regions[eqn])
        else:
            for number, atom in enumerate(eqn.operands):
                self._need_or_ask(eqn, number, atom)

    def _visit_region(self, eqn: Eqn, region: Lowered) -> None:
        for number, state in enumerate(region.states):
            if state.initial is not None:
                self._need_or_ask(eqn, number, state.initial)
        for atom in region.consts:
            self._need(atom)
        if isinstance(eqn.op, Cond):
            self._need(eqn.operands[0])

    def _need_or_ask(self, eqn: Eqn, number: int, atom: Atom) -> None:
        """Ask for the whole of ``atom``; in memory if ``eqn`` takes that over."""
        if (eqn, number) in self.aliasing.base:
            self._need(atom)
        else:
            level = self.level[eqn.results[0]] - 1
            self._ask(atom, _Demand(loops(len(atom.shape)), atom.shape, level))

    def _pass_on(self, eqn: Eqn, demand: _Demand) -> None:
        if is_pointwise(eqn):
            for atom in eqn.operands:
                self._ask(atom, demand if atom.shape else _Demand((), (), demand.level))
        elif isinstance(eqn.op, Gather):
            self._pass_on_gather(eqn, demand)
        elif eqn.operands:
            for read in reads(eqn, demand.index):
                atom = eqn.operands[read.operand]
                if isinstance(read.index, Flat) and atom not in self.in_order:
                    self._need_in_order(atom)
                else:
                    self._ask(atom, _Demand(read.index, demand.space, demand.level))

    def _pass_on_gather(self, eqn: Eqn, demand: _Demand) -> None:
        """The gathered operand is read at places that nobody knows: anything but a load of it is stored."""
        x, *indices = eqn.operands
        assert not isinstance(demand.index, Flat)
        if isinstance(x, Var) and self._cost(x, MOVED) > MOVED:
            self._need(x)
        else:
            self._ask(x, _Demand(loops(len(x.shape)), x.shape, demand.level))
        rank = len(indices[0].shape)
        for atom in indices:
            self._ask(atom, _Demand(demand.index[:rank], demand.space, demand.level))

    def _worth_storing(self, var: Var, demands: list[_Demand]) -> bool:
        maps = len({d.index for d in demands})
        passes = len({(d.level, d.space) for d in demands})
        outer = any(_repeats(d) for d in demands)
        if maps == passes == 1 and not outer:
            return False
        cost = self._cost(var, SEVERAL_PASSES + 1)
        return (
            (outer and cost > CHEAP)
            or (maps - 1) * (cost - 1) > SEVERAL_MAPS
            or (passes - 1) * (cost - 1) > SEVERAL_PASSES
        )

    def _cost(self, var: Var, limit: int) -> int:
        """Return the cost of one entry of ``var`` from what is in memory; counting stops beyond ``limit``."""
        total, seen, todo = 0, {var}, [var]
        while todo and total <= limit:
            current = todo.pop()
            eqn = self.defs.get(current)
            stored = current in self.stored or current in self._before
            if eqn is None or self.is_whole(eqn) or (stored and current is not var):
                total += MOVED
                continue
            total += eqn.op.cost if isinstance(eqn.op, Elementwise) else MOVED
            fresh = [a for a in _vars(eqn.operands) if a.shape and a not in seen]
            seen.update(fresh)
            todo.extend(fresh)
        return total


def _repeats(demand: _Demand) -> bool:
    """Return whether a loop around those that the entries depend on reads the same entries again."""
    symbols = loop_symbols(len(demand.space))
    used = index_symbols(demand.index)
    reads = [s in used for s, extent in zip(symbols, demand.space, strict=True) if extent != 1]
    return any(around < inside for around, inside in itertools.combinations(reads, 2))
