"""Random tapes over all families of ops, and arrays for them in any layout."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Builder, Lit, SizeGuard, Tape, Var, input_symbols
from tracejit.ops.arithmetic import sqrt, subtract
from tracejit.ops.base import REGISTRY
from tracejit.ops.broadcasting import broadcast, convert, expand_dims, full, reduce_sum, squeeze
from tracejit.ops.complex_parts import absolute
from tracejit.ops.contraction import contraction
from tracejit.ops.elementwise import add, mul, neg, select
from tracejit.ops.extrema import maximum
from tracejit.ops.indexing import gather, scatter_add, scatter_set
from tracejit.ops.joining import concatenate, slice_update
from tracejit.ops.linear import diagonal, embed, embed_diagonal, iota, reshape, slice_, transpose
from tracejit.ops.logic import less
from tracejit.ops.reduction import argmax, argmin, reduce_any, reduce_max, reduce_min, reduce_prod
from tracejit.ops.scan import cumsum
from tracejit.ops.transcendental import sin

FLOAT, INTEGER = np.dtype(np.float64), np.dtype(np.int64)
DTYPES = [
    FLOAT,
    FLOAT,
    FLOAT,
    np.dtype(np.float32),
    INTEGER,
    np.dtype(np.int32),
    np.dtype(np.complex128),
    np.dtype(bool),
]
MOST_ENTRIES = 3000


class Pool:
    """The atoms made so far, and draws from them."""

    def __init__(self, draw: Any, builder: Builder, extents: list[Dim]) -> None:
        self.draw, self.builder, self.extents = draw, builder, extents
        self.atoms: list[Var] = []

    def any(self, test: Callable[[Var], bool] = lambda v: True) -> Var | None:
        """A variable that satisfies ``test``, the later the likelier."""
        found = [v for v in self.atoms if test(v)]
        return self.draw(st.sampled_from(found + found[-3:])) if found else None

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def keep(self, atom: Atom) -> None:
        if isinstance(atom, Var) and dims.hint(atom.aval.size) <= MOST_ENTRIES and len(atom.shape) <= 4:
            self.atoms.append(atom)


def _is_float(var: Var) -> bool:
    return var.dtype.kind == "f"


def _ordered(var: Var) -> bool:
    return var.dtype.kind in "fiu"


def _has_axes(var: Var) -> bool:
    return len(var.shape) > 0


def _nonempty(var: Var) -> bool:
    """Whether every extent is positive, whatever the sizes."""
    return all((dims.lower_bound(d) or 0) > 0 for d in var.shape)


def _unary(pool: Pool) -> Atom | None:
    x = pool.any(_is_float)
    op = pool.draw(st.sampled_from([sin, neg, sqrt, absolute]))
    return None if x is None else op(x)


def _binary(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: v.dtype.kind in "fic")
    if x is None:
        return None
    y = pool.any(lambda v: v.shape == x.shape and v.dtype == x.dtype) or x
    other = pool.draw(st.sampled_from([y, Lit(x.dtype.type(2))]))
    return pool.draw(st.sampled_from([add, mul, subtract]))(x, other)


def _extremum(pool: Pool) -> Atom | None:
    x = pool.any(_ordered)
    return None if x is None else maximum(x, Lit(x.dtype.type(1)))


def _where(pool: Pool) -> Atom | None:
    x = pool.any(_ordered)
    return (
        None if x is None else select(less(x, Lit(x.dtype.type(0))), x, neg(x) if x.dtype.kind != "u" else x)
    )


def _convert(pool: Pool) -> Atom | None:
    x = pool.any()
    return (
        None
        if x is None
        else convert(x, dtype=pool.draw(st.sampled_from([FLOAT, np.dtype(np.float32), INTEGER])))
    )


def _broadcast(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: len(v.shape) <= 2)
    if x is None:
        return None
    where = pool.integer(0, len(x.shape))
    shape = (*x.shape[:where], pool.draw(st.sampled_from(pool.extents)), *x.shape[where:])
    return broadcast(x, shape=shape, axes=tuple(a for a in range(len(shape)) if a != where))


def _expand(pool: Pool) -> Atom | None:
    x = pool.any()
    return None if x is None else expand_dims(x, axes=(pool.integer(0, len(x.shape)),))


def _squeeze(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: 1 in v.shape)
    return None if x is None else squeeze(x, axes=(x.shape.index(1),))


def _transpose(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    return None if x is None else transpose(x, perm=tuple(pool.draw(st.permutations(range(len(x.shape))))))


def _reshape(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    if x is None:
        return None
    cut = pool.integer(0, len(x.shape))
    return reshape(x, shape=(dims.prod(x.shape[:cut]), dims.prod(x.shape[cut:])))


def _region(pool: Pool, shape: tuple[Dim, ...]) -> dict[str, tuple[Any, ...]]:
    """Start, size and step of a slice of ``shape``."""
    start, size, step = [], [], []
    for extent in shape:
        n = dims.hint(extent)
        kind = pool.integer(0, 3)
        low = pool.integer(0, min(n, 2))
        high = pool.integer(0, min(n - low, 2))
        if kind == 0:
            start.append(0), size.append(extent), step.append(1)
        elif kind == 1:
            start.append(low), size.append(extent - low - high), step.append(1)
        elif kind == 2:
            start.append(extent - 1), size.append(extent), step.append(-1)
        else:
            start.append(low), size.append((extent - low + 1) // 2), step.append(2)
    return {"start": tuple(start), "size": tuple(size), "step": tuple(step)}


def _slice(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    return None if x is None else slice_(x, **_region(pool, x.shape))


def _embed(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    if x is None:
        return None
    start, step, shape = [], [], []
    for extent in x.shape:
        low, high, stride = pool.integer(0, 2), pool.integer(0, 2), pool.integer(1, 2)
        start.append(low), step.append(stride), shape.append(low + extent * stride + high)
    return embed(x, start=tuple(start), step=tuple(step), shape=tuple(shape))


def _concatenate(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    if x is None:
        return None
    axis = pool.integer(0, len(x.shape) - 1)

    def fits(v: Var) -> bool:
        return (
            v.dtype == x.dtype
            and v.shape[:axis] == x.shape[:axis]
            and v.shape[axis + 1 :] == x.shape[axis + 1 :]
        )

    others = [
        pool.any(lambda v: len(v.shape) == len(x.shape) and fits(v)) or x for _ in range(pool.integer(1, 2))
    ]
    return concatenate(x, *others, axis=axis)


def _update(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    if x is None:
        return None
    region = _region(pool, x.shape)
    new = full(pool.integer(-2, 2), region["size"], x.dtype)
    found = pool.any(lambda v: v.shape == region["size"] and v.dtype == x.dtype)
    return slice_update(x, found or new, start=region["start"], step=region["step"])


def _diagonal(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: len(v.shape) == 2 and v.shape[0] == v.shape[1])
    return None if x is None else diagonal(x, axes=(0, 1), start=(0, 0), size=x.shape[0])


def _embed_diagonal(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: len(v.shape) == 1)
    return (
        None
        if x is None
        else embed_diagonal(x, axes=(0, 1), start=(0, 1), shape=(x.shape[0], x.shape[0] + 1))
    )


def _axes(pool: Pool, ndim: int) -> tuple[int, ...]:
    return tuple(sorted(pool.draw(st.sets(st.integers(0, ndim - 1), min_size=1))))


def _fold(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and v.dtype.kind in "fic")
    if x is None:
        return None
    folds = [reduce_sum, reduce_sum, reduce_prod] + [reduce_max, reduce_min] * (x.dtype.kind != "c")
    return pool.draw(st.sampled_from(folds))(x, axes=_axes(pool, len(x.shape)))


def _place(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and _ordered(v) and _nonempty(v))
    return (
        None if x is None else pool.draw(st.sampled_from([argmax, argmin]))(x, axes=_axes(pool, len(x.shape)))
    )


def _logical(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and _ordered(v))
    return None if x is None else reduce_any(less(x, Lit(x.dtype.type(0))), axes=_axes(pool, len(x.shape)))


def _iota(pool: Pool) -> Atom | None:
    x = pool.any(_has_axes)
    dtype = pool.draw(st.sampled_from([FLOAT, INTEGER]))
    return None if x is None else iota(shape=x.shape, axis=pool.integer(0, len(x.shape) - 1), dtype=dtype)


def _index_of(pool: Pool, shape: tuple[Dim, ...], extent: int) -> Atom:
    """Indices into an axis, some of them negative."""
    bound = Lit(np.int64(max(extent, 1)))
    axis = pool.integer(0, len(shape) - 1)
    count = REGISTRY["remainder"](mul(iota(shape=shape, axis=axis, dtype=INTEGER), Lit(np.int64(7))), bound)
    return subtract(count, bound) if pool.integer(0, 1) else count


def _gather(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and _nonempty(v))
    if x is None:
        return None
    shape = pool.draw(st.sampled_from([(3,), (2, 2), x.shape[:1]]))
    axis = pool.integer(0, len(x.shape) - 1)
    return gather(x, _index_of(pool, shape, dims.lower_bound(x.shape[axis]) or 0), axes=(axis,))


def _scatter(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and _nonempty(v) and v.dtype.kind in "fi")
    if x is None:
        return None
    axis = pool.integer(0, len(x.shape) - 1)
    shape = pool.draw(st.sampled_from([(3,), (2, 2), x.shape[:1]]))
    index = _index_of(pool, shape, dims.lower_bound(x.shape[axis]) or 0)
    rest = tuple(d for a, d in enumerate(x.shape) if a != axis)
    counted = iota(shape=(*shape, *rest), axis=pool.integer(0, len(shape) - 1), dtype=x.dtype)
    if pool.integer(0, 1):
        return scatter_add(x, counted, index, axes=(axis,))
    return scatter_set(x, counted, index, axes=(axis,), unique=False)


def _scan(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: _has_axes(v) and v.dtype.kind in "fi")
    if x is None:
        return None
    return cumsum(x, axis=pool.integer(0, len(x.shape) - 1), reverse=bool(pool.integer(0, 1)))


def _contraction(pool: Pool) -> Atom | None:
    x = pool.any(lambda v: len(v.shape) == 2 and v.dtype.kind in "fi" and v.dtype.itemsize >= 4)
    if x is None:
        return None
    return contraction(x, x, ((0, 1), (2, 1), (0, 2)))


RULES = [
    _unary, _unary, _binary, _binary, _binary, _extremum, _where, _convert, _broadcast, _broadcast, _expand,
    _squeeze, _transpose, _reshape, _slice, _slice, _embed, _concatenate, _update, _diagonal, _embed_diagonal,
    _fold, _fold, _place, _logical, _iota, _gather, _scatter, _scan, _contraction,
]  # fmt: skip


@st.composite
def tapes(draw: Any, most: int = 12) -> Tape:
    """A tape of up to ``most`` equations with two or three inputs, in symbolic and static sizes."""
    n, m = dims.poly(Symbol("n", draw(st.sampled_from([9, 11, 16])))), dims.poly(Symbol("m", 12))
    extents: list[Dim] = [n, n, m, 1, 2, 3]
    with Builder() as builder:
        pool = Pool(draw, builder, extents)
        shapes = st.lists(st.sampled_from([*extents, 0]), max_size=3).map(tuple)
        shapes = shapes.filter(lambda s: dims.hint(dims.prod(s)) <= MOST_ENTRIES)
        builder.input(Aval((n, m), FLOAT), "a")
        pool.atoms.append(builder.inputs[0])
        for number in range(draw(st.integers(1, 2))):
            pool.atoms.append(builder.input(Aval(draw(shapes), draw(st.sampled_from(DTYPES))), "bc"[number]))
        for _ in range(draw(st.integers(1, most))):
            made = draw(st.sampled_from(RULES))(pool)
            if made is not None:
                pool.keep(made)
        outputs = draw(st.lists(st.sampled_from(pool.atoms + pool.atoms[-2:]), min_size=1, max_size=3))
        return check(builder.finish(outputs))


@st.composite
def arguments(draw: Any, tape: Tape) -> tuple[list[Any], tuple[str, ...]]:
    """Arrays for the inputs of ``tape``, of its sizes or others, and the layout of each: "C" or "A"."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = {s: draw(st.sampled_from([s.hint, 9, 10, 17])) for s in input_symbols(tape)}
    if not all(_holds(g, sizes) for g in tape.sizes):
        sizes = {s: s.hint for s in sizes}
    values, layouts = [], []
    for var in tape.inputs:
        layout = draw(st.sampled_from(["C", "A"]))
        values.append(_array(rng, tuple(dims.evaluate(d, sizes) for d in var.shape), var.dtype, layout))
        layouts.append(layout)
    return values, tuple(layouts)


def _holds(guard: SizeGuard, sizes: dict[Symbol, int]) -> bool:
    value = dims.evaluate(guard.size, sizes)
    return {"!=": value != 0, ">=": value >= 0, "<": value < 0}[guard.relation]


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], layout: str) -> Any:
    if layout == "A" and shape:
        # Every second entry of a transposed array, backwards.
        wide = _entries(rng, tuple(2 * n for n in shape[::-1]), dtype)
        return wide.T[tuple(slice(None, None, -2) for _ in shape)]
    return _entries(rng, shape, dtype)


def _entries(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.integers(-3 if dtype.kind == "i" else 0, 4 if dtype.kind == "i" else 2, shape).astype(dtype)
