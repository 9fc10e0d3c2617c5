"""Nested loops without copies between them: what an inner loop stacks is written to where the outer one keeps it, and
what it reads of a larger array is read there.

A body that stacks the rows of an inner loop would fill a small array and copy that::

    for i: y = loop(k: f(i, k));  stack[i] = y      ->      for i: for k: stack[i, k] = f(i, k)

and one that goes over a part of an array would copy that part::

    for i: row = x[i];  loop(k: g(row[k]))          ->      for i: for k: g(x[i, k])

These rewrites are made when loops are lowered; they don't make sense for anything that is still differentiated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import Any

from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.source import Source
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.ops.base import Op, Reduction
from tracejit.ops.broadcasting import Convert, expand_dims, squeeze
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import reshape, slice_, transpose
from tracejit.ops.loop import Loop
from tracejit.passes.simplify import simplify

__all__ = ["numbers_first", "row_of", "sunk"]

_VIEWS = {slice_, squeeze, expand_dims, reshape, transpose}


def sunk(tape: Tape, fixed: Iterable[Var]) -> Tape:
    """Return the body of a loop with its inner loops writing to, and reading from, where things are kept.

    ``fixed`` are the inputs that the body never changes.
    """
    if not any(isinstance(e.op, Loop) for e in tape.eqns):
        return tape
    return _reading_there(_writing_there(tape), set(fixed))


def numbers_first(tape: Tape) -> Tape:
    """Return a tape that takes single entries of arrays out as numbers: what is kept of one is no array in memory."""
    uses = Counter(a for e in tape.eqns for a in e.operands) + Counter(tape.outputs)
    eqns: list[Eqn] = []
    numbers: dict[Atom, Var] = {}  # entry, as an array -> the number
    names: dict[Atom, Var] = {}

    def array_of(atom: Atom) -> Atom:
        if atom not in numbers:
            return names.get(atom, atom)
        again = Var(atom.aval)
        eqns.append(
            Eqn(expand_dims, (numbers[atom],), {"axes": tuple(range(len(atom.shape)))}, (again,), None)
        )
        return again

    for eqn in tape.eqns:
        entry = eqn.results[0]
        if eqn.op is squeeze and eqn.operands[0] in numbers and not entry.shape:
            names[entry] = numbers[eqn.operands[0]]
            continue
        eqns.append(Eqn(eqn.op, tuple(map(array_of, eqn.operands)), eqn.params, eqn.results, eqn.source))
        if eqn.op is slice_ and all(d == 1 for d in entry.shape) and uses[entry] > 1:
            numbers[entry] = Var(entry.aval.with_shape(()))
            axes = tuple(range(len(entry.shape)))
            eqns.append(Eqn(squeeze, (entry,), {"axes": axes}, (numbers[entry],), eqn.source))
    outputs = tuple(map(array_of, tape.outputs))
    return Tape(tape.inputs, tape.consts, tuple(eqns), outputs, tape.sizes, tape.guards)


# --- writes -----------------------------------------------------------------------------------------------------------


def _writing_there(tape: Tape) -> Tape:
    eqns = list(tape.eqns)
    for update in [e for e in eqns if e.op is slice_update]:
        found = _Write(tape, eqns, update)
        if found.possible():
            eqns = found.replaced()
    return Tape(tape.inputs, tape.consts, tuple(eqns), tape.outputs, tape.sizes, tape.guards)


class _Write:
    """An update with all that an inner loop stacks."""

    def __init__(self, tape: Tape, eqns: list[Eqn], update: Eqn) -> None:
        self.tape, self.eqns, self.update = tape, eqns, update
        self.makers = {v: e for e in eqns for v in e.results}
        self.between: list[Eqn] = []
        made = self.makers.get(update.operands[1])  # type: ignore[arg-type]
        while made is not None and made.op in (expand_dims, reshape):
            self.between.append(made)
            made = self.makers.get(made.operands[0])  # type: ignore[arg-type]
        self.loop = made

    def possible(self) -> bool:
        """Return whether the loop may write itself: nobody else sees what it stacks, or the array meanwhile."""
        if self.loop is None or not isinstance(self.loop.op, Loop) or len(self.between) > 1:
            return False
        rows, array = self._stacked(), self.update.operands[0]
        if self.loop.results.index(rows) < self.loop.params["carries"] or not isinstance(array, Var):
            return False
        uses = Counter(a for e in self.eqns for a in e.operands) + Counter(self.tape.outputs)
        once = all(uses[e.results[0]] == 1 for e in self.between) and uses[rows] == 1 and uses[array] == 1
        return once and self._made_before(array) and self._row_place() is not None

    def _stacked(self) -> Var:
        rows = self.between[-1].operands[0] if self.between else self.update.operands[1]
        assert isinstance(rows, Var)
        return rows

    def _made_before(self, array: Var) -> bool:
        made = self.makers.get(array)
        assert self.loop is not None
        return made is None or self.eqns.index(made) < self.eqns.index(self.loop)

    def _row_place(self) -> tuple[dict[str, Any], tuple[Dim, ...]] | None:
        """Return how a row is laid out for the update in the loop, and where that goes; None if it is too irregular."""
        assert self.loop is not None
        start, rows, k = self.update.params["start"], self._stacked(), dims.poly(self.loop.params["index"])
        if any(d != 1 for d in self.update.params["step"]):
            return None
        how = self.between[0] if self.between else None
        if how is not None and how.op is reshape:
            size = dims.prod(rows.shape[1:])
            flat = how.results[0].shape == (dims.prod(rows.shape),)
            return ({"shape": (size,)}, (start[0] + k * size,)) if flat else None
        front = () if how is None else how.params["axes"]
        if front != tuple(range(len(front))):
            return None
        place = (*start[: len(front)], start[len(front)] + k, *start[len(front) + 1 :])
        return {"axes": (*front, len(front))}, place

    def replaced(self) -> list[Eqn]:
        found = self._row_place()
        assert self.loop is not None and found is not None
        how, place = found
        gone = {self.update, *self.between}
        loop = self._writing(how, place)
        return [loop if e is self.loop else e for e in self.eqns if e not in gone]

    def _writing(self, how: dict[str, Any], place: tuple[Dim, ...]) -> Eqn:
        """Return the loop that carries the array along."""
        assert self.loop is not None
        loop, array = self.loop, self.update.operands[0]
        body, nc = loop.params["body"], loop.params["carries"]
        number = loop.results.index(self._stacked())
        row = body.outputs[number]
        before, after = Var(array.aval), Var(array.aval)
        op = reshape if "shape" in how else expand_dims
        shape = op.infer(row.aval, **how).shape
        piece = Var(row.aval.with_shape(shape))
        source = self.update.source
        writing = (
            Eqn(op, (row,), how, (piece,), source),
            Eqn(slice_update, (before, piece), {"start": place, "step": (1,) * len(place)}, (after,), source),
        )
        outputs = [*body.outputs[:nc], after, *body.outputs[nc:]]
        del outputs[number + 1]
        inputs = (*body.inputs[:nc], before, *body.inputs[nc:])
        params = {**loop.params, "carries": nc + 1}
        params["body"] = Tape(inputs, body.consts, (*_early(body.eqns, row, writing),), tuple(outputs))
        results = [*loop.results[:nc], self.update.results[0], *loop.results[nc:]]
        del results[number + 1]
        operands = (*loop.operands[:nc], array, *loop.operands[nc:])
        return Eqn(loop.op, operands, params, tuple(results), loop.source)


def _early(eqns: Sequence[Eqn], row: Atom, writing: Sequence[Eqn]) -> list[Eqn]:
    """Return ``eqns`` with ``writing`` behind the one that makes ``row``, before what it reads is overwritten."""
    place = next((n + 1 for n, e in enumerate(eqns) if row in e.results), 0)
    return [*eqns[:place], *writing, *eqns[place:]]


# --- reads ------------------------------------------------------------------------------------------------------------


def _reading_there(tape: Tape, fixed: Set[Var]) -> Tape:
    makers = {v: e for e in tape.eqns for v in e.results}
    eqns = [_reading(e, makers, fixed) if isinstance(e.op, Loop) else e for e in tape.eqns]
    return Tape(tape.inputs, tape.consts, tuple(eqns), tape.outputs, tape.sizes, tape.guards)


def _reading(loop: Eqn, makers: dict[Var, Eqn], fixed: Set[Var]) -> Eqn:
    """Return the loop with whole arrays in the place of views of them, which its body takes itself."""
    nc, end = loop.params["carries"], len(loop.operands) - loop.params["xs"]
    body = loop.params["body"]
    consts, xs = list(loop.operands[nc:end]), list(loop.operands[end:])
    inputs, rows = list(body.inputs[nc:end]), list(body.inputs[end:])
    taking: list[Eqn] = []
    for number, atom in reversed(list(enumerate(xs))):
        views = _views(atom, makers, fixed)
        if views and _read_by_entries(rows[number], body):
            base, whole = _taken(views, inputs, consts)
            taking += [*base, *row_of(whole, rows[number], dims.poly(loop.params["index"]), loop.source)]
            del xs[number], rows[number]
    for number in reversed(range(end - nc)):
        views = _views(consts[number], makers, fixed)
        if views and _read_by_entries(inputs[number], body):
            old = inputs[number]
            base, whole = _taken(views, inputs, consts)
            taking += [
                *base[:-1],
                Eqn(base[-1].op, base[-1].operands, base[-1].params, (old,), base[-1].source),
            ]
            del consts[number], inputs[number]
    if not taking:
        return loop
    new = simplify(
        Tape((*body.inputs[:nc], *inputs, *rows), body.consts, (*taking, *body.eqns), body.outputs)
    )
    operands = (*loop.operands[:nc], *consts, *xs)
    return Eqn(loop.op, operands, {**loop.params, "body": new, "xs": len(xs)}, loop.results, loop.source)


def _views(atom: Atom, makers: dict[Var, Eqn], fixed: Set[Var]) -> list[Eqn]:
    """Return the views, outermost first, through which ``atom`` sees a fixed array; empty if it is none."""
    found: list[Eqn] = []
    while isinstance(atom, Var) and atom in makers and makers[atom].op in _VIEWS:
        found.append(makers[atom])
        atom = found[-1].operands[0]
    return found[::-1] if atom in fixed and found and found[0].results[0].shape else []


def _read_by_entries(var: Var, body: Tape) -> bool:
    """Return whether a body reads an array where it computes with it, so that it needs no copy in memory."""
    todo = [(var, body)]
    while todo:
        array, tape = todo.pop()
        if array in tape.outputs:
            return False
        for eqn in tape.eqns:
            for place in (n for n, a in enumerate(eqn.operands) if a is array):
                if eqn.op in _VIEWS and eqn.results[0].shape:
                    todo.append((eqn.results[0], tape))
                elif isinstance(eqn.op, Loop) and place >= eqn.params["carries"]:
                    todo.append((eqn.params["body"].inputs[place], eqn.params["body"]))
                elif not (_computes(eqn.op) or (eqn.op in (slice_update, slice_add) and place == 1)):
                    return False
    return True


def _computes(op: Op) -> bool:
    return isinstance(op, Elementwise | Convert | Reduction) or op in _VIEWS


def _taken(views: Sequence[Eqn], inputs: list[Var], consts: list[Atom]) -> tuple[list[Eqn], Var]:
    """Return the equations of the views in a body that gets the array itself, and the last result."""
    base = views[0].operands[0]
    seen = Var(base.aval)
    inputs.append(seen)
    consts.append(base)
    eqns: list[Eqn] = []
    for view in views:
        result = Var(view.results[0].aval)
        eqns.append(Eqn(view.op, (seen,), view.params, (result,), view.source))
        seen = result
    return eqns, seen


def row_of(x: Var, row: Var, index: Dim, source: Source | None) -> list[Eqn]:
    """Return the equations of ``row = x[index]``."""
    rest = len(row.shape)
    piece = Var(row.aval.with_shape((1, *row.shape)))
    params = {"start": (index, *(0 for _ in row.shape)), "size": piece.shape, "step": (1,) * (rest + 1)}
    return [
        Eqn(slice_, (x,), params, (piece,), source),
        Eqn(squeeze, (piece,), {"axes": (0,)}, (row,), source),
    ]
