"""Random programs of loops, branches and updates: for tests of what happens in place.

They read old versions after new ones were made, copy overlapping slices, swap carries, return them
unchanged, pass one array twice, loop no times at all, and update arrays in one branch only.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from loop_tools import for_, if_, symbol, tape_of, whilst

from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Lit, Tape
from tracejit.ops.base import REGISTRY
from tracejit.ops.broadcasting import broadcast, convert, full, reduce_sum
from tracejit.ops.elementwise import add, mul, neg
from tracejit.ops.indexing import gather, scatter_add, scatter_set
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import iota, slice_, transpose
from tracejit.ops.logic import less
from tracejit.ops.reduction import size_of
from tracejit.ops.transcendental import sin

INTEGER = np.dtype(np.int64)
N = 6


class Program:
    """Draws statements; arrays have the shape (n,) or (n, n), everything else is a scalar."""

    def __init__(self, draw: Any, n: Dim) -> None:
        self.draw, self.n = draw, n
        self.arrays: list[Atom] = []
        self.scalars: list[Atom] = [Lit(np.float64(0.5))]
        self.counters: list[Dim] = []

    def inside(self, arrays: list[Atom], scalars: list[Atom], counter: Dim | None = None) -> "Program":
        """The state at the start of a body: what it is given, and everything outside as constants."""
        inner = Program(self.draw, self.n)
        inner.arrays = [*self.arrays[-2:], *arrays]
        inner.scalars = [*self.scalars[-2:], *scalars]
        inner.counters = self.counters + ([] if counter is None else [counter])
        return inner

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def array(self, ndim: int | None = None) -> Atom:
        found = [a for a in self.arrays if ndim is None or len(a.shape) == ndim]
        if not found:
            return full(0.1, (self.n,) * (ndim or 1), np.dtype(float))
        return self.pick([*found, *found[-2:]])

    def scalar(self) -> Atom:
        return self.pick([*self.scalars, *self.scalars[-2:]])

    def span(self) -> tuple[Dim, Dim, Dim]:
        """Two starts and a size: of a slice that is written and of one that is read."""
        n = self.n
        spans = [(0, 0, n), (1, 0, n - 1), (0, 1, n - 1), (1, 1, n - 2), (2, 1, n - 3), (1, 3, 1)]
        for it in self.counters:
            spans += [(it, 0, 1), (0, it, 1), (0, 0, it), (1, 0, it), (0, n - it, it), (it, 0, n - it)]
            spans += [(0, 1, n - 1 - it)]
        return self.pick(spans)

    # --- statements ---

    def statement(self, depth: int) -> None:
        rules = [self.write] * 3 + [self.accumulate, self.scatter, self.whole, self.fold, self.compute]
        if depth:
            rules += [self.loop, self.loop, self.branch, self.search]
        rule = self.pick(rules)
        rule(depth) if rule in (self.loop, self.branch, self.search) else rule()

    def run(self, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            self.statement(depth)

    def region(self) -> tuple[Atom, dict, Atom]:
        """An array, where to write to it, and a value for that place."""
        x = self.array()
        ndim = len(x.shape)
        spans = [self.span() for _ in x.shape]
        size = tuple(s for _, _, s in spans)
        params = {"start": tuple(w for w, _, _ in spans), "step": (1,) * ndim}
        if self.pick([True, True, False]):
            source = self.pick([x, self.array(ndim)])
            if ndim == 2 and self.pick([True, False]):
                source = transpose(source, perm=(1, 0))
            value = slice_(source, start=tuple(r for _, r, _ in spans), size=size, step=(1,) * ndim)
            value = self.pick([value, sin(value), add(value, slice_(x, size=size, **params))])
        else:
            value = broadcast(self.scalar(), shape=size, axes=())
        return x, params, value

    def keep(self, old: Atom, new: Atom) -> None:
        """Go on with ``new``, and perhaps with ``old`` as well."""
        if self.pick([True, True, False]) and old in self.arrays:
            self.arrays.remove(old)
        self.arrays.append(new)

    def write(self) -> None:
        x, params, value = self.region()
        self.keep(x, slice_update(x, value, **params))

    def accumulate(self) -> None:
        x, params, value = self.region()
        self.keep(x, slice_add(x, value, **params))

    def scatter(self) -> None:
        x = self.array(1)
        place = convert(mul(sin(self.scalar()), Lit(np.float64(4.0))), dtype=INTEGER)
        if self.pick([True, False]):
            self.scalars.append(gather(x, place, axes=(0,)))
        elif self.pick([True, False]):
            self.keep(x, scatter_set(x, self.scalar(), place, axes=(0,), unique=True))
        else:
            count = mul(iota(shape=x.shape, axis=0, dtype=INTEGER), Lit(np.int64(2)))
            places = REGISTRY["remainder"](count, Lit(np.int64(3)))
            self.keep(x, scatter_add(x, self.pick([x, sin(self.array(1))]), places, axes=(0,)))

    def whole(self) -> None:
        x = self.array()
        ndim = len(x.shape)
        made = self.pick(
            [
                lambda: sin(add(x, self.array(ndim))),
                lambda: transpose(x, perm=tuple(reversed(range(ndim)))),
                lambda: full(0.25, x.shape, np.dtype(float)),
                lambda: x,
            ]
        )()
        self.arrays.append(made)

    def fold(self) -> None:
        x = self.array()
        _, start, size = self.span()
        part = slice_(x, start=(start,) * len(x.shape), size=(size,) * len(x.shape), step=(1,) * len(x.shape))
        if len(x.shape) == 2 and self.pick([True, False]):
            self.arrays.append(sin(reduce_sum(x, axes=(self.pick([0, 1]),))))
        else:
            self.scalars.append(sin(reduce_sum(part, axes=tuple(range(len(x.shape))))))

    def compute(self) -> None:
        options = [lambda: mul(self.scalar(), self.scalar()), lambda: sin(add(self.scalar(), self.scalar()))]
        options += [lambda it=it: mul(size_of(it, float), Lit(np.float64(0.1))) for it in self.counters]
        self.scalars.append(self.pick(options)())

    # --- regions ---

    def states(self) -> tuple[list[Atom], list[Atom]]:
        arrays = [self.array() for _ in range(self.draw(st.integers(1, 2)))]
        return arrays, [self.scalar() for _ in range(self.draw(st.integers(0, 2)))]

    def results(self, inner: "Program", arrays: list[Atom], scalars: list[Atom]) -> list[Atom]:
        """What a body gives for its states: anything of the same shape."""
        return [inner.array(len(a.shape)) for a in arrays] + [inner.scalar() for _ in scalars]

    def finish(self, results: Any, count: int) -> None:
        self.arrays += results[:count]
        self.scalars += results[count:]

    def loop(self, depth: int) -> None:
        arrays, scalars = self.states()
        trips = self.pick([self.n, self.n - 1, 2, 3, 0])
        xs = [self.array(2)] if trips is self.n and self.pick([True, False]) else []
        stacked = self.pick([True, False])

        def step(it: Dim, *state: Atom) -> Any:
            given, rest = list(state[: len(arrays)]), list(state[len(arrays) :])
            inner = self.inside([*given, *rest[len(scalars) :]], rest[: len(scalars)], it)
            inner.run(depth - 1)
            out = self.results(inner, arrays, scalars)
            return (out, [inner.array(1), inner.scalar()]) if stacked else out

        final = for_(trips, [*arrays, *scalars], step, xs, stacked=stacked, reverse=self.pick([True, False]))
        if stacked:
            final, (rows, _) = final
            if trips is self.n:
                self.arrays.append(rows)
        self.finish(list(final), len(arrays))

    def branch(self, depth: int) -> None:
        arrays, scalars = self.states()

        def side(*state: Atom) -> list[Atom]:
            inner = self.inside(list(state[: len(arrays)]), list(state[len(arrays) :]))
            if self.pick([True, True, False]):
                inner.run(depth - 1)
            return self.results(inner, arrays, scalars)

        predicate = less(self.scalar(), self.scalar())
        self.finish(list(if_(predicate, side, side, *arrays, *scalars)), len(arrays))

    def search(self, depth: int) -> None:
        arrays, scalars = self.states()
        limit = self.draw(st.integers(0, 3))

        def step(*state: Atom) -> list[Atom]:
            inner = self.inside(list(state[: len(arrays)]), list(state[len(arrays) : -1]))
            inner.run(depth - 1)
            return [*self.results(inner, arrays, scalars), add(state[-1], Lit(np.float64(1.0)))]

        start = [*arrays, *scalars, Lit(np.float64(0.0))]
        final, count = whilst(lambda *state: less(state[-1], Lit(np.float64(limit))), step, start)
        self.finish([*final[:-1], convert(count, dtype=float)], len(arrays))


def region_tape(draw: Any) -> Tape:
    """A tape with loops and branches, of inputs a: (n,), b: (n, n) and c: ()."""
    n = symbol("n", N)

    def build(a: Atom, b: Atom, c: Atom) -> list[Atom]:
        program = Program(draw, n)
        program.arrays += [a, b]
        program.scalars.append(c)
        for _ in range(draw(st.integers(1, 4))):
            program.statement(2)
        outputs = draw(st.integers(1, 3))
        return [*program.arrays[-outputs:], neg(program.scalars[-1])]

    return tape_of(build, (n,), (n, n), ())


region_tapes = st.composite(region_tape)


def region_arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=N), rng.normal(size=(N, N)), np.array(rng.normal())]
