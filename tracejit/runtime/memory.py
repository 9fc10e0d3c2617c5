"""How much memory a compiled call takes, told from sizes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tracejit.codegen.emit import Program
from tracejit.codegen.placing import slot_bytes
from tracejit.ir import dims
from tracejit.ir.dims import Symbol

__all__ = ["Memory", "memory_of"]


@dataclass(frozen=True)
class Memory:
    """Bytes that a call takes besides its arguments.

    Attributes
    ----------
    outputs : int
        Arrays that are returned.
    workspace : int
        Temporaries, and what loops keep for the backward sweep. The memory is kept for later calls.
    grows : bool
        It takes more while it runs, as much as values say: what masks select, loops of a traced number of trips.
    """

    outputs: int
    workspace: int
    grows: bool

    @property
    def peak(self) -> int:
        """All of it together."""
        return self.outputs + self.workspace


def memory_of(program: Program, sizes: Mapping[Symbol, int]) -> Memory:
    """Return what a call of a program takes at these sizes."""
    outputs = sum(
        math.prod(dims.evaluate(d, sizes) for d in o.shape) * o.compute.itemsize
        for o in program.outputs
        if o.kind == "array"
    )
    return Memory(outputs, sum(slot_bytes(slot, sizes) for slot in program.workspace), program.grows)
