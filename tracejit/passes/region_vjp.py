"""Reverse mode through loops and branches.

The forward sweep of a region also gives what is kept of each iteration (or of the branch taken); the backward
sweep is a region again, with the cotangents of the carries as its carries.  Sums of cotangents of what all
iterations read are carries too, which are added to in place, and so are the arrays that the forward sweep
updated in place, which the backward sweep rolls back step by step instead of finding a copy of each version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tracejit.ir.tape import Atom, Builder, Tape, Var
from tracejit.ops.base import Maybe
from tracejit.ops.joining import zeros_of
from tracejit.ops.region import close
from tracejit.passes.needs import Joint
from tracejit.passes.simplify import simplify

__all__ = ["Backward", "Derived", "Restored", "Sweeper", "Update", "derive", "zero_if_absent"]

Restored = tuple[Atom, Atom, Atom]
"""An array before a region updated it in place, behind it, and before it again as the backward sweep restored
it."""


@dataclass(frozen=True)
class Update:
    """The cotangent of an operand; ``whole`` says that it contains the sum that was passed in."""

    cotangent: Atom
    whole: bool = False


@dataclass(frozen=True)
class Backward:
    """The backward sweep of one region.

    Attributes
    ----------
    sums : tuple of bool
        Operands whose cotangents are added to a sum in place.
    run : callable
        ``run(outward, sums)`` takes the cotangents of the results and, for operands with ``sums``, the sum so
        far; it appends the backward equations and returns an `Update` or None per operand, and what was
        restored.
    """

    sums: tuple[bool, ...]
    run: Callable[[Sequence[Maybe], Sequence[Maybe]], tuple[list[Update | None], list[Restored]]]


class Sweep(Protocol):
    """A tape appended in a form that can be run backward (`tracejit.passes.transpose.Sweep`)."""

    outputs: tuple[Atom, ...]
    restored: list[Restored]

    def pull(self, cotangents: Sequence[Maybe], totals: Mapping[int, Atom]) -> list[Maybe]: ...


Sweeper = Callable[[Tape, Sequence[Atom], Sequence[bool], bool], Sweep]


@dataclass(eq=False)
class Derived:
    """A body with its backward equations, and the variables that stand for what a region passes in and out.

    Attributes
    ----------
    joint : Joint
    inputs : list of Var
        The inputs of the body.
    extra : list of Var
        Constants that only the derivative uses, and their atoms outside (``operands``).
    cotangents : list of Var or None
        Per output of the body.
    sums : dict
        Number of an input -> the sum that its cotangents are added to.
    inward : list of atom or None
        Per input, its cotangent or the new sum.
    """

    joint: Joint
    inputs: list[Var]
    extra: list[Var]
    operands: tuple[Var, ...]
    cotangents: list[Var | None]
    sums: dict[int, Var]
    inward: list[Maybe]

    def adds_to(self, number: int) -> bool:
        """Return whether the body adds anything to the sum for an input."""
        return number in self.sums and self.inward[number] is not self.sums[number]


def derive(
    body: Tape,
    flags: Sequence[bool],
    live: Sequence[bool],
    dense: Sequence[bool],
    summed: Sequence[bool],
    absorb: bool,
    sweep: Sweeper,
) -> Derived:
    """Return the forward and backward equations of a body.

    Parameters
    ----------
    body : Tape
    flags : sequence of bool
        Which inputs are differentiated.
    live : sequence of bool
        Which outputs have a cotangent.
    dense : sequence of bool
        Inputs whose cotangents are zeros where absent, so that they are always there.
    summed : sequence of bool
        Inputs whose cotangents are added to a sum.
    absorb : bool
    sweep : callable
        `tracejit.passes.transpose.Sweep`.
    """
    with Builder() as builder:
        inputs = [builder.input(v.aval, v.name) for v in body.inputs]
        swept = sweep(body, inputs, flags, absorb)
        cotangents = [builder.input(a.aval) if f else None for a, f in zip(body.outputs, live, strict=True)]
        sums = {n: builder.input(v.aval) for n, v in enumerate(body.inputs) if summed[n] and flags[n]}
        inward = swept.pull(cotangents, sums)
        inward = [
            zeros_of(v) if c is None and d else c for v, c, d in zip(inputs, inward, dense, strict=True)
        ]
        triples = [t for t in swept.restored if all(isinstance(a, Var) for a in t)]
    late = [*(c for c in cotangents if c is not None), *sums.values()]
    present = [c for c in inward if c is not None]
    flat = [atom for triple in triples for atom in triple]
    tape, operands = close(builder, [*inputs, *late], [*swept.outputs, *present, *flat])
    return _read_off(simplify(tape), inputs, operands, cotangents, sums, inward, len(swept.outputs))


def _read_off(
    tape: Tape,
    inputs: Sequence[Var],
    operands: tuple[Var, ...],
    cotangents: Sequence[Var | None],
    sums: Mapping[int, Var],
    inward: Sequence[Maybe],
    outputs: int,
) -> Derived:
    """Find the parts of the joint tape again after it was simplified."""
    given = iter(tape.inputs)
    found = [next(given) for _ in inputs]
    outward = [None if c is None else next(given) for c in cotangents]
    totals = {n: next(given) for n in sums}
    extra = list(given)
    rest = iter(tape.outputs[outputs:])
    back = [None if c is None else next(rest) for c in inward]
    triples = zip(rest, rest, rest, strict=True)
    restored = {b: (a, c) for a, b, c in triples if all(isinstance(x, Var) for x in (a, b, c))}
    late = {v for v in (*outward, *totals.values()) if v is not None}
    present = tuple(c for c in back if c is not None)
    joint = Joint(tape, late, tape.outputs[:outputs], present, restored)  # type: ignore[arg-type]
    return Derived(joint, found, extra, operands, outward, totals, back)


def zero_if_absent(cotangent: Maybe, like: Atom) -> Atom:
    """Return the cotangent, or zeros."""
    return zeros_of(like) if cotangent is None else cotangent
