"""A joint tape cut in two: the forward sweep, which gives what is kept, and the backward sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracejit.errors import InternalError
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Builder, Eqn, Lit, Tape, Var
from tracejit.ops.joining import slice_update
from tracejit.ops.linear import reshape, slice_
from tracejit.passes.chains import Chain, Step, undo
from tracejit.passes.dead_code import remove_dead
from tracejit.passes.needs import Joint, Kept
from tracejit.passes.ordering import reads_first

__all__ = ["Log", "backward_half", "forward_half"]


@dataclass(frozen=True)
class Log:
    """One flat array for a kept value whose extents differ between the trips of a loop."""

    aval: Aval
    offset: Dim
    total: Dim

    @property
    def flat(self) -> Aval:
        return Aval((self.total,), self.aval.dtype)

    def write(self, log: Atom, value: Atom) -> Atom:
        """Append the equations that put this trip's value in its place."""
        flat = reshape(value, shape=(dims.prod(self.aval.shape),))
        return slice_update(log, flat, start=(self.offset,), step=(1,))

    def read(self, log: Atom) -> Atom:
        """Append the equations that take this trip's value."""
        flat = slice_(log, start=(self.offset,), size=(dims.prod(self.aval.shape),), step=(1,))
        return reshape(flat, shape=self.aval.shape)


def forward_half(
    joint: Joint, inputs: Sequence[Var], outputs: Sequence[Atom], logs: Mapping[Var, Log]
) -> Tape:
    """Return the forward sweep: inputs, then logs, to outputs, then logs."""
    primal = remove_dead(Tape(tuple(inputs), (), tuple(joint.primal), (*outputs, *logs)))
    if not logs:
        return reads_first(primal)
    with Builder() as builder:
        flats = [builder.input(log.flat) for log in logs.values()]
        values = [builder.input(v.aval) for v in logs]
        written = [log.write(flat, v) for log, flat, v in zip(logs.values(), flats, values, strict=True)]
    writing = builder.finish(written)
    names: dict[Atom, Var] = dict(zip(values, logs, strict=True))
    eqns = [
        Eqn(e.op, tuple(names.get(a, a) for a in e.operands), e.params, e.results, e.source)
        for e in writing.eqns
    ]
    ends = tuple(names.get(a, a) for a in writing.outputs)
    return reads_first(Tape((*inputs, *flats), (), (*primal.eqns, *eqns), (*outputs, *ends)))


def backward_half(
    joint: Joint,
    chains: Sequence[Chain],
    kept: Kept,
    inputs: Sequence[Var],
    outputs: Sequence[Atom],
    logs: Mapping[Var, Log],
) -> Tape:
    """Return the backward sweep from ``inputs``, variables of the joint tape (those in ``logs`` are logs)."""
    half = _Backward(joint, chains, kept)
    with half.builder:
        for var in inputs:
            given = half.builder.input(logs[var].flat if var in logs else var.aval, var.name)
            half.env[var] = logs[var].read(given) if var in logs else given
        for eqn in joint.linear:
            half.append(eqn)
        return reads_first(remove_dead(half.builder.finish([half.obtain(a) for a in outputs])))


class _Backward:
    def __init__(self, joint: Joint, chains: Sequence[Chain], kept: Kept) -> None:
        self.joint, self.kept = joint, kept
        self.builder = Builder()
        self.env: dict[Var, Atom] = {}
        self.undone: dict[Var, Step] = {step.before: step for chain in chains for step in chain.steps}

    def append(self, eqn: Eqn) -> None:
        """Append an equation of the joint tape, behind the forward values it uses."""
        operands = [self.obtain(a) for a in eqn.operands]
        for atom in self.joint.sizes.operands(eqn)[len(operands) :]:
            self.obtain(atom)
        with self.builder.at(eqn.source):
            results = self.builder.append(eqn.op, operands, eqn.params, [v.aval for v in eqn.results])
        for var, result in zip(eqn.results, results, strict=True):
            self.env.setdefault(var, result)

    def obtain(self, atom: Atom) -> Atom:
        """Return ``atom`` in the backward sweep; what it needs is rolled back or computed again first."""
        if isinstance(atom, Lit):
            return atom
        todo = [atom]
        while todo:
            var = todo[-1]
            if var in self.env:
                todo.pop()
                continue
            missing = [a for a in self._parts(var) if isinstance(a, Var) and a not in self.env]
            if missing:
                todo.extend(missing)
            else:
                self._make(var)
        return self.env[atom]

    def _step_back(self, var: Var) -> Step | None:
        """Return the step to undo for ``var``; None if it is no version, or arrays are not rolled back that far yet."""
        found = step = self.undone.get(var)
        while step is not None and step.restored is None and step.after not in self.env:
            step = self.undone.get(step.after)
        ready = step is not None and (step.restored is None or step.restored in self.env)
        return found if ready else None

    def _parts(self, var: Var) -> tuple[Atom, ...]:
        step = self._step_back(var)
        if step is None:
            if var not in self.joint.makers:
                raise InternalError(f"The backward sweep needs {var}, which was not kept.")
            return self.joint.sizes.operands(self.joint.makers[var])
        if step.restored is not None:
            return (step.restored,)
        return (step.after, *step.indices, self.kept.olds[step])

    def _make(self, var: Var) -> None:
        step = self._step_back(var)
        if step is None:
            self.append(self.joint.makers[var])
        elif step.restored is not None:
            self.env[var] = self.env[step.restored]
        else:
            indices = [self.obtain(a) for a in step.indices]
            with self.builder.at(step.eqn.source):
                self.env[var] = undo(step, self.env[step.after], self.env[self.kept.olds[step]], indices)
