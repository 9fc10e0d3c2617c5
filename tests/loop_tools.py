"""Loops and branches written by hand, and the same tapes unrolled: for tests of what passes do with
bodies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.interpret import evaluate_params
from tracejit.ir.tape import Atom, Builder, Eqn, Lit, Tape, Var, bodies, current
from tracejit.ops.branch import Cond, cond_of
from tracejit.ops.broadcasting import expand_dims, squeeze
from tracejit.ops.joining import slice_update
from tracejit.ops.linear import slice_
from tracejit.ops.loop import Loop, While, counter, loop, while_of
from tracejit.ops.reduction import size_of
from tracejit.ops.region import close

Array = np.ndarray[Any, Any]
Place = tuple[Dim | tuple[Dim, Dim], ...]


def tape_of(function: Callable[..., Any], *shapes: Sequence[Any], dtype: Any = float) -> Tape:
    """The tape of ``function`` on inputs of these shapes."""
    with Builder() as builder:
        out = function(*(builder.input(Aval(tuple(s), np.dtype(dtype))) for s in shapes))
        return check(builder.finish(list(out) if isinstance(out, list | tuple) else [out]))


def symbol(name: str, hint: int) -> Any:
    return dims.poly(Symbol(name, hint, lower=0))


def get(x: Atom, *place: Any) -> Atom:
    """``x[place]``: an index per axis, or (start, size) for a slice of it."""
    start, size, dropped = _region(place)
    return squeeze(slice_(x, start=start, size=size, step=(1,) * len(start)), axes=dropped)


def put(x: Atom, value: Any, *place: Any) -> Atom:
    """``x`` after ``x[place] = value``."""
    start, _, dropped = _region(place)
    return slice_update(x, expand_dims(value, axes=dropped), start=start, step=(1,) * len(start))


def _region(place: Place) -> tuple[tuple[Dim, ...], tuple[Dim, ...], tuple[int, ...]]:
    pairs = [p if isinstance(p, tuple) else (p, 1) for p in place]
    dropped = tuple(axis for axis, p in enumerate(place) if not isinstance(p, tuple))
    return tuple(s for s, _ in pairs), tuple(n for _, n in pairs), dropped


def number(size: Dim, dtype: Any = float) -> Atom:
    return size_of(size, dtype)


def for_(
    trips: Dim,
    init: Sequence[Any],
    step: Callable[..., Any],
    xs: Sequence[Any] = (),
    stacked: bool = False,
    reverse: bool = False,
) -> Any:
    """``step(i, *carries, *entries)`` gives the next carries, or with ``stacked`` (carries, ys); so does
    this."""
    index = counter(trips)
    init = [_atom(x) for x in init]
    with Builder() as builder:
        carries = [builder.input(Aval(x.shape, x.dtype)) for x in init]
        entries = [builder.input(x.aval.with_shape(x.shape[1:])) for x in xs]
        out = step(dims.poly(index), *carries, *entries)
        after, ys = out if stacked else (out, [])
    body, consts = close(builder, carries, [*map(_atom, after), *map(_atom, ys)], entries)
    final, rows = loop(body, init, consts, xs, index=index, trips=trips, reverse=reverse)
    return (final, rows) if stacked else final


def whilst(test: Callable[..., Atom], step: Callable[..., Any], init: Sequence[Any]) -> tuple[Any, Var]:
    """``while test(*carries): carries = step(*carries)``; gives (carries, count)."""
    init = [_atom(x) for x in init]
    parts = []
    for function in (test, step):
        with Builder() as builder:
            carries = [builder.input(Aval(x.shape, x.dtype)) for x in init]
            out = function(*carries)
        outputs = [_atom(x) for x in out] if isinstance(out, list | tuple) else [out]
        parts.append(close(builder, carries, outputs))
    return while_of(init, [], *parts)


def if_(
    predicate: Atom, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any
) -> tuple[Var, ...]:
    """The results of one of two functions of the operands."""
    operands = tuple(map(_atom, operands))
    sides = []
    for function in (otherwise, then):
        with Builder() as builder:
            inputs = [builder.input(Aval(x.shape, x.dtype)) for x in operands]
            out = function(*inputs)
        outputs = [_atom(x) for x in out] if isinstance(out, list | tuple) else [out]
        sides.append(close(builder, inputs, outputs))
    return cond_of(predicate, operands, *sides)


def _atom(value: Any) -> Atom:
    return value if isinstance(value, Var | Lit) else Lit(np.float64(value))


# --- unrolled -----------------------------------------------------------------------------------


def unrolled(tape: Tape, sizes: Mapping[Symbol, int]) -> Tape:
    """The same program with plain sizes and without `Loop`."""
    with Builder() as builder:
        inputs = [builder.input(_aval(v.aval, sizes)) for v in tape.inputs]
        return check(builder.finish(_unroll(tape, inputs, sizes)))


def _aval(aval: Aval, sizes: Mapping[Symbol, int]) -> Aval:
    return Aval(tuple(dims.evaluate(d, sizes) for d in aval.shape), aval.dtype)


def _unroll(tape: Tape, args: Sequence[Atom], sizes: Mapping[Symbol, int]) -> list[Atom]:
    env: dict[Atom, Atom] = dict(zip(tape.inputs, args, strict=True))
    env.update((var, current().const(array)) for var, array in tape.consts)
    for eqn in tape.eqns:
        operands = [env.get(a, a) for a in eqn.operands]
        env.update(zip(eqn.results, _unroll_equation(eqn, operands, sizes), strict=True))
    return [env.get(a, a) for a in tape.outputs]


def _unroll_equation(eqn: Eqn, operands: Sequence[Atom], sizes: Mapping[Symbol, int]) -> Sequence[Atom]:
    if isinstance(eqn.op, Loop):
        return _unroll_loop(eqn, operands, sizes)
    if isinstance(eqn.op, Cond | While):
        params = {**eqn.params}
        for key, value in params.items():
            if isinstance(value, Tape):
                params[key] = unrolled(value, sizes)
            elif isinstance(value, tuple):
                params[key] = tuple(unrolled(t, sizes) for t in value)
        return eqn.op.bind(*operands, **params)
    out = eqn.op.bind(*operands, **evaluate_params(eqn.params, sizes))
    return out if isinstance(out, tuple) else (out,)


def _unroll_loop(eqn: Eqn, operands: Sequence[Atom], sizes: Mapping[Symbol, int]) -> Sequence[Atom]:
    body, nc, nx = (eqn.params[k] for k in ("body", "carries", "xs"))
    trips = dims.evaluate(eqn.params["trips"], sizes)
    state, consts = list(operands[:nc]), operands[nc : len(operands) - nx]
    rows = operands[len(operands) - nx :]
    stacks: list[Atom] = []
    for var in eqn.results[nc:]:
        shape = _aval(var.aval, sizes).shape
        stacks.append(current().const(np.zeros(shape, var.dtype)))
    for k in reversed(range(trips)) if eqn.params["reverse"] else range(trips):
        entries = [get(x, k, *((0, n) for n in x.shape[1:])) for x in rows]
        out = _unroll(body, [*state, *consts, *entries], {**sizes, eqn.params["index"]: k})
        state = out[:nc]
        stacks = [put(s, y, k, *((0, n) for n in s.shape[1:])) for s, y in zip(stacks, out[nc:], strict=True)]
    return [*state, *stacks]


def equations(tape: Tape) -> list[Eqn]:
    """All equations, those of bodies too."""
    found: list[Eqn] = []
    for eqn in tape.eqns:
        found.append(eqn)
        for body in bodies(eqn):
            found.extend(equations(body))
    return found
