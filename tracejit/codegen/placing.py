"""Where the temporaries of a kernel stand in its workspace: those that are not needed at the same time share memory.

A temporary lives from the step that it is allocated for to the last step that uses it. Arrays that change places count
as one with the life of all. Sizes are symbols, so what is shared is decided by the extents of the traced call, and each
slot is as long as the longest of its temporaries, whatever they are when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.nodes import Buffer
from tracejit.codegen.text import Names, dtype_text
from tracejit.ir import dims
from tracejit.ir.aval import Shape
from tracejit.ir.dims import Symbol

__all__ = ["ALIGNMENT", "Placing", "Slot", "slot_bytes"]

ALIGNMENT = 64
"""Bytes to which slots are rounded up."""


@dataclass(eq=False, slots=True)
class _Temporary:
    """An array of the workspace: extents as text and as sizes, and the steps that it lives in."""

    buffer: Buffer
    texts: tuple[str, ...]
    room: Shape
    first: int
    last: int = 0

    @property
    def shape_text(self) -> str:
        return f"({', '.join(self.texts)}{',' if len(self.texts) == 1 else ''})"

    @property
    def size_text(self) -> str:
        return f"room_for({self.shape_text}, {dtype_text(self.buffer.dtype)})"

    @property
    def hint(self) -> int:
        return max(dims.hint(dims.prod(self.room)), 0) * self.buffer.dtype.itemsize


Slot = tuple[tuple[Shape, np.dtype[Any]], ...]
"""What stands at one place, one after the other."""


@dataclass(eq=False, slots=True)
class _Place:
    members: list[_Temporary] = field(default_factory=list)

    @property
    def hint(self) -> int:
        return max(t.hint for t in self.members)

    @property
    def last(self) -> int:
        return max(t.last for t in self.members)


class Placing:
    """The temporaries whose sizes are known when the kernel starts."""

    def __init__(self) -> None:
        self._temporaries: list[_Temporary] = []
        self._places: list[_Place] = []

    def add(self, buffer: Buffer, texts: tuple[str, ...], room: Shape, step: int) -> None:
        """Place an array that is used from ``step`` on."""
        self._temporaries.append(_Temporary(buffer, texts, room, step))

    def settle(self, used: Mapping[Buffer, int], groups: Mapping[str, str]) -> list[list[str]]:
        """Choose places; return the handles that mean the same memory.

        Parameters
        ----------
        used : mapping of Buffer to int
            The last step that uses each array.
        groups : mapping of str to str
            Handles whose arrays change places -> the handle that names their group.
        """
        ends: dict[str, int] = {}
        for temporary in self._temporaries:
            name = groups.get(temporary.buffer.name, temporary.buffer.name)
            ends[name] = max(ends.get(name, 0), used[temporary.buffer])
        for temporary in self._temporaries:
            temporary.last = ends[groups.get(temporary.buffer.name, temporary.buffer.name)]
            self._choose(temporary).members.append(temporary)
        return [[t.buffer.name for t in p.members] for p in self._places if len(p.members) > 1]

    def _choose(self, temporary: _Temporary) -> _Place:
        """Return the free place whose length differs least; a new one if all are needed."""
        free = [p for p in self._places if p.last < temporary.first]
        if free:
            return min(free, key=lambda p: abs(p.hint - temporary.hint))
        self._places.append(_Place())
        return self._places[-1]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(tuple((t.room, t.buffer.dtype) for t in p.members) for p in self._places)

    def lines(self, names: Names, room: str) -> list[str]:
        """Return the lines that take the workspace and make the arrays."""
        if not self._places:
            return []
        text: list[str] = []
        arrays: list[str] = []
        offset, block = "0", names.unique("block")
        for place in self._places:
            sizes = list(dict.fromkeys(t.size_text for t in place.members))
            for t in place.members:
                dtype = dtype_text(t.buffer.dtype)
                arrays.append(f"{t.buffer.array} = placed({block}, {offset}, {t.shape_text}, {dtype})")
            end = names.numbered("offset")
            size = sizes[0] if len(sizes) == 1 else f"max({', '.join(sizes)})"
            text.append(f"{end} = {size if offset == '0' else f'{offset} + {size}'}")
            offset = end
        return [*text, f"{block} = workspace({room}, {offset})", *arrays]


def slot_bytes(slot: Slot, sizes: Mapping[Symbol, int]) -> int:
    """Return how long a slot is."""
    entries = [
        (max(dims.evaluate(dims.prod(shape), sizes), 0) if shape else 1, dtype.itemsize)
        for shape, dtype in slot
    ]
    return max(-(-count * size // ALIGNMENT) * ALIGNMENT for count, size in entries)
