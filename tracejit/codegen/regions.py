"""Loops and branches as text: ``for``, ``while`` and ``if`` around the steps of their bodies.

A scalar state is a local variable, assigned at the end of the body; an array state is memory that the body
updates.  Nothing is allocated in a body whose extents are known before the loop, or bounded by what is.
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.codegen.context import Context
from tracejit.codegen.nodes import Memory
from tracejit.codegen.steps import StepWriter
from tracejit.codegen.text import indented, size_text
from tracejit.ir.dims import Symbol
from tracejit.ir.tape import Eqn
from tracejit.ops.loop import Loop, While
from tracejit.passes.leaving import idle_side
from tracejit.passes.schedule import Nest, RegionStep, Schedule

__all__ = ["region_lines"]

FIRST_LOOK = 1024
"""Iterations of an open-ended loop of scalar work before it asks for interrupts; later it looks at the
clock."""

FIRST_LOOK_IF_LONG = 16
"""The same for bodies with loops inside."""

PERIOD = 10_000_000
"""Nanoseconds between two such questions."""


def region_lines(writer: StepWriter, step: RegionStep) -> list[str]:
    """Return the lines of a loop or branch, and let ``writer`` know its results."""
    return _Region(writer, step).lines()


class _Region:
    def __init__(self, writer: StepWriter, step: RegionStep) -> None:
        self.writer, self.outer, self.step = writer, writer.context, step
        self.states = step.region.states
        self.leaving: tuple[Eqn, bool] | None = None
        self.grows = False
        names = self.outer.names
        self.locals = [names.numbered("state") if not s.result.shape else "" for s in self.states]

    def lines(self) -> list[str]:
        op, source = self.step.eqn.op, self.step.eqn.source
        begun = [
            f"{local} = {self.outer.scalar(state.initial)}"
            for local, state in zip(self.locals, self.states, strict=True)
            if local and state.initial is not None
        ]
        write = self._loop if isinstance(op, Loop) else self._while if isinstance(op, While) else self._branch
        text = write()
        for local, state in zip(self.locals, self.states, strict=True):
            if local:
                self.outer.scalars.define(state.result, local)
        where = [f"# {source.short}: {source.text}"] if source else []
        return [*where, *begun, *text]

    def _loop(self) -> list[str]:
        params = self.step.eqn.params
        name = self.outer.names.unique(params["index"].name)
        trips = size_text(params["trips"], self.outer.sizes)
        span = f"{trips} - 1, -1, -1" if params["reverse"] else trips
        (body,) = self.step.bodies
        self.leaving = idle_side(body.tape)
        text = self._body(body, self._assigned, params["index"], name)
        return self._around([], f"for {name} in range({span}):", text)

    def _while(self) -> list[str]:
        condition, body = self.step.bodies
        count = self.outer.names.numbered("count")
        self.outer.scalars.define(self.step.eqn.results[-1], count)

        def leave(context: Context, schedule: Schedule) -> list[str]:
            return [f"if not {context.scalar(schedule.tape.outputs[0])}:", "    break"]

        inside = [
            *self._body(condition, leave),
            *self._body(body, self._assigned),
            f"{count} += 1",
        ]
        first = FIRST_LOOK if all(_is_scalar(s) for s in self.step.bodies) else FIRST_LOOK_IF_LONG
        begun, looks = self._looks_at_interrupts(count, first)
        return self._around([f"{count} = 0", *begun], "while True:", [*inside, *looks])

    def _around(self, begun: list[str], head: str, body: list[str]) -> list[str]:
        """Return a loop; memory that an iteration takes is given back before the next one, and at the end."""
        if not self.grows:
            return [*begun, head, *indented(body)]
        room, mark = self.outer.room, self.outer.names.numbered("mark")
        back = f"back({room}, {mark})"
        return [*begun, f"{mark} = mark({room})", head, *indented([back, *body]), back]

    def _looks_at_interrupts(self, count: str, first: int) -> tuple[list[str], list[str]]:
        """Return what stands before an open-ended loop, and at the end of its body."""
        step, look, seen, now = (self.outer.names.numbered(n) for n in ("step", "look", "seen", "now"))
        begun = [f"{step} = {look} = {first}", f"{seen} = 0"]
        asked = [
            f"{now} = nanoseconds()",
            f"{step} = {step} * 2 if {now} - {seen} < {PERIOD} else max({step} // 2, 1)",
            f"{look}, {seen} = {count} + {step}, {now}",
            "stop_if_interrupted()",
        ]
        return begun, [f"if {count} == {look}:", *indented(asked)]

    def _branch(self) -> list[str]:
        otherwise, then = (self._body(b, self._assigned) for b in self.step.bodies)
        predicate = self.outer.scalar(self.step.eqn.operands[0])
        if self.outer.leaving is not None and self.outer.leaving[0] is self.step.eqn:
            idle = self.outer.leaving[1]
            return [
                f"if {predicate if idle else f'not {predicate}'}:",
                "    break",
                *(otherwise if idle else then),
            ]
        return [f"if {predicate}:", *indented(then or ["pass"]), "else:", *indented(otherwise or ["pass"])]

    def _body(
        self,
        schedule: Schedule,
        end: Callable[[Context, Schedule], list[str]],
        index: Symbol | None = None,
        name: str = "",
    ) -> list[str]:
        """Return the lines of a body; ``end`` gives the last ones."""
        memory = Memory({}, schedule.views, schedule.defs)
        context = self.outer.body(memory, len(schedule.steps), index, name)
        context.leaving = self.leaving
        inputs = schedule.tape.inputs
        for var, state, local in zip(inputs, self.states, self.locals, strict=False):
            if local:
                context.scalars.define(var, local)
            else:
                memory.buffers[var] = self.writer.array_of(state.result)
        for var, atom in zip(inputs[len(self.states) :], self.step.region.consts, strict=True):
            if var.shape:
                memory.buffers[var] = self.writer.array_of(atom)
            else:
                context.scalars.define(var, self.outer.scalar(atom))
        inner = StepWriter(context, schedule, self.writer.functions, region_lines)
        lines = inner.lines(lambda: end(context, schedule)) or ["pass"]
        self.grows = self.grows or context.grows
        return lines

    def _assigned(self, context: Context, schedule: Schedule) -> list[str]:
        """Return the assignment of the scalar states, all at once, and the moves of arrays."""
        outputs = zip(self.locals, schedule.tape.outputs, strict=True)
        pairs = [(local, context.scalar(atom)) for local, atom in outputs if local]
        pairs = [(local, value) for local, value in pairs if local != value]
        moved = self._moved(context, schedule)
        if not {v for _, v in pairs} & {local for local, _ in pairs}:
            return [*(f"{local} = {value}" for local, value in pairs), *moved]
        left, right = (", ".join(part) for part in zip(*pairs, strict=True))
        return [f"{left} = {right}", *moved]

    def _moved(self, context: Context, schedule: Schedule) -> list[str]:
        """Return the lines that give states other memory, and what was theirs to temporaries."""
        if not schedule.moves:
            return []
        buffers = context.memory.buffers
        left = [buffers[schedule.tape.inputs[n]] for n in schedule.moves]
        right = [buffers[v] for v in schedule.moves.values()]
        spare = [b for b in left if b not in right]
        return context.exchange([*left, *(b for b in right if b not in left)], [*right, *spare])


def _is_scalar(schedule: Schedule) -> bool:
    """Return whether nothing in a body is repeated."""
    return all(isinstance(step, Nest) and all(d == 1 for d in step.space) for step in schedule.steps)
