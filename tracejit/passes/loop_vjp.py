"""Reverse mode of loops: see `tracejit.passes.region_vjp`."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.sums import offsets
from tracejit.ir.tape import Atom, Eqn, Tape, Var, current
from tracejit.ops.base import Maybe
from tracejit.ops.broadcasting import full
from tracejit.ops.loop import bind_size, counter, loop, runtime_size
from tracejit.passes.activity import active_set, body_flags
from tracejit.passes.chains import Chain, one_to_one
from tracejit.passes.checkpoints import segmented
from tracejit.passes.halves import Log, backward_half, forward_half
from tracejit.passes.needs import choose
from tracejit.passes.region_vjp import Backward, Derived, Restored, Sweeper, Update, derive, zero_if_absent

__all__ = ["forward_loop", "forward_while"]

Pulled = tuple[list[Update | None], list[Restored]]

_EXPECTED_TRIPS = 32
"""Of a loop of unknown length, for decisions by cost."""


class _Plan:
    """How one loop is run forward and backward."""

    def __init__(self, eqn: Eqn, wanted: Sequence[bool], absorb: bool, sweep: Sweeper) -> None:
        self.params = eqn.params
        body, self.nc, self.nx = eqn.params["body"], eqn.params["carries"], eqn.params["xs"]
        self.first_x = len(body.inputs) - self.nx
        self.flags = body_flags(eqn, wanted)
        active = active_set(body, self.flags)
        live = [*self.flags[: self.nc], *(a in active for a in body.outputs[self.nc :])]
        carried = [n < self.nc for n in range(len(body.inputs))]
        shared = [self.nc <= n < self.first_x for n in range(len(body.inputs))]
        dense = [c and f for c, f in zip(carried, self.flags, strict=True)]
        self.derived = derive(body, self.flags, live, dense, shared, absorb, sweep)
        self.sums = [n for n in self.derived.sums if self.derived.adds_to(n)]
        self.chains = self._chains(self.derived)
        self.kept = choose(self.derived.joint, set(self.derived.inputs[: self.nc]), self.chains)
        values = dict.fromkeys([*self.kept.values, *self.kept.olds.values()])
        self.logs = {v: self._log(v) for v in values if self._differs(v)}
        self.stacked = [v for v in values if v not in self.logs]
        self.backward_carries = [*self._late(), *(c.end for c in self.chains)]

    def _chains(self, derived: Derived) -> list[Chain]:
        found = [derived.joint.chain(place) for place in range(self.nc)]
        return one_to_one([c for c in found if c is not None], derived.inputs[: self.nc])

    def _differs(self, var: Var) -> bool:
        varies = any(self.params["index"] in dims.symbols(d) for d in var.shape)
        return (
            varies
            or _most(self.params["trips"]) is not None
            or self.derived.joint.sizes.made_inside(var.aval)
        )

    def _log(self, var: Var) -> Log:
        """Return where the values of all trips are kept, with room for the most that there may be."""
        size, index = dims.prod(var.shape), self.params["index"]
        most = _most(self.params["trips"])
        room = _room(size)
        if room is not None and index not in dims.symbols(room):
            return Log(
                var.aval, room * dims.poly(index), room * (self.params["trips"] if most is None else most)
            )
        if most is not None and index not in dims.symbols(size):
            return Log(var.aval, size * dims.poly(index), size * most)
        return Log(var.aval, *offsets(dims.prod(var.shape), self.params["index"], self.params["trips"]))

    def _late(self) -> list[Var]:
        """Return the variables of cotangents of carries and of sums: carries of the backward loop."""
        cotangents = (c for c in self.derived.cotangents[: self.nc] if c is not None)
        return [*cotangents, *(self.derived.sums[n] for n in self.sums)]

    def bytes_kept(self) -> Dim:
        """Return how much the forward sweep keeps for the backward sweep."""
        rows = sum((_bytes(v.aval) for v in self.stacked), start=0)
        return rows * self.params["trips"] + sum((_bytes(log.flat) for log in self.logs.values()), start=0)

    def bytes_carried(self) -> Dim:
        """Return how much the carries take."""
        return sum((_bytes(v.aval) for v in self.derived.inputs[: self.nc]), start=0)

    def run_forward(self, operands: Sequence[Atom]) -> tuple[tuple[Var, ...], Backward]:
        nc, start = self.nc, self.first_x
        inputs = [*self.derived.inputs[:start], *self.derived.extra, *self.derived.inputs[start:]]
        outputs = self.derived.joint.forward
        body = forward_half(self.derived.joint, inputs, [*outputs, *self.stacked], self.logs)
        body = _logs_as_carries(body, nc, len(self.logs))
        logs = [full(0, log.flat.shape, log.flat.dtype) for log in self.logs.values()]
        consts = [*operands[nc:start], *self.derived.operands]
        final, ys = self._loop(body, [*operands[:nc], *logs], consts, operands[start:])
        results = (*final[:nc], *ys[: len(outputs) - nc])
        saved = dict(zip(self.stacked, ys[len(outputs) - nc :], strict=True))
        saved.update(zip(self.logs, final[nc:], strict=True))
        sums = tuple(n in self.sums for n in range(len(operands)))
        return results, Backward(
            sums, lambda out, known: self._run_backward(operands, results, saved, out, known)
        )

    def _loop(
        self,
        body: Tape,
        carries: Sequence[Atom],
        consts: Sequence[Atom],
        xs: Sequence[Atom],
        backward: bool = False,
    ) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        how = {k: self.params[k] for k in ("index", "trips")}
        return loop(body, carries, consts, xs, **how, reverse=self.params["reverse"] != backward)

    def _run_backward(
        self,
        operands: Sequence[Atom],
        results: Sequence[Var],
        saved: dict[Var, Var],
        outward: Sequence[Maybe],
        known: Sequence[Maybe],
    ) -> Pulled:
        derived, nc, start = self.derived, self.nc, self.first_x
        consts = dict(zip(derived.inputs[nc:start], operands[nc:start], strict=True))
        consts |= dict(zip(derived.extra, derived.operands, strict=True)) | {v: saved[v] for v in self.logs}
        xs = dict(zip(derived.inputs[start:], operands[start:], strict=True)) | {
            v: saved[v] for v in self.stacked
        }
        for ct, result, cotangent in zip(derived.cotangents[nc:], results[nc:], outward[nc:], strict=True):
            if ct is not None:
                xs[ct] = zero_if_absent(cotangent, result)
        carried = [
            zero_if_absent(c, r)
            for c, r, v in zip(outward, results, derived.cotangents[:nc], strict=False)
            if v
        ]
        carried += [zero_if_absent(known[n], operands[n]) for n in self.sums]
        carried += [results[c.place] for c in self.chains]
        inputs = [*self.backward_carries, *consts, *xs]
        body = backward_half(derived.joint, self.chains, self.kept, inputs, self._outputs(), self.logs)
        final, ys = self._loop(body, carried, list(consts.values()), list(xs.values()), backward=True)
        return self._updates(operands, results, known, list(final), list(ys))

    def _outputs(self) -> list[Atom]:
        """Return the outputs of the backward body: cotangents, sums, restored arrays; cotangents of rows."""
        inward = self.derived.inward
        carried = [inward[n] for n in range(self.nc) if self.derived.cotangents[n] is not None]
        summed = [inward[n] for n in self.sums]
        arrays = [self.derived.inputs[c.place] for c in self.chains]
        return [*carried, *summed, *arrays, *(c for c in inward[self.first_x :] if c is not None)]  # type: ignore[list-item]

    def _updates(
        self,
        operands: Sequence[Atom],
        results: Sequence[Var],
        known: Sequence[Maybe],
        final: list[Var],
        ys: list[Var],
    ) -> Pulled:
        derived, inward = self.derived, self.derived.inward
        updates: list[Update | None] = [None] * len(operands)
        for n in range(self.nc):
            if derived.cotangents[n] is not None:
                updates[n] = Update(final.pop(0))
        for n in self.sums:
            updates[n] = Update(final.pop(0), whole=known[n] is not None)
        restored = [(operands[c.place], results[c.place], final.pop(0)) for c in self.chains]
        for n in range(self.first_x, len(operands)):
            if inward[n] is not None:
                updates[n] = Update(ys.pop(0))
        return updates, restored  # type: ignore[return-value]


def _most(trips: Dim) -> Dim | None:
    """Return how many trips there are at most, if only the running tape knows how many."""
    symbol = dims.as_symbol(trips)
    return None if symbol is None else symbol.most


def _room(size: Dim) -> Dim | None:
    """Return the most of a size that each iteration computes; None if it does not, or that is not known."""
    most = {s: s.most for s in dims.symbols(size) if s.local and s.most is not None}
    return dims.substitute(size, most) if most else None


def _bytes(aval: Aval) -> Dim:
    return aval.size * aval.dtype.itemsize


def _logs_as_carries(body: Tape, carries: int, logs: int) -> Tape:
    """Move the logs, which stand last, behind the other carries."""
    if not logs:
        return body
    inputs = (*body.inputs[:carries], *body.inputs[-logs:], *body.inputs[carries:-logs])
    outputs = (*body.outputs[:carries], *body.outputs[-logs:], *body.outputs[carries:-logs])
    return Tape(inputs, (), body.eqns, outputs)


def forward_loop(
    eqn: Eqn,
    operands: Sequence[Atom],
    wanted: Sequence[bool],
    absorb: bool,
    sweep: Sweeper,
    budget: int | None = None,
) -> tuple[tuple[Var, ...], Backward]:
    """Append the forward sweep of a loop; return its results and its backward sweep.

    If all that is kept takes more than ``budget`` bytes, only the beginnings of segments are kept.
    """
    plan = _Plan(eqn, wanted, absorb, sweep)
    if budget is None or _fits(plan.bytes_kept(), budget):
        return plan.run_forward(operands)
    ratio = (
        dims.hint(plan.bytes_carried())
        * max(dims.hint(eqn.params["trips"]), 1)
        / dims.hint(plan.bytes_kept())
    )
    cut = segmented(eqn, operands, max(ratio, 1.0))
    nc, stacks = eqn.params["carries"], cut.stacks
    flags = [*wanted[:nc], *(False for _ in range(stacks)), *wanted[nc:]]
    results, backward = forward_loop(cut.eqn, cut.operands, flags, absorb, sweep)

    def run(outward: Sequence[Maybe], known: Sequence[Maybe]) -> Pulled:
        updates, restored = backward.run(outward, [*known[:nc], *(None for _ in range(stacks)), *known[nc:]])
        return [*updates[:nc], *updates[nc + stacks :]], restored[:0]

    return results, Backward((*backward.sums[:nc], *backward.sums[nc + stacks :]), run)


def _fits(size: Dim, budget: int) -> bool:
    """Return whether so many bytes are within the budget; the trace holds for sizes with the same answer."""
    if any(s.local for s in dims.symbols(size)):
        return dims.hint(size) <= budget
    return current().decide(">=", budget - size)


def forward_while(
    eqn: Eqn, operands: Sequence[Atom], wanted: Sequence[bool], absorb: bool, sweep: Sweeper
) -> tuple[tuple[Var, ...], Backward]:
    """Append a loop of unknown length; return its results and its backward sweep.

    The backward sweep knows the number of trips, so it runs the loop again as a `Loop` that keeps what is
    needed.
    """
    nc = eqn.params["carries"]
    results: tuple[Var, ...] = eqn.op.bind(*operands, **eqn.params)

    def run(outward: Sequence[Maybe], known: Sequence[Maybe]) -> Pulled:
        size = runtime_size(_EXPECTED_TRIPS)
        bind_size(results[nc], symbol=size)
        trips = dims.poly(size)
        params = {"body": eqn.params["body"], "index": counter(trips), "trips": trips, "carries": nc, "xs": 0}
        again = Eqn(loop, eqn.operands, {**params, "reverse": False}, eqn.results[:nc], eqn.source)
        _, backward = forward_loop(again, operands, wanted, absorb, sweep)
        return backward.run(outward[:nc], known)[0], []

    flags = body_flags(eqn, wanted)
    return results, Backward(tuple(n >= nc and flag for n, flag in enumerate(flags)), run)
