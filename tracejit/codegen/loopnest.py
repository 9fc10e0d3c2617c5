"""One nest as text: which loops run, what is merged or cut, and at which depth each statement stands.

A statement stands at the outermost loop whose index it knows: what a row has in common is computed once per row.
Adjacent loops through which every array is read in memory order become one loop.  A loop along which a condition changes
(the edge of a stencil, a joint of `concatenate`) is cut there, so that no entry asks.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracejit.codegen.folds import Accumulator, ArgAccumulator, Cascade, block_loop
from tracejit.codegen.nodes import Buffer, Evaluator, Node
from tracejit.codegen.ranges import Bounds, Ranges, cut
from tracejit.codegen.text import Names, indented, literal, size_text
from tracejit.ir import dims
from tracejit.ir.dims import Dim, Poly, Symbol
from tracejit.ir.tape import Eqn, Var
from tracejit.ops.base import Reduction
from tracejit.ops.indexing import ScatterAdd
from tracejit.ops.reduction import ArgReduction
from tracejit.passes.access import Flat, Index, flat_offset, loop_symbols, loops, row_strides
from tracejit.passes.schedule import Check, Fold, Nest, Root, Scatter, Store

__all__ = ["NestWriter"]

MOST_STATEMENTS = 400
"""A nest is cut into pieces as long as its text stays below this length."""

MOST_PIECES = 8

Lines = dict[int, list[str]]


class NestWriter:
    """Writes one nest."""

    def __init__(self, context: Context, nest: Nest) -> None:
        self.context, self.nest = context, nest
        ndim = len(nest.space)
        self.symbols = list(loop_symbols(ndim))
        self.extents = list(nest.space)
        self.index = loops(ndim)
        self.local = frozenset(r.target for r in nest.roots if isinstance(r, Store))
        self.moved: dict[Symbol, Dim] = {}
        self.pieces: list[list[Bounds]] = [[(0, extent)] for extent in self.extents]
        self.accumulators: dict[Root, Accumulator] = {}
        self.cascades: dict[int, Cascade] = {}
        self.flags: dict[Root, str] = {}
        self.block: tuple[int, int] | None = None

    def lines(self) -> list[str]:
        """Return the text of the nest, and of what follows from it at once (scalars, errors)."""
        whole = self._evaluator({s: (0, e) for s, e in zip(self.symbols, self.extents, strict=True)})
        values = [self._values(whole, root) for root in self.nest.roots]
        if whole.undecided:
            self._cut(whole)
        else:
            self._merge(whole, values)
        self._prepare()
        text = [line for a in self.accumulators.values() for line in a.before()]
        text += [f"{flag} = False" for flag in self.flags.values()]
        text += self._loop(0, {})[0]
        return text + self._after()

    def _evaluator(self, bounds: Mapping[Symbol, Bounds]) -> Evaluator:
        context = self.context
        return Evaluator(context.memory, Ranges(bounds), context.scalars, self.local)

    def _values(self, evaluator: Evaluator, root: Root) -> tuple[Node, ...]:
        """Return the nodes that ``root`` uses in each iteration."""
        constants = evaluator.ranges.constants()
        index = tuple(dims.substitute(i, constants) for i in self.index)
        if isinstance(root, Store):
            return (evaluator.value(root.value, index),)
        if isinstance(root, Fold):
            return (evaluator.value(root.eqn.operands[0], index),)
        if isinstance(root, Check):
            return (evaluator.value(root.eqn.operands[root.operand], index),)
        place = evaluator.address(root.eqn, index)
        derived = [evaluator.derived[s] for p in place for s in dims.symbols(p) if s in evaluator.derived]
        return (evaluator.value(root.eqn.operands[1], index), *derived)

    # --- the shape of the loops ---

    def _cut(self, whole: Evaluator) -> None:
        """Cut loops, the innermost first, where conditions change."""
        length = max(len(whole.nodes), 1)
        for axis in reversed(range(len(self.symbols))):
            most = min(MOST_STATEMENTS // length, MOST_PIECES)
            self.pieces[axis] = cut(self.symbols[axis], self.extents[axis], whole.undecided, most)
            length *= len(self.pieces[axis])

    def _merge(self, whole: Evaluator, values: list[tuple[Node, ...]]) -> None:
        """Merge a loop into the one inside of it where every access moves through both in steps of one stride."""
        accesses = self._accesses(whole, values)
        if accesses is None:
            return
        extents = dict(zip(self.symbols, self.extents, strict=True))
        ones = whole.ranges.constants()
        accesses = [dims.substitute(a, ones) for a in accesses]
        for outer, inner in reversed(list(itertools.pairwise(s for s in self.symbols if s not in ones))):
            steps = [(_coefficient(a, outer), _coefficient(a, inner)) for a in accesses]
            if all(o is not None and i is not None and o == i * extents[inner] for o, i in steps):
                self.moved[outer] = 0
        if self.moved:
            self.moved.update(ones)
            self._apply_merges(extents)

    def _apply_merges(self, extents: dict[Symbol, Dim]) -> None:
        symbols: list[Symbol] = []
        sizes: list[Dim] = []
        size: Dim = 1
        for symbol, extent in extents.items():
            size = size * extent
            if symbol not in self.moved:
                symbols.append(symbol)
                sizes.append(size)
                size = 1
        self.symbols, self.extents = symbols, sizes
        self.pieces = [[(0, extent)] for extent in sizes]

    def _accesses(self, whole: Evaluator, values: list[tuple[Node, ...]]) -> list[Dim] | None:
        """Return the offsets of all loads and stores as sizes; None if loop indices are used for anything else."""
        found: list[Dim] = []
        own = set(self.symbols)
        for node in _reachable(whole, values):
            if node.buffer is None or not node.buffer.contiguous:
                if own & set(node.symbols):
                    return None
            else:
                found.append(flat_offset(node.index, node.buffer.shape))
        for root in self.nest.roots:
            if isinstance(root, Scatter | Check):
                return None
            if isinstance(root, Store):
                found.append(flat_offset(self.index, self.context.memory.buffers[root.target].shape))
            else:
                found.extend(self._fold_accesses(root))
        return found

    def _fold_accesses(self, root: Fold) -> list[Dim]:
        axes = root.eqn.params["axes"]
        kept = tuple(i for a, i in enumerate(self.index) if a not in axes)
        return [flat_offset(kept, root.eqn.results[0].shape), self._fold_count(root)]

    def _fold_count(self, root: Fold) -> Dim:
        """Return the place of an entry among those that are reduced together."""
        axes = root.eqn.params["axes"]
        shape = tuple(self.nest.space[a] for a in axes)
        return flat_offset(tuple(self.index[a] for a in axes), shape)

    # --- accumulators ---

    def _prepare(self) -> None:
        for root in self.nest.roots:
            if isinstance(root, Fold):
                self.accumulators[root] = self._accumulator(root)
            elif isinstance(root, Check):
                self.flags[root] = self.context.names.numbered("outside")
        block = self.block = block_loop(self.extents)
        for root, accumulator in self.accumulators.items():
            if block and accumulator.start <= block[0] and _is_long_sum(root.eqn):
                cascade = self.cascades.setdefault(accumulator.start, self._cascade())
                cascade.stacks[accumulator] = self._stack(accumulator)
                accumulator.cascade = cascade

    def _cascade(self) -> Cascade:
        names = self.context.names
        return Cascade(names.numbered("blocks"), names.numbered("level"))

    def _stack(self, accumulator: Accumulator) -> str:
        name = self.context.names.numbered("partial")
        self.context.preamble.append(f"{name} = np.empty(64, np.{accumulator.dtype.name})")
        return name

    def _accumulator(self, root: Fold) -> Accumulator:
        eqn, names = root.eqn, self.context.names
        reduced = {loop_symbols(len(root.space))[a] for a in eqn.params["axes"]}
        last_kept = max((n for n, s in enumerate(self.symbols) if s not in reduced), default=-1)
        start = last_kept + 1
        outer = any(s in reduced for s in self.symbols[:start])
        result = eqn.results[0]
        buffer = self.context.memory.buffers.get(result)
        place = ""
        if buffer is not None:
            kept = tuple(i for a, i in enumerate(self.index) if a not in eqn.params["axes"])
            place = ", ".join(self.context.place(buffer, kept, self._known(), self.moved, bool(self.moved)))
        stem = {"reduce_sum": "sum", "reduce_prod": "product"}.get(eqn.op.name, eqn.op.name.removeprefix("reduce_"))
        empty = start == len(self.symbols)
        common = (eqn, start, outer, names.numbered(stem), buffer, place, empty)
        if not isinstance(eqn.op, ArgReduction):
            assert isinstance(eqn.op, Reduction)
            return Accumulator(*common)
        best = names.numbered("best")
        memory = self.context.temporary(best, result.shape, eqn.operands[0].dtype) if outer else None
        return ArgAccumulator(*common, best=names.numbered("best") if memory else best, best_buffer=memory)

    # --- the text ---

    def _known(self) -> dict[Symbol, str]:
        return {**self.context.sizes, **{s: s.name for s in self.symbols}}

    def _loop(self, depth: int, bounds: dict[Symbol, Bounds]) -> Lines:
        """Return the lines of loop ``depth`` and all inside, sorted by the depth at which they stand."""
        if depth == len(self.symbols):
            return self._body(bounds)
        out: Lines = defaultdict(list)
        starting = [a for a in self.accumulators.values() if a.start == depth]
        cascade = self.cascades.get(depth)
        out[depth] += [line for a in starting for line in a.opened()] + (cascade.opened() if cascade else [])
        for piece in self.pieces[depth]:
            inner = self._loop(depth + 1, {**bounds, self.symbols[depth]: piece})
            body = inner.pop(depth + 1, [])
            for level, lines in inner.items():
                out[level] += lines
            out[depth] += self._run(depth, piece, body)
        out[depth] += (cascade.closed() if cascade else []) + [line for a in starting for line in a.closed()]
        return out

    def _run(self, depth: int, piece: Bounds, body: list[str]) -> list[str]:
        """Return the loop over one piece, in blocks if it is the one that long sums are cut along."""
        cascades = [c for start, c in self.cascades.items() if start <= depth]
        if not cascades or self.block is None or depth != self.block[0]:
            return self._for(depth, *piece, body)
        opened = [line for c in cascades for line in c.block_opened()]
        closed = [line for c in cascades for line in c.block_closed()]
        (low, high), length = piece, piece[1] - piece[0]
        if isinstance(length, int) and length <= self.block[1]:
            return [*opened, *self._for(depth, low, high, body), *closed]
        block = self.context.names.numbered("block")
        first, last = (size_text(end, self.context.sizes) for end in piece)
        end = f"min({block} + {self.block[1]}, {last})"
        inside = [*opened, self._head(depth, block, end), *indented(body), *closed]
        return [f"for {block} in range({first}, {last}, {self.block[1]}):", *indented(inside)]

    def _for(self, depth: int, low: Dim, high: Dim, body: list[str]) -> list[str]:
        first, last = (size_text(end, self.context.sizes) for end in (low, high))
        if high - low == 1:
            named = any(a.buffer for a in self.accumulators.values())
            return [f"{self.symbols[depth].name} = {first}", *body] if named else body
        return [self._head(depth, first, last), *indented(body)]

    def _head(self, depth: int, first: str, last: str) -> str:
        span = last if first == "0" else f"{first}, {last}"
        return f"for {self.symbols[depth].name} in range({span}):"

    def _body(self, bounds: dict[Symbol, Bounds]) -> Lines:
        """Return the statements for one index, sorted by depth."""
        full = {**bounds, **{s: (0, 1) for s in self.moved}}
        evaluator = self._evaluator(full)
        values = [self._values(evaluator, root) for root in self.nest.roots]
        self.context.flush()
        known, levels = self._known(), _Levels(self.symbols, evaluator)
        moved = {**evaluator.ranges.constants(), **self.moved}
        out: Lines = defaultdict(list)
        names_of = {node: s for s, node in evaluator.derived.items()}
        for node in _reachable(evaluator, values):
            level = levels.of(node)
            out[level].append(self.context.render(node, known, moved, bool(self.moved)))
            if node in names_of:
                known[names_of[node]] = node.name
        for root, nodes in zip(self.nest.roots, values, strict=True):
            out[len(self.symbols)] += self._finish(root, nodes, evaluator, known, moved)
        return out

    def _finish(
        self, root: Root, nodes: tuple[Node, ...], evaluator: Evaluator, known: Mapping[Symbol, str], moved: dict[Symbol, Dim]
    ) -> list[str]:
        """Return what is done with the values of ``root``."""
        context, value = self.context, nodes[0].name
        if isinstance(root, Store):
            buffer = context.memory.buffers[root.target]
            place = context.place(buffer, self.index, known, moved, bool(self.moved))
            return [f"store({', '.join([buffer.name, value, *place])})"]
        if isinstance(root, Fold):
            count = size_text(dims.substitute(self._fold_count(root), moved), known)
            return self.accumulators[root].added(nodes[0], count)
        if isinstance(root, Check):
            extent = size_text(_checked_extent(root), context.sizes)
            flag = self.flags[root]
            return [f"{flag} = {flag} | ({value} < -({extent})) | ({value} >= {extent})"]
        buffer = context.memory.buffers[root.eqn.results[0]]
        constants = evaluator.ranges.constants()
        index = evaluator.address(root.eqn, tuple(dims.substitute(i, constants) for i in self.index))
        place_text = ", ".join(context.place(buffer, index, known, moved, False))
        if isinstance(root.eqn.op, ScatterAdd):
            value = f"load({buffer.name}, {place_text}) + {value}"
        return [f"store({buffer.name}, {value}, {place_text})"]

    def _after(self) -> list[str]:
        text = []
        for root, flag in self.flags.items():
            assert isinstance(root, Check)
            where = f" at {root.eqn.source.short}" if root.eqn.source else ""
            axis = root.eqn.params["axes"][root.operand - (len(root.eqn.operands) - len(root.eqn.params["axes"]))]
            message = f"index is out of bounds for axis {axis}{where}"
            text += [f"if {flag}:", f"    raise IndexError({message!r})"]
        for accumulator in self.accumulators.values():
            if accumulator.buffer is None:
                self.context.scalars.define(accumulator.eqn.results[0], accumulator.local)
        return text


def _checked_extent(root: Check) -> Dim:
    axes = root.eqn.params["axes"]
    return root.eqn.operands[0].shape[axes[root.operand - (len(root.eqn.operands) - len(axes))]]


def _is_long_sum(eqn: Eqn) -> bool:
    return eqn.op.name == "reduce_sum" and eqn.results[0].dtype.kind in "fc"


def _reachable(evaluator: Evaluator, values: Iterable[tuple[Node, ...]]) -> list[Node]:
    """Return the nodes that ``values`` depend on and that have no name yet, operands first."""
    needed: set[Node] = set()
    todo = [node for group in values for node in group]
    while todo:
        node = todo.pop()
        if node in needed:
            continue
        needed.add(node)
        todo.extend(node.args)
        todo.extend(evaluator.derived[s] for s in node.symbols if s in evaluator.derived)
    return [node for node in evaluator.nodes if node in needed and not node.name]


class _Levels:
    """The depth at which nodes can be computed."""

    def __init__(self, symbols: list[Symbol], evaluator: Evaluator) -> None:
        self._loops = {s: n + 1 for n, s in enumerate(symbols)}
        self._constant = set(evaluator.ranges.constants())
        self._derived = evaluator.derived
        self._levels: dict[Node, int] = {}

    def of(self, node: Node) -> int:
        """Return the depth of ``node``, whose operands were asked for before."""
        levels = [self._levels.get(a, 0) for a in node.args]
        for symbol in node.symbols:
            if symbol in self._derived:
                levels.append(self._levels.get(self._derived[symbol], 0))
            elif symbol not in self._constant:
                levels.append(self._loops.get(symbol, 0))
        self._levels[node] = max(levels, default=0)
        return self._levels[node]


def _coefficient(offset: Dim, symbol: Symbol) -> Dim | None:
    """Return the factor of ``symbol`` in ``offset``, or None if ``offset`` is not linear in it."""
    if isinstance(offset, int):
        return 0
    terms: Dim = 0
    for monomial, coefficient in offset.terms.items():
        if symbol in monomial:
            rest: Dim = coefficient
            for atom in _without_one(monomial, symbol):
                rest = rest * dims.poly(atom)
            terms = terms + rest
    linear = not isinstance(terms, Poly) or symbol not in set(dims.symbols(terms))
    hidden = symbol in set(dims.symbols(offset - terms * dims.poly(symbol))) if linear else True
    return None if hidden else terms


def _without_one(monomial: tuple[Any, ...], symbol: Symbol) -> list[Any]:
    rest = list(monomial)
    rest.remove(symbol)
    return rest
