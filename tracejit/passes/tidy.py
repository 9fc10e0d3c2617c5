"""Loops and branches with less to pass.

Literals go into the bodies, operands are passed once, what no iteration changes is not carried, and a branch
that is decided is not a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Lit, Tape, Var, current
from tracejit.ops.branch import Cond
from tracejit.ops.loop import Loop, While
from tracejit.passes.replay import replay

__all__ = ["tidy"]

Maker = Callable[[Atom], Eqn | None]


def tidy(eqn: Eqn, operands: Sequence[Atom], made_by: Maker) -> tuple[Atom, ...]:
    """Append a smaller form of a loop or branch (or the same); return its results.

    ``made_by`` gives the `broadcast` equation behind an atom, if it is one.
    """
    if isinstance(eqn.op, Loop):
        return _tidy_loop(eqn, operands, made_by)
    if isinstance(eqn.op, While):
        return _tidy_while(eqn, operands)
    if isinstance(eqn.op, Cond):
        return _tidy_cond(eqn, operands)
    return _append(eqn, operands, {}, eqn.results)


def _append(
    eqn: Eqn, operands: Sequence[Atom], changed: Mapping[str, object], results: Sequence[Var]
) -> tuple[Atom, ...]:
    return current().append(eqn.op, operands, {**eqn.params, **changed}, [v.aval for v in results])


def _tidy_loop(eqn: Eqn, operands: Sequence[Atom], made_by: Maker) -> tuple[Atom, ...]:
    body, nc, nx = eqn.params["body"], eqn.params["carries"], eqn.params["xs"]
    start = len(operands) - nx
    inputs, fixed = list(body.inputs), _unchanged(body, nc)
    kept = [p for p in range(nc) if p not in fixed]
    consts = [(inputs[n], operands[n]) for n in (*fixed, *range(nc, start))]
    rows: list[tuple[Var, Atom]] = []
    for var, row in zip(inputs[start:], operands[start:], strict=True):
        entry = _same_in_all(row, made_by, eqn.params["trips"])
        (rows if entry is None else consts).append((var, row if entry is None else entry))
    names, passed = _once(consts)
    outputs = tuple(a for n, a in enumerate(body.outputs) if n not in fixed)
    order = [*(inputs[p] for p in kept), *(v for v, _ in passed), *(v for v, _ in rows)]
    smaller = _renamed(Tape(tuple(order), (), body.eqns, outputs), names)
    params = {"body": smaller, "carries": len(kept), "xs": len(rows)}
    left = [v for n, v in enumerate(eqn.results) if n not in fixed]
    given = [*(operands[p] for p in kept), *(a for _, a in passed), *(a for _, a in rows)]
    found = iter(_append(eqn, given, params if names or fixed or len(rows) < nx else {}, left))
    return tuple(operands[n] if n in fixed else next(found) for n in range(len(eqn.results)))


def _tidy_while(eqn: Eqn, operands: Sequence[Atom]) -> tuple[Atom, ...]:
    test, body, nc = eqn.params["cond"], eqn.params["body"], eqn.params["carries"]
    fixed = _unchanged(body, nc)
    kept = [p for p in range(nc) if p not in fixed]
    places = (*fixed, *range(nc, len(operands)))
    tapes = []
    for tape in (test, body):
        outputs = (
            tape.outputs if tape is test else tuple(a for n, a in enumerate(body.outputs) if n not in fixed)
        )
        names, passed = _once([(tape.inputs[n], operands[n]) for n in places])
        order = (*(tape.inputs[p] for p in kept), *(v for v, _ in passed))
        tapes.append(_renamed(Tape(order, (), tape.eqns, outputs), names))
    params = {"cond": tapes[0], "body": tapes[1], "carries": len(kept)} if names or fixed else {}
    given = [*(operands[p] for p in kept), *(a for _, a in passed)]
    found = iter(_append(eqn, given, params, [v for n, v in enumerate(eqn.results) if n not in fixed]))
    return tuple(operands[n] if n in fixed else next(found) for n in range(len(eqn.results)))


def _tidy_cond(eqn: Eqn, operands: Sequence[Atom]) -> tuple[Atom, ...]:
    predicate, *values = operands
    branches = eqn.params["branches"]
    if isinstance(predicate, Lit):
        return replay(branches[int(bool(predicate.value))], values)
    through = [_passed_through(branches, place, values) for place in range(len(eqn.results))]
    sides = []
    for tape in branches:
        names, passed = _once(list(zip(tape.inputs, values, strict=True)))
        outputs = tuple(a for a, same in zip(tape.outputs, through, strict=True) if same is None)
        sides.append(_renamed(Tape(tuple(v for v, _ in passed), (), tape.eqns, outputs), names))
    left = [v for v, same in zip(eqn.results, through, strict=True) if same is None]
    if not left:
        return tuple(same for same in through if same is not None)
    less = names or len(left) < len(through)
    found = iter(
        _append(eqn, [predicate, *(a for _, a in passed)], {"branches": tuple(sides)} if less else {}, left)
    )
    return tuple(next(found) if same is None else same for same in through)


def _passed_through(branches: Sequence[Tape], place: int, values: Sequence[Atom]) -> Atom | None:
    """Return the operand that both branches give as their result number ``place``."""
    given = []
    for tape in branches:
        out = tape.outputs[place]
        if isinstance(out, Lit) or out not in tape.inputs:
            return None
        given.append(values[tape.inputs.index(out)])
    return given[0] if given[0] is given[1] and given[0].aval.weak is False else None


def _unchanged(body: Tape, carries: int) -> list[int]:
    """Return the carries that come out of the body as they went in."""
    return [p for p in range(carries) if body.outputs[p] is body.inputs[p]]


def _same_in_all(row: Atom, made_by: Maker, trips: Dim) -> Atom | None:
    """Return the entry of a stack whose entries are one and the same scalar."""
    made = made_by(row)
    if made is None or made.params["axes"] or made.params["shape"] != (trips,):
        return None
    return made.operands[0]


def _once(pairs: Sequence[tuple[Var, Atom]]) -> tuple[dict[Atom, Atom], list[tuple[Var, Atom]]]:
    """Return (inputs of a body that are something else, the pairs of input and operand that are left)."""
    names: dict[Atom, Atom] = {}
    first: dict[Atom, Var] = {}
    for var, atom in pairs:
        if isinstance(atom, Lit):
            names[var] = Lit(atom.value)
        elif first.setdefault(atom, var) is not var:
            names[var] = first[atom]
    return names, [(var, atom) for var, atom in pairs if var not in names]


def _renamed(tape: Tape, names: Mapping[Atom, Atom]) -> Tape:
    if not names:
        return tape
    eqns = tuple(
        Eqn(e.op, tuple(names.get(a, a) for a in e.operands), e.params, e.results, e.source)
        for e in tape.eqns
    )
    return Tape(tape.inputs, (), eqns, tuple(names.get(a, a) for a in tape.outputs))
