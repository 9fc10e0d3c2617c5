"""Every example runs, and what it prints is right."""

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def printed(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    """What the example that the test is named after prints."""
    name = request.node.name.removeprefix("test_")
    load(name).main()
    return capsys.readouterr().out


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", text)]


def test_grid_pointwise(printed: str) -> None:
    blocks = printed.split(":\n")
    assert [numbers(b)[:4] for b in blocks[1:4]] == [[2, 4, 2, 4]] * 3
    assert numbers(blocks[4])[:4] == [2, 0, 0, 0]
    assert "shape of the dense Jacobian: (4, 2, 2)" in printed
    assert "its diagonal: [2. 4. 2. 4.]" in printed
    assert "The function is pointwise" in printed


def test_broadcasting(printed: str) -> None:
    lines = printed.splitlines()
    assert [line.partition(": ")[2] for line in lines[:3]] == [
        "[[5. 5. 5.]] (1, 3) float64",
        "[[5. 5. 5.]] (1, 3) float32",
        "[[5. 5. 5.]] (1, 3)",
    ]
    assert lines[3].startswith("shape (3, 4) ")
    assert lines[4:] == [
        "shape (4,) gradient [3.0, 3.0, 3.0, 3.0]",
        "shape (3, 1) gradient [[2.0], [2.0], [2.0]]",
        "shape () gradient -3.0",
    ]


def test_maximum_ties(printed: str) -> None:
    lines = printed.splitlines()
    third = 1 / 3
    ties = [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]], [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    rows = [[0.0, 0.5, 0.5], [third] * 3]
    for line, expected in zip(lines, (ties[0], ties[1], rows, rows, ties[0]), strict=False):
        assert line.endswith(f": {expected}")
    assert lines[5] == f"by x: {np.zeros((2, 3)).tolist()} by the weights: [1.0, 1.0, 0.0]"
    assert "does not depend on argument 'x'" in printed


def test_fit_minimize(printed: str) -> None:
    truth, *found = (numbers(line.partition(":")[2])[:4] for line in printed.splitlines()[:3])
    for parameters in found:
        np.testing.assert_allclose(parameters, truth, atol=0.02)
    assert len(found) == 2


def test_njit_embedding(printed: str) -> None:
    for line in printed.splitlines():
        size, before, after = numbers(line)
        assert after < before and after < -0.4 * size


def test_field_gradient(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "field_gradient.py"), "--size", "12", "--no-plot"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "(good)" in run.stdout and not list(tmp_path.iterdir())


# What has to stand in the numbers that a simulation prints.
SIMULATIONS = {
    "heat": lambda n: n[1] < 1e-4 and n[2] < 0.02,
    "relaxation": lambda n: n[1] > n[4] > n[7] and n[:9] == n[9:],
    "waves": lambda n: n[-3] < n[-2] and n[-1] < 0,
    "cavity": lambda n: n[-1] == 0.03,
    "factorizations": lambda n: n[0] == 0.3667 and n[1] < 1e-6 and n[2] < 1e-12,
    "recurrences": lambda n: n[:6] == [1, 0.5, 0.25, 0.125, 0.0625, 84] and n[13:17] == [0.5, 0.307692] * 2,
    "particles": lambda n: n[2] < n[1] - 100,
    "odes": lambda n: abs(n[6] + 2.008341) < 1e-5,
    "sequences": lambda n: abs(n[0] - 0.9) < 0.05,
    "learning": lambda n: n[1] == n[2] == n[4] == n[5] and abs(n[-1]) < 1e-4,
    "finance": lambda n: 5 < n[0] < 6 and 0.5 < n[1] < 0.6 and n[2] > 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATIONS)
def test_simulation(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"simulations.{name}").main()
    printed = numbers(capsys.readouterr().out)
    assert SIMULATIONS[name](printed), printed


def test_no_example_is_left_out() -> None:
    programs = {path.stem for path in (EXAMPLES / "simulations").glob("*.py")} - {"__init__", "cases"}
    assert programs == set(SIMULATIONS)
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested
