"""The order of equations in a body: whoever reads a version of an array comes before the update that
overwrites it.

Generated code then updates arrays in place, without copies.  Where dependencies forbid that order, a copy is
needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Linear
from tracejit.ops.branch import Cond
from tracejit.ops.loop import Loop, While
from tracejit.passes.chains import UPDATES
from tracejit.passes.runtime_sizes import SizeMakers

__all__ = ["in_place", "reads_first"]


def in_place(eqn: Eqn) -> list[tuple[int, int]]:
    """Return the pairs (operand, result) of arrays that ``eqn`` can update in the operand's own memory."""
    if eqn.op in UPDATES:
        return [(0, 0)]
    if isinstance(eqn.op, Loop | While):
        return [(p, p) for p in range(eqn.params["carries"]) if eqn.operands[p].shape]
    if isinstance(eqn.op, Cond):
        left, right = (_roots(branch) for branch in eqn.params["branches"])
        pairs = zip(left, right, strict=True)
        return [(a + 1, place) for place, (a, b) in enumerate(pairs) if a is not None and a == b]
    return []


def _roots(branch: Tape) -> list[int | None]:
    """Return, for each output, the number of the input array that it is, updated in place."""
    follow = {e.results[r]: e.operands[o] for e in branch.eqns for o, r in in_place(e)}
    inputs = {v: n for n, v in enumerate(branch.inputs) if v.shape}

    def root(atom: Atom) -> int | None:
        while isinstance(atom, Var) and atom in follow:
            atom = follow[atom]
        return inputs.get(atom) if isinstance(atom, Var) else None

    return [root(a) for a in branch.outputs]


def reads_first(tape: Tape) -> Tape:
    """Return ``tape`` in such an order, as close to its own as possible."""
    eqns = tape.eqns
    before, after = _dependencies(tape)
    hopes = _hopes(tape)
    hoped_by: dict[int, list[int]] = {}
    for writer, readers in hopes.items():
        for reader in readers:
            hoped_by.setdefault(reader, []).append(writer)
    ready = [n for n in range(len(eqns)) if not before[n]]
    heapq.heapify(ready)
    waiting: set[int] = set()
    order: list[int] = []
    while ready or waiting:
        if ready:
            number = heapq.heappop(ready)
            if hopes.get(number):
                waiting.add(number)
                continue
        else:
            number = min(waiting)
            waiting.discard(number)
        order.append(number)
        for writer in hoped_by.get(number, ()):
            hopes[writer].discard(number)
            if not hopes[writer] and writer in waiting:
                waiting.discard(writer)
                heapq.heappush(ready, writer)
        for later in after[number]:
            before[later].discard(number)
            if not before[later]:
                heapq.heappush(ready, later)
    return Tape(
        tape.inputs, tape.consts, tuple(eqns[n] for n in order), tape.outputs, tape.sizes, tape.guards
    )


def _dependencies(tape: Tape) -> tuple[list[set[int]], list[set[int]]]:
    """Return, per equation, the numbers of those it needs and of those that need it."""
    makers = {v: n for n, e in enumerate(tape.eqns) for v in e.results}
    sizes = SizeMakers(tape)
    before = [{makers[a] for a in sizes.operands(e) if a in makers} for e in tape.eqns]
    after: list[set[int]] = [set() for _ in tape.eqns]
    for number, needs in enumerate(before):
        for needed in needs:
            after[needed].add(number)
    return before, after


def _hopes(tape: Tape) -> dict[int, set[int]]:
    """Return, per update, the other equations that read what it overwrites, directly or through a view."""
    seen_as: dict[Atom, Atom] = {}
    readers: dict[Atom, set[int]] = {}
    for number, eqn in enumerate(tape.eqns):
        for atom in _memory(eqn, seen_as):
            readers.setdefault(atom, set()).add(number)
        if isinstance(eqn.op, Linear) and eqn.operands[0].shape:
            seen_as[eqn.results[0]] = seen_as.get(eqn.operands[0], eqn.operands[0])
    hopes: dict[int, set[int]] = {}
    for number, eqn in enumerate(tape.eqns):
        for operand, _ in in_place(eqn):
            hopes.setdefault(number, set()).update(readers[eqn.operands[operand]] - {number})
    return hopes


def _memory(eqn: Eqn, seen_as: dict[Atom, Atom]) -> Iterator[Atom]:
    for atom in eqn.operands:
        if isinstance(atom, Var):
            yield atom
            if atom in seen_as:
                yield seen_as[atom]
