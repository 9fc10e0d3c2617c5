"""Rewrite expressions so that Python's own decisions on values go through doors.

``and or not``, conditional expressions and chained comparisons ask for truth values, and ``int(x)`` or
``range(n)``
for plain numbers; behind the doors of `control_flow` they work on traced values too.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["BUILTIN_TYPES", "Expressions", "may_be_numpy_type"]

BUILTIN_TYPES = ("bool", "complex", "enumerate", "float", "int", "range", "reversed", "zip")
"""Builtins that are types: a call of one goes through a door, the name itself stays what it is."""

_NUMPY_TYPES = frozenset(
    name for name, value in vars(np).items() if isinstance(value, type) and issubclass(value, np.generic)
)

_PINNED = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
assert all(isinstance(getattr(builtins, name), type) for name in BUILTIN_TYPES)


class Expressions(ast.NodeTransformer):
    """Rewrites the expressions of one function.

    Parameters
    ----------
    parameters
        Of the function; the first one is what ``super()`` means.
    nested
        Rewrites the functions defined inside.
    """

    def __init__(
        self, parameters: Sequence[str], nested: Callable[[ast.FunctionDef], ast.FunctionDef]
    ) -> None:
        self.first = next(iter(parameters), None)
        self.nested = nested

    def heads(self, statement: ast.stmt) -> None:
        """Rewrite the expressions at the head of a compound statement, not the blocks inside."""
        for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for name in ("subject", "type", "guard"):
                value = getattr(holder, name, None)
                if isinstance(value, ast.expr):
                    setattr(holder, name, self.visit(value))
        for item in getattr(statement, "items", ()):
            item.context_expr = self.visit(item.context_expr)

    # --- definitions ----------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        return self.nested(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = [self.nested(s) if isinstance(s, ast.FunctionDef) else s for s in node.body]
        return node

    # --- decisions ------------------------------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *others = [self.visit(v) for v in node.values]
        door = "_tj_and" if isinstance(node.op, ast.And) else "_tj_or"
        if _pinned(others):
            return ast.copy_location(ast.BoolOp(node.op, [first, *others]), node)
        return _door(node, door, first, *map(_delayed, others))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self.visit(node.operand)
        return _door(node, "_tj_not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if _pinned([node.body, node.orelse]):
            return node
        return _door(node, "_tj_choose", node.test, _delayed(node.body), _delayed(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1 or _pinned(node.comparators[1:]):
            return node
        pairs = [_comparison(op, node) for op in node.ops]
        second, *later = node.comparators
        return _door(
            node, "_tj_chain", ast.Tuple(pairs, ast.Load()), node.left, second, *map(_delayed, later)
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if may_be_numpy_type(node.func):
            node.func = _door(node.func, "_tj_type", node.func)
        elif isinstance(node.func, ast.Name):
            if node.func.id in BUILTIN_TYPES:
                node.func = _door(node.func, "_tj_type", node.func)
            elif node.func.id == "super" and not node.args and self.first is not None:
                names = ("__class__", self.first)
                node.args = [ast.copy_location(ast.Name(n, ast.Load()), node) for n in names]
        return node


def may_be_numpy_type(function: ast.expr) -> bool:
    """Return whether ``function`` may be a type of NumPy's: ``np.ndarray``, ``np.float64``, ``x.dtype.type``."""
    if isinstance(function, ast.Name):
        return function.id in _NUMPY_TYPES
    return isinstance(function, ast.Attribute) and (
        function.attr in _NUMPY_TYPES or function.attr in ("ndarray", "type")
    )


def _comparison(op: ast.cmpop, at: ast.expr) -> ast.expr:
    """Return a function of two values that compares them."""
    arguments = ast.arguments([], [ast.arg("a"), ast.arg("b")], None, [], [], None, [])
    body = ast.Compare(ast.Name("a", ast.Load()), [op], [ast.Name("b", ast.Load())])
    return _place(ast.Lambda(arguments, body), at)


def _delayed(value: ast.expr) -> ast.expr:
    """Return ``lambda: value``."""
    return _place(ast.Lambda(ast.arguments([], [], None, [], [], None, []), value), value)


def _door(at: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return _place(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), at)


def _place(new: Any, at: ast.AST) -> Any:
    return ast.fix_missing_locations(ast.copy_location(new, at))


def _pinned(values: Sequence[ast.AST]) -> bool:
    """Return whether a value has to be computed in the function itself: it binds a name, or suspends."""
    return any(isinstance(n, _PINNED) for v in values for n in ast.walk(v))
