"""Schedule -> source: the text of one kernel, and what a caller must know to call it.

The kernel takes inputs, constants, output arrays and a room for its temporaries, and returns the scalar outputs and the
values of the guards.  The text depends on what the tape holds only, never on identities, so that equal tapes give equal
texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracejit.codegen.context import Context
from tracejit.codegen.entry import entry_source
from tracejit.codegen.nodes import Buffer, Memory
from tracejit.codegen.pieces import LONG, Cut, Piece, cut
from tracejit.codegen.placing import Slot
from tracejit.codegen.regions import region_lines
from tracejit.codegen.steps import Functions, StepWriter, first_version
from tracejit.codegen.text import Names, indented, numeric
from tracejit.ir.aval import Shape
from tracejit.ir.tape import Tape, bodies, input_symbols
from tracejit.passes.access import loop_symbols
from tracejit.passes.fusion import fuse
from tracejit.passes.schedule import Schedule

__all__ = ["Argument", "Output", "Program", "lower"]

_RESERVED = """np math range min max load store distinct where add_reassoc mul_reassoc place True False None
complex kernel pass break stop_if_interrupted nanoseconds ValueError IndexError
room_for workspace placed grown mark back scratch in_room"""

_HANDLE = re.compile(r"(\s*)(\w+) = distinct\((\w+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of the kernel: an input or a constant.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
        What the caller converts to (float16 to float32 and so on).
    ndim : int or None
        None for a scalar.
    layout : str
        "C" for C-contiguous, "A" for any strides.
    shape : tuple of int or Poly
    """

    name: str
    dtype: np.dtype[Any]
    ndim: int | None
    layout: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Output:
    """One output of the tape.

    Attributes
    ----------
    kind : str
        "array": the caller allocates it, C-contiguous, and passes it behind the inputs; "scalar": it is in
        the tuple that the kernel returns.
    position : int
        Among the outputs of its kind.
    dtype : numpy.dtype
        Of the tape; the kernel computes in ``compute``.
    compute : numpy.dtype
    shape : tuple of int or Poly
    """

    kind: str
    position: int
    dtype: np.dtype[Any]
    compute: np.dtype[Any]
    shape: Shape


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel as text.

    Attributes
    ----------
    name : str
        Of the function that ``source`` defines.
    source : str
    key : str
        The source without what names the user's lines: what decides whether two programs do the same.
    entry : str
        Source of ``<name>_entry``, which takes inputs and constants, checks that sizes and guards fit,
        allocates outputs, calls the kernel and returns all outputs.  It finds the compiled kernel under
        ``name``.
    inputs : tuple of Argument
        Inputs, then constants.
    outputs : tuple of Output
    guards : int
        How many values of guards follow the scalar outputs in the returned tuple.
    functions : mapping of str to callable
        Plain functions that the source calls; they must be compiled for it.
    pieces : tuple of Piece
        Functions of the source that are compiled by themselves.
    workspace : tuple of Slot
        The memory that temporaries take, as far as its size is known from the inputs.
    grows : bool
        It takes more while it runs, whose size it finds then.
    schedule : Schedule
    """

    name: str
    source: str
    key: str
    entry: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    guards: int
    functions: Mapping[str, Callable[..., Any]]
    pieces: tuple[Piece, ...]
    workspace: tuple[Slot, ...]
    grows: bool
    schedule: Schedule


def lower(tape: Tape, layouts: tuple[str, ...], name: str = "kernel") -> Program:
    """Return the program of a simplified tape.

    Parameters
    ----------
    tape : Tape
    layouts : tuple of str
        "C" or "A" per input and constant (see `Argument`).
    name : str
        Wish for the name of the function.

    Raises
    ------
    InternalError
        If the tape holds an op that no loop form is known for.
    """
    schedule = fuse(tape, tuple(layout == "C" for layout in layouts))
    return _Kernel(schedule, layouts, name).program()


class _Kernel:
    """Writes one kernel."""

    def __init__(self, schedule: Schedule, layouts: tuple[str, ...], name: str) -> None:
        self.schedule, self.tape = schedule, schedule.tape
        names = Names({*_RESERVED.split(), *(s.name for s in loop_symbols(64)), *_called(self.tape)})
        self.name = names.unique(name)
        self.inputs = tuple(self._arguments(names, layouts))
        sizes = {s: names.unique(s.name) for s in input_symbols(self.tape)}
        self.context = Context(names, sizes, Memory({}, schedule.views, schedule.defs), len(schedule.steps))
        self.functions = Functions(names)
        self._group_numbers: dict[str, int] = {}
        self._add_inputs()
        self.outputs, self._arrays = self._add_outputs()

    def program(self) -> Program:
        """Return the finished text with its description."""
        writer = StepWriter(self.context, self.schedule, self.functions, region_lines)
        blocks = writer.blocks(self._returned)
        arrays = self.context.settle()
        blocks = [[self._numbered(line) for line in block] for block in blocks]
        given = [*(a.name for a in self.inputs), *self._arrays, self.context.room]
        head = f"def {self.name}({', '.join(given)}):"
        sizes = [f"{self.context.sizes[s]} = {self._extent(*p)}" for s, p in input_symbols(self.tape).items()]
        first = [*sizes, *arrays, *self.context.preamble]
        done = self._cut(blocks, [*given, *(line.split(" = ")[0] for line in first)])
        text = [head, *indented([*self._docstring(), *first, *done.lines]), ""]
        content = [head, *first, *(line for line in done.lines if not _is_comment(line))]
        return Program(
            self.name,
            "\n".join([*(line for p in done.pieces for line in (p.source, "")), *text]),
            "\n".join([*(p.key for p in done.pieces), *content]),
            entry_source(self.name, self.tape, self.inputs, self.outputs, self.context.sizes),
            self.inputs,
            self.outputs,
            len(self.tape.guards),
            self.functions.named,
            done.pieces,
            self.context.placing.slots,
            self.context.grows,
            self.schedule,
        )

    def _cut(self, blocks: list[list[str]], known: list[str]) -> Cut:
        """Return the body, in pieces if it is long."""
        if sum(map(len, blocks)) < LONG:
            return Cut([line for block in blocks for line in block], ())
        return cut(blocks, known, self.functions.named, self.context.names)

    def _numbered(self, line: str) -> str:
        """Return ``line``, with the number of its group if it makes a handle that belongs to one."""
        made = _HANDLE.match(line)
        group = made and self.context.groups.get(made[2])
        if not made or not group:
            return line
        number = self._group_numbers.setdefault(group, int(made[4]))
        return f"{made[1]}{made[2]} = distinct({made[3]}, {number})"

    # --- parameters ---

    def _arguments(self, names: Names, layouts: tuple[str, ...]) -> Iterator[Argument]:
        atoms = [*self.tape.inputs, *(v for v, _ in self.tape.consts)]
        for number, (var, layout) in enumerate(zip(atoms, layouts, strict=True)):
            wish = var.name or ("x" if number < len(self.tape.inputs) else "constant")
            name = names.unique(wish) if var.name else names.numbered(wish)
            ndim = len(var.shape) or None
            yield Argument(name, numeric(var.dtype), ndim, layout if ndim else "C", var.shape)

    def _add_inputs(self) -> None:
        atoms = [*self.tape.inputs, *(v for v, _ in self.tape.consts)]
        for var, argument in zip(atoms, self.inputs, strict=True):
            if argument.ndim is None:
                self.context.scalars.define(var, argument.name)
            else:
                buffer = Buffer(argument.name, argument.name, var.shape, var.dtype, argument.layout == "C")
                self.context.memory.buffers[var] = buffer

    def _add_outputs(self) -> tuple[tuple[Output, ...], list[str]]:
        outputs: list[Output] = []
        arrays: list[str] = []
        scalars = 0
        for atom, target in zip(self.tape.outputs, self.schedule.targets, strict=True):
            compute = numeric(atom.dtype)
            if target is None:
                outputs.append(Output("scalar", scalars, atom.dtype, compute, ()))
                scalars += 1
                continue
            outputs.append(Output("array", len(arrays), atom.dtype, compute, atom.shape))
            array = self.context.names.numbered("out")
            arrays.append(array)
            handle = self.context.distinct(array)
            first = first_version(self.schedule, target)
            self.context.memory.buffers[first] = Buffer(array, handle, target.shape, target.dtype, True)
        return tuple(outputs), arrays

    def _returned(self) -> list[str]:
        values = [self.context.scalar(a) for a in self.tape.outputs if not a.shape]
        values += [self.context.scalar(g.var) for g in self.tape.guards]
        return [f"return ({', '.join(values)}{',' if len(values) == 1 else ''})"]

    def _extent(self, number: int, axis: int) -> str:
        return f"{self.inputs[number].name}.shape[{axis}]"

    def _docstring(self) -> list[str]:
        lines = dict.fromkeys(e.source for e in self.tape.eqns if e.source is not None)
        shown = [f"{s.short}: {s.text}" if s.text else s.short for s in lines]
        text = [line.replace("\\", "\\\\").replace('"""', "'''") for line in shown[:20]]
        if not text:
            return []
        return ['"""Computes', "", *text, *(["..."] if len(shown) > 20 else []), '"""']


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _called(tape: Tape) -> set[str]:
    """Return the names that the texts of the ops may call."""
    texts = [str(v) for e in tape.eqns for v in vars(e.op).values() if isinstance(v, str)]
    texts += [e.op.combine for e in tape.eqns if hasattr(e.op, "combine")]
    names = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    return names.union(*(_called(body) for eqn in tape.eqns for body in bodies(eqn)))
