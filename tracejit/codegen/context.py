"""What all parts of a kernel share while it is written: names, buffers, statements outside of loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.codegen.nodes import Buffer, Evaluator, Memory, Node
from tracejit.codegen.placing import Placing
from tracejit.codegen.text import Names, dtype_text, literal, size_text
from tracejit.errors import InternalError
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
    room : str
        The parameter of the kernel that memory is taken from.
    placing : Placing
        The temporaries that stand in the workspace; one for all contexts.
    handles : dict of str to (str, int)
        Handle -> array and number; one for all contexts.
    grows : bool
        Something in here has memory of its own, taken when it is reached.
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
        self.room: str = parent.room if parent else names.unique("room")
        self.placing: Placing = parent.placing if parent else Placing()
        self.handles: dict[str, tuple[str, int]] = parent.handles if parent else {}
        self.grows = False
        self._grown: set[Buffer] = set()
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
        name, number = self.names.unique(f"{array}_"), next(self._numbers)
        self.handles[name] = array, number
        self.pending.append(f"{name} = distinct({array}, {number})")
        return name

    def exchange(self, left: Sequence[Buffer], right: Sequence[Buffer]) -> list[str]:
        """Return the lines after which the variables of ``left`` are the arrays that ``right`` were."""
        for buffer in (*left, *right):
            if buffer in self._grown:
                raise InternalError(
                    f"{buffer.array} does not outlive an iteration, and cannot change places."
                )
            self.touch(buffer)
            self._join(buffer.name, left[0].name)
        return [
            f"{', '.join(b.array for b in left)} = {', '.join(b.array for b in right)}",
            f"{', '.join(b.name for b in left)} = {', '.join(b.name for b in right)}",
        ]

    def _join(self, name: str, other: str) -> None:
        """Let two handles be of one group: they may mean the same memory, so they have one number."""
        old, new = (self.groups.setdefault(n, n) for n in (name, other))
        self.groups.update((n, new) for n, g in self.groups.items() if g == old)

    def settle(self) -> list[str]:
        """Choose where temporaries stand, once all is written; return the lines that make them."""
        for first, *others in self.placing.settle(self.used, self.groups):
            for name in others:
                self._join(name, first)
        return self.placing.lines(self.names, self.room)

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
        buffer = Buffer(array, "", room, dtype, True, entries)
        self.used[buffer] = self.step
        if self.parent is None and not any(s.local for d in room for s in dims.symbols(d)):
            self.placing.add(buffer, tuple(texts), room, self.step)
        else:
            comma = "," if len(texts) == 1 else ""
            self.pending.append(
                f"{array} = grown({self.room}, ({', '.join(texts)}{comma}), {dtype_text(dtype)})"
            )
            self._grown.add(buffer)
            context: Context | None = self
            while context is not None:
                context.grows, context = True, context.parent
        buffer.name = self.distinct(array)
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
