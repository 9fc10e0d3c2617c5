"""Batching of loops and branches: batched bodies, and masks where instances go different ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracejit.errors import InternalError, UnsupportedError
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Builder, Eqn, Tape, Var, current
from tracejit.ops.branch import Cond, cond_of
from tracejit.ops.broadcasting import broadcast, convert, full, lead
from tracejit.ops.elementwise import add, select
from tracejit.ops.linear import transpose
from tracejit.ops.loop import Loop, While, bind_size, counter, loop, while_of
from tracejit.ops.reduction import reduce_any
from tracejit.ops.region import close
from tracejit.passes.activity import spread
from tracejit.passes.replay import replay

__all__ = ["batch_region", "lane_by_lane", "lifted_outputs", "sizes_differ"]

Batched = tuple[tuple[Atom, ...], tuple[bool, ...]]
Batch = Callable[[Tape, Sequence[Atom], Sequence[bool], Dim], Batched]


def batch_region(
    eqn: Eqn, operands: Sequence[Atom], flags: Sequence[bool], size: Dim, batch: Batch
) -> Batched:
    """Append the batched loop or branch; return results and which have the leading axis.

    ``batch(tape, args, flags, size)`` does the same for a body.
    """
    if isinstance(eqn.op, Loop):
        return _batch_loop(eqn, operands, flags, size, batch)
    if isinstance(eqn.op, While):
        return _batch_while(eqn, operands, flags, size, batch)
    if isinstance(eqn.op, Cond):
        return _batch_cond(eqn, operands, flags, size, batch)
    raise InternalError(f"`{eqn.op.name}` cannot be batched.")


# --- what is batched ------------------------------------------------------------------------------


def lifted_outputs(tape: Tape, flags: Sequence[bool]) -> list[bool]:
    """Return which outputs have the leading axis if the flagged inputs have it."""
    lifted = _lifted(tape, flags)
    return [a in lifted for a in tape.outputs]


def _lifted(tape: Tape, flags: Sequence[bool]) -> set[Atom]:
    lifted: set[Atom] = {v for v, flag in zip(tape.inputs, flags, strict=True) if flag}
    for eqn in tape.eqns:
        inward = [a in lifted for a in eqn.operands]
        if any(inward):
            lifted.update(v for v, flag in zip(eqn.results, _results(eqn, inward), strict=True) if flag)
    return lifted


def _results(eqn: Eqn, inward: list[bool]) -> Sequence[bool]:
    if isinstance(eqn.op, Cond) and not inward[0]:
        sides = [lifted_outputs(branch, inward[1:]) for branch in eqn.params["branches"]]
        return [a or b for a, b in zip(*sides, strict=True)]
    if isinstance(eqn.op, Loop):
        flags = _body_flags(eqn, inward)
        return [
            *flags[: eqn.params["carries"]],
            *lifted_outputs(eqn.params["body"], flags)[eqn.params["carries"] :],
        ]
    if isinstance(eqn.op, While):
        flags = _body_flags(eqn, inward)
        masked = lifted_outputs(eqn.params["cond"], flags)[0]
        return [masked or flag for flag in (*flags[: eqn.params["carries"]], False)]
    return [True] * len(eqn.results)


def _body_flags(eqn: Eqn, inward: Sequence[bool]) -> list[bool]:
    return spread(
        list(inward), eqn.params["carries"], lambda flags: lifted_outputs(eqn.params["body"], flags)
    )


def sizes_differ(tape: Tape, flags: Sequence[bool]) -> bool:
    """Return whether an extent that the tape makes would differ between the instances of the batch."""
    lifted = _lifted(tape, flags)
    return any(_differs(eqn, [a in lifted for a in eqn.operands]) for eqn in tape.eqns)


def _differs(eqn: Eqn, inward: list[bool]) -> bool:
    if not any(inward):
        return False
    if eqn.op is bind_size:
        return True
    if isinstance(eqn.op, Cond):
        return any(sizes_differ(branch, inward[1:]) for branch in eqn.params["branches"])
    if isinstance(eqn.op, Loop | While):
        return sizes_differ(eqn.params["body"], _body_flags(eqn, inward))
    return False


# --- the batched ops ------------------------------------------------------------------------------


def _inputs(builder: Builder, variables: Sequence[Var], flags: Sequence[bool], size: Dim) -> list[Var]:
    pairs = zip(variables, flags, strict=True)
    return [builder.input(Aval((size, *v.shape), v.dtype) if flag else v.aval, v.name) for v, flag in pairs]


def _lift(values: Sequence[Atom], have: Sequence[bool], want: Sequence[bool], size: Dim) -> list[Atom]:
    return [lead(x, size, h) if w else x for x, h, w in zip(values, have, want, strict=True)]


def _swapped(x: Atom) -> Atom:
    """Return ``x`` with the axis of the batch and the axis of the trips exchanged."""
    return transpose(x, perm=(1, 0, *range(2, len(x.shape))))


def _batch_loop(
    eqn: Eqn, operands: Sequence[Atom], flags: Sequence[bool], size: Dim, batch: Batch
) -> Batched:
    body, nc = eqn.params["body"], eqn.params["carries"]
    start = len(operands) - eqn.params["xs"]
    inner = _body_flags(eqn, flags)
    with Builder() as builder:
        inputs = _inputs(builder, body.inputs, inner, size)
        outputs, have = batch(body, inputs, inner, size)
        wanted = [*inner[:nc], *have[nc:]]
        outputs = tuple(_lift(outputs, have, wanted, size))
    tape, extra = close(builder, inputs[:start], outputs, inputs[start:])
    carries = _lift(operands[:nc], flags[:nc], inner[:nc], size)
    xs = [_swapped(x) if flag else x for x, flag in zip(operands[start:], flags[start:], strict=True)]
    how = {k: eqn.params[k] for k in ("index", "trips", "reverse")}
    final, ys = loop(tape, carries, [*operands[nc:start], *extra], xs, **how)
    rows = [_swapped(y) if flag else y for y, flag in zip(ys, wanted[nc:], strict=True)]
    return (*final, *rows), tuple(wanted)


def _batch_while(
    eqn: Eqn, operands: Sequence[Atom], flags: Sequence[bool], size: Dim, batch: Batch
) -> Batched:
    """Instances whose condition fails wait, unchanged, until the last one is done."""
    test, body, nc = eqn.params["cond"], eqn.params["body"], eqn.params["carries"]
    inner = _body_flags(eqn, flags)
    masked = lifted_outputs(test, inner)[0]
    inner = [masked or flag for flag in inner[:nc]] + inner[nc:]
    counts = [full(0, (size,), np.int64)] if masked else []
    parts = []
    for output in (_asked, _stepped):
        with Builder() as builder:
            own = [builder.input(c.aval) for c in counts]
            values = _inputs(builder, body.inputs, inner, size)
            going = batch(test, values, inner, size)[0][0]
            after = batch(body, values, inner, size) if output is _stepped else ((), ())
            out = output(going, own, values, _lift(*after, inner[: len(after[0])], size))
        declared, last = [*own, *values[:nc]], values[nc:]
        parts.append(close(builder, declared, out, last))
    carries = [*counts, *_lift(operands[:nc], flags[:nc], inner[:nc], size)]
    final, count = while_of(carries, operands[nc:], *parts)
    if not masked:
        return (*final, count), (*inner[:nc], False)
    return (*final[1:], final[0]), (True,) * (nc + 1)


def _asked(going: Atom, counts: Sequence[Atom], values: Sequence[Atom], after: Sequence[Atom]) -> list[Atom]:
    return [reduce_any(going, axes=(0,)) if counts else going]


def _stepped(
    going: Atom, counts: Sequence[Atom], values: Sequence[Atom], after: Sequence[Atom]
) -> list[Atom]:
    if not counts:
        return list(after)
    mixed = [_choose(going, new, old) for new, old in zip(after, values, strict=False)]
    return [add(counts[0], convert(going, dtype=np.int64)), *mixed]


def _choose(mask: Atom, then: Atom, otherwise: Atom) -> Atom:
    """Return, for each instance of the batch, one of two values."""
    return select(broadcast(mask, shape=then.shape, axes=(0,)), then, otherwise)


def _batch_cond(
    eqn: Eqn, operands: Sequence[Atom], flags: Sequence[bool], size: Dim, batch: Batch
) -> Batched:
    predicate, *values = operands
    branches = eqn.params["branches"]
    if flags[0]:
        sides = [_lift(*batch(b, values, flags[1:], size), [True] * len(eqn.results), size) for b in branches]
        chosen = tuple(_choose(predicate, then, otherwise) for otherwise, then in zip(*sides, strict=True))
        return chosen, (True,) * len(chosen)
    wanted = [a or b for a, b in zip(*(lifted_outputs(b, flags[1:]) for b in branches), strict=True)]
    parts = []
    for branch in branches:
        with Builder() as builder:
            inputs = _inputs(builder, branch.inputs, flags[1:], size)
            outputs = _lift(*batch(branch, inputs, flags[1:], size), wanted, size)
        parts.append(close(builder, inputs, outputs))
    return cond_of(predicate, values, *parts), tuple(wanted)


def lane_by_lane(tape: Tape, args: Sequence[Atom], flags: Sequence[bool], size: Dim) -> Batched:
    """Append a loop over the instances of the batch: for tapes with extents that differ between them."""
    index = counter(size)
    batched = [x for x, flag in zip(args, flags, strict=True) if flag]
    with Builder() as builder:
        rows = [builder.input(x.aval.with_shape(x.shape[1:])) for x in batched]
        entries = iter(rows)
        outputs = replay(tape, [next(entries) if flag else x for x, flag in zip(args, flags, strict=True)])
    if builder.guards or any(s.local for a in outputs for d in a.shape for s in dims.symbols(d)):
        raise UnsupportedError(
            "`vmap` over a function whose control flow or result shapes differ between the instances.",
            where=current().source(),
            hint="Loop over the instances in Python.",
        )
    body, extra = close(builder, [], outputs, rows)
    _, ys = loop(body, [], extra, batched, index=index, trips=size)
    return ys, (True,) * len(ys)
