"""One of two bodies, by a condition that is known only while the tape runs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import Symbol
from tracejit.ir.interpret import run_tape
from tracejit.ir.tape import Tape, Var
from tracejit.ops.region import Region, same_avals, share_inputs

__all__ = ["Cond", "cond", "cond_of"]


class Cond(Region):
    """``results = branches[predicate](*operands)``, with a boolean scalar before the operands.

    Both branches take all operands and give results of the same shapes and dtypes.
    """

    name = "cond"

    def __call__(
        self, predicate: Any, operands: Sequence[Any], otherwise: Tape, then: Tape
    ) -> tuple[Var, ...]:
        """Append ``then(*operands) if predicate else otherwise(*operands)``."""
        results: tuple[Var, ...] = self.bind(predicate, *operands, branches=(otherwise, then))
        return results

    def infer(self, predicate: Aval, *avals: Aval, branches: tuple[Tape, Tape]) -> tuple[Aval, ...]:
        assert same_avals([predicate], [Aval((), np.dtype(bool))]), predicate
        for tape in branches:
            assert same_avals(avals, [v.aval for v in tape.inputs]), (avals, tape.inputs)
        left, right = ([a.aval for a in tape.outputs] for tape in branches)
        assert same_avals(left, right), (left, right)
        return tuple(Aval(a.shape, a.dtype) for a in left)

    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]:
        predicate, *operands = values
        taken = params["branches"][int(bool(predicate))]
        return tuple(run_tape(taken, operands, ChainMap({}, sizes))[0])


def cond_of(
    predicate: Any,
    operands: Sequence[Any],
    otherwise: tuple[Tape, Sequence[Any]],
    then: tuple[Tape, Sequence[Any]],
) -> tuple[Var, ...]:
    """Append a `cond` of two bodies that were closed apart (see `tracejit.ops.region.close`).

    Each comes with the operands that it has beyond ``operands``.
    """
    (left, right), extra = share_inputs(len(operands), 0, otherwise, then)
    return cond(predicate, [*operands, *extra], left, right)


cond = Cond()
cond._register()
