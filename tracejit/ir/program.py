"""What a tape consists of: variables, literals, equations, guards; and its text.

Tapes are frozen and compared by identity.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim, Poly
from tracejit.ir.source import Source

if TYPE_CHECKING:
    from tracejit.ops.base import Op

__all__ = ["Atom", "Eqn", "Lit", "Names", "SizeGuard", "Tape", "ValueGuard", "Var", "bodies"]


class Var:
    """A value computed on the tape; compared by identity."""

    __slots__ = ("aval", "name")

    def __init__(self, aval: Aval, name: str = "") -> None:
        self.aval, self.name = aval, name

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"{self.name or 'var'}:{self.aval}"


class Lit:
    """A scalar constant in an operand place."""

    __slots__ = ("aval", "value")

    def __init__(self, value: np.generic, weak: bool = False) -> None:
        self.value = value
        self.aval = Aval((), value.dtype, weak)

    @property
    def shape(self) -> tuple[Dim, ...]:
        return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    def is_value(self, number: float) -> bool:
        """Return whether this is ``number``, sign of zero included."""
        return bool(self.value == number) and np.signbit(self.value.real) == np.signbit(number)

    def __repr__(self) -> str:
        return f"{self.value.item()!r}"


Atom = Var | Lit


@dataclass(frozen=True, eq=False, slots=True)
class Eqn:
    """``results = op(operands, params)``; ``source`` is the user's line."""

    op: Op
    operands: tuple[Atom, ...]
    params: Mapping[str, Any]
    results: tuple[Var, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A fact about sizes that the trace relied on: ``size relation 0`` with a relation of ``!= >= <``."""

    relation: str
    size: Poly
    source: Source | None = None

    def __str__(self) -> str:
        return f"{self.size} {self.relation} 0"


@dataclass(frozen=True, eq=False, slots=True)
class ValueGuard:
    """A traced scalar that Python code asked for: ``var`` must be ``expected`` again, else the trace does not hold."""

    var: Atom
    expected: bool | int | float | complex
    source: Source | None = None


@dataclass(frozen=True, eq=False)
class Tape:
    """A straight-line program on arrays.

    Attributes
    ----------
    inputs, outputs : tuple
        Variables in; variables or literals out.
    consts : tuple of (Var, numpy.ndarray)
        Arrays that were made while tracing from nothing traced.
    eqns : tuple of Eqn
        In an order in which every operand is known before it is used.
    sizes : tuple of SizeGuard
    guards : tuple of ValueGuard
    """

    inputs: tuple[Var, ...]
    consts: tuple[tuple[Var, np.ndarray[Any, Any]], ...]
    eqns: tuple[Eqn, ...]
    outputs: tuple[Atom, ...]
    sizes: tuple[SizeGuard, ...] = ()
    guards: tuple[ValueGuard, ...] = ()

    def __str__(self) -> str:
        return "\n".join(Names().lines(self, "tape"))

    def _repr_html_(self) -> str:
        text = str(self).replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{text}</pre>"


_LETTERS = "abcdefghijklmopqrstuvwxyz"


class Names:
    """Short names for the variables of one text: a, b, ..., z, a1, ..."""

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._taken: set[str] = set()
        turns = itertools.chain([""], map(str, itertools.count(1)))
        self._letters = (letter + turn for turn in turns for letter in _LETTERS)

    def __call__(self, atom: Atom) -> str:
        if isinstance(atom, Lit):
            return repr(atom)
        if atom not in self._names:
            numbered = (f"{atom.name}_{k}" for k in itertools.count(2))
            proposed = itertools.chain([atom.name], numbered) if atom.name else self._letters
            name = next(n for n in proposed if n not in self._taken)
            self._taken.add(name)
            self._names[atom] = name
        return self._names[atom]

    def typed(self, var: Var) -> str:
        return f"{self(var)}:{var.aval}"

    def equation(self, eqn: Eqn) -> str:
        params = [f"{k}={_param_text(v)}" for k, v in eqn.params.items()]
        inside = ", ".join([self(a) for a in eqn.operands] + params)
        left = ", ".join(self.typed(v) for v in eqn.results)
        return f"{left} = {eqn.op.name}({inside})"

    def lines(self, tape: Tape, title: str) -> list[str]:
        """Return the text of ``tape``, line by line; bodies stand indented below their equation."""
        lines = [f"{title}({', '.join(self.typed(v) for v in tape.inputs)}):"]
        lines += [f"    const {self.typed(v)}" for v, _ in tape.consts]
        lines += [f"    where {guard}" for guard in tape.sizes]
        rows = [self.equation(e) for e in tape.eqns]
        width = min(max((len(r) for r in rows), default=0), 76)
        for row, eqn in zip(rows, tape.eqns, strict=True):
            where = f"  # {eqn.source.short}" if eqn.source else ""
            lines.append(f"    {row:<{width}}{where}")
            for number, body in enumerate(bodies(eqn)):
                lines += ["        " + line for line in self.lines(body, f"body {number}")]
        lines += [f"    guard {self(g.var)} == {g.expected!r}" for g in tape.guards]
        lines.append(f"    return {', '.join(map(self, tape.outputs))}")
        return lines


def bodies(eqn: Eqn) -> list[Tape]:
    """Return the tapes that an equation holds: the bodies of loops and branches."""
    found: list[Tape] = []
    for value in eqn.params.values():
        values = value if isinstance(value, tuple) else (value,)
        found.extend(v for v in values if isinstance(v, Tape))
    return found


def _param_text(value: object) -> str:
    if isinstance(value, Tape):
        return "..."
    if isinstance(value, tuple):
        return "(" + ",".join(_param_text(v) for v in value) + ")"
    return str(value)
