"""Messages: each wrong program of ``error_cases_*.py`` against the text in ``golden/errors``.

``TRACEJIT_UPDATE_GOLDEN=1 python -m pytest tests/test_errors.py`` writes the texts anew; read the difference.
"""

import functools
import linecache
import math
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import error_cases_calls
import error_cases_shapes
import numpy as np
import pytest
from error_case import CASES, X

import tracejit as tj
from tracejit import errors
from tracejit.frontend.alternatives import ALTERNATIVES
from tracejit.frontend.numpy_api import CREATORS, FUNCTIONS

PROGRAMS = (error_cases_shapes.__file__, error_cases_calls.__file__)
GOLDEN = Path(__file__).parent / "golden" / "errors"
PACKAGE = str(Path(tj.__file__).parent)

pytestmark = pytest.mark.usefixtures("each_mode")


@pytest.fixture(autouse=True)
def _hidden_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEJIT_FULL_TRACEBACK", raising=False)


@functools.cache
def caught(name: str) -> BaseException:
    try:
        CASES[name].run()
    except Exception as error:
        return error
    raise AssertionError(f"{name} raised nothing")


def normalised(message: str) -> str:
    """The message without what depends on the machine; places are checked to be right before they are cut."""

    def place(match: re.Match[str]) -> str:
        file, line, function, text = match.groups()
        assert linecache.getline(file, int(line)).strip() == text
        return f"at {os.path.basename(file)}:LINE, in {function}: {text}"

    return re.sub(r"at (\S+):(\d+), in (\S+): (.*)", place, message)


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    error = caught(name)
    text = f"{type(error).__name__}\n{normalised(str(error))}\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TRACEJIT_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", CASES)
def test_types(name: str) -> None:
    error = caught(name)
    assert type(error) is CASES[name].error
    assert isinstance(error, CASES[name].builtin)


@pytest.mark.parametrize("name", CASES)
def test_traceback_shows_only_the_users_lines(name: str) -> None:
    frames = traceback.extract_tb(caught(name).__traceback__)
    assert not [f for f in frames if f.filename.startswith(PACKAGE)]
    assert frames[-1].filename.startswith((*PROGRAMS, os.path.dirname(np.__file__)))
    chained = "".join(traceback.format_exception(caught(name)))
    assert "During handling" not in chained and "direct cause" not in chained


# What is wrong is no line, but the call as a whole; the traceback shows it.
NO_LINE = ("jacobian_sparse", "jacobian_too_large", "vmap_lengths")


@pytest.mark.parametrize("name", CASES)
def test_the_quoted_line_is_in_the_traceback(name: str) -> None:
    error = caught(name)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in PROGRAMS]
    quoted = re.findall(r"at (\S+):(\d+), in", str(error))
    if isinstance(error, errors.TracejitError) and name not in NO_LINE:
        assert len(quoted) == 1 and quoted[0][0] in PROGRAMS
        # After the trace only the message can name a line of the traced function.
        assert frames[-1].name == name or quoted[0][1] == str(frames[-1].lineno)


@pytest.mark.parametrize("name", CASES)
def test_messages_say_what_to_do(name: str) -> None:
    error = caught(name)
    if isinstance(error, errors.TracejitError):
        assert (error.hint or error.detail)[-1] in ".?"


@pytest.mark.parametrize("function", ALTERNATIVES, ids=lambda f: f.__name__)
def test_alternatives_are_named_for_unsupported_functions_only(function: Any) -> None:
    assert function not in FUNCTIONS and function not in CREATORS


def test_each_golden_file_has_its_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(CASES)


def test_every_error_type_of_this_version_has_a_case() -> None:
    elsewhere = {"CompileError", "GuardError", "InternalError", "MatrixError", "TracejitError"}
    warnings = {name for name in errors.__all__ if issubclass(getattr(errors, name), Warning)}
    covered = {case.error.__name__ for case in CASES.values()}
    assert set(errors.__all__) - covered - elsewhere - warnings == set()


# --- tracebacks ---------------------------------------------------------------------------------------------


def failing(x: Any) -> Any:
    y = np.sin(x)
    raise LookupError(str(y.shape))


BOUNDARIES: dict[str, Callable[[], Any]] = {
    "call": lambda: tj.grad(failing)(X),
    "lower": lambda: tj.grad(failing).lower(X),
    "jit": lambda: tj.jit(failing)(X),
    "hvp": lambda: tj.hvp(failing)(X, X),
    "jvp": lambda: tj.jvp(failing, (X,), (X,)),
    "vjp": lambda: tj.vjp(failing, X),
    "trace": lambda: tj.trace(failing)(X),
    "nested": lambda: tj.grad(lambda x: np.sum(tj.grad(failing)(x)))(X),
    "check_grads": lambda: tj.check_grads(failing, (X,)),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_frames_are_hidden_at_every_door(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError) as shown:
        BOUNDARIES[name]()
    files = [f.filename for f in traceback.extract_tb(shown.value.__traceback__)]
    assert set(files) == {__file__}
    assert traceback.extract_tb(shown.value.__traceback__)[-1].name == "failing"
    monkeypatch.setenv("TRACEJIT_FULL_TRACEBACK", "1")
    with pytest.raises(LookupError) as full:
        BOUNDARIES[name]()
    assert any(f.filename.startswith(PACKAGE) for f in traceback.extract_tb(full.value.__traceback__))


def test_a_cause_is_kept_and_cleaned() -> None:
    def f(x: Any) -> Any:
        try:
            return math.gamma(x)
        except TypeError as error:
            raise RuntimeError("wrapped") from error

    with pytest.raises(RuntimeError) as found:
        tj.grad(f)(1.0)
    cause = found.value.__cause__
    assert isinstance(cause, errors.ConcretizationError)
    assert {frame.filename for frame in traceback.extract_tb(cause.__traceback__)} == {__file__}


def test_a_defect_of_tracejit_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise errors.InternalError("A tape is broken.")

    monkeypatch.setattr("tracejit.pipeline.arguments", broken)
    with pytest.raises(errors.InternalError) as found:
        tj.grad(np.sum)(X)
    assert any(f.filename.startswith(PACKAGE) for f in traceback.extract_tb(found.value.__traceback__))


def test_uncaught_errors_end_at_the_users_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, tracejit as tj\n"
        "def energy(u):\n"
        "    return np.sum(u + np.ones(3))\n"
        "tj.grad(energy)(np.ones(12))\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    files = re.findall(r'File "([^"]*)", line (\d+)', run.stderr)
    assert files == [(str(script), "4"), (str(script), "3")]
    assert "BroadcastError: Shapes (12,) " in run.stderr
