"""The project's outside: what an import costs, what is shipped, how large files may grow."""

import importlib.metadata
import importlib.resources
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tracejit

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tracejit", "tests", "tools", "benchmarks", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
HEAVY = ("numba", "llvmlite", "scipy", "rocket_fft", "matplotlib")


def modules_after(statement: str) -> set[str]:
    """The top-level packages that a fresh process has loaded after ``statement``."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_loads_no_heavy_package() -> None:
    loaded = modules_after("import tracejit")
    assert {"numpy", "tracejit"} <= loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_import_test_can_fail() -> None:
    assert "llvmlite" in modules_after("import tracejit, llvmlite")


def test_version_is_the_installed_one() -> None:
    assert tracejit.__version__ == importlib.metadata.version("tracejit")


def test_types_are_shipped() -> None:
    assert importlib.resources.files("tracejit").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", sorted(tracejit.__all__))
def test_public_names_exist_and_are_documented(name: str) -> None:
    value = getattr(tracejit, name)
    if inspect.isroutine(value) or inspect.isclass(value):
        assert inspect.getdoc(value), f"tracejit.{name} has no docstring"


def test_files_stay_readable() -> None:
    package = [path for path in SOURCES if path.is_relative_to(ROOT / "tracejit")]
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in package}
    assert "tracejit/errors.py" in lengths
    assert {path: lines for path, lines in lengths.items() if lines > 400} == {}
