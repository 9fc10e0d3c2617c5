"""The tools behind derivatives of loops: sums of sizes, bounds of counters, minimum cuts, orders of
equations."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_tools import for_, get, put, symbol, tape_of

from tracejit.ir import dims
from tracejit.ir.dims import Dim, Symbol, Undecided
from tracejit.ir.sums import offsets
from tracejit.ir.tape import Builder
from tracejit.ops.elementwise import add, mul
from tracejit.ops.loop import counter
from tracejit.passes.mincut import minimum_cut
from tracejit.passes.ordering import reads_first

N = Symbol("n", 5, lower=0)
K = counter(dims.poly(N))
n, k = dims.poly(N), dims.poly(K)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=4))
def test_offsets_are_sums(terms: list[tuple[int, int, int]]) -> None:
    size: Dim = 0
    for power, other, coefficient in terms:
        product: Dim = coefficient
        for factor in (k,) * power + (n,) * other:
            product = product * factor
        size = size + product
    offset, total = offsets(size, K, n)
    for trips in range(6):
        parts = [dims.evaluate(size, {N: trips, K: i}) for i in range(trips)]
        assert dims.evaluate(total, {N: trips}) == sum(parts)
        for i in range(trips):
            assert dims.evaluate(offset, {N: trips, K: i}) == sum(parts[:i])


def test_offsets_of_nested_loops_stay_exact() -> None:
    """The total of a triangular loop is a quotient; summed again it is the exact tetrahedral number."""
    outer = counter(n, "outer")
    _, row = offsets(k + 1, K, dims.poly(outer))
    _, total = offsets(row, outer, n)
    assert [dims.evaluate(total, {N: m}) for m in range(5)] == [0, 0, 1, 4, 10]


@pytest.mark.parametrize("size", [(k + 1) // 2, n - (k // 3), (n - k) // 2 + 1])
def test_offsets_without_a_formula_leave_room(size: Dim) -> None:
    offset, total = offsets(size, K, n)
    for trips in range(1, 8):
        ends = 0
        for i in range(trips):
            begin = dims.evaluate(offset, {N: trips, K: i})
            assert begin >= ends
            ends = begin + dims.evaluate(size, {N: trips, K: i})
        assert ends <= dims.evaluate(total, {N: trips})


def test_counters_are_within_their_range() -> None:
    n = dims.poly(Symbol("rows", 12))
    row = counter(n)
    k, j = dims.poly(row), dims.poly(counter(dims.poly(row), "j"))
    assert dims.lower_bound(n - 1 - k) == dims.lower_bound(k - 1 - j) == dims.lower_bound(n - 2 - j) == 0
    with Builder() as builder:
        assert builder.decide(">=", n - 1 - k)
        assert not builder.decide("==", n - k)
        assert not builder.decide(">=", k - n)
        with pytest.raises(Undecided):
            builder.decide("==", k)
        with pytest.raises(Undecided):
            builder.decide(">=", k - 1)
    assert not builder.sizes


edges_ = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@given(
    st.lists(st.integers(1, 9), min_size=7, max_size=7),
    edges_,
    st.sets(st.integers(0, 6)),
    st.sets(st.integers(0, 6)),
)
def test_minimum_cut(
    costs: list[int], edges: list[tuple[int, int]], sources: set[int], sinks: set[int]
) -> None:
    edges = [(a, b) for a, b in edges if a < b]
    total, cut = minimum_cut(dict(enumerate(costs)), edges, sources, sinks)
    assert not reaches(edges, sources - set(cut), sinks, set(cut))
    assert total == sum(costs[c] for c in cut)
    for size in range(8):
        for other in itertools.combinations(range(7), size):
            if not reaches(edges, sources - set(other), sinks, set(other)):
                assert sum(costs[c] for c in other) >= total


def reaches(edges: list[tuple[int, int]], start: set[int], sinks: set[int], cut: set[int]) -> bool:
    found = set(start)
    for a, b in sorted(edges):
        if a in found and b not in cut:
            found.add(b)
    return bool(found & (sinks - cut))


def test_reads_come_before_the_update() -> None:
    m = symbol("m", 4)

    def function(x: object) -> object:
        y = put(x, 2.0 * np.ones(()), 0)
        late = get(x, 0)  # of the old version
        return add(get(y, 1), late), y

    tape = reads_first(tape_of(function, (m,)))
    names = [e.op.name for e in tape.eqns]
    assert names.index("slice") < names.index("slice_update") < len(names) - names[::-1].index("slice")


def test_an_order_that_needs_a_copy_is_still_an_order() -> None:
    """The new value is computed from the old version at a place that the new version says."""
    m = symbol("m", 4)

    def function(x: object) -> object:
        y = put(x, get(x, 1), 0)
        return mul(get(y, 0), get(x, 0)), y

    tape = reads_first(tape_of(function, (m,)))
    assert len(tape.eqns) == len({*tape.eqns})


def test_the_text_shows_bodies() -> None:
    m = symbol("m", 4)
    text = str(tape_of(lambda x: for_(m, [x], lambda i, x: [put(x, mul(get(x, i), 2.0), i)])[0], (m,)))
    assert "loop(" in text and "        body 0(" in text and "            return" in text
