"""The schedule: what a tape becomes before it is written as loops.

A schedule is a list of steps.  A `Nest` visits a space of indices once and does for each index what its roots
say: store a value, fold it, scatter it.  A `Call` runs an op that loops do not look into, a `RegionStep` is
a loop or branch with schedules of its own.  Everything that is not a root has no memory; it is recomputed
where it is read.

Several variables may be versions of one array that is updated in place (`Schedule.same`).  Whatever reads a
version stands before the update that overwrites it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracejit.ir.aval import Shape
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Tape, Var
from tracejit.passes.bodies import Lowered

__all__ = [
    "Bind",
    "Call",
    "Check",
    "Fold",
    "Nest",
    "Pin",
    "RegionStep",
    "Root",
    "Scatter",
    "Schedule",
    "Step",
    "Store",
    "Update",
]


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """Put ``value`` into the memory of ``target``."""

    target: Var
    value: Atom
    eqn: Eqn | None

    @property
    def space(self) -> Shape:
        return self.target.shape


@dataclass(frozen=True, eq=False, slots=True)
class Fold:
    """Reduce the operand of ``eqn`` over its axes."""

    eqn: Eqn

    @property
    def space(self) -> Shape:
        return self.eqn.operands[0].shape


@dataclass(frozen=True, eq=False, slots=True)
class Scatter:
    """Write the entries of ``v`` to computed places of the result, which holds ``x`` already."""

    eqn: Eqn

    @property
    def space(self) -> Shape:
        return self.eqn.operands[1].shape


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """Find out whether one index operand of ``eqn`` leaves the axis it selects from."""

    eqn: Eqn
    operand: int

    @property
    def space(self) -> Shape:
        return self.eqn.operands[self.operand].shape

    @property
    def axis(self) -> int:
        """The axis that the operand selects from; index operands are the last ones, one per axis."""
        axes = self.eqn.params["axes"]
        axis: int = axes[self.operand - len(self.eqn.operands) + len(axes)]
        return axis

    @property
    def extent(self) -> Dim:
        return self.eqn.operands[0].shape[self.axis]


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """Write the entries of ``v`` to (or add them to) a slice of the result, which holds ``x`` already."""

    eqn: Eqn

    @property
    def space(self) -> Shape:
        return self.eqn.operands[1].shape

    def place(self, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """Return where the entry of ``v`` at ``index`` goes."""
        start, step = self.eqn.params["start"], self.eqn.params["step"]
        return tuple(s + i * d for s, i, d in zip(start, index, step, strict=True))


@dataclass(frozen=True, eq=False, slots=True)
class Pin:
    """Compute the scalar result of ``eqn`` here, because what it reads is overwritten later."""

    eqn: Eqn

    @property
    def space(self) -> Shape:
        return ()


Root = Store | Fold | Scatter | Check | Update | Pin


@dataclass(eq=False, slots=True)
class Nest:
    """Loops over ``space``."""

    space: Shape
    roots: list[Root] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One equation, done as a whole on operands in memory."""

    eqn: Eqn


@dataclass(frozen=True, eq=False, slots=True)
class Bind:
    """From here on the extent that ``eqn`` gives is known."""

    eqn: Eqn


@dataclass(frozen=True, eq=False, slots=True)
class RegionStep:
    """A loop or branch: ``region`` with the schedules of its bodies."""

    eqn: Eqn
    region: Lowered
    bodies: tuple[Schedule, ...]


Step = Nest | Call | Bind | RegionStep


@dataclass(frozen=True, eq=False)
class Schedule:
    """A tape as loop nests.

    Attributes
    ----------
    tape : Tape
    steps : list of Step
        In an order in which memory is written before it is read.
    stored : set of Var
        The variables that have memory of their own, inputs and constants included.
    views : dict
        Variable -> the stored variable whose entries it has in the same order.
    targets : tuple
        Per output of the tape: the stored variable that the output is, or None for scalars.
    defs : dict
        Variable -> its equation.
    same : dict
        Variable -> the variable whose memory it takes over.
    moves : dict
        Of a body: number of a state -> the variable whose memory is that of the state afterwards.
    moving : frozenset of int
        Of a body: the states whose memory may be another one afterwards.
    """

    tape: Tape
    steps: list[Step]
    stored: set[Var]
    views: Mapping[Var, Var]
    targets: tuple[Var | None, ...]
    defs: Mapping[Var, Eqn]
    same: Mapping[Var, Var]
    moves: Mapping[int, Var]
    moving: frozenset[int]
