"""The families of ops: what is written per op is what is true of that op alone; the family derives the rest.

Conventions shared by all rules
-------------------------------
* Operands are atoms (`Var` or `Lit`), static parameters are keywords and hashable.
* Derivative and batching rules are written with ops; they append to the current builder, so their output is a tape
  that can be differentiated again.
* An absent tangent or cotangent is ``None``.  Rules are only asked about inexact operands and results.
* ``absorb`` says that a tangent or cotangent may hold exact zeros put there by a selection, or infinities: products
  must then keep zeros exact (SEMANTICS, "zero absorbs").  An op whose own rule can cause that has ``taints = True``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Symbol
from tracejit.ir.interpret import evaluate_params
from tracejit.ir.tape import Atom, Lit, Var, current

__all__ = ["REGISTRY", "Linear", "Maybe", "Op", "Opaque", "Read", "Reduction", "as_atom"]

REGISTRY: dict[str, Op] = {}
"""Every op by name, for tests and documentation; no pass looks anything up here."""

Index = tuple[Dim, ...]
Maybe = Atom | None


def as_atom(value: Any) -> Atom:
    """Return ``value`` as an operand: atoms as they are, numbers as literals, arrays as constants of the trace."""
    if isinstance(value, Var | Lit):
        return value
    if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
        scalar = np.asarray(value)[()]
        return Lit(scalar if isinstance(scalar, np.generic) else np.float64(value), weak=True)  # type: ignore[arg-type]  # a huge int
    array = np.asarray(value)
    return Lit(array[()]) if array.ndim == 0 else current().const(array)  # type: ignore[arg-type]


class Op(ABC):
    """One operation.  Its instances are the ``op`` of equations."""

    name: str
    taints: bool = False

    def may_taint(self, operands: Sequence[Atom]) -> bool:
        """Return whether `taints` holds for these operands (a literal can rule a singularity out)."""
        return bool(self.taints)

    def _register(self) -> None:
        assert self.name not in REGISTRY, f"two ops are called {self.name}"
        REGISTRY[self.name] = self

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Append an equation; return its result variable (a tuple of them for ops with several results)."""
        atoms = [as_atom(x) for x in operands]
        inferred = self.infer(*(a.aval for a in atoms), **params)
        avals = inferred if isinstance(inferred, tuple) else (inferred,)
        results = current().append(self, atoms, params, avals)
        return results if isinstance(inferred, tuple) else results[0]

    def __call__(self, *operands: Any, **params: Any) -> Any:
        return self.bind(*operands, **params)

    def __repr__(self) -> str:
        return self.name

    @abstractmethod
    def infer(self, *avals: Aval, **params: Any) -> Aval | tuple[Aval, ...]:
        """Return the aval(s) of the result(s)."""

    @abstractmethod
    def impl(self, *arrays: Any, **params: Any) -> Any:
        """Return the result(s) on NumPy arrays; sizes in ``params`` are plain ints here."""

    def run(
        self, values: Sequence[Any], params: Mapping[str, Any], sizes: MutableMapping[Symbol, int]
    ) -> tuple[Any, ...]:
        """Return all results on NumPy arrays, with the extents of symbols from ``sizes``."""
        out = self.impl(*values, **evaluate_params(params, sizes))
        return tuple(out) if isinstance(out, tuple) else (out,)

    @abstractmethod
    def jvp(
        self,
        tangents: Sequence[Maybe],
        operands: Sequence[Atom],
        results: Sequence[Atom],
        absorb: bool,
        **params: Any,
    ) -> tuple[Maybe, ...]:
        """Return the tangents of the results."""

    @abstractmethod
    def vjp(
        self,
        cotangents: Sequence[Maybe],
        operands: Sequence[Atom],
        results: Sequence[Atom],
        wanted: Sequence[bool],
        absorb: bool,
        **params: Any,
    ) -> tuple[Maybe, ...]:
        """Return the cotangents of the operands (``None`` for those not wanted)."""

    @abstractmethod
    def batch(self, size: Dim, operands: Sequence[Atom], batched: Sequence[bool], **params: Any) -> Any:
        """Return the result(s) with a leading axis of ``size``; ``batched`` operands have that axis already."""


class Read:
    """Where one entry of a result comes from: ``operand`` at ``index``, if every condition holds, else zero.

    A condition is ``(low, value, high)``, meaning ``low <= value < high``, or ``(step, value)``, meaning that
    ``value`` is a multiple of ``step``.
    """

    __slots__ = ("conditions", "index", "operand")

    def __init__(self, operand: int, index: Index, conditions: tuple[tuple[Any, ...], ...] = ()) -> None:
        self.operand, self.index, self.conditions = operand, index, conditions


class Linear(Op):
    """A linear map of one array that moves entries without arithmetic on them.

    Written per op: `infer`, `impl`, `transpose`, `batch`, and `read`, the map from result index to operand index, by
    which loops fuse it into its consumer.
    """

    @abstractmethod
    def transpose(self, cotangent: Atom, aval: Aval, **params: Any) -> Atom:
        """Return the cotangent of the operand (of aval ``aval``)."""

    def read(self, index: Index, aval: Aval, **params: Any) -> Read | None:
        """Return where the entry at ``index`` comes from; None if the operand must be in memory (reshape)."""
        return None

    def jvp(self, tangents, operands, results, absorb, **params):  # type: ignore[no-untyped-def]
        return (self.bind(tangents[0], **params),)

    def vjp(self, cotangents, operands, results, wanted, absorb, **params):  # type: ignore[no-untyped-def]
        return (self.transpose(cotangents[0], operands[0].aval, **params),)


class Reduction(Op):
    """A fold over ``axes`` (sorted, non-negative) with an associative function.

    Attributes
    ----------
    combine : str
        Loop text of the fold with ``{0}`` the accumulator and ``{1}`` the next entry.
    """

    combine: str

    @abstractmethod
    def identity(self, dtype: np.dtype[Any]) -> np.generic:
        """Return the value of the empty fold."""

    def infer(self, aval: Aval, *, axes: tuple[int, ...]) -> Aval:
        return Aval(tuple(d for i, d in enumerate(aval.shape) if i not in axes), aval.dtype)

    def batch(self, size, operands, batched, *, axes):  # type: ignore[no-untyped-def]
        return self.bind(operands[0], axes=tuple(a + 1 for a in axes))


class Opaque(Op):
    """An op that loops do not look into: `kernel` fills preallocated results from operands in memory.

    ``kernel(*operands, *results, *parameter_values)`` is a plain function that Numba can compile.
    """

    @abstractmethod
    def kernel(self, *avals: Aval, **params: Any) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the function and the values of its trailing scalar arguments (ints, floats or sizes)."""
