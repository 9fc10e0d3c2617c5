"""Bodies that end with every array state in its own memory.

Where a body gives something else than the state with some entries changed (a new array, another state), the
whole of it is written to the memory of the state at the end.  States that change places are copied out of
the way first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.broadcasting import convert
from tracejit.ops.joining import slice_update
from tracejit.passes.aliasing import Aliasing, alias
from tracejit.passes.bodies import Lowered, lowered_regions, origins
from tracejit.passes.dead_code import remove_dead

__all__ = ["settled"]


def settled(tape: Tape, states: Sequence[Var]) -> tuple[Tape, Mapping[Eqn, Lowered], Aliasing]:
    """Return ``tape`` with writes at its end, its regions, and what is done in place.

    Output number k belongs to ``states[k]``; afterwards it is a version of it if it is an array.
    """
    tape = remove_dead(tape)
    regions = lowered_regions(tape)
    known = origins(tape)
    arrays = {n: v for n, v in enumerate(states) if v.shape}
    assigned = {n for n, v in arrays.items() if known.get(tape.outputs[n]) is not v}
    while True:
        whole, forced = _with_writes(tape, arrays, sorted(assigned), known)
        aliasing = alias(whole, regions, set(arrays.values()), forced)
        apart = {n for n, v in arrays.items() if aliasing.root.get(_var(whole.outputs[n])) is not v}
        if not apart:
            return whole, regions, aliasing
        assigned |= apart


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom


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
