"""Accumulators: how a reduction is carried through the loops around it.

The innermost loops that are all reduced form its *run*: in there the accumulator is a local variable.  If a
loop outside of the run is reduced too, the run's result is combined into memory (``out[j] += ...`` for
``sum(axis=0)``, whose run is empty, so that the inner loop moves along the rows).

Sums of floats vectorise because their adds may be reordered, and are added up in blocks of at most `BLOCK`
terms whose sums a binary counter combines pairwise: the error grows with the logarithm of the number of
blocks, as NumPy's does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.nodes import Buffer
from tracejit.codegen.text import dtype_text, literal, needs_cast
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Eqn
from tracejit.ops.base import Reduction
from tracejit.ops.broadcasting import reduce_sum
from tracejit.ops.reduction import ArgReduction, reduce_prod

__all__ = ["BLOCK", "Accumulator", "ArgAccumulator", "Cascade", "block_loop"]

BLOCK = 256
"""Terms that are added without care for the order."""

LEVELS = 64


def block_loop(extents: list[Dim]) -> tuple[int, int] | None:
    """Return the loop that is cut into blocks and their length; None if all loops together are short."""
    inner = 1
    for position in range(len(extents) - 1, -1, -1):
        extent = extents[position]
        if not isinstance(extent, int) or inner * extent > BLOCK:
            return position, max(BLOCK // inner, 1)
        inner *= max(extent, 1)
    return None


@dataclass(eq=False)
class Accumulator:
    """One reduction in one nest.

    Attributes
    ----------
    start : int
        The first loop of the run; the number of loops if the run is empty.
    outer : bool
        Whether loops outside of the run are reduced too.
    local : str
        The local variable.
    buffer : Buffer or None
        Memory of the result; None for a scalar.
    place : str
        Text of the indices of a result in ``buffer``.
    empty_run : bool
    cascade : Cascade, optional
        What adds up the blocks of a long sum.
    """

    eqn: Eqn
    start: int
    outer: bool
    local: str
    buffer: Buffer | None
    place: str
    empty_run: bool
    cascade: Cascade | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.eqn.results[0].dtype

    @property
    def identity(self) -> str:
        assert isinstance(self.eqn.op, Reduction)
        return literal(self.eqn.op.identity(self.dtype), self.dtype)

    def combined(self, total: str, term: str, reorder: bool) -> str:
        op = self.eqn.op
        assert isinstance(op, Reduction)
        template = op.combine
        if reorder and self.dtype.kind in "fc" and op in (reduce_sum, reduce_prod):
            template = "add_reassoc({0}, {1})" if op is reduce_sum else "mul_reassoc({0}, {1})"
        text = template.format(total, term)
        return (
            f"{dtype_text(self.dtype)}({text})" if needs_cast(template, (self.dtype,), self.dtype) else text
        )

    def before(self) -> list[str]:
        """Return the lines that set the memory up, before all loops."""
        if self.buffer is None or not self.outer:
            return []
        return _filled(self.buffer, self.identity)

    def opened(self) -> list[str]:
        """Return the lines before the run."""
        return [] if self.empty_run or self.cascade else [f"{self.local} = {self.identity}"]

    def added(self, value: str, count: str) -> list[str]:
        """Return the lines for one entry, whose place among those that are reduced together is ``count``."""
        if self.empty_run:
            return self._into_memory(value) if self.outer else self._stored(value)
        return [f"{self.local} = {self.combined(self.local, value, True)}"]

    def closed(self) -> list[str]:
        """Return the lines after the run."""
        if self.empty_run or self.buffer is None:
            return []
        if self.outer:
            return self._into_memory(self.local)
        return self._stored(self.local)

    def _stored(self, value: str) -> list[str]:
        assert self.buffer is not None
        return [f"store({self.buffer.name}, {value}, {self.place})"]

    def _into_memory(self, term: str) -> list[str]:
        assert self.buffer is not None
        old = f"load({self.buffer.name}, {self.place})"
        return [f"store({self.buffer.name}, {self.combined(old, term, False)}, {self.place})"]


def _filled(buffer: Buffer, value: str) -> list[str]:
    size = buffer.entries or " * ".join(f"{buffer.array}.shape[{axis}]" for axis in range(len(buffer.shape)))
    return [f"for place in range({size}):", f"    store({buffer.name}, {value}, place)"]


@dataclass(eq=False)
class ArgAccumulator(Accumulator):
    """The place of an extreme: the best entry so far is carried beside its place."""

    best: str = ""
    best_buffer: Buffer | None = None

    @property
    def entry_dtype(self) -> np.dtype[Any]:
        return self.eqn.operands[0].dtype

    @property
    def identity(self) -> str:
        return literal(_worst(self.eqn.op, self.entry_dtype), self.entry_dtype)

    def before(self) -> list[str]:
        if self.buffer is None or not self.outer:
            return []
        assert self.best_buffer is not None
        return [*_filled(self.buffer, "0"), *_filled(self.best_buffer, self.identity)]

    def opened(self) -> list[str]:
        return [] if self.empty_run else [f"{self.best} = {self.identity}", f"{self.local} = 0"]

    def added(self, value: str, count: str) -> list[str]:
        if self.empty_run:
            return self._into_memory_if_better(value, count) if self.outer else self._stored(count)
        # A branch that is hardly ever taken is faster than a chain of selects.
        return [
            f"if {self.better(self.best, value)}:",
            f"    {self.best} = {value}",
            f"    {self.local} = {count}",
        ]

    def closed(self) -> list[str]:
        if self.buffer is not None and self.outer and not self.empty_run:
            return self._into_memory_if_better(self.best, self.local)
        return super().closed()

    def better(self, best: str, entry: str) -> str:
        assert isinstance(self.eqn.op, ArgReduction)
        return self.eqn.op.better.format(best, entry)

    def _into_memory_if_better(self, entry: str, count: str) -> list[str]:
        assert self.buffer is not None and self.best_buffer is not None
        return [
            f"{self.best} = load({self.best_buffer.name}, {self.place})",
            f"if {self.better(self.best, entry)}:",
            f"    store({self.best_buffer.name}, {entry}, {self.place})",
            f"    store({self.buffer.name}, {count}, {self.place})",
        ]


def _worst(op: object, dtype: np.dtype[Any]) -> Any:
    """Return a value that no entry is worse than."""
    largest = isinstance(op, ArgReduction) and op.function is np.argmax
    if dtype.kind == "b":
        return not largest
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


@dataclass(eq=False)
class Cascade:
    """The binary counter of the sums whose run starts at the same loop."""

    blocks: str
    level: str
    stacks: dict[Accumulator, str] = field(default_factory=dict)

    def opened(self) -> list[str]:
        return [f"{self.blocks} = 0"]

    def block_opened(self) -> list[str]:
        return [f"{a.local} = {a.identity}" for a in self.stacks]

    def block_closed(self) -> list[str]:
        merge = [f"    {a.local} = load({s}, {self.level}) + {a.local}" for a, s in self.stacks.items()]
        return [
            f"{self.blocks} += 1",
            f"{self.level} = 0",
            f"while ({self.blocks} >> {self.level}) & 1 == 0:",
            *merge,
            f"    {self.level} += 1",
            *(f"store({s}, {a.local}, {self.level})" for a, s in self.stacks.items()),
        ]

    def closed(self) -> list[str]:
        merge = [f"        {a.local} = load({s}, {self.level}) + {a.local}" for a, s in self.stacks.items()]
        return [
            *self.block_opened(),
            f"{self.level} = 0",
            f"while {self.blocks} >> {self.level} > 0:",
            f"    if ({self.blocks} >> {self.level}) & 1 == 1:",
            *merge,
            f"    {self.level} += 1",
        ]
