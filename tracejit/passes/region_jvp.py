"""Forward mode through loops and branches: bodies that push tangents, with the tangents as more carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.errors import InternalError
from tracejit.ir.tape import Atom, Builder, Eqn, Tape, Var
from tracejit.ops.base import Maybe
from tracejit.ops.branch import Cond, cond_of
from tracejit.ops.joining import zeros_of
from tracejit.ops.loop import Loop, While, loop, while_of
from tracejit.ops.region import close
from tracejit.passes.activity import active_set, body_flags
from tracejit.passes.replay import replay

__all__ = ["push_region"]

Pushed = tuple[tuple[Atom, ...], tuple[Maybe, ...]]
Push = Callable[[Tape, Sequence[Atom], Sequence[Maybe], bool], Pushed]


def push_region(
    eqn: Eqn, operands: Sequence[Atom], tangents: Sequence[Maybe], absorb: bool, push: Push
) -> Pushed:
    """Append a loop or branch together with its derivative; return results and their tangents.

    ``push(tape, args, tangents, absorb)`` does the same for a body.
    """
    if isinstance(eqn.op, Cond):
        return _push_cond(eqn, operands, tangents, absorb, push)
    if isinstance(eqn.op, Loop):
        return _push_loop(eqn, operands, tangents, absorb, push)
    if isinstance(eqn.op, While):
        return _push_while(eqn, operands, tangents, absorb, push)
    raise InternalError(f"No forward mode for `{eqn.op.name}`.")


class _Doubled:
    """The body of a loop with a tangent beside each active input; ``close`` it outside its builder."""

    def __init__(self, eqn: Eqn, tangents: Sequence[Maybe], absorb: bool, push: Push) -> None:
        body, self.carries = eqn.params["body"], eqn.params["carries"]
        self.flags = body_flags(eqn, [t is not None for t in tangents])
        with Builder() as self.builder:
            self.inputs = [self.builder.input(v.aval, v.name) for v in body.inputs]
            self.along = [
                self.builder.input(v.aval) if f else None
                for v, f in zip(body.inputs, self.flags, strict=True)
            ]
            self.outputs, moved = push(body, self.inputs, self.along, absorb)
            self.moved: list[Maybe] = [
                zeros_of(x) if t is None and k < self.carries and self.flags[k] else t
                for k, (x, t) in enumerate(zip(self.outputs, moved, strict=True))
            ]

    def parts(self, values: Sequence[Any], along: Sequence[Any], section: slice) -> list[Any]:
        """Return what ``section`` selects of the inputs, followed by the tangents of the active ones."""
        present = zip(along[section], self.flags[section], strict=True)
        return [*values[section], *(t for t, flag in present if flag)]

    def results(self) -> list[Atom]:
        """Return the carries with their tangents, then the ys with theirs."""
        nc = self.carries
        carried = [t for t, f in zip(self.moved[:nc], self.flags[:nc], strict=True) if f and t is not None]
        stacked = [t for t in self.moved[nc:] if t is not None]
        return [*self.outputs[:nc], *carried, *self.outputs[nc:], *stacked]

    def unpack(self, final: Sequence[Atom], ys: Sequence[Atom]) -> Pushed:
        """Split what the doubled loop gives into results and tangents."""
        nc, ny = self.carries, len(self.outputs) - self.carries
        carried, stacked = iter(final[nc:]), iter(ys[ny:])
        tangents = [next(carried) if flag else None for flag in self.flags[:nc]]
        tangents += [None if t is None else next(stacked) for t in self.moved[nc:]]
        return (*final[:nc], *ys[:ny]), tuple(tangents)


def _push_loop(
    eqn: Eqn, operands: Sequence[Atom], tangents: Sequence[Maybe], absorb: bool, push: Push
) -> Pushed:
    params = eqn.params
    doubled = _Doubled(eqn, tangents, absorb, push)
    start = len(operands) - params["xs"]
    first, middle, last = slice(0, doubled.carries), slice(doubled.carries, start), slice(start, None)
    declared = [doubled.parts(doubled.inputs, doubled.along, s) for s in (first, middle, last)]
    body, extra = close(doubled.builder, declared[0] + declared[1], doubled.results(), declared[2])
    complete = _complete(operands, tangents, doubled.flags)
    carries, consts, xs = (doubled.parts(operands, complete, s) for s in (first, middle, last))
    how = {k: params[k] for k in ("index", "trips", "reverse")}
    return doubled.unpack(*loop(body, carries, [*consts, *extra], xs, **how))


def _push_while(
    eqn: Eqn, operands: Sequence[Atom], tangents: Sequence[Maybe], absorb: bool, push: Push
) -> Pushed:
    doubled = _Doubled(eqn, tangents, absorb, push)
    first, rest = slice(0, doubled.carries), slice(doubled.carries, None)
    declared = [doubled.parts(doubled.inputs, doubled.along, s) for s in (first, rest)]
    body = close(doubled.builder, declared[0], doubled.results(), declared[1])
    complete = _complete(operands, tangents, doubled.flags)
    carries, consts = (doubled.parts(operands, complete, s) for s in (first, rest))
    final, count = while_of(carries, consts, _test_of(eqn.params["cond"], doubled, declared), body)
    results, moved = doubled.unpack(final, ())
    return (*results, count), (*moved, None)


def _test_of(
    tape: Tape, doubled: _Doubled, declared: Sequence[Sequence[Var]]
) -> tuple[Tape, tuple[Var, ...]]:
    """Return ``tape`` with the inputs of the doubled body, of which it needs the old ones."""
    with Builder() as builder:
        place = {v: builder.input(v.aval) for part in declared for v in part}
        outputs = replay(tape, [place[v] for v in doubled.inputs])
    first, last = ([place[v] for v in part] for part in declared)
    return close(builder, first, outputs, last)


def _complete(operands: Sequence[Atom], tangents: Sequence[Maybe], flags: Sequence[bool]) -> list[Maybe]:
    return [
        zeros_of(x) if flag and t is None else t for x, t, flag in zip(operands, tangents, flags, strict=True)
    ]


def _push_cond(
    eqn: Eqn, operands: Sequence[Atom], tangents: Sequence[Maybe], absorb: bool, push: Push
) -> Pushed:
    predicate, *values = operands
    along = tangents[1:]
    flags = [t is not None for t in along]
    active = [active_set(branch, flags) for branch in eqn.params["branches"]]
    outputs = [branch.outputs for branch in eqn.params["branches"]]
    wanted = [any(a in s for a, s in zip(pair, active, strict=True)) for pair in zip(*outputs, strict=True)]
    sides = [_push_branch(b, flags, wanted, absorb, push) for b in eqn.params["branches"]]
    present = [t for t in along if t is not None]
    results = cond_of(predicate, [*values, *present], *sides)
    moved = iter(results[len(wanted) :])
    return results[: len(wanted)], tuple(next(moved) if want else None for want in wanted)


def _push_branch(
    branch: Tape, flags: Sequence[bool], wanted: Sequence[bool], absorb: bool, push: Push
) -> tuple[Tape, tuple[Var, ...]]:
    with Builder() as builder:
        inputs = [builder.input(v.aval, v.name) for v in branch.inputs]
        along = [builder.input(v.aval) if f else None for v, f in zip(branch.inputs, flags, strict=True)]
        outputs, moved = push(branch, inputs, along, absorb)
        pairs = zip(outputs, moved, wanted, strict=True)
        tangents = [zeros_of(x) if t is None else t for x, t, want in pairs if want]
    return close(builder, [*inputs, *(t for t in along if t is not None)], [*outputs, *tangents])
