"""Find the source of a function and compile it again with doors in place of its control flow.

The whole file is parsed, so that lines and columns in tracebacks stay those of the user's file.  A
function whose
source is not at hand, or is not what its code object was made from, is left as it is.
"""

from __future__ import annotations

import ast
import copy
import linecache
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TypeGuard

from tracejit.frontend.liveness import own_nodes
from tracejit.frontend.rewriting import rewrite

__all__ = ["lifted_code"]

_FUTURES = 0x1FF0000  # the flags of `from __future__ import ...` among those of a code object
_FACTORY = "_tj_factory"

_lock = threading.Lock()
_codes: weakref.WeakKeyDictionary[CodeType, tuple[str, CodeType | None]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Found:
    """A function in a file, the names of the classes around it, and the imports of the module."""

    node: ast.FunctionDef
    classes: tuple[str, ...]
    imports: Sequence[ast.stmt]


_trees: dict[str, tuple[tuple[str, ...], dict[int, list[_Found]]]] = {}


def lifted_code(code: CodeType) -> CodeType | None:
    """Return ``code`` with doors, or None if it cannot be lifted or has nothing to lift."""
    with _lock:
        known = _codes.get(code)
        if known is None or known[0] != code.co_filename:
            known = _codes[code] = code.co_filename, _lift(code)
        return known[1]


def _lift(code: CodeType) -> CodeType | None:
    for found in _definitions(code.co_filename).get(code.co_firstlineno, ()):
        if found.node.name != code.co_name:
            continue
        try:
            if not _is_of(_compile(copy.deepcopy(found.node), found, code), code):
                return None
            new = rewrite(copy.deepcopy(found.node))
            return (
                None if new is None else _rename(_compile(new, found, code), code.co_name, code.co_qualname)
            )
        except (SyntaxError, RecursionError):
            return None
    return None


def _definitions(filename: str) -> dict[int, list[_Found]]:
    """Return the functions of a file by the line where they, or their decorators, begin."""
    lines = tuple(linecache.getlines(filename))
    known = _trees.get(filename)
    if known is not None and known[0] == lines:
        return known[1]
    found: dict[int, list[_Found]] = {}
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # not Python, or an input of some shell's own syntax
        tree = ast.Module([], [])
    imports = [n for n in own_nodes(tree.body) if _is_import(n)]
    for node, classes in _walk(tree, ()):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        found.setdefault(first, []).append(_Found(node, classes, imports))
    _trees[filename] = lines, found
    return found


def _is_import(node: ast.AST) -> TypeGuard[ast.stmt]:
    return isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")


def _walk(tree: ast.AST, classes: tuple[str, ...]) -> Iterator[tuple[ast.FunctionDef, tuple[str, ...]]]:
    stack: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, classes)]
    while stack:
        node, around = stack.pop()
        if isinstance(node, ast.FunctionDef):
            yield node, around
        inside = (*around, node.name) if isinstance(node, ast.ClassDef) else around
        stack.extend((child, inside) for child in ast.iter_child_nodes(node))


def _compile(node: ast.FunctionDef, found: _Found, code: CodeType) -> CodeType:
    """Return the code of a definition that stands where the original stood: same free names, class and
    imports.

    CPython calls the attributes of imported names by another instruction, so the imports matter for
    comparison.
    """
    classes = found.classes
    _strip(node)
    body: ast.stmt = node
    if classes:  # private names are mangled with the name of the innermost class
        body = ast.copy_location(ast.ClassDef(classes[-1], [], [], [node], []), node)
    free = [ast.arg(name) for name in code.co_freevars if not (classes and name == "__class__")]
    arguments = ast.arguments([], free, None, [], [], None, [])
    free_itself = classes or node.name in code.co_freevars
    head: list[ast.stmt] = [] if free_itself else [ast.Global([node.name])]
    factory = ast.copy_location(ast.FunctionDef(_FACTORY, arguments, [*head, body], []), node)
    module = ast.fix_missing_locations(ast.Module([*found.imports, factory], []))
    flags = code.co_flags & _FUTURES
    compiled = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    return _inner(compiled, node.name)


def _strip(node: ast.FunctionDef) -> None:
    """Remove what was evaluated when the function was defined."""
    node.decorator_list, node.returns = [], None
    args = node.args
    args.defaults, args.kw_defaults = [], [None] * len(args.kwonlyargs)
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None


def _inner(code: CodeType, name: str) -> CodeType:
    level = [code]
    while True:  # the factory, then perhaps a class, then the function
        children = [c for parent in level for c in parent.co_consts if isinstance(c, CodeType)]
        for child in children:
            if child.co_name == name and level[0].co_name != "<module>":
                return child
        level = children


def _is_of(plain: CodeType, code: CodeType) -> bool:
    """Return whether ``code`` was made from the source that ``plain`` was compiled from.

    Tools such as pytest compile ``assert`` statements their own way, so ``code`` may have more in it.
    """
    if plain.co_code == code.co_code and plain.co_names == code.co_names:
        return _constants(plain) == _constants(code)
    arguments = plain.co_argcount + plain.co_kwonlyargcount
    same = plain.co_varnames[:arguments] == code.co_varnames[:arguments]
    more = any(name.startswith("@py_") for name in code.co_varnames)
    return same and more and set(plain.co_varnames) <= set(code.co_varnames)


def _constants(code: CodeType) -> list[str]:
    return [repr(const) for const in code.co_consts if not isinstance(const, CodeType)]


def _rename(code: CodeType, name: str, qualname: str) -> CodeType:
    """Give the code, and the bodies of doors inside it, the name of the user's function, for tracebacks."""
    consts = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            made = const.co_name.startswith("_tj_")
            inner = const.co_qualname.rpartition(".")[2]
            const = _rename(
                const,
                name if made else const.co_name,
                qualname if made else f"{qualname}.<locals>.{inner}",
            )
        consts.append(const)
    return code.replace(co_consts=tuple(consts), co_name=name, co_qualname=qualname)
