"""The demonstration: right numbers, an exit code that can fail, a picture, and the tape on request."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tracejit import __main__, demo


@pytest.fixture(scope="module")
def report() -> demo.Report:
    return demo.measure(24, repeats=1)


def test_the_gradient_on_paper_is_right() -> None:
    x, y, z = (np.array([v]) for v in (0.3, -0.7, 1.1))
    step = 1e-5
    for axis, expected in enumerate(demo.partials(x, y, z)):
        shift = [step * (axis == k) for k in range(3)]
        up = demo.field(x + shift[0], y + shift[1], z + shift[2])
        down = demo.field(x - shift[0], y - shift[1], z - shift[2])
        np.testing.assert_allclose(expected, (up - down) / (2 * step), rtol=1e-8)


def test_value_and_gradient_at_each_point() -> None:
    points = demo.coordinates(11)
    (total, values), slopes = demo.both(*points)
    np.testing.assert_allclose(values, demo.field(*points), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(total, np.sum(values), rtol=1e-13)
    for slope, expected in zip(slopes, demo.partials(*points), strict=True):
        np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-14)


def test_report(report: demo.Report) -> None:
    assert report.passed and report.error < 1e-14
    assert report.outputs == 4 * 8 * 24**3
    assert min(report.plain, report.compiled) > 0
    text = str(report)
    assert "24 x 24 x 24" in text and "(good)" in text


def test_a_wrong_gradient_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = demo.partials
    monkeypatch.setattr(demo, "partials", lambda *p: tuple(s * (1 + 1e-9) for s in right(*p)))
    assert demo.main(["--size", "12", "--no-plot"]) == 1
    assert "TOO LARGE" in capsys.readouterr().out


def test_nan_is_an_error(report: demo.Report) -> None:
    right, wrong = np.ones(2), np.array([1.0, np.nan])
    error = demo._largest_error((right, wrong), (right, right))
    assert not dataclasses.replace(report, error=error).passed


def test_show_prints_tape_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--size", "12", "--no-plot", "--show"]) == 0
    out = capsys.readouterr().out
    assert "tape(x:f64[n,n,n]" in out and "demo.py:" in out
    assert "for " in out and "tanh(" in out


def test_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "picture.png"
    assert demo.main(["--size", "9", "--out", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size < 100_000
    assert str(file) in capsys.readouterr().out


def test_without_matplotlib_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    file = tmp_path / "picture.png"
    assert "matplotlib is not installed" in demo.draw(file)
    assert not file.exists()


@pytest.mark.parametrize("arguments", [[], ["other"], ["--version"]])
def test_the_command_explains_itself(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.run(arguments) == 2
    assert "python -m tracejit demo" in capsys.readouterr().err


def test_python_dash_m(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracejit", "demo", "--size", "10", "--no-plot"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "largest error" in run.stdout
    wrong = subprocess.run([*command[:4], "--size", "0"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "--size must be positive" in wrong.stderr
