"""Ops that hold tapes, and how such a body is closed: what it uses from outside becomes an operand.

The rules for derivatives and batching of these ops transform their bodies, so they stand with the passes
(`tracejit.passes.regions`); the ops themselves say what the bodies mean.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

from tracejit.errors import InternalError
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.tape import Atom, Builder, Tape, Var, current
from tracejit.ops.base import Op

__all__ = ["Region", "close", "same_avals", "share_inputs"]


class Region(Op):
    """An op whose parameters hold tapes."""

    @abstractmethod
    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]: ...

    def impl(self, *arrays: Any, **params: Any) -> NoReturn:
        raise self._of_passes("runs with the extents of its sizes")

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        raise self._of_passes("is differentiated")

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        raise self._of_passes("is differentiated")

    def batch(self, size: Dim, operands: Sequence[Atom], batched: Sequence[bool], **params: Any) -> NoReturn:
        raise self._of_passes("is batched")

    def _of_passes(self, what: str) -> InternalError:
        return InternalError(f"`{self.name}` {what} by the passes, through its bodies.")


def close(
    builder: Builder, declared: Sequence[Var], outputs: Sequence[Atom], last: Sequence[Var] = ()
) -> tuple[Tape, tuple[Var, ...]]:
    """Return a body without anything from outside: (tape, operands).

    Parameters
    ----------
    builder : Builder
        The closed builder of the body, opened inside the current one.
    declared : sequence of Var
        Inputs that were made on purpose, in the order wanted.
    outputs : sequence of atoms
    last : sequence of Var
        Further inputs made on purpose, which stand behind everything else (the ``xs`` of a loop).

    Returns
    -------
    tape : Tape
        Its inputs are ``declared``, what the body captured, its constants, ``last``.
    operands : tuple of Var
        The atoms of the current builder that the captured values and the constants are.
    """
    tape = builder.finish(outputs)
    if tape.guards:
        raise InternalError("The body of a loop or branch cannot guard a value.")
    outside = current()
    for guard in tape.sizes:
        outside.sizes.setdefault((guard.relation, guard.size), guard)
    inner = (*builder.captured.values(), *(v for v, _ in tape.consts))
    outer = (*builder.captured, *(outside.const(array) for _, array in tape.consts))
    return Tape((*declared, *inner, *last), (), tape.eqns, tape.outputs), outer


def share_inputs(
    first: int, last: int, left: tuple[Tape, Sequence[Any]], right: tuple[Tape, Sequence[Any]]
) -> tuple[tuple[Tape, Tape], list[Any]]:
    """Give two bodies that were closed apart the same inputs; return them and the operands between.

    The first and the last of their inputs (so many) are the same ones; each comes with the operands of the
    others.
    """
    (a, extra), (b, more) = left, right
    tapes = []
    for tape, before, behind in ((a, (), b.inputs), (b, a.inputs, ())):
        unused = [[Var(v.aval, v.name) for v in vs[first : len(vs) - last]] for vs in (before, behind)]
        end = len(tape.inputs) - last
        own = tape.inputs[first:end]
        inputs = (*tape.inputs[:first], *unused[0], *own, *unused[1], *tape.inputs[end:])
        tapes.append(Tape(inputs, (), tape.eqns, tape.outputs))
    return (tapes[0], tapes[1]), [*extra, *more]


def same_avals(left: Sequence[Aval], right: Sequence[Aval]) -> bool:
    """Return whether shapes and dtypes agree one by one."""
    return [(a.shape, a.dtype) for a in left] == [(a.shape, a.dtype) for a in right]
