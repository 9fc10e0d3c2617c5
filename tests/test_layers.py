"""The direction of imports: data flows one way through tracejit, and so do its imports.

Read with ``ast``, nothing is imported.  What stands under ``if TYPE_CHECKING`` does not count: the name of a
type in an annotation is for the reader, and no code depends on it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "tracejit"

# A row may import what stands in the rows above it, and itself.  Names in one row do not know each other.
ORDER = (
    ("errors",),
    ("tracebacks",),
    ("ir",),
    ("ops",),
    ("frontend",),
    ("passes",),
    ("codegen",),
    ("runtime",),
    ("pipeline",),
    ("lowered",),
    ("transformed",),
    ("api", "directional", "warming"),
    ("embed", "fields", "debug"),
    ("__init__",),
    ("demo",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(ORDER) for name in row}

# Heavy packages may be imported when they are first needed; tracejit's own modules never.
LAZY = {"numba", "llvmlite", "scipy", "matplotlib"}

# "The one door to numba", and the intrinsics that only exist in its terms.
COMPILER = {"numba", "llvmlite"}
COMPILER_DOORS = ("runtime/", "codegen/vector_math.py", "codegen/intrinsics/", "embed/")


Import = ast.Import | ast.ImportFrom
Dotted = tuple[str, ...]


def layer(parts: Dotted) -> str:
    """The row entry that a module below tracejit belongs to: ('ir', 'tape') -> 'ir', () -> '__init__'."""
    return parts[0] if parts else "__init__"


def imported_modules(node: Import, package: Dotted) -> Iterator[Dotted]:
    """Absolute dotted names, as tuples, that an import statement in a module of ``package`` asks for."""
    if isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
        return
    base = tuple(node.module.split(".")) if node.module else ()
    if node.level:
        base = package[: len(package) - node.level + 1] + base
    # `from tracejit import ops` asks for a layer, `from tracejit import grad` for the package itself.
    for alias in node.names:
        yield (*base, alias.name) if base == ("tracejit",) and alias.name in RANK else base


def import_statements(tree: ast.AST, inside: bool = False) -> Iterator[tuple[Import, bool]]:
    """Every import statement that runs, and whether it stands inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Import):
            yield node, inside
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield from import_statements(node, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def violations(source: str, path: str) -> list[str]:
    """What is wrong with the imports of the file ``path`` (relative to the package), one sentence each."""
    parts = Path(path).with_suffix("").parts
    own = layer(parts)
    if own not in RANK:
        return [f"{path}: {own!r} has no place in ORDER"]
    found = []
    for node, inside in import_statements(ast.parse(source)):
        for target in imported_modules(node, ("tracejit", *parts[:-1])):
            where = f"{path}:{node.lineno}: imports {'.'.join(target)}"
            if target[0] == "tracejit":
                other = layer(target[1:])
                if inside:
                    found.append(f"{where} inside a function")
                if other not in RANK:
                    found.append(f"{where}, which has no place in ORDER")
                elif other != own and RANK[other] >= RANK[own]:
                    found.append(f"{where}, which is not above {own}")
            elif inside and target[0] not in LAZY:
                found.append(f"{where} inside a function")
            if target[0] in COMPILER and not path.startswith(COMPILER_DOORS):
                found.append(f"{where}, which only {', '.join(COMPILER_DOORS)} may")
    return found


FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES)
def test_imports_point_upwards(path: str) -> None:
    assert violations((PACKAGE / path).read_text(), path) == []


def test_the_package_was_found() -> None:
    assert {"errors.py", "ir/__init__.py"} <= set(FILES)


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("ir/tape.py", "from ..ops import add", "tracejit.ops, which is not above ir"),
        ("ir/tape.py", "from .. import ops", "tracejit.ops, which is not above ir"),
        ("ir/tape.py", "import tracejit.ops.linear", "tracejit.ops.linear, which is not above ir"),
        ("ir/tape.py", "from tracejit import passes", "tracejit.passes, which is not above ir"),
        ("ir/tape.py", "import tracejit", "tracejit, which is not above ir"),
        ("ir/tape.py", "from tracejit import grad", "tracejit, which is not above ir"),
        ("errors.py", "from .ir import tape", "tracejit.ir, which is not above errors"),
        ("fields.py", "from .debug import nans", "tracejit.debug, which is not above fields"),
        ("ir/tape.py", "from ..helpers import x", "tracejit.helpers, which has no place in ORDER"),
        ("helpers/x.py", "", "'helpers' has no place in ORDER"),
        ("api.py", "def f():\n    from .ir import tape", "tracejit.ir inside a function"),
        (
            "api.py",
            "class A:\n    def f(self):\n        if 1:\n            import json",
            "json inside a function",
        ),
        ("ir/tape.py", "if sys.platform:\n    from ..ops import Op", "tracejit.ops, which is not above ir"),
        ("passes/jvp.py", "import numba", "numba, which only runtime/"),
        ("passes/jvp.py", "def f():\n    from llvmlite import ir", "llvmlite, which only runtime/"),
    ],
)
def test_the_checker_objects(path: str, source: str, complaint: str) -> None:
    assert any(complaint in sentence for sentence in violations(source, path))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "ir/tape.py",
            "from ..errors import ShapeError\nfrom . import dims\nfrom .dims import Dim\nimport numpy as np",
        ),
        ("ops/linear.py", "from tracejit.ir.tape import Tape\nfrom tracejit import errors"),
        ("runtime/compile.py", "def f():\n    import numba"),
        ("ops/special.py", "def f():\n    from scipy import special"),
        ("ir/tape.py", "if TYPE_CHECKING:\n    from ..ops import Op"),
        ("__main__.py", "from .demo import main\nfrom tracejit import grad"),
    ],
)
def test_the_checker_accepts(path: str, source: str) -> None:
    assert violations(source, path) == []
