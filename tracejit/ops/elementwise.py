"""Elementwise ops: NumPy function, loop text, one partial derivative per operand.

A partial is a function of (result, *operands) that returns an atom or a number; ``None``, for the partial or
returned by it, stands for a derivative that is zero everywhere (steps, comparisons).  Partials are written
with ops, so they are differentiable again, and they are exact where mathematics leaves a choice or a formula
would lose digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.errors import UnsupportedError
from tracejit.ir.aval import Aval, Shape
from tracejit.ir.tape import Atom, Lit, current
from tracejit.ops.base import Maybe, Op, as_atom
from tracejit.ops.broadcasting import broadcast_shapes, broadcast_to, convert, lead

__all__ = [
    "Elementwise",
    "Select",
    "absorb_mul",
    "accumulate",
    "add",
    "common_dtype",
    "constant",
    "fits",
    "mul",
    "neg",
    "scale",
    "select",
]

Partial = Callable[..., Any] | None
DType = np.dtype[Any]


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
    taints : bool or callable
        Some partial can be singular, or is a selection (see `tracejit.ops.base`); a function of the operands
        where a literal can rule that out.
    operator : bool
        Python's operator on two Python scalars gives a Python scalar, so weakness is kept.
    cost : int
        Rough cost in units of a multiplication; decides between recomputing and storing.
    domain : tuple of (float, float)
        Range of inputs for tests, per operand.
    result : dtype, optional
        Result dtype where it differs from NumPy's loop (functions that are not ufuncs).
    loops : numpy.ufunc, optional
        The ufunc whose loops decide the dtypes, where ``function`` is not one.
    real_only : bool
        Complex operands raise: no derivative or loop exists for them.
    """

    def __init__(  # noqa: PLR0913  # one op is one statement
        self,
        name: str,
        function: Callable[..., Any],
        text: str,
        *partials: Partial,
        taints: bool | Callable[..., bool] = False,
        operator: bool = False,
        cost: int = 1,
        domain: tuple[tuple[float, float], ...] = (),
        result: Any = None,
        loops: np.ufunc | None = None,
        real_only: bool = False,
    ) -> None:
        self.name, self.function, self.text, self.partials = name, function, text, partials
        self.operator, self.cost, self.real_only = operator, cost, real_only
        self.taints, self._taints = bool(taints), taints
        self.arity = len(partials)
        self.domain = domain or ((-2.0, 2.0),) * self.arity
        self.result = None if result is None else np.dtype(result)
        self.loops = function if isinstance(function, np.ufunc) else loops
        self._register()

    def may_taint(self, operands: Sequence[Atom]) -> bool:
        return self._taints(*operands) if callable(self._taints) else self.taints

    def expression(self, names: Sequence[str], operands: Sequence[Atom]) -> str:
        """Return the loop text on operands that are called ``names``."""
        return self.text.format(*names)

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        """Return the dtypes that operands are cast to, and the result's."""
        if self.loops is not None:
            operands, result = _resolve(self.loops, avals)
            return operands, self.result or result
        common = common_dtype(avals)
        return (common,) * len(avals), self.result or common

    def __call__(self, *operands: Any) -> Atom:
        atoms = [as_atom(x) for x in operands]
        wanted, _ = self.dtypes([a.aval for a in atoms])
        if self.real_only and any(d.kind == "c" for d in wanted):
            raise self._refuse_complex()
        shape = broadcast_shapes(*(a.shape for a in atoms), what=self.name, operands=atoms)
        fitted = [_fit(a, shape, d, self.operator) for a, d in zip(atoms, wanted, strict=True)]
        result: Atom = self.bind(*fitted)
        return result

    def infer(self, *avals: Aval) -> Aval:
        shape = next((a.shape for a in avals if a.shape), ())
        _, dtype = self.dtypes([Aval((), a.dtype) for a in avals])
        return Aval(shape, dtype, weak=self.operator and all(a.weak for a in avals))

    def impl(self, *arrays: Any) -> Any:
        return self.function(*arrays)

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        absorb = absorb or self.may_taint(operands)
        total: Maybe = None
        for tangent, partial in zip(tangents, self.partials, strict=True):
            if tangent is not None and partial is not None:
                total = accumulate(total, scale(tangent, partial(results[0], *operands), absorb))
        return (total,)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        absorb = absorb or self.may_taint(operands)
        return tuple(
            scale(cotangents[0], partial(results[0], *operands), absorb) if want and partial else None
            for want, partial in zip(wanted, self.partials, strict=True)
        )

    def batch(self, size, operands, batched):  # type: ignore[no-untyped-def]
        pairs = zip(operands, batched, strict=True)
        return self.bind(*(x if isinstance(x, Lit) else lead(x, size, b) for x, b in pairs))

    def _refuse_complex(self) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.name}` of complex numbers is not supported on traced values.",
            where=current().source(),
            hint="Take `.real`, `.imag` or `np.abs` first.",
        )


class Select(Elementwise):
    """``a where condition else b``; the branch not taken has influence exactly zero."""

    def dtypes(self, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
        common = common_dtype(avals[1:])
        return (np.dtype(bool), common, common), common

    def jvp(self, tangents, operands, results, absorb):  # type: ignore[no-untyped-def]
        _, a, b = tangents
        if a is None and b is None:
            return (None,)
        return (self(operands[0], _or_zero(a, results[0]), _or_zero(b, results[0])),)

    def vjp(self, cotangents, operands, results, wanted, absorb):  # type: ignore[no-untyped-def]
        condition, cotangent = operands[0], cotangents[0]
        zero = constant(0, cotangent)
        return (
            None,
            self(condition, cotangent, zero) if wanted[1] else None,
            self(condition, zero, cotangent) if wanted[2] else None,
        )


def _or_zero(tangent: Maybe, result: Atom) -> Atom:
    return constant(0, result) if tangent is None else tangent


def common_dtype(avals: Sequence[Aval]) -> DType:
    """Return the dtype that ``np.result_type`` gives: Python scalars adapt to the rest."""
    return np.result_type(*(a.dtype.type(0).item() if a.weak else a.dtype for a in avals))


def _resolve(loops: np.ufunc, avals: Sequence[Aval]) -> tuple[tuple[DType, ...], DType]:
    among_themselves = all(a.weak for a in avals)  # NumPy would compare Python ints of any size, as objects
    kinds = [a.dtype if among_themselves or a.dtype.kind == "b" else a.promotion for a in avals]
    resolved = loops.resolve_dtypes((*kinds, *(None,) * loops.nout))
    return resolved[: len(avals)], resolved[len(avals)]


def fits(atom: Atom, dtype: DType) -> bool:
    """Return whether ``atom`` is anything but a Python int out of the range of an integer dtype."""
    if not (isinstance(atom, Lit) and atom.aval.weak and atom.dtype.kind in "iu" and dtype.kind in "iu"):
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= atom.value.item() <= limits.max)


def _fit(atom: Atom, shape: Shape, dtype: DType, keep_weak: bool) -> Atom:
    """Return ``atom`` in the op's dtype and shape; literals stay scalars."""
    if not fits(atom, dtype):
        raise OverflowError(f"Python integer {atom} out of bounds for {dtype}")
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


def constant(number: Any, like: Atom) -> Lit:
    """Return a number as a literal in the dtype of ``like``."""
    return Lit(like.dtype.type(number))


def scale(tangent: Atom, factor: Any, absorb: bool) -> Maybe:
    """Return ``tangent * factor`` (``None`` if there is no factor).

    Where ``absorb`` is set, an exact zero in either gives exactly zero; a finite number but 0 needs no care.
    """
    if factor is None:
        return None
    number = factor.value if isinstance(factor, Lit) else factor
    if not isinstance(number, int | float | complex | np.number):
        return absorb_mul(tangent, factor) if absorb else mul(tangent, factor)
    if number == 1:
        return tangent
    if number == -1:
        return neg(tangent)
    harmless = bool(np.isfinite(number)) and number != 0
    literal = constant(number, tangent)
    return mul(tangent, literal) if harmless or not absorb else absorb_mul(tangent, literal)


def accumulate(total: Maybe, term: Maybe) -> Maybe:
    """Return the sum of two tangents or cotangents, either of which may be absent."""
    if total is None or term is None:
        return term if total is None else total
    return add(total, term)
