"""Loops and branches in the one form that schedules know: states that live in one place each, and bodies.

A *state* is an array that the bodies update, or a scalar that they assign: the carries of a loop and its
stacked results, the results of a branch.  Rows that a loop reads become slices of whole arrays at its
counter, stacked results become writes at it, so that nothing but states and constants is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracejit.errors import InternalError
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.source import Source
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.branch import Cond
from tracejit.ops.broadcasting import expand_dims
from tracejit.ops.indexing import Scatter
from tracejit.ops.joining import SliceAdd, SliceUpdate, slice_update
from tracejit.ops.loop import Loop, While
from tracejit.ops.region import Region
from tracejit.passes.promotion import promoted
from tracejit.passes.sinking import numbers_first, row_of, sunk

__all__ = ["Lowered", "State", "is_update", "lowered_regions", "origins"]


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """What a state starts from (None if every body writes all of it), and the result that it ends as."""

    initial: Atom | None
    result: Var


@dataclass(frozen=True, eq=False, slots=True)
class Lowered:
    """A loop or branch.

    Attributes
    ----------
    states : tuple of State
    consts : tuple of atoms
        What the bodies read besides.
    bodies : tuple of Tape
        Their inputs are the states and the constants; their outputs are the states after them.  Of a loop:
        its body; of a ``while``: the condition, whose output is a boolean, and the body; of a branch:
        otherwise, then.
    """

    states: tuple[State, ...]
    consts: tuple[Atom, ...]
    bodies: tuple[Tape, ...]


def lowered_regions(tape: Tape) -> dict[Eqn, Lowered]:
    """Return the loops and branches of ``tape``."""
    return {e: _lowered(e) for e in tape.eqns if isinstance(e.op, Region)}


def is_update(eqn: Eqn) -> bool:
    """Return whether the result is the first operand with some entries changed."""
    return isinstance(eqn.op, SliceUpdate | SliceAdd | Scatter)


def _lowered(eqn: Eqn) -> Lowered:
    if isinstance(eqn.op, Loop):
        return _loop(eqn)
    if isinstance(eqn.op, While):
        return _while(eqn)
    if isinstance(eqn.op, Cond):
        return _cond(eqn)
    raise InternalError(f"No loop form is known for the op {eqn.op.name!r}.", where=eqn.source)


def _loop(eqn: Eqn) -> Lowered:
    body: Tape = eqn.params["body"]
    carries: int = eqn.params["carries"]
    end = len(eqn.operands) - eqn.params["xs"]
    index = dims.poly(eqn.params["index"])
    stacks = [Var(v.aval, v.name) for v in eqn.results[carries:]]
    whole = [Var(a.aval) for a in eqn.operands[end:]]
    eqns: list[Eqn] = []
    for x, row in zip(whole, body.inputs[end:], strict=True):
        eqns += row_of(x, row, index, eqn.source)
    puts = [
        _put(stack, y, index, eqn.source) for stack, y in zip(stacks, body.outputs[carries:], strict=True)
    ]
    eqns += _as_early_as_possible(body.eqns, body.outputs[carries:], puts)
    written = [put[-1].results[0] for put in puts]
    inputs = (*body.inputs[:carries], *stacks, *body.inputs[carries:end], *whole)
    tape = Tape(inputs, (), tuple(eqns), (*body.outputs[:carries], *written))
    tape = numbers_first(promoted(sunk(tape, fixed=inputs[carries + len(stacks) :])))
    first = [*eqn.operands[:carries], *(None for _ in stacks)]
    states = tuple(State(a, v) for a, v in zip(first, eqn.results, strict=True))
    return Lowered(states, eqn.operands[carries:], (tape,))


def _as_early_as_possible(
    eqns: Sequence[Eqn], ys: Sequence[Atom], puts: Sequence[list[Eqn]]
) -> Iterator[Eqn]:
    """Yield ``eqns`` with each of ``puts`` behind the equation that makes its entry of ``ys``.

    What is kept of an array before it is overwritten then goes to the stack directly, and not aside and from there.
    """
    after: dict[Atom, list[Eqn]] = {}
    for y, put in zip(ys, puts, strict=True):
        after.setdefault(y, []).extend(put)
    made = {v for e in eqns for v in e.results}
    for y, put in after.items():
        if y not in made:
            yield from put
    for eqn in eqns:
        yield eqn
        for var in eqn.results:
            yield from after.get(var, ())


def _put(stack: Var, y: Atom, index: Dim, source: Source | None) -> list[Eqn]:
    """Return the equations of ``stack[index] = y``; the last one gives the stack after it."""
    rest = len(y.shape)
    piece = Var(stack.aval.with_shape((1, *y.shape)))
    params = {"start": (index, *(0 for _ in y.shape)), "step": (1,) * (rest + 1)}
    return [
        Eqn(expand_dims, (y,), {"axes": (0,)}, (piece,), source),
        Eqn(slice_update, (stack, piece), params, (Var(stack.aval, stack.name),), source),
    ]


def _while(eqn: Eqn) -> Lowered:
    carries: int = eqn.params["carries"]
    states = tuple(State(a, v) for a, v in zip(eqn.operands[:carries], eqn.results[:-1], strict=True))
    bodies = (eqn.params["cond"], numbers_first(eqn.params["body"]))
    return Lowered(states, eqn.operands[carries:], bodies)


def _cond(eqn: Eqn) -> Lowered:
    operands = eqn.operands[1:]
    branches: tuple[Tape, Tape] = eqn.params["branches"]
    taken = _continued(branches)
    states = tuple(
        State(operands[taken[n]] if n in taken else None, result) for n, result in enumerate(eqn.results)
    )
    rest = [n for n in range(len(operands)) if n not in taken.values()]
    bodies = []
    for branch in branches:
        first = [branch.inputs[taken[n]] if n in taken else Var(v.aval) for n, v in enumerate(eqn.results)]
        inputs = (*first, *(branch.inputs[n] for n in rest))
        bodies.append(numbers_first(Tape(inputs, (), branch.eqns, branch.outputs)))
    return Lowered(states, tuple(operands[n] for n in rest), tuple(bodies))


def _continued(branches: tuple[Tape, Tape]) -> dict[int, int]:
    """Return the results that are operands with some entries changed: number of result -> of operand."""
    numbers = [{v: n for n, v in enumerate(b.inputs)} for b in branches]
    sides = [origins(b) for b in branches]
    taken: dict[int, int] = {}
    for both in (True, False):
        for result, output in enumerate(branches[0].outputs):
            if not output.shape or result in taken:
                continue
            found = [
                known[source] if (source := side.get(branch.outputs[result])) is not None else None
                for branch, side, known in zip(branches, sides, numbers, strict=True)
            ]
            choices = found[:1] if both and found[0] == found[1] else [] if both else found
            free = [c for c in choices if c is not None and c not in taken.values()]
            if free:
                taken[result] = free[0]
    return taken


def origins(tape: Tape) -> dict[Atom, Var]:
    """Return, for arrays that are an input with some entries changed (or none), that input."""
    known: dict[Atom, Var] = {v: v for v in tape.inputs if v.shape}
    for eqn in tape.eqns:
        for before, after in _changes(eqn):
            if before in known:
                known[after] = known[before]
    return known


def _changes(eqn: Eqn) -> list[tuple[Atom, Var]]:
    """Return the pairs of an array before and after ``eqn`` changes entries of it."""
    if is_update(eqn):
        return [(eqn.operands[0], eqn.results[0])]
    if isinstance(eqn.op, Loop | While):
        return list(zip(eqn.operands[: eqn.params["carries"]], eqn.results, strict=False))
    if isinstance(eqn.op, Cond):
        taken = _continued(eqn.params["branches"])
        return [(eqn.operands[1 + operand], eqn.results[result]) for result, operand in taken.items()]
    return []
