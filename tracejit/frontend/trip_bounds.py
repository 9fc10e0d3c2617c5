"""How often a loop runs at most whose number of trips is a traced integer.

``range(1 + (i + colour) % 2, n - 1, 2)`` has a number of trips that nobody knows before it runs, but it is never more
than ``(n - 1) // 2``: interval arithmetic with sizes in the place of numbers. What an inner loop keeps for its backward
sweep then has room of a known extent in what the loop around it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejit.ir import dims, sums
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Eqn, Lit, current
from tracejit.ops.arithmetic import floor_divide, remainder, subtract
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import convert
from tracejit.ops.elementwise import add, mul, neg, select
from tracejit.ops.extrema import maximum, minimum
from tracejit.ops.logic import greater, greater_equal, less, less_equal
from tracejit.ops.reduction import size_of

__all__ = ["most_trips"]

_DEPTH = 24

_MOST = 4096
"""A number beyond this says more about what is excluded than about what happens; extents of arrays may be larger."""


def most_trips(count: Atom) -> Dim | None:
    """Return an extent, the same in all iterations of loops around, that ``count`` never exceeds; None if unknown."""
    end = _end(count, True, _DEPTH)
    if end is None or (isinstance(end, int) and end > _MOST):
        return None
    return end if current().decide(">=", end) else None


def _end(atom: Atom, upper: bool, depth: int) -> Dim | None:
    """Return an upper or lower bound of a traced integer."""
    if isinstance(atom, Lit):
        return int(atom.value) if atom.dtype.kind in "iub" else None
    eqn = current().maker(atom)
    if eqn is None or not depth or eqn.results[0].dtype.kind not in "iu":
        return None
    rule = _RULES.get(eqn.op)
    return None if rule is None else rule(eqn, upper, depth - 1)


def _size_of(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    end = sums.without_counters(eqn.params["size"], upper)
    return None if any(s.local for s in dims.symbols(end)) else end


def _convert(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    return _end(eqn.operands[0], upper, depth)


def _sum(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    left = _end(eqn.operands[0], upper, depth)
    right = _end(eqn.operands[1], upper, depth)
    return None if left is None or right is None else left + right


def _difference(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    left = _end(eqn.operands[0], upper, depth)
    right = _end(eqn.operands[1], not upper, depth)
    return None if left is None or right is None else left - right


def _negative(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    end = _end(eqn.operands[0], not upper, depth)
    return None if end is None else -end


def _product(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    for factor, other in (eqn.operands, eqn.operands[::-1]):
        if isinstance(factor, Lit) and factor.dtype.kind in "iu":
            end = _end(other, upper == (int(factor.value) >= 0), depth)
            return None if end is None else int(factor.value) * end
    return None


def _quotient(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    divisor = _positive(eqn.operands[1])
    end = _end(eqn.operands[0], upper, depth)
    return None if divisor is None or end is None else end // divisor


def _rest(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    divisor = _positive(eqn.operands[1])
    return None if divisor is None else divisor - 1 if upper else 0


def _positive(atom: Atom) -> int | None:
    value = _end(atom, True, 1)
    return value if isinstance(value, int) and value > 0 else None


def _smaller(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    return _of_two(eqn.operands, upper, depth, one_is_enough=upper, sign=1)


def _larger(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    return _of_two(eqn.operands, upper, depth, one_is_enough=not upper, sign=-1)


def _selected(eqn: Eqn, upper: bool, depth: int) -> Dim | None:
    """``min`` and ``max`` of Python, or anything else that is one of two numbers."""
    decides, *values = eqn.operands
    asked = current().maker(decides)
    if asked is not None and asked.op in (less, less_equal, greater, greater_equal):
        compared, chosen = ([_unconverted(a) for a in atoms] for atoms in (asked.operands, values))
        if compared in (chosen, chosen[::-1]):
            smaller = (asked.op in (less, less_equal)) == (compared == chosen)
            return _of_two(values, upper, depth, one_is_enough=upper == smaller, sign=1 if smaller else -1)
    return _of_two(values, upper, depth, one_is_enough=False, sign=-1 if upper else 1)


def _unconverted(atom: Atom) -> Atom:
    eqn = current().maker(atom)
    return _unconverted(eqn.operands[0]) if eqn is not None and eqn.op is convert else atom


def _of_two(atoms: Sequence[Atom], upper: bool, depth: int, one_is_enough: bool, sign: int) -> Dim | None:
    """Return a bound of the smaller (``sign`` 1) or larger number, where it is known which one that is."""
    ends = [_end(a, upper, depth) for a in atoms]
    known = [e for e in ends if e is not None]
    if len(known) < 2:
        return known[0] if known and one_is_enough else None
    difference = known[0] - known[1]
    if isinstance(difference, int):
        return known[0] if sign * difference <= 0 else known[1]
    return known[0] if one_is_enough else None


_RULES: dict[Op, Callable[[Eqn, bool, int], Dim | None]] = {
    size_of: _size_of,
    convert: _convert,
    add: _sum,
    subtract: _difference,
    neg: _negative,
    mul: _product,
    floor_divide: _quotient,
    remainder: _rest,
    minimum: _smaller,
    maximum: _larger,
    select: _selected,
}
