"""Which updates are done in place: the result takes over the memory of the operand.

A tape never overwrites anything; memory may be, as soon as nobody reads the old version any more.  Reads are
lazy: what has no memory of its own is computed where it is used, from what it is computed of.  So an update
in place needs

* that its operand has memory that belongs to the tape, and is used by nothing that comes later on the tape;
* that every value computed from the old version before, and used later, is computed and kept before the
  update (it is *pinned*);
* that what is written does not itself read entries that were overwritten already.  It may read an entry
  that it writes at the same moment, and entries outside of the region that is written; anything else is
  pinned as well.

Where keeping values would take more memory than a copy of the operand, the update is not done in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Opaque, Reduction
from tracejit.ops.broadcasting import expand_dims
from tracejit.ops.indexing import Gather, Scatter
from tracejit.ops.loop import BindSize
from tracejit.ops.reduction import ArgReduction
from tracejit.passes.access import Flat, Index, is_pointwise, loop_symbols, loops, reads
from tracejit.passes.bodies import Lowered, is_update
from tracejit.passes.ranges import Ranges

__all__ = ["Aliasing", "alias", "computed_whole"]

LONG_CHAIN = 8
"""Updates of one array, one after the other, that are still done by asking at each entry which of them
holds."""

SMALL_PART = 4
"""An update of less than one in so many entries counts as two more links of such a chain."""

FOREVER = 1 << 60

Nothing: frozenset[Var] = frozenset()


def computed_whole(eqn: Eqn) -> bool:
    """Return whether the results have memory, or are scalars known from some step on, in any case."""
    return isinstance(eqn.op, Reduction | ArgReduction | Opaque | Scatter | BindSize)


@dataclass(eq=False)
class Aliasing:
    """What is updated in place.

    Attributes
    ----------
    in_memory : set of Eqn
        The updates that are written to memory, in place or behind a copy; all others are read through.
    base : dict of (Eqn, int) to Var
        Per update in place (number 0), and per state of a loop or branch, the version that is overwritten.
    root : dict of Var to Var
        Every array with memory that can be updated -> the first version of it.
    pinned : set of Var
        The values that are computed and kept at their place on the tape.
    reads : dict of Var to frozenset of Var
        The roots that an array or scalar is computed from where it is used.
    """

    in_memory: set[Eqn] = field(default_factory=set)
    base: dict[tuple[Eqn, int], Var] = field(default_factory=dict)
    root: dict[Var, Var] = field(default_factory=dict)
    pinned: set[Var] = field(default_factory=set)
    reads: dict[Var, frozenset[Var]] = field(default_factory=dict)

    def read_by(self, atoms: Sequence[Atom]) -> frozenset[Var]:
        """Return the roots that are read where ``atoms`` are used."""
        found = [r for a in atoms if isinstance(a, Var) and (r := self.reads.get(a))]
        return Nothing.union(*found) if found else Nothing


def alias(
    tape: Tape,
    regions: Mapping[Eqn, Lowered],
    owned: Set[Var],
    forced: Mapping[Eqn, Var],
    kept: Set[Var] = frozenset(),
) -> Aliasing:
    """Decide for every update of ``tape``.

    Parameters
    ----------
    tape : Tape
    regions : mapping of Eqn to Lowered
    owned : set of Var
        The inputs whose memory may be overwritten.
    forced : mapping of Eqn to Var
        Updates of a whole array that must be done in place -> the owned input whose memory they write to.
    kept : set of Var
        Values that need memory of their own.
    """
    return _Analysis(tape, regions, owned, forced, kept).run()


class _Analysis:
    def __init__(
        self,
        tape: Tape,
        regions: Mapping[Eqn, Lowered],
        owned: Set[Var],
        forced: Mapping[Eqn, Var],
        kept: Set[Var],
    ) -> None:
        self.tape, self.regions, self.forced, self.kept = tape, regions, forced, kept
        self.defs = {v: e for e in tape.eqns for v in e.results}
        self.found = Aliasing()
        self.last = self._last_uses()
        self._overwritten = self._candidates() | set(owned)
        self._readers: dict[Var, list[Var]] = {}
        self._current: dict[Var, Var] = {}
        self._chain: dict[Var, int] = {}
        for var in owned:
            self._begin(var)

    def run(self) -> Aliasing:
        for place, eqn in enumerate(self.tape.eqns):
            if eqn in self.regions:
                self._region(place, eqn)
            elif is_update(eqn):
                self._update(place, eqn)
            elif computed_whole(eqn):
                for var in eqn.results:
                    if var.shape:
                        self._begin(var)
            else:
                self._lazy(eqn)
        return self.found

    def _last_uses(self) -> dict[Atom, int]:
        last: dict[Atom, int] = {}
        for place, eqn in enumerate(self.tape.eqns):
            # What is overwritten without looking is not used.
            last.update(dict.fromkeys(eqn.operands[1:] if eqn in self.forced else eqn.operands, place))
        last.update(dict.fromkeys((*self.tape.outputs, *(g.var for g in self.tape.guards)), FOREVER))
        return last

    def _candidates(self) -> set[Atom]:
        """Return the arrays that may be overwritten, as far as their last use says."""
        found: set[Atom] = set()
        for place, eqn in enumerate(self.tape.eqns):
            for atom in self._bases(eqn):
                if self.last[atom] == place:
                    found.add(atom)
        return found

    def _bases(self, eqn: Eqn) -> Iterator[Var]:
        if eqn in self.regions:
            atoms = [s.initial for s in self.regions[eqn].states if s.result.shape]
        else:
            atoms = [eqn.operands[0]] if is_update(eqn) and eqn not in self.forced else []
        yield from (a for a in atoms if isinstance(a, Var))

    # --- versions ---

    def _begin(self, var: Var) -> None:
        """``var`` has memory of its own."""
        self.found.root[var] = var
        self._current[var] = var
        if var in self._overwritten:
            self.found.reads[var] = frozenset((var,))

    def _overwrite(self, base: Var, result: Var) -> None:
        """The memory of ``base`` holds ``result`` from here on."""
        root = self.found.root[base]
        self.found.root[result] = root
        self.found.reads[result] = frozenset((root,))
        self._current[root] = result
        self._readers[root] = []

    def _lazy(self, eqn: Eqn) -> None:
        if eqn.results[0] in self.kept:
            self.found.pinned.add(eqn.results[0])
            return
        read = self.found.read_by(eqn.operands)
        if read:
            for var in eqn.results:
                self.found.reads[var] = read
                for root in read:
                    self._readers.setdefault(root, []).append(var)

    # --- decisions ---

    def _region(self, place: int, eqn: Eqn) -> None:
        for number, state in enumerate(self.regions[eqn].states):
            if not state.result.shape:
                continue
            initial = state.initial
            if self._is_free(initial, place, eqn) and self._clear(place, eqn, initial, ()):
                assert isinstance(initial, Var)
                self.found.base[eqn, number] = initial
                self._overwrite(initial, state.result)
            else:
                self._begin(state.result)

    def _update(self, place: int, eqn: Eqn) -> None:
        x, result = eqn.operands[0], eqn.results[0]
        if eqn in self.forced:
            base = self._current[self.forced[eqn]]
            in_place = self._clear(place, eqn, base, eqn.operands[1:], must=True)
        else:
            long = isinstance(eqn.op, Scatter) or self._is_long(eqn)
            written = eqn.operands[1:]
            in_place = self._is_free(x, place, eqn) and self._clear(place, eqn, x, written, aside=long)
            if not in_place and not long:
                self._chain[result] = self._links(eqn)
                self._lazy(eqn)
                return
            base = x  # type: ignore[assignment]
        self.found.in_memory.add(eqn)
        if in_place:
            self.found.base[eqn, 0] = base
            self._overwrite(base, result)
        else:
            self._begin(result)

    def _is_free(self, atom: Atom | None, place: int, eqn: Eqn) -> bool:
        """Return whether nobody but ``eqn`` uses the memory of ``atom`` from ``place`` on."""
        known = isinstance(atom, Var) and atom in self.found.root and self.last[atom] == place
        return known and sum(a is atom for a in eqn.operands) == 1

    def _links(self, eqn: Eqn) -> int:
        x, v = eqn.operands[:2]
        small = dims.hint(v.aval.size) * SMALL_PART < dims.hint(x.aval.size)
        return self._chain.get(x, 0) + (3 if small else 1) if isinstance(x, Var) else 1

    def _is_long(self, eqn: Eqn) -> bool:
        return self._links(eqn) > LONG_CHAIN

    def _clear(
        self,
        place: int,
        eqn: Eqn,
        base: Atom | None,
        written: Sequence[Atom],
        must: bool = False,
        aside: bool = True,
    ) -> bool:
        """Pin all that would read the memory of ``base`` too late, unless that costs more than a copy.

        Without ``aside`` a new array is made rather than that most of it is computed aside and written then.
        """
        assert isinstance(base, Var)
        root = self.found.root[base]
        fresh: dict[Var, frozenset[Var]] = {}
        pinned = []
        for var in self._readers.get(root, ()):
            read = self._reads_of(self.defs[var].operands, fresh)
            if root in read and self.last.get(var, -1) > place:
                pinned.append(var)
                read = Nothing
            fresh[var] = read
        for atom in dict.fromkeys(written):
            touches = isinstance(atom, Var) and root in self._reads_of((atom,), fresh)
            if touches and self._clashes(eqn, atom, root, fresh):
                assert isinstance(atom, Var)
                if not (aside or must) and 2 * dims.hint(atom.aval.size) > dims.hint(base.aval.size):
                    return False
                pinned.append(atom)
                fresh[atom] = Nothing
        kept = sum(dims.hint(v.aval.size) for v in pinned if v.shape)
        if not must and kept > 2 * dims.hint(base.aval.size):
            return False
        numbers = [self._number(v) for v in pinned]
        self.found.pinned.update(numbers)
        self.found.reads.update(fresh)
        self.found.reads.update(dict.fromkeys(numbers, Nothing))
        return True

    def _number(self, var: Var) -> Var:
        """Return the number that ``var`` is an array of: kept in a register, where the array would be in memory."""
        made = self.defs[var]
        number = made.operands[0]
        return number if made.op is expand_dims and isinstance(number, Var) and not number.shape else var

    def _reads_of(self, atoms: Sequence[Atom], fresh: Mapping[Var, frozenset[Var]]) -> frozenset[Var]:
        known = [fresh.get(a, self.found.reads.get(a, Nothing)) for a in atoms if isinstance(a, Var)]
        return Nothing.union(*known) if known else Nothing

    def _clashes(self, eqn: Eqn, atom: Atom, root: Var, fresh: Mapping[Var, frozenset[Var]]) -> bool:
        """Return whether ``atom`` may read an entry after ``eqn`` has overwritten it."""
        shape = eqn.operands[1].shape
        if all(d == 1 for d in shape):
            return False  # all is read before the one entry is written
        written = None if isinstance(eqn.op, Scatter) else _Written(eqn)
        todo: list[tuple[Atom, Index]] = [(atom, loops(len(atom.shape)))]
        seen = set(todo)
        while todo:
            value, index = todo.pop()
            if not value.shape or root not in self._reads_of((value,), fresh):
                continue
            if value in self.found.root:
                if written is None or not written.apart(index):
                    return True
                continue
            assert isinstance(value, Var)
            reached = self._operands(self.defs[value], index)
            if reached is None:
                return True
            new = [r for r in reached if r not in seen]
            seen.update(new)
            todo.extend(new)
        return False

    def _operands(self, eqn: Eqn, index: Index) -> list[tuple[Atom, Index]] | None:
        """Return what the entry at ``index`` is computed from; None if that is not known."""
        if is_pointwise(eqn):
            return [(a, index) for a in eqn.operands]
        if isinstance(index, Flat) or isinstance(eqn.op, Gather):
            return None
        return [(eqn.operands[r.operand], r.index) for r in reads(eqn, index)]


class _Written:
    """The region that an update of a slice writes to, as seen from the entry that is being written."""

    def __init__(self, eqn: Eqn) -> None:
        start, step, size = eqn.params["start"], eqn.params["step"], eqn.operands[1].shape
        index = loops(len(size))
        self._place = tuple(s + i * d for s, i, d in zip(start, index, step, strict=True))
        ends = [(s, s + (n - 1) * d) for s, n, d in zip(start, size, step, strict=True)]
        self._spans = [e if d > 0 else e[::-1] for e, d in zip(ends, step, strict=True)]
        self._constant = {s: 0 for s, n in zip(loop_symbols(len(size)), size, strict=True) if n == 1}
        bounds = {s: (0, n) for s, n in zip(loop_symbols(len(size)), size, strict=True)}
        self._ranges = Ranges(bounds)

    def apart(self, index: Index) -> bool:
        """Return whether a read at ``index`` is of the entry itself, or outside of the region."""
        if isinstance(index, Flat):
            return False
        own = all(self._plain(i) == self._plain(p) for i, p in zip(index, self._place, strict=True))
        return own or any(self._outside(i, span) for i, span in zip(index, self._spans, strict=True))

    def _plain(self, dim: Dim) -> Dim:
        return dims.substitute(dim, self._constant)

    def _outside(self, dim: Dim, span: tuple[Dim, Dim]) -> bool:
        low, high = span
        return self._ranges.nonnegative(low - 1 - dim) or self._ranges.nonnegative(dim - high - 1)
