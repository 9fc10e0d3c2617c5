"""Run a tape with NumPy: the meaning that everything else is tested against."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.dims import Poly, Symbol
from tracejit.ir.tape import Atom, Eqn, Lit, Tape, Var, input_symbols

__all__ = ["evaluate_params", "interpret", "run_equation", "run_tape"]

Array = np.ndarray[Any, Any]


def interpret(
    tape: Tape, args: Sequence[Any], sizes: Mapping[Symbol, int] | None = None
) -> tuple[list[Any], list[Any]]:
    """Return (outputs, values of the guards) of ``tape`` on ``args``.

    Parameters
    ----------
    tape : Tape
    args : sequence of array_like
        One per input, with extents that fit the tape's symbols.
    sizes : mapping, optional
        Extents of symbols that cannot be read off the inputs.
    """
    arrays = [np.asarray(a) for a in args]
    extents = dict(sizes or {})
    for symbol, (number, axis) in input_symbols(tape).items():
        extents[symbol] = arrays[number].shape[axis]
    with np.errstate(all="ignore"):
        return run_tape(tape, arrays, extents)


def run_tape(
    tape: Tape, arrays: Sequence[Any], sizes: MutableMapping[Symbol, int]
) -> tuple[list[Any], list[Any]]:
    """Return (outputs, values of the guards), with the extents of all symbols given."""
    env: dict[Var, Any] = dict(zip(tape.inputs, arrays, strict=True))
    env.update(tape.consts)

    def read(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Lit) else env[atom]

    for eqn in tape.eqns:
        env.update(zip(eqn.results, run_equation(eqn, [read(a) for a in eqn.operands], sizes), strict=True))
    return [read(a) for a in tape.outputs], [read(g.var) for g in tape.guards]


def run_equation(eqn: Eqn, values: Sequence[Any], sizes: MutableMapping[Symbol, int]) -> tuple[Any, ...]:
    """Return the results of one equation."""
    return eqn.op.run(values, eqn.params, sizes)


def evaluate_params(params: Mapping[str, Any], sizes: Mapping[Symbol, int]) -> dict[str, Any]:
    """Return ``params`` with every symbolic size replaced by its extent."""
    return {k: _evaluate(v, sizes) for k, v in params.items()}


def _evaluate(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    if isinstance(value, Poly):
        return dims.evaluate(value, sizes)
    if isinstance(value, tuple):
        return tuple(_evaluate(v, sizes) for v in value)
    return value
