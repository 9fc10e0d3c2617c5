"""One nest as text: what is computed in each iteration, and at which depth each statement stands.

A statement stands at the outermost loop whose index it knows: what a row has in common is computed once per
row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tracejit.codegen.context import Context
from tracejit.codegen.folds import Accumulator, ArgAccumulator, Cascade, block_loop
from tracejit.codegen.nodes import Evaluator, Node
from tracejit.codegen.space import Access, Space
from tracejit.codegen.text import dtype_text, indented, needs_cast, size_text
from tracejit.ir import dims
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Eqn
from tracejit.ops.base import Reduction
from tracejit.ops.indexing import ScatterAdd
from tracejit.ops.joining import SliceAdd
from tracejit.ops.reduction import ArgReduction
from tracejit.passes.access import flat_offset, index_symbols, loop_symbols, loops
from tracejit.passes.ranges import Bounds, Ranges
from tracejit.passes.schedule import Check, Fold, Nest, Pin, Root, Scatter, Store, Update

__all__ = ["NestWriter"]

Lines = dict[int, list[str]]
Values = list[tuple[Node, ...]]


class NestWriter:
    """Writes one nest."""

    def __init__(self, context: Context, nest: Nest) -> None:
        self.context, self.nest = context, nest
        self.space = Space(nest.space)
        self.index = loops(len(nest.space))
        self.local = frozenset(r.target for r in nest.roots if isinstance(r, Store))
        self.accumulators: dict[Root, Accumulator] = {}
        self.cascades: dict[int, Cascade] = {}
        self.flags: dict[Check, str] = {}
        self.block: tuple[int, int] | None = None
        self.bounds: dict[Symbol, Bounds] = {}

    def lines(self) -> list[str]:
        """Return the text of the nest, and of what follows from it at once (scalars, errors)."""
        self._shape_loops()
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
        if isinstance(root, Pin):
            return (evaluator.value(root.eqn.results[0], ()),)
        if isinstance(root, Update):
            return (evaluator.value(root.eqn.operands[1], index),)
        place = evaluator.address(root.eqn, index)
        derived = [evaluator.derived[s] for p in place for s in dims.symbols(p) if s in evaluator.derived]
        return (evaluator.value(root.eqn.operands[1], index), *derived)

    # --- the shape of the loops ---

    def _shape_loops(self) -> None:
        """Order the loops, then merge or cut them."""
        self.bounds = self.space.bounds()
        whole = self._evaluator(self.bounds)
        nodes = _reachable(whole, [self._values(whole, root) for root in self.nest.roots])
        accesses = self._accesses(nodes, whole.ranges.constants())
        if not any(map(_needs_order, self.nest.roots)):
            self.space.order(accesses)
        if whole.undecided:
            self.space.cut(whole.undecided, len(nodes), self.context.steps)
        elif self._only_accesses(nodes):
            self.space.merge(accesses)

    def _only_accesses(self, nodes: list[Node]) -> bool:
        """Return whether loop indices are used for nothing but loads and stores."""
        own = set(self.space.symbols)
        computed = any(node.buffer is None and own & set(node.symbols) for node in nodes)
        return not computed and not any(isinstance(r, Scatter | Check) for r in self.nest.roots)

    def _accesses(self, nodes: list[Node], constants: Mapping[Symbol, Dim]) -> list[Access]:
        found = []
        for node in nodes:
            if node.buffer is not None:
                offset = flat_offset(node.index, node.buffer.shape) if node.buffer.contiguous else None
                found.append(Access(offset, frozenset(index_symbols(node.index))))
        for root in self.nest.roots:
            if isinstance(root, Store):
                found.append(_access(flat_offset(self.index, root.target.shape), constants, 2))
            elif isinstance(root, Update):
                offset = flat_offset(root.place(self.index), root.eqn.operands[0].shape)
                found.append(_access(offset, constants, 2))
            elif isinstance(root, Fold):
                axes = root.eqn.params["axes"]
                kept = tuple(i for a, i in enumerate(self.index) if a not in axes)
                found.append(_access(flat_offset(kept, root.eqn.results[0].shape), constants, 2))
                found.append(_access(self._fold_count(root), constants, 0))
        return found

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
        block = self.block = block_loop(self.space.extents)
        for accumulator in self.accumulators.values():
            if block and accumulator.start <= block[0] and _is_long_sum(accumulator.eqn):
                cascade = self.cascades.setdefault(accumulator.start, self._cascade())
                cascade.stacks[accumulator] = self._stack(accumulator)
                accumulator.cascade = cascade

    def _cascade(self) -> Cascade:
        names = self.context.names
        return Cascade(names.numbered("blocks"), names.numbered("level"))

    def _stack(self, accumulator: Accumulator) -> str:
        name = self.context.names.numbered("partial")
        self.context.preamble.append(f"{name} = scratch(64, np.{accumulator.dtype.name})")
        return name

    def _accumulator(self, root: Fold) -> Accumulator:
        eqn, names = root.eqn, self.context.names
        reduced = {loop_symbols(len(root.space))[a] for a in eqn.params["axes"]}
        last_kept = max((n for n, s in enumerate(self.space.symbols) if s not in reduced), default=-1)
        start = last_kept + 1
        outer = any(s in reduced for s in self.space.symbols[:start])
        result = eqn.results[0]
        buffer = self.context.memory.buffers.get(result)
        place = ""
        if buffer is not None:
            kept = tuple(i for a, i in enumerate(self.index) if a not in eqn.params["axes"])
            place = ", ".join(
                self.context.place(buffer, kept, self._known(), self.space.moved, self.space.merged)
            )
        stem = {"reduce_sum": "sum", "reduce_prod": "product"}.get(
            eqn.op.name, eqn.op.name.removeprefix("reduce_")
        )
        empty = start == len(self.space)
        common = (eqn, start, outer, names.numbered(stem), buffer, place, empty)
        if not isinstance(eqn.op, ArgReduction):
            assert isinstance(eqn.op, Reduction)
            return Accumulator(*common)
        best = names.numbered("best")
        memory = self.context.temporary(best, result.shape, eqn.operands[0].dtype) if outer else None
        return ArgAccumulator(*common, best=names.numbered("best") if memory else best, best_buffer=memory)

    # --- the text ---

    def _known(self) -> dict[Symbol, str]:
        return {**self.context.sizes, **self.space.named()}

    def _loop(self, depth: int, bounds: dict[Symbol, Bounds]) -> Lines:
        """Return the lines of loop ``depth`` and all inside, sorted by the depth at which they stand."""
        if depth == len(self.space):
            return self._body(bounds)
        out: Lines = defaultdict(list)
        starting = [a for a in self.accumulators.values() if a.start == depth]
        cascade = self.cascades.get(depth)
        out[depth] += [line for a in starting for line in a.opened()] + (cascade.opened() if cascade else [])
        for piece in self.space.pieces[depth]:
            inner = self._loop(depth + 1, {**bounds, self.space.symbols[depth]: piece})
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
            return [f"{self.space.names[depth]} = {first}", *body] if named else body
        return [self._head(depth, first, last), *indented(body)]

    def _head(self, depth: int, first: str, last: str) -> str:
        span = last if first == "0" else f"{first}, {last}"
        return f"for {self.space.names[depth]} in range({span}):"

    def _body(self, bounds: dict[Symbol, Bounds]) -> Lines:
        """Return the statements for one index, sorted by depth."""
        # An index of merged loops counts all their entries: what was proved before is not seen from it.
        evaluator = self._evaluator(self.bounds if self.space.merged else bounds)
        values = [self._values(evaluator, root) for root in self.nest.roots]
        self.context.flush()
        known, levels = self._known(), _Levels(self.space.symbols, evaluator)
        moved = {**evaluator.ranges.constants(), **self.space.moved}
        out: Lines = defaultdict(list)
        names_of = {node: s for s, node in evaluator.derived.items()}
        for node in _reachable(evaluator, values):
            level = levels.of(node)
            out[level].append(self.context.render(node, known, moved, self.space.merged))
            if node in names_of:
                known[names_of[node]] = node.name
        for root, nodes in zip(self.nest.roots, values, strict=True):
            out[len(self.space)] += self._finish(root, nodes[0].name, evaluator, known)
        return out

    def _finish(self, root: Root, value: str, evaluator: Evaluator, known: Mapping[Symbol, str]) -> list[str]:
        """Return what is done with the value of ``root``."""
        constants = evaluator.ranges.constants()
        moved = {**constants, **self.space.moved}
        if isinstance(root, Store):
            buffer = self.context.memory.buffers[root.target]
            place = self.context.place(buffer, self.index, known, moved, self.space.merged)
            return [f"store({', '.join([buffer.name, value, *place])})"]
        if isinstance(root, Pin):
            return []
        if isinstance(root, Update):
            buffer = self.context.memory.buffers[root.eqn.results[0]]
            place = self.context.place(buffer, root.place(self.index), known, moved, self.space.merged)
            if isinstance(root.eqn.op, SliceAdd):
                value = _increased(root.eqn, f"load({', '.join([buffer.name, *place])})", value)
            return [f"store({', '.join([buffer.name, value, *place])})"]
        if isinstance(root, Fold):
            count = size_text(dims.substitute(self._fold_count(root), moved), known)
            return self.accumulators[root].added(value, count)
        if isinstance(root, Check):
            flag, extent = self.flags[root], size_text(root.extent, known)
            return [f"{flag} = {flag} | ({value} < -({extent})) | ({value} >= {extent})"]
        buffer = self.context.memory.buffers[root.eqn.results[0]]
        index = evaluator.address(root.eqn, tuple(dims.substitute(i, constants) for i in self.index))
        place_text = ", ".join(self.context.place(buffer, index, known, moved, False))
        if isinstance(root.eqn.op, ScatterAdd):
            value = _increased(root.eqn, f"load({buffer.name}, {place_text})", value)
        return [f"store({buffer.name}, {value}, {place_text})"]

    def _after(self) -> list[str]:
        text = []
        for root, flag in self.flags.items():
            where = f" at {root.eqn.source.short}" if root.eqn.source else ""
            message = f"index is out of bounds for axis {root.axis}{where}"
            text += [f"if {flag}:", f"    raise IndexError({message!r})"]
        for accumulator in self.accumulators.values():
            if accumulator.buffer is None:
                self.context.scalars.define(accumulator.eqn.results[0], accumulator.local)
        return text


def _increased(eqn: Eqn, old: str, value: str) -> str:
    dtype, text = eqn.results[0].dtype, f"{old} + {value}"
    return f"{dtype_text(dtype)}({text})" if needs_cast("+", (dtype,), dtype) else text


def _access(offset: Dim, constants: Mapping[Symbol, Dim], weight: int) -> Access:
    offset = dims.substitute(offset, constants)
    return Access(offset, frozenset(dims.symbols(offset)), weight)


def _needs_order(root: Root) -> bool:
    """Return whether the result depends on the order in which entries are visited."""
    if isinstance(root, Fold):
        return isinstance(root.eqn.op, ArgReduction) and len(root.eqn.params["axes"]) > 1
    return isinstance(root, Scatter)


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
