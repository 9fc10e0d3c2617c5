"""Bodies that end with every array state in its own memory.

Where a body gives something else than the state with some entries changed (a new array, another state), the
whole of it is written to the memory of the state at the end.  States that change places are copied out of
the way first.

In a loop what cannot be written in place (a time step that reads the neighbours in the old array) is better
computed into other memory, which changes places with that of the state: it *moves*.  So do states that become
one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.broadcasting import convert
from tracejit.ops.joining import slice_update
from tracejit.passes.aliasing import Aliasing, alias
from tracejit.passes.bodies import Lowered, lowered_regions, origins
from tracejit.passes.dead_code import remove_dead

__all__ = ["Settled", "settled"]


@dataclass(frozen=True, eq=False, slots=True)
class Settled:
    """A body with writes at its end.

    Attributes
    ----------
    tape : Tape
        Its outputs that are arrays are versions of the states, in their memory, but for those that move.
    regions : mapping of Eqn to Lowered
    aliasing : Aliasing
    moves : dict of int to Var
        State -> the variable whose memory is that of the state after the body.
    """

    tape: Tape
    regions: Mapping[Eqn, Lowered]
    aliasing: Aliasing
    moves: Mapping[int, Var]


def settled(tape: Tape, states: Sequence[Var], may_move: bool) -> Settled:
    """Return the body ``tape`` in which output number k belongs to ``states[k]``.

    Parameters
    ----------
    tape : Tape
    states : sequence of Var
    may_move : bool
        Whether the memory of a state may be another one after the body.
    """
    settling = _Settling(remove_dead(tape), {n: v for n, v in enumerate(states) if v.shape})
    written, aside = settling.written()
    moved = settling.moved(aside) if may_move and aside else None
    return moved or written


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom


@dataclass(frozen=True, slots=True)
class _Move:
    """A new value of a state, and the state whose memory it is in, changed or not; None for memory of its own."""

    value: Var
    source: Var | None


class _Settling:
    def __init__(self, tape: Tape, states: Mapping[int, Var]) -> None:
        self.tape, self.states = tape, states
        self.regions, self.known = lowered_regions(tape), origins(tape)
        self.numbers = {v: n for n, v in states.items()}
        self.assigned = {n for n, v in states.items() if self.known.get(tape.outputs[n]) is not v}

    def written(self) -> tuple[Settled, set[int]]:
        """Return the body that ends with writes, and the states whose new value is computed aside first."""
        while True:
            found, writes = self._attempt({})
            root = found.aliasing.root
            apart = {n for n, v in self.states.items() if root.get(_var(found.tape.outputs[n])) is not v}
            if not apart:
                values = {self.numbers[s]: _var(e.operands[1]) for e, s in writes.items()}
                copied = {n for n, v in values.items() if v is not self.tape.outputs[n]}
                return found, copied | {n for n, v in values.items() if v in found.aliasing.pinned}
            self.assigned |= apart

    def moved(self, aside: set[int]) -> Settled | None:
        """Return the body in which memory moves instead of what is computed aside; None if it cannot.

        A state may become another one whose entries the body has changed (the buffer that was filled); where
        that one can't be changed in place, the new value has memory of its own.
        """
        for changed in (True, False):
            moves = self._moves(aside, changed)
            found = self._moved(moves) if moves else None
            if found is not None:
                return found
        return None

    def _moved(self, moves: Mapping[int, _Move]) -> Settled | None:
        found, _ = self._attempt(moves)
        root = found.aliasing.root
        for number, state in self.states.items():
            after = root.get(_var(found.tape.outputs[number]))
            source = moves[number].source if number in moves else state
            if after is not source and not (source is None and after not in self.numbers):
                return None
        return found

    def _moves(self, aside: set[int], changed: bool) -> dict[int, _Move]:
        """Return the states that move, with what they become: each memory is one state's afterwards."""
        moves = {n: self._move(n, changed) for n in sorted(aside)}
        while True:
            sources = [self.numbers[m.source] for m in moves.values() if m.source is not None]
            left = [n for n in sources if n not in moves]
            if not left:
                break
            if any(n not in self.assigned for n in left):
                return {}
            moves.update((n, self._move(n, changed)) for n in left)
        memories = [m.source or m.value for m in moves.values()]
        inside = {v for e in self.tape.eqns for v in e.results} | set(self.numbers)
        made = inside.issuperset(m.value for m in moves.values())
        return moves if made and len(set(memories)) == len(memories) else {}

    def _move(self, number: int, changed: bool) -> _Move:
        """Return what the state ``number`` becomes, and whose memory that is."""
        value = _var(self.tape.outputs[number])
        source = self.known.get(value)
        known = source in self.numbers and (value is source or (changed and self.numbers[source] != number))
        return _Move(value, source if known else None)

    def _attempt(self, moves: Mapping[int, _Move]) -> tuple[Settled, dict[Eqn, Var]]:
        rest = sorted(self.assigned - moves.keys())
        tape, writes = _with_writes(self.tape, self.states, rest, self.known)
        kept = {m.value for m in moves.values() if m.source is None}
        aliasing = alias(tape, self.regions, self.numbers.keys(), writes, kept)
        return Settled(tape, self.regions, aliasing, {n: m.value for n, m in moves.items()}), writes


def _with_writes(
    tape: Tape, states: Mapping[int, Var], assigned: Sequence[int], known: Mapping[Atom, Var]
) -> tuple[Tape, dict[Eqn, Var]]:
    """Return the tape that writes the outputs ``assigned`` to their states, and those writes."""
    outputs = list(tape.outputs)
    copies: list[Eqn] = []
    for number in assigned:
        value = _var(outputs[number])
        source = known.get(value)
        if source in states.values() and source is not states[number]:
            copy = Var(value.aval, value.name)
            copies.append(Eqn(convert, (value,), {"dtype": value.dtype}, (copy,), None))
            outputs[number] = copy
    writes: dict[Eqn, Var] = {}
    for number in assigned:
        state, value = states[number], _var(outputs[number])
        after = Var(state.aval, state.name)
        params = {"start": (0,) * len(state.shape), "step": (1,) * len(state.shape)}
        writes[Eqn(slice_update, (state, value), params, (after,), None)] = state
        outputs[number] = after
    return Tape(tape.inputs, tape.consts, (*tape.eqns, *copies, *writes), tuple(outputs)), writes
