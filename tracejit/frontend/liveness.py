"""Which names a piece of source assigns, and whose values are still wanted afterwards.

A loop becomes a region; the variables that it carries from one iteration to the next, or hands on to the
code behind
it, are those that its body assigns and that somebody may read before assigning them anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = ["SCOPES", "Jumps", "annotate", "assigned", "escaping", "loads", "own_nodes"]

Names = frozenset[str]
NOTHING: Names = frozenset()

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_TRIES = (ast.Try, ast.TryStar)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Yield all nodes below, without the insides of other functions and classes."""
    for node in nodes:
        yield node
        if isinstance(node, SCOPES):
            yield from own_nodes(_outside(node))
        else:
            yield from own_nodes(ast.iter_child_nodes(node))


def _outside(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a definition that run where it stands: decorators, defaults, bases."""
    parts: list[ast.AST] = list(getattr(node, "decorator_list", ()))
    arguments = getattr(node, "args", None)
    if arguments is not None:
        parts += [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    parts += [*getattr(node, "bases", ()), *getattr(node, "keywords", ())]
    return parts


def assigned(nodes: Iterable[ast.AST]) -> Names:
    """Return the names of this scope that the statements bind or delete."""
    found: set[str] = set()
    for node in _without_comprehension_targets(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return frozenset(found)


def _without_comprehension_targets(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    for node in nodes:
        yield node
        if isinstance(node, SCOPES):
            yield from _without_comprehension_targets(_outside(node))
        elif isinstance(node, _COMPREHENSIONS):
            yield from (n for n in own_nodes([node]) if isinstance(n, ast.NamedExpr))
            yield from (n.target for n in own_nodes([node]) if isinstance(n, ast.NamedExpr))
        else:
            yield from _without_comprehension_targets(ast.iter_child_nodes(node))


def loads(nodes: Iterable[ast.AST | None]) -> Names:
    """Return the names that the nodes read, here and now."""
    found = own_nodes(n for n in nodes if n is not None)
    return frozenset(n.id for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del))


def escaping(function: ast.AST) -> Names:
    """Return the names that functions and classes defined inside may read at any time."""
    found: set[str] = set()
    for node in own_nodes(ast.iter_child_nodes(function)):
        if isinstance(node, SCOPES):
            found.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            found.update(name for n in ast.walk(node) if isinstance(n, ast.Nonlocal) for name in n.names)
    return frozenset(found)


@dataclass(frozen=True)
class Jumps:
    """What is live where a block may jump to: out of the loop, to its head, into a handler."""

    out: Names = NOTHING
    again: Names = NOTHING
    handler: Names = NOTHING


def annotate(statements: Sequence[ast.stmt], after: Names, jumps: Jumps) -> Names:
    """Return the names live before the statements; each loop and ``if`` gets its live names as ``_live``.

    Of a loop these are the names live at its head or behind it, of an ``if`` the names live behind it.
    """
    live = after | jumps.handler
    for statement in reversed(statements):
        live = _before(statement, live, jumps) | jumps.handler
    return live


def _before(node: ast.stmt, after: Names, jumps: Jumps) -> Names:
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return _loop(node, after, jumps)
    if isinstance(node, ast.If):
        node._live = after  # type: ignore[attr-defined]
        branches = annotate(node.body, after, jumps) | annotate(node.orelse, after, jumps)
        return branches | loads([node.test])
    if isinstance(node, ast.With | ast.AsyncWith):
        inner = annotate(node.body, after, replace(jumps, handler=jumps.handler | after))
        return (inner - assigned(i.optional_vars for i in node.items if i.optional_vars)) | loads(node.items)
    if isinstance(node, _TRIES):
        return _try(node, after, jumps)
    if isinstance(node, ast.Match):
        cases = [annotate(c.body, after, jumps) | loads([c.pattern, c.guard]) for c in node.cases]
        return after.union(*cases) | loads([node.subject])
    return _simple(node, after, jumps)


def _loop(node: ast.For | ast.AsyncFor | ast.While, after: Names, jumps: Jumps) -> Names:
    behind = annotate(node.orelse, after, jumps)
    test = loads([node.test]) if isinstance(node, ast.While) else NOTHING
    target = NOTHING if isinstance(node, ast.While) else assigned([node.target])
    head, found = None, behind | test
    while found != head:
        head = found
        inside = annotate(node.body, head, Jumps(after, head, jumps.handler))
        inside = inside - target if isinstance(node, ast.While) else (inside - target) | loads([node.target])
        found = head | inside
    node._live = found | after  # type: ignore[union-attr]
    return found if isinstance(node, ast.While) else found | loads([node.iter])


def _try(node: ast.Try | ast.TryStar, after: Names, jumps: Jumps) -> Names:
    final = annotate(node.finalbody, after, jumps) | loads(node.finalbody)
    guarded = replace(
        jumps, out=jumps.out | final, again=jumps.again | final, handler=jumps.handler | loads(node.finalbody)
    )
    handlers = [annotate(h.body, final, guarded) | loads([h.type]) for h in node.handlers]
    caught = NOTHING.union(*handlers)
    behind = annotate(node.orelse, final, guarded)
    return annotate(node.body, behind | caught, replace(guarded, handler=guarded.handler | caught))


def _simple(node: ast.stmt, after: Names, jumps: Jumps) -> Names:
    if isinstance(node, ast.Break):
        return jumps.out
    if isinstance(node, ast.Continue):
        return jumps.again
    if isinstance(node, ast.Return | ast.Raise):
        return loads([node])
    if isinstance(node, ast.AugAssign):
        target = node.target
        return after | loads([node]) | (frozenset({target.id}) if isinstance(target, ast.Name) else NOTHING)
    bound = NOTHING
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom | ast.Delete):
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node]
        bound = assigned(targets) if getattr(node, "value", node) is not None else NOTHING
        bound = bound - _conditional(node)
    elif isinstance(node, SCOPES):
        bound = frozenset({node.name})
    return (after - bound) | loads([node])


def _conditional(node: ast.AST) -> Names:
    """Return the names bound by ``:=``, which may stand where evaluation never gets."""
    return frozenset(n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
