"""Elementwise ops: NumPy function, loop text, one partial derivative per operand.

The partials follow SEMANTICS section 3.  A partial is a function of (result, *operands) that returns an atom or a number;
``None`` stands for a derivative that is zero everywhere (steps, comparisons).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.aval import Aval, Shape
from tracejit.ir.tape import Atom, Lit
from tracejit.ops.base import Maybe, Op, as_atom
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, lead

__all__ = ["Elementwise", "Select", "absorb_mul", "accumulate", "add", "mul", "neg", "scale", "select"]

Partial = Callable[..., Any] | None


class Elementwise(Op):
    """An op on entries.

    Parameters
    ----------
    name : str
    function : callable
        NumPy's meaning; if it is a ufunc, its loops decide the dtypes.
    text : str
        Loop expression with ``{0}``, ``{1}`` for the operands, which are always names or literals.
    *partials : callable or None
        One per operand: ``partial(result, *operands)``.
    taints : bool
        Some partial can be singular, or is a selection (see `tracejit.ops.base`).
    operator : bool
        Python's operator on two Python scalars gives a Python scalar, so weakness is kept.
    cost : int
        Rough cost in units of a multiplication; decides between recomputing and storing.
    domain : tuple of (float, float)
        Range of inputs for tests, per operand.
    result : dtype, optional
        Result dtype where it differs from NumPy's loop (functions that are not ufuncs).
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        text: str,
        *partials: Partial,
        taints: bool = False,
        operator: bool = False,
        cost: int = 1,
        domain: tuple[tuple[float, float], ...] = (),
        result: Any = None,
    ) -> None:
        self.name, self.function, self.text, self.partials = name, function, text, partials
        self.taints, self.operator, self.cost = taints, operator, cost
        self.arity = len(partials)
        self.domain = domain or ((-2.0, 2.0),) * self.arity
        self.result = None if result is None else np.dtype(result)
        self._register()

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[np.dtype[Any], ...], np.dtype[Any]]:
        """Return the dtypes that operands are cast to, and the result's."""
        kinds = [np.dtype(bool) if a.promotion is bool else a.promotion for a in avals]
        if isinstance(self.function, np.ufunc):
            *operands, result = self.function.resolve_dtypes((*kinds, None))  # type: ignore[arg-type]
            return tuple(operands), result
        common = np.add.resolve_dtypes((kinds[0], kinds[-1], None))[-1]  # type: ignore[arg-type]
        return (common,) * len(avals), self.result or common

    def __call__(self, *operands: Any) -> Atom:
        atoms = [as_atom(x) for x in operands]
        wanted, _ = self.dtypes([a.aval for a in atoms])
        shape = broadcast_shapes(*(a.shape for a in atoms), what=self.name)
        result: Atom = self.bind(*(_fit(a, shape, d, self.operator) for a, d in zip(atoms, wanted, strict=True)))
        return result

    def infer(self, *avals: Aval) -> Aval:
        shape = next((a.shape for a in avals if a.shape), ())
        _, dtype = self.dtypes([Aval((), a.dtype) for a in avals])
        return Aval(shape, dtype, weak=self.operator and all(a.weak for a in avals))

    def impl(self, *arrays: Any) -> Any:
        return self.function(*arrays)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        total: Maybe = None
        for tangent, partial in zip(tangents, self.partials, strict=True):
            if tangent is not None and partial is not None:
                term = scale(tangent, partial(results[0], *operands), absorb or self.taints)
                total = accumulate(total, term)
        return (total,)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        return tuple(
            scale(cotangents[0], partial(results[0], *operands), absorb or self.taints) if want and partial else None
            for want, partial in zip(wanted, self.partials, strict=True)
        )

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        return self.bind(*(x if isinstance(x, Lit) else lead(x, size, b) for x, b in zip(operands, batched, strict=True)))


class Select(Elementwise):
    """``a where condition else b``; the branch not taken has influence exactly zero."""

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[np.dtype[Any], ...], np.dtype[Any]]:
        (_, a, b) = (np.dtype(bool) if v.promotion is bool else v.promotion for v in avals)
        common = a if a == b and isinstance(a, np.dtype) else np.add.resolve_dtypes((a, b, None))[-1]  # type: ignore[arg-type]
        return (np.dtype(bool), common, common), common

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        _, a, b = tangents
        return (None if a is None and b is None else self(operands[0], _or_zero(a, results[0]), _or_zero(b, results[0])),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        condition, cotangent = operands[0], cotangents[0]
        zero = Lit(cotangent.dtype.type(0))
        return (
            None,
            self(condition, cotangent, zero) if wanted[1] else None,
            self(condition, zero, cotangent) if wanted[2] else None,
        )


def _or_zero(tangent: Maybe, result: Atom) -> Atom:
    return Lit(result.dtype.type(0)) if tangent is None else tangent


def _fit(atom: Atom, shape: Shape, dtype: np.dtype[Any], keep_weak: bool) -> Atom:
    """Return ``atom`` in the op's dtype and shape; literals stay scalars."""
    if not (keep_weak and atom.aval.weak and atom.dtype == dtype):
        atom = convert(atom, dtype=dtype)
    return atom if isinstance(atom, Lit) else broadcast_to(atom, shape)


absorb_mul = Elementwise(
    "absorb_mul",
    lambda a, b: np.where((a == 0) | (b == 0), np.zeros((), np.result_type(a, b)), np.multiply(a, b)),
    "absorb_mul({0}, {1})",
    lambda y, a, b: b,
    lambda y, a, b: a,
    taints=True,
    cost=2,
)
add = Elementwise("add", np.add, "{0} + {1}", lambda y, a, b: 1, lambda y, a, b: 1, operator=True)
mul = Elementwise("mul", np.multiply, "{0} * {1}", lambda y, a, b: b, lambda y, a, b: a, operator=True)
neg = Elementwise("neg", np.negative, "-{0}", lambda y, x: -1, operator=True)
select = Select(
    "select", np.where, "where({0}, {1}, {2})", None, lambda y, c, a, b: 1, lambda y, c, a, b: 1, taints=True
)


def scale(tangent: Atom, factor: Any, absorb: bool) -> Atom:
    """Return ``tangent * factor``; where ``absorb`` is set an exact zero in either gives exactly zero.

    A literal factor is finite and needs no such care.
    """
    number = factor.value if isinstance(factor, Lit) else factor
    if isinstance(factor, int | float) or isinstance(factor, Lit):
        if number == 1:
            return tangent
        return neg(tangent) if number == -1 else mul(tangent, Lit(tangent.dtype.type(number)))
    return absorb_mul(tangent, factor) if absorb else mul(tangent, factor)


def accumulate(total: Maybe, term: Maybe) -> Maybe:
    """Return the sum of two tangents or cotangents, either of which may be absent."""
    if total is None or term is None:
        return term if total is None else total
    return add(total, term)
