"""Generated statements and the variables that they read and write, as cutting a kernel into pieces needs to know."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Effects", "Statement", "parse", "renamed", "sequence"]

_TOKEN = re.compile(r"""("[^"\n]*"|'[^'\n]*'|\#.*|\.\s*[A-Za-z_]\w*)|\b([A-Za-z_]\w*)""")


@dataclass(frozen=True, slots=True)
class Effects:
    """What a piece of code does to variables.

    Attributes
    ----------
    read : frozenset of str
        Names whose value from before may be read.
    written : frozenset of str
        Names that may be assigned.
    certain : frozenset of str
        Names that are assigned whichever way it runs.
    """

    read: frozenset[str]
    written: frozenset[str] = frozenset()
    certain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at the first level: its lines, the comments above it included, its node, and its effects."""

    lines: tuple[str, ...]
    node: ast.stmt
    effects: Effects

    @property
    def is_loop(self) -> bool:
        return isinstance(self.node, ast.For | ast.While)


def parse(lines: Sequence[str]) -> list[Statement]:
    """Return the statements of generated lines; a comment belongs to the statement below it."""
    nodes = ast.parse("\n".join(lines)).body
    ends = [0, *(node.end_lineno or 0 for node in nodes)]
    texts = [tuple(lines[start:end]) for start, end in pairwise(ends)]
    return [Statement(text, node, _effects(node)) for text, node in zip(texts, nodes, strict=True)]


def sequence(effects: Iterable[Effects]) -> Effects:
    """Return the effects of one after the other."""
    read: set[str] = set()
    written: set[str] = set()
    certain: set[str] = set()
    for each in effects:
        read |= each.read - certain
        written |= each.written
        certain |= each.certain
    return Effects(frozenset(read), frozenset(written), frozenset(certain))


def renamed(line: str, name: Callable[[str], str]) -> str:
    """Return a line with ``name`` of each identifier; texts, comments and attributes stay."""
    return _TOKEN.sub(lambda found: found[1] or name(found[2]), line)


def _effects(node: ast.stmt) -> Effects:
    if isinstance(node, ast.For):
        target = _names(node.target, ast.Store)
        body = sequence(map(_effects, node.body))
        return Effects(_names(node.iter) | (body.read - target), target | body.written)
    if isinstance(node, ast.While):
        body = sequence(map(_effects, node.body))
        return Effects(_names(node.test) | body.read, body.written)
    if isinstance(node, ast.If):
        then, otherwise = (sequence(map(_effects, part)) for part in (node.body, node.orelse))
        return Effects(
            _names(node.test) | then.read | otherwise.read,
            then.written | otherwise.written,
            then.certain & otherwise.certain,
        )
    written = _names(node, ast.Store)
    read = _names(node) | (written if isinstance(node, ast.AugAssign) else frozenset())
    return Effects(read, written, written)


def _names(node: ast.AST, context: type[ast.expr_context] = ast.Load) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context))
