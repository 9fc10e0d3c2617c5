"""Rewrite a function's syntax tree so that its control flow goes through doors that the tracer stands behind.

    for x in xs:            def _tj_body_1(_tj_item):
        s = s + x               nonlocal s
        if s > 9:     -->       x = _tj_item
            break               s = s + x
                                return _tj_if(s > 9, _tj_true_2, None, ...)   # _tj_true_2 returns _tj_BREAK
                            _tj_exit_3 = _tj_for(xs, _tj_body_1, ...)

Bodies and branches become inner functions over the same variables.  They return how they ended: ``None``
for the end of
the block, `_tj_BREAK`, `_tj_CONTINUE`, or ``(value,)`` for a ``return``.  Where a branch may leave, the
statements behind
the ``if`` become a function of their own that the other branches end with.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracejit.frontend.expressions import BUILTIN_TYPES, Expressions, may_be_numpy_type
from tracejit.frontend.liveness import NOTHING, SCOPES, Jumps, Names, annotate, assigned, escaping, own_nodes

__all__ = ["rewrite"]

Node = TypeVar("Node", bound=ast.AST)

_LOOPS = (ast.For, ast.While)
_BLOCKS = (ast.With, ast.Try, ast.TryStar, ast.Match)
_EXITS = (ast.Return, ast.Break, ast.Continue)
_FRAME_READERS = {"locals", "vars", "eval", "exec", "dir"}
_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


def rewrite(function: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the function with doors, or None if it has nothing to lift or cannot be lifted."""
    if not any(_has_doors(n) for n in ast.walk(function)):
        return None
    nodes = list(own_nodes(function.body))
    if any(isinstance(n, _SUSPENDING) for n in nodes):
        return None
    if any(isinstance(n, ast.Name) and n.id in _FRAME_READERS for n in nodes):
        return None
    return _Function(function).rewritten()


def _has_doors(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) > 1
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Call):
        return may_be_numpy_type(node.func) or (
            isinstance(node.func, ast.Name) and node.func.id in BUILTIN_TYPES
        )
    return isinstance(node, ast.For | ast.While | ast.If | ast.IfExp | ast.BoolOp)


@dataclass
class _Emitted:
    """One function that is being written: the user's own, or the body of a door."""

    door: bool
    temporaries: Names = NOTHING
    live: Names = NOTHING
    tail: str | None = None  # function to call where the block falls through
    linear: bool = True  # what follows a statement here is all that follows it in this function


class _Function:
    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.count = 0
        declared = [n for n in own_nodes(node.body) if isinstance(n, ast.Global | ast.Nonlocal)]
        self.globals = frozenset(n for d in declared if isinstance(d, ast.Global) for n in d.names)
        self.nonlocals = frozenset(n for d in declared if isinstance(d, ast.Nonlocal) for n in d.names)
        self.escaping = escaping(node) | self.globals | self.nonlocals
        ordered = _parameters(node.args)
        self.parameters = frozenset(ordered)
        annotate(node.body, self.escaping, Jumps(self.escaping, self.escaping, self.escaping))
        self.expressions = Expressions(ordered, self.nested)

    def nested(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Return a function defined inside, lifted if it can be."""
        return rewrite(node) or node

    def rewritten(self) -> ast.FunctionDef:
        frame = _Emitted(door=False, live=self.escaping)
        body = list(self.node.body)
        head: list[ast.stmt] = []
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            head.append(body.pop(0))  # the docstring stays in front
        names = assigned(self.node.body) - self.globals - self.nonlocals - self.parameters
        new = self.block(body, frame)
        declarations = self._declared(self.node, names)
        self.node.body = [*head, *declarations, *new] or [ast.Pass()]
        return ast.fix_missing_locations(self.node)

    def _declared(self, at: ast.AST, names: Names) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        if self.globals:
            made.append(ast.Global(sorted(self.globals)))
        if self.nonlocals:
            made.append(ast.Nonlocal(sorted(self.nonlocals)))
        return [_at(s, at) for s in [*made, *_binding(names)]]

    def name(self, what: str) -> str:
        self.count += 1
        return f"_tj_{what}_{self.count}"

    # --- blocks ---------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], frame: _Emitted) -> list[ast.stmt]:
        """Return the statements with doors, ending with the frame's tail."""
        out: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, _LOOPS):
                calls, checks = self.loop(statement, frame)
                out += calls
                if checks:
                    return out + self.block([*checks, *rest], frame)
            elif isinstance(statement, ast.If):
                if frame.linear and _leaves([statement]):
                    return out + self.leaving_if(statement, rest, frame)
                out += self.plain_if(statement, frame)
            elif isinstance(statement, _EXITS):
                return [*out, self.exit(statement, frame)]
            elif isinstance(statement, _BLOCKS):
                out.append(self.compound(statement, frame))
            elif not isinstance(statement, ast.Global | ast.Nonlocal):
                out.append(self.simple(statement, frame))
        if frame.tail and frame.linear:
            out.append(ast.Return(_call(frame.tail)))
        return out

    def simple(self, statement: ast.stmt, frame: _Emitted) -> ast.stmt:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and frame.door:
            if statement.value is None:
                return _at(ast.Pass(), statement)
            statement = _at(ast.Assign([statement.target], statement.value), statement)
        return self.expressions.visit(statement)

    def exit(self, statement: ast.stmt, frame: _Emitted) -> ast.stmt:
        if isinstance(statement, ast.Return):
            value = self.expressions.visit(statement.value) if statement.value else ast.Constant(None)
            return _at(ast.Return(ast.Tuple([value], ast.Load()) if frame.door else value), statement)
        code = "_tj_BREAK" if isinstance(statement, ast.Break) else "_tj_CONTINUE"
        return _at(ast.Return(_load(code)), statement)

    def compound(self, statement: ast.stmt, frame: _Emitted) -> ast.stmt:
        """Lift inside ``with``, ``try`` and ``match``; what follows inside them is not all that follows."""
        inner = _Emitted(frame.door, frame.temporaries, frame.live | _live(statement), linear=False)
        holders = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
        for holder in holders:
            for part in ("body", "orelse", "finalbody"):
                block = getattr(holder, part, None)
                if block:
                    setattr(holder, part, self.block(block, inner) or [_at(ast.Pass(), statement)])
        self.expressions.heads(statement)
        return statement

    # --- if -------------------------------------------------------------------------------------------------

    def plain_if(self, node: ast.If, frame: _Emitted) -> list[ast.stmt]:
        """An ``if`` that control comes out of at its end, or one inside ``try`` and the like."""
        live = getattr(node, "_live", frame.live) | self.escaping
        definitions, call = self.if_call(node, live & assigned([node]), live, None)
        if not _leaves([node]):
            return [*definitions, _at(ast.Expr(call), node)]
        name = self.name("exit")
        keep = _at(ast.Assign([_store(name)], _call("_tj_plain_exit", call)), node)
        test = ast.Compare(_load(name), [ast.IsNot()], [ast.Constant(None)])
        leave = ast.Return(_load(name) if frame.door else _call("_tj_value", _load(name)))
        return [*definitions, keep, _at(ast.If(test, [_at(leave, node)], []), node)]

    def leaving_if(self, node: ast.If, rest: Sequence[ast.stmt], frame: _Emitted) -> list[ast.stmt]:
        """An ``if`` that may leave the block: what follows it is called by the branches that do not."""
        out: list[ast.stmt] = []
        tail = frame.tail
        if rest:
            following = _Emitted(True, live=frame.live, tail=tail)
            tail = self.name("rest")
            out.append(self.define(tail, self.block(rest, following), assigned(rest), node))
        definitions, call = self.if_call(node, frame.live, frame.live, tail)
        value = call if frame.door else _call("_tj_value", call)
        return [*out, *definitions, _at(ast.Return(value), node)]

    def if_call(
        self, node: ast.If, names: Names, live: Names, tail: str | None
    ) -> tuple[list[ast.stmt], ast.expr]:
        definitions: list[ast.stmt] = []
        branches: list[ast.expr] = []
        for label, part in (("true", node.body), ("false", node.orelse)):
            if not part:
                branches.append(_load(tail) if tail else ast.Constant(None))
                continue
            inside = _Emitted(True, live=live, tail=tail)
            name = self.name(label)
            definitions.append(self.define(name, self.block(part, inside), assigned(part), part[0]))
            branches.append(_load(name))
        test = self.expressions.visit(node.test)
        return definitions, _call("_tj_if", test, *branches, _names(names))

    # --- loops ----------------------------------------------------------------------------------------------

    def loop(self, node: ast.For | ast.While, frame: _Emitted) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return the statements for a loop, and the ``if`` statements that act on how it ended."""
        live = node._live | self.escaping  # type: ignore[union-attr]
        header: list[ast.AST] = [node.target] if isinstance(node, ast.For) else [node.test]
        names = assigned([*header, *node.body])
        fixed = live | self.parameters | self._walrus(node)
        temporaries = names - fixed
        inside = _Emitted(True, temporaries, live & names)
        arguments: list[ast.expr]
        test, body = self.name("test"), self.name("body")
        made: list[ast.stmt] = []
        if isinstance(node, ast.For):
            take = _at(ast.Assign([node.target], _load("_tj_item")), node.target)
            block = [take, *self.block(node.body, inside)]
            arguments = [self.expressions.visit(node.iter), _load(body)]
        else:
            block = self.block(node.body, inside)
            answer = _at(ast.Return(self.expressions.visit(node.test)), node.test)
            made.append(self.define(test, [answer], assigned([node.test]), node.test))
            arguments = [_load(test), _load(body)]
        parameter = ["_tj_item"] if isinstance(node, ast.For) else []
        made.append(self.define(body, block, names, node, temporaries, parameter))
        door = "_tj_for" if isinstance(node, ast.For) else "_tj_while"
        call = _call(door, *arguments, _names(live & names), ast.Constant(_leaves(node.body)))
        return self.ended(node, [*made], call)

    def _walrus(self, node: ast.For | ast.While) -> Names:
        return assigned([node.test]) if isinstance(node, ast.While) else NOTHING

    def ended(
        self, node: ast.For | ast.While, made: list[ast.stmt], call: ast.expr
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        returns = any(isinstance(n, ast.Return) for n in own_nodes(node.body))
        if not returns and not node.orelse:
            return [*made, _at(ast.Expr(call), node)], []
        name = self.name("exit")
        checks: list[ast.stmt] = []
        if returns:
            back = _at(ast.Return(_call("_tj_value", _load(name))), node)
            checks.append(self._check("_tj_returned", name, [back], node))
        if node.orelse:
            checks.append(self._check("_tj_completed", name, node.orelse, node))
        return [*made, _at(ast.Assign([_store(name)], call), node)], checks

    def _check(self, door: str, name: str, body: list[ast.stmt], node: ast.stmt) -> ast.If:
        check = _at(ast.If(_call(door, _load(name)), body, []), node)
        check._live = node._live  # type: ignore[attr-defined]
        return check

    # --- functions ------------------------------------------------------------------------------------------

    def define(
        self,
        name: str,
        body: list[ast.stmt],
        names: Names,
        at: ast.AST,
        temporaries: Names = NOTHING,
        parameters: Sequence[str] = (),
    ) -> ast.stmt:
        """Return the definition of an inner function over the variables of the user's function."""
        shared = names & self.globals
        outer = names - temporaries - shared
        head: list[ast.stmt] = [ast.Global(sorted(shared))] if shared else []
        head += [ast.Nonlocal(sorted(outer))] if outer else []
        head += _binding(temporaries)
        arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [])
        made = ast.FunctionDef(name, arguments, [*head, *body] or [ast.Pass()], [])
        return _at(made, at)


def _parameters(args: ast.arguments) -> list[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [a.arg for a in every if a is not None]


def _leaves(statements: Iterable[ast.AST], looping: bool = False) -> bool:
    """Return whether control may leave the statements by break, continue or return."""
    for node in statements:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not looping):
            return True
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            if _leaves(node.body, True) or _leaves(node.orelse, looping):
                return True
        elif _leaves(ast.iter_child_nodes(node), looping):
            return True
    return False


def _live(statement: ast.AST) -> Names:
    """Return the names that anything inside may want: ``try`` and the like are not looked into closely."""
    return frozenset(n.id for n in ast.walk(statement) if isinstance(n, ast.Name))


def _binding(names: Names) -> list[ast.stmt]:
    """Return a statement that makes names local without giving them a value."""
    if not names:
        return []
    targets: list[ast.expr] = [_store(n) for n in sorted(names)]
    return [ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])]


def _names(names: Names) -> ast.expr:
    return ast.Constant(tuple(sorted(names)))  # type: ignore[arg-type]


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(arguments), [])


def _at(new: Node, old: ast.AST) -> Node:
    """Give a new node, and what is new below it, the place of an old one."""
    place = {a: getattr(old, a) for a in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    stack: list[ast.AST] = [new]
    while stack:
        node = stack.pop()
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            for attribute, value in place.items():
                setattr(node, attribute, value)
        stack.extend(ast.iter_child_nodes(node))
    return new
