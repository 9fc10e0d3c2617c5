"""Loops as ops: `loop` with a number of trips, `while_` with a condition, and extents made at run time."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.interpret import run_tape
from tracejit.ir.tape import Atom, Tape, Var
from tracejit.ops.base import Op
from tracejit.ops.region import Region, same_avals, share_inputs

__all__ = ["BindSize", "Loop", "While", "bind_size", "counter", "loop", "runtime_size", "while_", "while_of"]

COUNT = np.dtype(np.int64)


def counter(trips: Dim, name: str = "it", hint: int | None = None) -> Symbol:
    """Return the symbol that counts the trips of a loop from zero."""
    return Symbol(name, max(dims.hint(trips) // 2, 0) if hint is None else hint, lower=0, upper=trips)


def runtime_size(hint: int, name: str = "m", most: Dim | None = None) -> Symbol:
    """Return a symbol for an extent that `bind_size` gives while the tape runs; it never exceeds ``most``."""
    return Symbol(name, hint, lower=0, local=True, most=most)


class Loop(Region):
    """A fold over ``trips`` iterations that also stacks what each of them gives.

    ``results = loop(*carries, *consts, *xs)``, with the trip counter ``index`` a size symbol that the sizes
    and slice starts inside ``body`` may mention::

        for k in range(trips):              # from the end if reverse
            (*carries, *y) = body(*carries, *consts, *(x[k] for x in xs));  ys[k] = y
        results = (*carries, *ys)

    ``carries`` and ``xs`` are the numbers of those operands.
    """

    name = "loop"

    def __call__(
        self,
        body: Tape,
        carries: Sequence[Any],
        consts: Sequence[Any] = (),
        xs: Sequence[Any] = (),
        *,
        index: Symbol,
        trips: Dim,
        reverse: bool = False,
    ) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """Append the loop; return (final carries, stacked ys)."""
        params = {"index": index, "trips": trips, "carries": len(carries), "xs": len(xs), "reverse": reverse}
        results = self.bind(*carries, *consts, *xs, body=body, **params)
        return results[: len(carries)], results[len(carries) :]

    def infer(
        self, *avals: Aval, body: Tape, trips: Dim, carries: int, xs: int, **params: Any
    ) -> tuple[Aval, ...]:
        rows = avals[len(avals) - xs :]
        assert all(a.shape[0] == trips for a in rows), (rows, trips)
        entries = [a.with_shape(a.shape[1:]) for a in rows]
        inner = [*avals[: len(avals) - xs], *entries]
        assert same_avals(inner, [v.aval for v in body.inputs]), (inner, body.inputs)
        out = [a.aval for a in body.outputs]
        assert same_avals(inner[:carries], out[:carries]), (inner[:carries], out)
        index = params["index"]
        assert all(index not in dims.symbols(d) for a in out for d in a.shape), (index, out)
        stacked = (a.with_shape((trips, *a.shape)) for a in out[carries:])
        return (*(Aval(a.shape, a.dtype) for a in out[:carries]), *stacked)

    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]:
        body, nc, nx = params["body"], params["carries"], params["xs"]
        trips = dims.evaluate(params["trips"], sizes)
        state, consts, rows = values[:nc], values[nc : len(values) - nx], values[len(values) - nx :]
        inner = ChainMap({}, sizes)
        ys = [_stack_of(a.aval, trips, sizes) for a in body.outputs[nc:]]
        for k in reversed(range(trips)) if params["reverse"] else range(trips):
            inner[params["index"]] = k
            out, _ = run_tape(body, [*state, *consts, *(x[k] for x in rows)], inner)
            state = out[:nc]
            for stack, y in zip(ys, out[nc:], strict=True):
                stack[k] = y
        return (*state, *ys)


def _stack_of(aval: Aval, trips: int, sizes: Mapping[Symbol, int]) -> Any:
    return np.zeros((trips, *(dims.evaluate(d, sizes) for d in aval.shape)), aval.dtype)


class While(Region):
    """Iterations until a condition fails: ``(*carries, count) = while(*carries, *consts)``.

    ``cond(*carries, *consts)`` gives a boolean scalar, ``body(*carries, *consts)`` the next carries, and
    ``count`` is the number of iterations.
    """

    name = "while"

    def __call__(
        self, cond: Tape, body: Tape, carries: Sequence[Any], consts: Sequence[Any] = ()
    ) -> tuple[tuple[Var, ...], Var]:
        """Append the loop; return (final carries, count)."""
        *final, count = self.bind(*carries, *consts, cond=cond, body=body, carries=len(carries))
        return tuple(final), count

    def infer(self, *avals: Aval, cond: Tape, body: Tape, carries: int) -> tuple[Aval, ...]:
        for tape in (cond, body):
            assert same_avals(avals, [v.aval for v in tape.inputs]), (avals, tape.inputs)
        assert same_avals([a.aval for a in cond.outputs], [Aval((), np.dtype(bool))]), cond.outputs
        out = [a.aval for a in body.outputs]
        assert same_avals(avals[:carries], out), (avals, out)
        return (*(Aval(a.shape, a.dtype) for a in out), Aval((), COUNT))

    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]:
        state, consts = list(values[: params["carries"]]), values[params["carries"] :]
        count = 0
        while run_tape(params["cond"], [*state, *consts], ChainMap({}, sizes))[0][0]:
            state, _ = run_tape(params["body"], [*state, *consts], ChainMap({}, sizes))
            count += 1
        return (*state, COUNT.type(count))


class BindSize(Op):
    """Give ``symbol`` the value of an integer scalar (zero if that is negative), which is also the result.

    Whatever mentions the symbol comes later on the tape, in the same body or in bodies inside it.
    """

    name = "bind_size"

    def infer(self, count: Aval, *, symbol: Symbol) -> Aval:
        assert count.shape == () and count.dtype == COUNT, count
        return Aval((), COUNT)

    def impl(self, count: Any, *, symbol: Symbol) -> Any:
        return COUNT.type(max(int(count), 0))

    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]:
        extent = self.impl(*values, **params)
        sizes[params["symbol"]] = int(extent)
        return (extent,)

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return (None,)

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        return (None,)

    def batch(self, size: Dim, operands: Sequence[Atom], batched: Sequence[bool], **params: Any) -> Any:
        raise AssertionError("an extent cannot differ along an axis: `vmap` loops over such tapes")


def while_of(
    carries: Sequence[Any],
    consts: Sequence[Any],
    cond: tuple[Tape, Sequence[Any]],
    body: tuple[Tape, Sequence[Any]],
) -> tuple[tuple[Var, ...], Var]:
    """Append a `while_` of two bodies that were closed apart (see `tracejit.ops.region.close`).

    Each comes with the operands that it has behind the carries and before ``consts``.
    """
    tapes, extra = share_inputs(len(carries), len(consts), cond, body)
    return while_(*tapes, carries, [*extra, *consts])


loop = Loop()
while_ = While()
bind_size = BindSize()

for _op in (loop, while_, bind_size):
    _op._register()
