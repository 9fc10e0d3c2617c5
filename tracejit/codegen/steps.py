"""The steps of a schedule as text: nests, calls, loops and branches, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.codegen.context import Context
from tracejit.codegen.loopnest import NestWriter
from tracejit.codegen.nodes import Buffer
from tracejit.codegen.text import Names, literal, size_text
from tracejit.errors import InternalError
from tracejit.ir.dims import Poly
from tracejit.ir.tape import Atom, Eqn, Lit, Var
from tracejit.ops.base import Opaque
from tracejit.passes.schedule import (
    Bind,
    Call,
    Check,
    Nest,
    Pin,
    RegionStep,
    Schedule,
    Step,
    Store,
)

__all__ = ["Functions", "StepWriter", "first_version"]


class Functions:
    """The plain functions that a kernel calls, and their names."""

    def __init__(self, names: Names) -> None:
        self.named: dict[str, Callable[..., Any]] = {}
        self._names = names
        self._known: dict[Callable[..., Any], str] = {}

    def name(self, function: Callable[..., Any], wish: str) -> str:
        if function not in self._known:
            self._known[function] = self._names.unique(wish)
            self.named[self._known[function]] = function
        return self._known[function]


class StepWriter:
    """Writes one schedule.

    Parameters
    ----------
    context : Context
    schedule : Schedule
    functions : Functions
    write_region : callable
        ``write_region(writer, step)`` gives the lines of a loop or branch.
    """

    def __init__(
        self,
        context: Context,
        schedule: Schedule,
        functions: Functions,
        write_region: Callable[[StepWriter, RegionStep], list[str]],
    ) -> None:
        self.context, self.schedule, self.functions = context, schedule, functions
        self._write_region = write_region

    def lines(self, end: Callable[[], list[str]]) -> list[str]:
        """Return the lines of all steps; ``end`` gives the last ones."""
        return [line for block in self.blocks(end) for line in block]

    def blocks(self, end: Callable[[], list[str]]) -> list[list[str]]:
        """Return the lines of each step, and those of ``end``."""
        written: list[list[str]] = []
        for number, step in enumerate(self.schedule.steps):
            self.context.step = number
            self._allocate(step)
            lines = self._step(step)
            written.append([*self.context.take_pending(), *lines])
        self.context.step = len(written)
        last = end()
        return [*written, self.context.take_pending(), last]

    def _step(self, step: Step) -> list[str]:
        if isinstance(step, Nest):
            return [*_comments(step), *NestWriter(self.context, step).lines()]
        if isinstance(step, Call):
            return self._call(step.eqn)
        if isinstance(step, Bind):
            return self._bind(step.eqn)
        return self._write_region(self, step)

    def _allocate(self, step: Step) -> None:
        buffers = self.context.memory.buffers
        for var in _written(step):
            if var in self.schedule.same:
                buffers[var] = buffers[self.schedule.same[var]]
            elif var in self.schedule.stored and var not in buffers:
                wish = var.name or self.context.names.numbered("array")
                buffers[var] = self.context.temporary(wish, var.shape, var.dtype)

    def _bind(self, eqn: Eqn) -> list[str]:
        symbol = eqn.params["symbol"]
        name = self.context.names.unique(symbol.name)
        count = self.context.scalar(eqn.operands[0])
        self.context.sizes[symbol] = name
        self.context.scalars.define(eqn.results[0], name)
        return [f"{name} = max({count}, 0)"]

    def _call(self, eqn: Eqn) -> list[str]:
        op = eqn.op
        if not isinstance(op, Opaque):
            raise InternalError(f"No loop form is known for the op {op.name!r}.", where=eqn.source)
        function, values = op.kernel(*(a.aval for a in eqn.operands), **eqn.params)
        arrays = [self._array(a) for a in (*eqn.operands, *eqn.results)]
        sizes = [self._parameter(v) for v in values]
        where = [f"# {eqn.source.short}"] if eqn.source else []
        return [*where, f"{self.functions.name(function, op.name)}({', '.join([*arrays, *sizes])})"]

    def _array(self, atom: Atom) -> str:
        """Return the text of an operand in C-contiguous memory."""
        if isinstance(atom, Lit) or (not atom.shape and atom not in self.context.memory.buffers):
            buffer = self.context.temporary(self.context.names.numbered("array"), (), atom.dtype)
            value = self.context.scalar(atom)
            self.context.pending.append(f"store({buffer.name}, {value})")
            return buffer.array
        buffer = self.context.memory.buffers[self.schedule.views.get(atom, atom)]
        self.context.touch(buffer)
        if buffer.shape == atom.shape and not buffer.entries:
            return buffer.array
        extents = ", ".join(size_text(d, self.context.sizes) for d in atom.shape)
        part = f"[:{buffer.entries}]" if buffer.entries else ""
        return f"{buffer.array}{part}.reshape(({extents},))"

    def _parameter(self, value: Any) -> str:
        if isinstance(value, Poly):
            return size_text(value, self.context.sizes)
        return literal(value, np.asarray(value).dtype)

    def array_of(self, atom: Atom) -> Buffer:
        """Return the memory of an array, which the step that is being written uses."""
        assert isinstance(atom, Var)
        buffer = self.context.memory.buffers[atom]
        self.context.touch(buffer)
        return buffer


def first_version(schedule: Schedule, var: Var) -> Var:
    """Return the variable whose memory ``var`` has."""
    while var in schedule.same:
        var = schedule.same[var]
    return var


def _written(step: Step) -> list[Var]:
    """Return the variables whose memory is first written in ``step``."""
    if isinstance(step, Call):
        return list(step.eqn.results)
    if isinstance(step, RegionStep):
        return [s.result for s in step.region.states if s.result.shape]
    found: list[Var] = []
    for root in step.roots if isinstance(step, Nest) else ():
        if isinstance(root, Store):
            found.append(root.target)
        elif not isinstance(root, Check | Pin):
            found.extend(root.eqn.results)
    return found


def _comments(nest: Nest) -> list[str]:
    """Return comments that name the source lines of what the nest computes."""
    sources = {}
    for root in nest.roots:
        if not isinstance(root, Check) and root.eqn is not None and root.eqn.source is not None:
            sources[root.eqn.source.short] = root.eqn.source.text
    return [f"# {short}: {text}" if text else f"# {short}" for short, text in list(sources.items())[:3]]
