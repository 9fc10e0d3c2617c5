"""Entries of an array that a loop works on as numbers: ``for k: a[i] += b[k]`` needs no memory for ``a[i]``.

The compiler does this by itself unless the loop changes other entries of the same array, which it cannot tell apart
from this one; sizes can. The entry is taken out before the loop and put back behind it, so every sum keeps its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracejit.ir import dims
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.broadcasting import expand_dims, squeeze
from tracejit.ops.elementwise import add
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import slice_
from tracejit.ops.loop import Loop
from tracejit.passes.slices import Region, apart, region_of

__all__ = ["promoted"]

_WRITES = {slice_update, slice_add}


def promoted(tape: Tape) -> Tape:
    """Return a body in which inner loops carry entries of arrays, that all their iterations change, as numbers."""
    eqns: list[Eqn] = []
    for eqn in tape.eqns:
        found = _entry_of(eqn) if isinstance(eqn.op, Loop) else None
        eqns += [eqn] if found is None else _around(eqn, found)
    return Tape(tape.inputs, tape.consts, tuple(eqns), tape.outputs, tape.sizes, tape.guards)


@dataclass(frozen=True)
class _Entry:
    """One entry of the array that is carry ``number``."""

    number: int
    region: Region
    versions: frozenset[Var]


def _entry_of(loop: Eqn) -> _Entry | None:
    """Return an entry that a loop changes, apart from all else of the array that it reads or changes."""
    body: Tape = loop.params["body"]
    for number in range(loop.params["carries"]):
        touched = _touched(body, number) if body.inputs[number].shape else None
        if touched is None:
            continue
        versions, accesses, writes = touched
        for region in writes:
            others = [r for r in accesses if r != region]
            fixed = _is_fixed(region, body.inputs[number].shape, loop.params["index"])
            if fixed and others and all(apart(region, other) for other in others):
                return _Entry(number, region, versions)
    return None


def _touched(body: Tape, number: int) -> tuple[frozenset[Var], list[Region], list[Region]] | None:
    """Return all versions of a carried array, and where it is read or written, and where written; None if unknown."""
    versions = {body.inputs[number]}
    accesses: list[Region] = []
    writes: list[Region] = []
    for eqn in body.eqns:
        places = [n for n, a in enumerate(eqn.operands) if a in versions]
        if not places:
            continue
        if places != [0] or eqn.op not in {slice_, *_WRITES}:
            return None
        accesses.append(region_of(eqn))
        if eqn.op in _WRITES:
            versions.add(eqn.results[0])
            writes.append(accesses[-1])
    ends = [n for n, a in enumerate(body.outputs) if a in versions]
    return (frozenset(versions), accesses, writes) if ends == [number] else None


def _is_fixed(region: Region, shape: Sequence[Dim], index: Symbol) -> bool:
    """Return whether this is one entry, the same in all iterations, and there even if there are none."""
    start, size, _ = region
    known = all(n == 1 for n in size) and not any(index in dims.symbols(s) for s in start)
    return known and all(
        _nonnegative(s) and _nonnegative(n - 1 - s) for s, n in zip(start, shape, strict=True)
    )


def _nonnegative(size: Dim) -> bool:
    """Return whether ``size >= 0`` is proved for all iterations of the loops around."""
    ends = dims.extremes(size)
    lows = [None] if ends is None else [dims.lower_bound(end) for end in ends]
    return all(low is not None and low >= 0 for low in lows)


def _around(loop: Eqn, entry: _Entry) -> list[Eqn]:
    """Return the loop that carries the number, between taking it out and putting it back."""
    (start, size, step), number = entry.region, entry.number
    array = loop.operands[number]
    dtype_of = loop.results[number].aval
    axes = tuple(range(len(size)))
    taken, first = Var(dtype_of.with_shape(size)), Var(dtype_of.with_shape(()))
    last, piece, after = Var(first.aval), Var(taken.aval), Var(dtype_of)
    carries = loop.params["carries"]
    params = {**loop.params, "body": _body(loop, entry), "carries": carries + 1}
    operands = (*loop.operands[:carries], first, *loop.operands[carries:])
    results = [*loop.results[:carries], last, *loop.results[carries:]]
    results[number] = after
    return [
        Eqn(slice_, (array,), {"start": start, "size": size, "step": step}, (taken,), loop.source),
        Eqn(squeeze, (taken,), {"axes": axes}, (first,), loop.source),
        Eqn(loop.op, operands, params, tuple(results), loop.source),
        Eqn(expand_dims, (last,), {"axes": axes}, (piece,), loop.source),
        Eqn(
            slice_update, (after, piece), {"start": start, "step": step}, (loop.results[number],), loop.source
        ),
    ]


def _body(loop: Eqn, entry: _Entry) -> Tape:
    body: Tape = loop.params["body"]
    carries, axes = loop.params["carries"], tuple(range(len(entry.region[1])))
    value = Var(body.inputs[entry.number].aval.with_shape(()))
    inputs = (*body.inputs[:carries], value, *body.inputs[carries:])
    names: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    for eqn in body.eqns:
        operands = tuple(names.get(a, a) for a in eqn.operands)
        mine = eqn.operands and eqn.operands[0] in entry.versions and region_of(eqn) == entry.region
        if not mine:
            eqns.append(Eqn(eqn.op, operands, eqn.params, eqn.results, eqn.source))
        elif eqn.op is slice_:
            eqns.append(Eqn(expand_dims, (value,), {"axes": axes}, eqn.results, eqn.source))
        else:
            names[eqn.results[0]] = operands[0]
            part = Var(value.aval)
            eqns.append(Eqn(squeeze, (operands[1],), {"axes": axes}, (part,), eqn.source))
            if eqn.op is slice_add:
                total = Var(value.aval)
                eqns.append(Eqn(add, (value, part), {}, (total,), eqn.source))
                part = total
            value = part
    outputs = [names.get(a, a) for a in body.outputs]
    return Tape(inputs, body.consts, tuple(eqns), (*outputs[:carries], value, *outputs[carries:]))
