"""What all parts of a kernel share while it is written: names, buffers, statements outside of loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracejit.codegen.nodes import Buffer, Evaluator, Memory, Node
from tracejit.codegen.ranges import Ranges
from tracejit.codegen.text import Names, dtype_text, size_text
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim, Symbol
from tracejit.passes.access import Flat, Index, flat_offset

__all__ = ["Context"]


class Context:
    """The state of one kernel.

    Attributes
    ----------
    names : Names
    sizes : mapping of Symbol to str
        The variables that hold extents.
    memory : Memory
    steps : int
        How many steps the kernel has.
    scalars : Evaluator
        Of the code outside all loops.
    preamble, pending : list of str
        Lines for the start of the kernel, and for before the step that is being written.
    used : dict of Buffer to int
        The last step that uses each temporary.
    """

    def __init__(self, names: Names, sizes: Mapping[Symbol, str], memory: Memory, steps: int) -> None:
        self.names, self.sizes, self.memory, self.steps = names, sizes, memory, steps
        self.scalars = Evaluator(memory, Ranges({}))
        self.preamble: list[str] = []
        self.pending: list[str] = []
        self.used: dict[Buffer, int] = {}
        self.step = 0
        self._flushed = 0
        self._numbers = 0

    def distinct(self, array: str) -> str:
        """Name the handle by which loads and stores call ``array``, whose memory nothing else shares."""
        self._numbers += 1
        name = self.names.unique(f"{array}_")
        self.pending.append(f"{name} = distinct({array}, {self._numbers})")
        return name

    def temporary(self, wish: str, shape: Shape, dtype: np.dtype[Any]) -> Buffer:
        """Allocate a C-contiguous array."""
        array = self.names.unique(wish)
        extents = ", ".join(size_text(d, self.sizes) for d in shape) + ("," if len(shape) == 1 else "")
        self.pending.append(f"{array} = np.empty(({extents}), {dtype_text(dtype)})")
        buffer = Buffer(array, self.distinct(array), shape, dtype, True)
        self.used[buffer] = self.step
        return buffer

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
        if buffer in self.used:
            self.used[buffer] = self.step
        if isinstance(index, Flat) or (flat and buffer.contiguous and len(index) > 1):
            index = (flat_offset(index, buffer.shape),)
        return [size_text(dims.substitute(i, moved), known) for i in index]
