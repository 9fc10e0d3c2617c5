"""Smaller tapes with the same meaning, bit for bit: folding, an algebra table, common subexpressions, dead
code.

Identities that NumPy's rounding, NaNs or signed zeros do not respect (``0*x = 0``, ``x + 0 = x``) are not in
the table; but sums of cotangents may begin with the first of them instead of with zeros.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir import dims
from tracejit.ir.tape import Atom, Builder, Eqn, Lit, Tape, ValueGuard, Var
from tracejit.ops.arithmetic import divide, subtract
from tracejit.ops.base import Op
from tracejit.ops.broadcasting import broadcast, convert, expand_dims, reduce_sum, squeeze
from tracejit.ops.elementwise import Elementwise, absorb_mul, add, mul, neg, select
from tracejit.ops.joining import slice_add, slice_update
from tracejit.ops.linear import slice_, transpose
from tracejit.ops.reduction import size_of
from tracejit.ops.region import Region
from tracejit.passes.chains import UPDATES
from tracejit.passes.common import merge_common
from tracejit.passes.dead_code import remove_dead
from tracejit.passes.ordering import reads_first
from tracejit.passes.slices import (
    last_update,
    merged_add,
    merged_slice,
    merged_update,
    moved_update,
    written_back,
)
from tracejit.passes.tidy import tidy

__all__ = ["simplify"]

_ROUNDS = 4


_DONE: weakref.WeakSet[Tape] = weakref.WeakSet()


def simplify(tape: Tape) -> Tape:
    """Return an equal tape with as little work as the table finds; the bodies of loops and branches too."""
    for _ in range(_ROUNDS):
        smaller = remove_dead(merge_common(_rewrite(tape)))
        done = len(smaller.eqns) == len(tape.eqns) and _same_ops(smaller, tape)
        tape = smaller
        if done:
            break
    if any(isinstance(e.op, Region) or e.op in UPDATES for e in tape.eqns):
        tape = reads_first(tape)
    _DONE.add(tape)
    return tape


def _with_simple_bodies(eqn: Eqn) -> Eqn:
    """Return a loop or branch with simplified bodies."""

    def simple(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(simple, value))
        return simplify(value) if isinstance(value, Tape) and value not in _DONE else value

    return Eqn(eqn.op, eqn.operands, {k: simple(v) for k, v in eqn.params.items()}, eqn.results, eqn.source)


def _same_ops(left: Tape, right: Tape) -> bool:
    return all(a.op is b.op for a, b in zip(left.eqns, right.eqns, strict=True))


# --- rewriting --------------------------------------------------------------------------------------------------------


class Rewriter:
    """One pass over a tape; rules look at how operands are made through `made_by`."""

    def __init__(self, tape: Tape, builder: Builder) -> None:
        self.builder = builder
        self.atoms: dict[Var, Atom] = {v: builder.input(v.aval, v.name) for v in tape.inputs}
        self._makers: dict[Var, Eqn] = {}
        self._seen = 0
        for var, array in tape.consts:
            self.atoms[var] = builder.const(array)
        builder.sizes.update({(g.relation, g.size): g for g in tape.sizes})
        self._uses_before = Counter(a for e in tape.eqns for a in e.operands)
        self._uses_before.update((*tape.outputs, *(g.var for g in tape.guards)))
        self._uses: Counter[Atom] = Counter()

    def used_once(self, atom: Atom) -> bool:
        """Return whether the equation at hand is all that asks for ``atom``."""
        return self._uses[atom] == 1

    def read(self, atom: Atom) -> Atom:
        return atom if isinstance(atom, Lit) else self.atoms[atom]

    def made_by(self, atom: Atom, op: Op) -> Eqn | None:
        """Return the equation behind ``atom`` if it is an ``op``."""
        for eqn in self.builder.eqns[self._seen :]:
            self._makers.update(dict.fromkeys(eqn.results, eqn))
        self._seen = len(self.builder.eqns)
        made = None if isinstance(atom, Lit) else self._makers.get(atom)
        return made if made is not None and made.op is op else None

    def step(self, eqn: Eqn) -> None:
        operands = [self.read(a) for a in eqn.operands]
        with self.builder.at(eqn.source):
            better = self._improve(eqn, operands)
            results: Sequence[Atom]
            if isinstance(eqn.op, Region):
                results = tidy(_with_simple_bodies(eqn), operands, lambda a: self.made_by(a, broadcast))
            elif better is None:
                results = self.builder.append(eqn.op, operands, eqn.params, [v.aval for v in eqn.results])
            else:
                results = [better]
        self.atoms.update(zip(eqn.results, results, strict=True))
        for old, new in zip(eqn.results, results, strict=True):
            self._uses[new] += self._uses_before[old]

    def _improve(self, eqn: Eqn, operands: list[Atom]) -> Atom | None:
        if len(eqn.results) != 1:
            return None
        if isinstance(eqn.op, Elementwise):
            lifted = _lift_broadcasts(self, eqn, operands)
            if lifted is not None:
                return lifted
        for rule in RULES.get(eqn.op, ()):
            better = rule(self, operands, eqn.params)
            if better is not None and _fits(better, eqn):
                return better
        return None


def _fits(atom: Atom, eqn: Eqn) -> bool:
    """Return whether ``atom`` can stand for the result of ``eqn``."""
    return atom.dtype == eqn.results[0].dtype and atom.shape == eqn.results[0].shape


def _rewrite(tape: Tape) -> Tape:
    with Builder() as builder:
        rewriter = Rewriter(tape, builder)
        for eqn in tape.eqns:
            rewriter.step(eqn)
        builder.guards.extend(ValueGuard(rewriter.read(g.var), g.expected, g.source) for g in tape.guards)
        return builder.finish([rewriter.read(a) for a in tape.outputs])


def _lift_broadcasts(rewriter: Rewriter, eqn: Eqn, operands: list[Atom]) -> Atom | None:
    """f(broadcast(a), broadcast(b)) -> broadcast(f(a, b)), and f of literals -> a literal."""
    inner: list[Atom] = []
    how: dict[str, Any] | None = None
    for atom in operands:
        made = rewriter.made_by(atom, broadcast)
        if isinstance(atom, Lit):
            inner.append(atom)
        elif made is not None and isinstance(made.operands[0], Lit):
            inner.append(made.operands[0])
        elif made is not None and how in (None, made.params):
            how = dict(made.params)
            inner.append(made.operands[0])
        else:
            return _with_scalars(rewriter, eqn, operands)
    result = _fold(eqn, inner) if how is None else eqn.op.bind(*inner)
    shape = eqn.results[0].shape
    return broadcast(result, shape=shape, axes=()) if how is None else broadcast(result, **how)


def _fold(eqn: Eqn, literals: Sequence[Atom]) -> Lit:
    with np.errstate(all="ignore"):
        value = eqn.op.impl(*(a.value for a in literals))  # type: ignore[union-attr]
    return Lit(eqn.results[0].dtype.type(np.asarray(value)[()]))


def _with_scalars(rewriter: Rewriter, eqn: Eqn, operands: list[Atom]) -> Atom | None:
    """f(broadcast(literal), x) -> f(literal, x): elementwise equations take scalar literals as they are."""
    changed = False
    for i, atom in enumerate(operands):
        made = rewriter.made_by(atom, broadcast)
        if made is not None and isinstance(made.operands[0], Lit):
            operands[i], changed = made.operands[0], True
    if not changed:
        return None
    for rule in RULES.get(eqn.op, ()):
        better = rule(rewriter, operands, eqn.params)
        if better is not None and _fits(better, eqn):
            return better
    result: Atom = eqn.op.bind(*operands)
    return result


Rule = Callable[[Rewriter, list[Atom], Any], Atom | None]
RULES: dict[Op, list[Rule]] = {}


def rule(*ops: Op) -> Callable[[Rule], Rule]:
    """Add a row to the table; its docstring is the identity."""

    def register(function: Rule) -> Rule:
        for op in ops:
            RULES.setdefault(op, []).append(function)
        return function

    return register


def _is(atom: Atom, number: float) -> bool:
    return isinstance(atom, Lit) and atom.is_value(number)


@rule(mul, absorb_mul)
def _one(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """x*1 -> x, 1*x -> x"""
    return x[0] if _is(x[1], 1) else x[1] if _is(x[0], 1) else None


@rule(mul, absorb_mul)
def _minus_one(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """x*-1 -> -x"""
    return neg(x[0]) if _is(x[1], -1) else neg(x[1]) if _is(x[0], -1) else None


@rule(absorb_mul)
def _finite_factor(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """absorb_mul(x, c) -> x*c, for a finite literal c other than 0; absorb_mul(x, 0) -> 0"""
    for literal, other in (x, x[::-1]):
        if isinstance(literal, Lit) and np.isfinite(literal.value):
            if literal.value == 0:
                return broadcast(literal, shape=other.shape, axes=())
            return mul(other, literal)
    return None


@rule(neg)
def _double_negative(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """-(-x) -> x"""
    made = rewriter.made_by(x[0], neg)
    return made.operands[0] if made else None


@rule(add)
def _add_negative(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """a + -b -> a - b"""
    for a, b in (x, x[::-1]):
        made = rewriter.made_by(b, neg)
        if made is not None and made.operands[0].shape == b.shape:
            return subtract(a, made.operands[0])
    return None


@rule(subtract)
def _subtract_negative(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """a - -b -> a + b;  a - 0 -> a"""
    if _is(x[1], 0.0):
        return x[0]
    made = rewriter.made_by(x[1], neg)
    return add(x[0], made.operands[0]) if made else None


@rule(divide)
def _divide_by_one(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """x/1 -> x"""
    return x[0] if _is(x[1], 1) else None


@rule(select)
def _decided(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """where(True, a, b) -> a, where(c, a, a) -> a"""
    if isinstance(x[0], Lit):
        chosen = x[1] if x[0].value else x[2]
        shape = next((a.shape for a in x if not isinstance(a, Lit)), ())
        return broadcast(chosen, shape=shape, axes=()) if isinstance(chosen, Lit) else chosen
    return x[1] if x[1] is x[2] else None


@rule(convert)
def _converted_twice(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """convert(convert(x, wider), narrower) -> convert(x, narrower);  literals fold"""
    if isinstance(x[0], Lit):
        return convert(x[0], **params)
    made = rewriter.made_by(x[0], convert)
    if made is None or not np.can_cast(made.operands[0].dtype, x[0].dtype, "safe"):
        return None
    if made.operands[0].dtype.kind != np.dtype(params["dtype"]).kind:
        return None
    return convert(made.operands[0], **params)


@rule(convert)
def _convert_below_broadcast(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """convert(broadcast(x)) -> broadcast(convert(x))"""
    made = rewriter.made_by(x[0], broadcast)
    return broadcast(convert(made.operands[0], **params), **made.params) if made else None


@rule(broadcast)
def _broadcast_twice(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """broadcast(broadcast(x)) -> broadcast(x)"""
    made = rewriter.made_by(x[0], broadcast)
    if made is None:
        return None
    axes = tuple(params["axes"][a] for a in made.params["axes"])
    return broadcast(made.operands[0], shape=params["shape"], axes=axes)


@rule(transpose)
def _transpose_twice(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """transpose(transpose(x)) -> transpose(x), and the identity permutation vanishes"""
    perm = params["perm"]
    if perm == tuple(range(len(perm))):
        return x[0]
    made = rewriter.made_by(x[0], transpose)
    return transpose(made.operands[0], perm=tuple(made.params["perm"][p] for p in perm)) if made else None


@rule(transpose)
def _transposed_update(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """transpose(update(transpose(x), v)) -> update(x, transpose(v))"""
    return moved_update(rewriter.made_by, x[0], **params)


@rule(slice_)
def _slice_moved(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """slice(move(x)) -> move(slice(x)), slice(update(x, v)) -> v or slice(x)"""
    return merged_slice(rewriter.made_by, x[0], **params)


@rule(slice_update)
def _update_part(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """update(x, update(slice(x), v)) -> update(x, v)"""
    return merged_update(rewriter.made_by, x[0], x[1], **params)


@rule(slice_update)
def _update_again(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """update(update(x, v), w) -> update(x, w), where both write the same entries and nobody reads them between"""
    return last_update(rewriter.made_by, x[0], x[1], **params) if rewriter.used_once(x[0]) else None


@rule(slice_update)
def _update_with_itself(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """update(x, slice(x)) -> x"""
    return written_back(rewriter.made_by, x[0], x[1], **params)


@rule(slice_add)
def _add_to_zeros(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """add(update(x, 0), w) -> update(x, w)"""
    return merged_add(rewriter.made_by, rewriter.used_once, x[0], x[1], **params)


@rule(squeeze)
def _squeeze_expanded(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """squeeze(expand_dims(x)) -> x"""
    made = rewriter.made_by(x[0], expand_dims)
    return made.operands[0] if made and made.params["axes"] == params["axes"] else None


@rule(expand_dims)
def _expand_literal(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """expand_dims(literal) -> broadcast(literal)"""
    return broadcast(x[0], shape=(1,) * len(params["axes"]), axes=()) if isinstance(x[0], Lit) else None


@rule(expand_dims)
def _expand_squeezed(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """expand_dims(squeeze(x)) -> x"""
    made = rewriter.made_by(x[0], squeeze)
    return made.operands[0] if made and made.params["axes"] == params["axes"] else None


@rule(reduce_sum)
def _sum_of_copies(rewriter: Rewriter, x: list[Atom], params: Any) -> Atom | None:
    """sum(broadcast(x)) over axes that only repeat x -> x * (number of copies)"""
    made = rewriter.made_by(x[0], broadcast)
    if made is None or x[0].dtype.kind == "b" or any(a in made.params["axes"] for a in params["axes"]):
        return None
    shape, axes = made.params["shape"], made.params["axes"]
    copies = dims.prod(tuple(shape[a] for a in params["axes"]))
    kept = [a for a in range(len(shape)) if a not in params["axes"]]
    inner = made.operands[0]
    count = convert(size_of(copies), dtype=inner.dtype)
    if isinstance(inner, Lit) and isinstance(count, Lit):
        total: Atom = Lit(np.multiply(inner.value, count.value))
    else:
        total = mul(inner, count)
    return broadcast(total, shape=tuple(shape[a] for a in kept), axes=tuple(kept.index(a) for a in axes))
