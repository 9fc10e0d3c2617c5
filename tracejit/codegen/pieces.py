"""Long kernels in pieces: parts that do the same to other variables become one function, compiled once.

A trace that was unrolled gives the same loop nests again and again.  The time to compile a function grows
faster than its length, so a long kernel is cut where nothing but a few variables passes: between nests, and in
scalar code at multiples of its period.  What remains of the kernel allocates the arrays and calls the pieces.

This works on the text: `statements` says what a statement reads and writes.  Names that two pieces give to
their variables do not tell them apart, and neither do the numbers of their handles, as long as the same ones
are equal.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracejit.codegen.statements import Effects, Statement, parse, renamed, sequence
from tracejit.codegen.text import Names, indented

__all__ = ["LONG", "Cut", "Piece", "chunks", "cut"]

LONG = 600
"""Lines of a kernel from which on it is cut."""

CHUNK = 150
"""Statements of scalar code in one piece."""

WINDOW = 1200
"""Statements in which a period is looked for."""

FEW = 4
"""Statements of scalar code that are left where they are."""

_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?!\w)")
"""A floating-point literal."""

_HANDLE = re.compile(r"distinct\((\w+), (\d+)\)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a kernel as a function.

    Attributes
    ----------
    name : str
    source : str
        It returns a tuple of scalars.
    key : str
        The source with canonical names: what decides whether two pieces do the same.
    calls : frozenset of str
        Names that the source refers to but does not define.
    """

    name: str
    source: str
    key: str
    calls: frozenset[str]


@dataclass(frozen=True, slots=True)
class Cut:
    """A kernel in pieces: the lines that are left, and the functions that they call."""

    lines: list[str]
    pieces: tuple[Piece, ...]


def cut(
    blocks: Iterable[Sequence[str]], parameters: Iterable[str], functions: Collection[str], names: Names
) -> Cut:
    """Return a kernel's body in pieces.

    Parameters
    ----------
    blocks : iterable of lines
        The body; nests and regions in blocks of their own.
    parameters : iterable of str
        Of the kernel.
    functions : collection of str
        Plain functions that are called.
    names : Names
        Gives names to the pieces.
    """
    return _Cutter([parse(block) for block in blocks], frozenset(parameters), functions, names).cut()


@dataclass(slots=True)
class _Run:
    """Statements that stay together.

    ``moves`` says whether they become a piece, ``repeats`` whether they are a part of long scalar code, where
    pieces may differ in numbers: those are arguments.
    """

    statements: list[Statement]
    moves: bool
    repeats: bool = False
    effects: Effects = field(init=False)

    def __post_init__(self) -> None:
        self.effects = sequence(s.effects for s in self.statements)


class _Cutter:
    def __init__(
        self,
        blocks: list[list[Statement]],
        parameters: frozenset[str],
        functions: Collection[str],
        names: Names,
    ) -> None:
        self.parameters, self.functions, self.names = parameters, functions, names
        everything = [s for block in blocks for s in block]
        self.variables = parameters.union(*(s.effects.written for s in everything))
        self.handles = {target: s for s in everything if (target := _made(s, "distinct"))}
        arrays = {target for s in everything if (target := _made(s, "grown"))}
        swapped = {n for s in everything if not _made(s, "distinct", "grown") for n in s.effects.written}
        self.fixed = swapped & (arrays | set(self.handles) | parameters)
        self.constant = "constant"
        while any(name.startswith(self.constant) for name in self.variables):
            self.constant += "_"
        self.runs = [run for block in _merged(blocks) for run in self._runs(block)]
        self._pieces: dict[str, Piece] = {}

    def cut(self) -> Cut:
        lines: list[str] = []
        defined = set(self.parameters)
        for run, live in zip(self.runs, self._live(), strict=True):
            lines += [self._call(run, live, defined)] if run.moves else self._left(run, live)
            defined |= run.effects.written
        return Cut(lines, tuple(self._pieces.values()))

    def _left(self, run: _Run, live: frozenset[str]) -> list[str]:
        """Return the lines of a run that is no piece; pieces make their own handles."""
        handle = _made(run.statements[0], "distinct")
        if handle is not None and handle not in live:
            return []
        return [line for s in run.statements for line in s.lines]

    def _live(self) -> list[frozenset[str]]:
        """Return per run the variables that are read after it."""
        found: list[frozenset[str]] = []
        live: frozenset[str] = frozenset()
        for run in reversed(self.runs):
            found.append(live)
            live = (live - run.effects.certain) | self._taken(run)
        return found[::-1]

    def _taken(self, run: _Run) -> frozenset[str]:
        """Return the variables that a run takes; for a handle in a piece it is the array."""
        read = run.effects.read & self.variables
        return frozenset(map(self._array, read)) if run.moves else read

    # --- which statements go together ---

    def _runs(self, block: list[Statement]) -> Iterator[_Run]:
        for stays, group in itertools.groupby(block, self._stays):
            part = list(group)
            if stays:
                yield from (_Run([s], False) for s in part)
            elif len(part) <= FEW and not any(s.is_loop for s in part):
                yield _Run(part, False)
            elif len(part) <= 2 * CHUNK:
                yield _Run(part, True)
            else:
                yield from (_Run(part[a:b], True, True) for a, b in chunks([self._shape(s) for s in part]))

    def _stays(self, statement: Statement) -> bool:
        """Return whether a statement must be in the kernel itself: it owns memory, or ends the function."""
        node = statement.node
        return (
            isinstance(node, ast.Return)
            or bool(_made(statement, "distinct", "grown", "mark"))
            or bool(statement.effects.written & self.fixed)
            or (isinstance(node, ast.Expr) and _called(node) in {"back", *self.functions})
        )

    def _shape(self, statement: Statement) -> str:
        """Return the text of a statement without the names of variables."""
        lines = (x for x in statement.lines if not _is_comment(x))
        text = "\n".join(renamed(x, lambda n: "_" if n in self.variables else n) for x in lines)
        return _NUMBER.sub("0.0", text)

    # --- pieces ---

    def _array(self, name: str) -> str:
        while name in self.handles:
            name = self._base(name)
        return name

    def _base(self, handle: str) -> str:
        """Return the array, or handle, that a handle is made of."""
        (base,) = self.handles[handle].effects.read & self.variables
        return base

    def _call(self, run: _Run, live: frozenset[str], defined: set[str]) -> str:
        """Return the line that calls the piece, which is made if there is none like it."""
        body = [line for s in run.statements for line in s.lines]
        order = [n for n in _identifiers(body) if n in self.variables]
        out = [n for n in order if n in run.effects.written & live]
        # A variable that may keep its value is taken, to be returned.  What is not assigned before is the
        # piece's own: it is read only if it is assigned.
        kept = run.effects.read.union(n for n in out if n not in run.effects.certain)
        taken = [n for n in order if n in kept and n in defined]
        given = list(dict.fromkeys(map(self._array, taken)))
        numbers: list[str] = []
        if run.repeats:
            body = [line if _is_comment(line) else self._without_numbers(line, numbers) for line in body]
        parameters = [*given, *(f"{self.constant}{n}" for n in range(len(numbers)))]
        piece = self._piece(parameters, [*self._handle_lines(taken), *body, f"return ({_tuple(out)})"])
        call = f"{piece.name}({', '.join([*given, *numbers])})"
        return f"{_tuple(out)} = {call}" if out else call

    def _without_numbers(self, line: str, numbers: list[str]) -> str:
        """Return a line with parameters in the place of numbers, the same for equal ones."""

        def parameter(found: re.Match[str]) -> str:
            if found[0] not in numbers:
                numbers.append(found[0])
            return f"{self.constant}{numbers.index(found[0])}"

        return _NUMBER.sub(parameter, line)

    def _handle_lines(self, names: Iterable[str]) -> list[str]:
        """Return the lines that make handles again, each after the one that it is made of."""
        lines: dict[str, None] = {}
        for name in names:
            chain = []
            while name in self.handles:
                chain.append(self.handles[name].lines[-1])
                name = self._base(name)
            lines.update(dict.fromkeys(reversed(chain)))
        return list(lines)

    def _piece(self, parameters: list[str], body: list[str]) -> Piece:
        key = self._canonical([f"({', '.join(parameters)})", *(x for x in body if not _is_comment(x))])
        if key not in self._pieces:
            name = self.names.unique(f"piece{len(self._pieces)}")
            source = "\n".join([f"def {name}({', '.join(parameters)}):", *indented(body), ""])
            calls = frozenset(n for n in _identifiers(body) if n in self.functions)
            self._pieces[key] = Piece(name, source, key, calls)
        return self._pieces[key]

    def _canonical(self, lines: list[str]) -> str:
        """Return lines with variables and handles numbered as they appear."""
        places: dict[str, str] = {}
        numbers: dict[str, int] = {}

        def name(identifier: str) -> str:
            if identifier not in self.variables:
                return identifier
            return places.setdefault(identifier, f"v{len(places)}")

        def number(found: re.Match[str]) -> str:
            return f"distinct({found[1]}, {numbers.setdefault(found[2], len(numbers) + 1)})"

        return "\n".join(_HANDLE.sub(number, renamed(line, name)) for line in lines)


def chunks(shapes: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Return where long scalar code is cut: into whole periods where it repeats, else anywhere."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes])
    start = 0
    while start < len(codes):
        period = _period(codes[start : start + WINDOW])
        if period is None:
            end = min(start + CHUNK, len(codes))
            yield start, end
            start = end
            continue
        differs = np.flatnonzero(codes[start + period :] != codes[start:-period])
        end = start + period + (int(differs[0]) if len(differs) else len(codes) - start - period)
        length = period * max(1, CHUNK // period)
        while start + length <= end:
            yield start, start + length
            start += length
        rest = (end - start) // period * period
        if rest:
            yield start, start + rest
            start += rest


def _period(codes: np.ndarray[Any, Any]) -> int | None:
    """Return the shortest period that ``codes`` begins with, three times at least."""
    for period in range(1, len(codes) // 3 + 1):
        if np.array_equal(codes[: 2 * period], codes[period : 3 * period]):
            return period
    return None


def _merged(blocks: Iterable[list[Statement]]) -> Iterator[list[Statement]]:
    """Return the blocks, those of scalar code together."""
    for has_loops, group in itertools.groupby(blocks, lambda b: any(s.is_loop for s in b)):
        if has_loops:
            yield from group
        else:
            yield [s for block in group for s in block]


def _made(statement: Statement, *makers: str) -> str | None:
    """Return the variable that a statement assigns what one of ``makers`` makes."""
    node = statement.node
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return None
    function, target = node.value.func, node.targets[0]
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return target.id if name in makers and isinstance(target, ast.Name) else None


def _called(node: ast.Expr) -> str | None:
    function = node.value.func if isinstance(node.value, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else None


def _identifiers(lines: Iterable[str]) -> list[str]:
    """Return the identifiers in the order in which they appear."""
    found: dict[str, None] = {}
    for line in lines:
        renamed(line, lambda n: found.setdefault(n) or n)
    return list(found)


def _tuple(names: Sequence[str]) -> str:
    return ", ".join(names) + ("," if len(names) == 1 else "")


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")
