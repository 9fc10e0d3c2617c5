"""Concrete values while tracing: what ``if x.sum() > 0`` needs, computed by the interpreter only when asked for."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracejit.frontend.regions import RegionFailed
from tracejit.ir.dims import Poly
from tracejit.ir.interpret import run_equation
from tracejit.ir.tape import Atom, Builder, Eqn, Lit, ValueGuard, Var, current

__all__ = ["Values", "concrete", "guard", "integers_behind", "is_known", "pin_sizes"]

_VALUES: weakref.WeakKeyDictionary[Builder, Values] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class _Sizes(dict[Any, int]):
    def __missing__(self, symbol: Any) -> int:
        return symbol.hint


class Values:
    """The values that one builder's variables have in the traced call.

    Parameters
    ----------
    builder : Builder
    outer : Builder, optional
        The builder around it, for nested traces.
    links : mapping of Var to Atom, optional
        The atoms of ``outer`` that inputs stand for.
    """

    def __init__(
        self, builder: Builder, outer: Builder | None = None, links: Mapping[Var, Atom] | None = None
    ) -> None:
        self._builder = weakref.ref(builder)
        self._outer, self._links = outer, dict(links or {})
        self._known: dict[Var, Any] = {}
        self._maker: dict[Var, Eqn] = {}
        self._seen = 0
        with _LOCK:
            _VALUES[builder] = self

    def know(self, var: Var, value: Any) -> None:
        """State the value of an input."""
        self._known[var] = value

    def get(self, atom: Atom) -> Any:
        """Return the value of ``atom``, running the equations that it needs and that did not run before."""
        if isinstance(atom, Lit):
            return atom.value
        if atom not in self._known:
            self._index()
        if atom not in self._known:
            with np.errstate(all="ignore"):
                for eqn in self._needed(atom):
                    values = [self.get(a) for a in eqn.operands]
                    self._known.update(zip(eqn.results, run_equation(eqn, values, _Sizes()), strict=True))
        return self._known[atom]

    def _index(self) -> None:
        builder = self._builder()
        assert builder is not None
        for eqn in builder.eqns[self._seen :]:
            self._maker.update(dict.fromkeys(eqn.results, eqn))
        self._seen = len(builder.eqns)
        self._known.update(builder.consts)
        self._links.update({var: outside for outside, var in builder.captured.items()})
        for var in [v for v in self._links if v not in self._known]:
            assert self._outer is not None
            self._known[var] = concrete(self._links[var], self._outer)

    def _needed(self, atom: Var) -> list[Eqn]:
        """Return the equations behind ``atom`` in order; a loop, since tapes may be very long."""
        order: list[Eqn] = []
        done: set[Eqn] = set()
        stack: list[tuple[Eqn, bool]] = [(self._maker[atom], False)]
        while stack:
            eqn, ready = stack.pop()
            if ready:
                order.append(eqn)
            elif eqn not in done:
                done.add(eqn)
                stack.append((eqn, True))
                stack.extend(
                    (self._maker[a], False)
                    for a in eqn.operands
                    if isinstance(a, Var) and a not in self._known
                )
        return order


def concrete(atom: Atom, builder: Builder | None = None) -> Any:
    """Return the value that ``atom`` has in the traced call (without a guard; see `guard`)."""
    builder = builder or current()
    values = _VALUES.get(builder)
    if values is None:
        reason = "a decision needs a value that differs from iteration to iteration"
        raise RegionFailed(reason, integers_behind(atom, builder))
    return values.get(builder.resolve(atom))


def is_known(atom: Atom) -> bool:
    """Return whether ``atom`` has one value in the traced call; in a body, what comes from outside of it."""
    return isinstance(atom, Lit) or _deciding(current(), atom) in _VALUES


def integers_behind(atom: Atom, builder: Builder | None = None) -> frozenset[int]:
    """Return the numbers of the arguments that are Python integers and that ``atom`` is computed from."""
    builder = builder or current()
    root = builder._outer[0] if builder._outer else builder
    arguments = {v: n for n, v in enumerate(root.inputs) if v.aval.weak and v.dtype.kind == "i"}
    found, seen, waiting = set(), set(), [atom]
    while waiting:
        needed = builder.origin(waiting.pop())
        if isinstance(needed, Lit) or needed in seen:
            continue
        seen.add(needed)
        if needed in arguments:
            found.add(arguments[needed])
        elif (eqn := builder.maker(needed)) is not None:
            waiting += eqn.operands
    return frozenset(found)


def guard(atom: Atom) -> Any:
    """Return the scalar value of ``atom`` in the traced call; the trace then holds for this value only."""
    builder = _deciding(current(), atom)
    resolved = builder.resolve(atom)
    value = concrete(resolved)
    scalar = np.asarray(value).item()
    if not isinstance(resolved, Lit):
        builder.guards.append(ValueGuard(resolved, scalar, builder.source()))
    return scalar


def _deciding(builder: Builder, atom: Atom) -> Builder:
    """Return the builder to guard in: what a loop body takes from outside is the same in every iteration."""
    while builder not in _VALUES and not builder.owns(atom) and builder._outer:
        builder = builder._outer[-1]
    return builder


def pin_sizes(atom: Atom) -> None:
    """Tie the trace to the sizes that ``atom`` is computed from, if it is computed from nothing else."""
    builder = current()
    makers = {var: eqn for eqn in builder.eqns for var in eqn.results}
    sizes, waiting = [], [builder.resolve(atom)]
    while waiting:
        needed = waiting.pop()
        if isinstance(needed, Lit):
            continue
        if needed not in makers:
            return
        sizes += [v for v in makers[needed].params.values() if isinstance(v, Poly)]
        waiting += makers[needed].operands
    for size in sizes:
        builder.pin(size)
