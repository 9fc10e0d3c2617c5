"""What all parts of a kernel share while it is written: names, buffers, statements outside of loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.codegen.nodes import Buffer, Evaluator, Memory, Node
from tracejit.codegen.text import Names, dtype_text, literal, size_text
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Eqn, Lit
from tracejit.passes.access import Flat, Index, flat_offset
from tracejit.passes.ranges import Ranges, largest

__all__ = ["Context"]


class Context:
    """The state of one kernel, or of the body of a loop or branch in it.

    Attributes
    ----------
    names : Names
    sizes : dict of Symbol to str
        The variables that hold extents.
    memory : Memory
    steps : int
        How many steps the schedule has.
    parent : Context or None
        What stands around a body.
    index : Symbol or None
        The counter of the loop that this is the body of.
    scalars : Evaluator
        Of the code outside the loops of nests.
    preamble, pending : list of str
        Lines for the start of the kernel, and for before the step that is being written.
    used : dict of Buffer to int
        The last step that uses each temporary.
    leaving : (Eqn, bool) or None
        Of the body of a loop: the branch with which it is left, and the value of its predicate then.
    groups : dict of str to str
        Handles whose arrays change places -> the handle that names their group; one for all contexts.
    """

    def __init__(
        self,
        names: Names,
        sizes: Mapping[Symbol, str],
        memory: Memory,
        steps: int,
        parent: Context | None = None,
        index: Symbol | None = None,
    ) -> None:
        self.names, self.sizes, self.memory, self.steps = names, dict(sizes), memory, steps
        self.parent, self.index = parent, index
        self.scalars = Evaluator(memory, Ranges({}))
        self.preamble: list[str] = parent.preamble if parent else []
        self.pending: list[str] = []
        self.used: dict[Buffer, int] = {}
        self.groups: dict[str, str] = parent.groups if parent else {}
        self.leaving: tuple[Eqn, bool] | None = None
        self.step = 0
        self._flushed = 0
        self._numbers: Iterator[int] = parent._numbers if parent else itertools.count(1)

    def body(self, memory: Memory, steps: int, index: Symbol | None = None, name: str = "") -> Context:
        """Return the context of a body, whose counter has a variable of this name."""
        sizes = self.sizes if index is None else {**self.sizes, index: name}
        return Context(self.names, sizes, memory, steps, self, index)

    def distinct(self, array: str) -> str:
        """Name the handle by which loads and stores call ``array``, whose memory nothing else shares."""
        name = self.names.unique(f"{array}_")
        self.pending.append(f"{name} = distinct({array}, {next(self._numbers)})")
        return name

    def exchange(self, left: Sequence[Buffer], right: Sequence[Buffer]) -> list[str]:
        """Return the lines after which the variables of ``left`` are the arrays that ``right`` were."""
        first = self.groups.setdefault(left[0].name, left[0].name)
        for buffer in (*left, *right):
            self.touch(buffer)
            self._join(buffer.name, first)
        return [
            f"{', '.join(b.array for b in left)} = {', '.join(b.array for b in right)}",
            f"{', '.join(b.name for b in left)} = {', '.join(b.name for b in right)}",
        ]

    def _join(self, name: str, group: str) -> None:
        """Let a handle be of a group: their arrays change places, so they have one number."""
        old = self.groups.setdefault(name, name)
        self.groups.update((n, group) for n, g in self.groups.items() if g == old)

    def temporary(self, wish: str, shape: Shape, dtype: np.dtype[Any]) -> Buffer:
        """Allocate a C-contiguous array, outside of as many loops as possible."""
        home, room = self, shape
        while home.parent is not None and (larger := home._seen_from_outside(room)) is not None:
            home, room = home.parent, larger
        entries = "" if room == shape else size_text(dims.prod(shape), self.sizes)
        buffer = home._allocated(self.names.unique(wish), room, dtype, home is self, entries)
        buffer.shape = shape
        return buffer

    def _seen_from_outside(self, shape: Shape) -> Shape | None:
        """Return extents that are known outside of this body and never smaller; None if there are none."""
        assert self.parent is not None
        found = []
        for extent in shape:
            most = extent if self.index is None else largest(extent, self.index)
            if most is None or any(s not in self.parent.sizes for s in dims.symbols(most)):
                return None
            found.append(most)
        return tuple(found)

    def _allocated(self, array: str, room: Shape, dtype: np.dtype[Any], runs: bool, entries: str) -> Buffer:
        # What stands outside of a loop is allocated even if it has no trips and its sizes make no sense.
        texts = [size_text(d, self.sizes) for d in room]
        texts = [t if runs or _is_size(d) else f"max({t}, 0)" for t, d in zip(texts, room, strict=True)]
        if entries:
            texts = [" * ".join(f"({t})" for t in texts)]
        comma = "," if len(texts) == 1 else ""
        self.pending.append(f"{array} = np.empty(({', '.join(texts)}{comma}), {dtype_text(dtype)})")
        buffer = Buffer(array, self.distinct(array), room, dtype, True, entries)
        self.used[buffer] = self.step
        return buffer

    def touch(self, buffer: Buffer) -> None:
        """Remember that the step that is being written uses ``buffer``."""
        context: Context | None = self
        while context is not None and buffer not in context.used:
            context = context.parent
        if context is not None:
            context.used[buffer] = context.step

    def scalar(self, atom: Atom) -> str:
        """Return the name of a 0-d value, computed before the step that is being written."""
        if isinstance(atom, Lit):
            return literal(atom.value, atom.dtype)
        node = self.scalars.value(atom, ())
        self.flush()
        return node.name

    def flush(self) -> None:
        """Write the statements outside of loops that are not written yet."""
        nodes = self.scalars.nodes
        known = dict(self.sizes)
        known.update((s, n.name) for s, n in self.scalars.derived.items())
        names_of = {node: s for s, node in self.scalars.derived.items()}
        for node in nodes[self._flushed :]:
            self.pending.append(self.render(node, known, {}))
            if node in names_of:
                known[names_of[node]] = node.name
        self._flushed = len(nodes)

    def take_pending(self) -> list[str]:
        """Return the pending lines, once."""
        lines, self.pending = self.pending, []
        return lines

    def render(
        self, node: Node, known: Mapping[Symbol, str], moved: Mapping[Symbol, Dim], flat: bool = False
    ) -> str:
        """Return the statement that computes ``node``, and give the node its name."""
        sizes = {f"d{n}": size_text(dims.substitute(d, moved), known) for n, d in enumerate(node.sizes)}
        text, stem = node.template, "t"
        if node.buffer is not None:
            place = self.place(node.buffer, node.index, known, moved, flat)
            loaded = f"load({', '.join([node.buffer.name, *place])})"
            text, stem = text or "{load}", f"{node.buffer.array}_"
            sizes["load"] = loaded
        node.name = self.names.numbered(stem)
        return f"{node.name} = {text.format(*(a.name for a in node.args), **sizes)}"

    def place(
        self,
        buffer: Buffer,
        index: Index,
        known: Mapping[Symbol, str],
        moved: Mapping[Symbol, Dim],
        flat: bool,
    ) -> list[str]:
        """Return the texts of the indices of an access; one in C order if ``flat`` or `Flat`."""
        self.touch(buffer)
        if buffer.entries or isinstance(index, Flat) or (flat and buffer.contiguous and len(index) > 1):
            index = (flat_offset(index, buffer.shape),)
        return [size_text(dims.substitute(i, moved), known) for i in index]


def _is_size(dim: Dim) -> bool:
    """Return whether ``dim`` is proved not to be negative."""
    low = dims.lower_bound(dim)
    return low is not None and low >= 0
