"""The demonstration: a scalar field and its gradient on a 3-D grid, checked, timed, and drawn.

``python -m tracejit demo`` runs it; ``examples/field_gradient.py`` does the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracejit.api import value_and_grad

__all__ = ["Report", "coordinates", "field", "main", "measure", "partials"]

Array = np.ndarray[Any, np.dtype[np.float64]]

TOLERANCE = 1e-12
"""Largest error of the gradient that is accepted, relative to its largest entry."""


def field(x: Any, y: Any, z: Any) -> Any:
    """The scalar field: plain NumPy."""
    wave = np.sin(2 * x) * np.exp(-(y**2))
    ring = np.sqrt(1 + x**2 + y**2)
    return wave + np.tanh(z) * ring + np.cos(x * y) * z**2 - np.log(3 + np.sin(y * z))


def partials(x: Any, y: Any, z: Any) -> tuple[Array, Array, Array]:
    """The derivatives of `field`, on paper."""
    bell, ring, tanh = np.exp(-(y**2)), np.sqrt(1 + x**2 + y**2), np.tanh(z)
    slope = np.cos(y * z) / (3 + np.sin(y * z))
    return (
        2 * np.cos(2 * x) * bell + tanh * x / ring - np.sin(x * y) * y * z**2,
        -2 * y * np.sin(2 * x) * bell + tanh * y / ring - np.sin(x * y) * x * z**2 - slope * z,
        (1 - tanh**2) * ring + 2 * np.cos(x * y) * z - slope * y,
    )


def total(x: Any, y: Any, z: Any) -> Any:
    """The sum of the field, and the field: the gradient of the sum is the derivative at each point."""
    f = field(x, y, z)
    return np.sum(f), f


# Value of the field and derivatives by all three coordinates, from one pass over the grid.
both = value_and_grad(total, argnums=(0, 1, 2), has_aux=True)


def coordinates(size: int) -> tuple[Array, ...]:
    """Return the grid's coordinates, as everybody makes them."""
    axis = np.linspace(-2.0, 2.0, size)
    return tuple(np.meshgrid(axis, axis, axis, indexing="ij"))


@dataclass(frozen=True)
class Report:
    """What one run found out.

    Attributes
    ----------
    size : int
        Points along each axis.
    plain, compiled, compiling : float
        Seconds: the field in NumPy; field and gradient with tracejit; the first call, which compiles.
    extra, outputs : int
        Bytes: growth of the resident memory at its peak; the results.
    error : float
        Largest error of field and gradient, relative to the largest entry.
    """

    size: int
    plain: float
    compiled: float
    compiling: float
    extra: int
    outputs: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the gradient is right."""
        return self.error <= TOLERANCE

    def __str__(self) -> str:
        rows = [
            ("grid", f"{self.size} x {self.size} x {self.size} points"),
            ("NumPy, field only", f"{1e3 * self.plain:.1f} ms"),
            ("tracejit, field and gradient", f"{1e3 * self.compiled:.1f} ms"),
            ("first call, with compilation", f"{self.compiling:.2f} s"),
            ("peak memory of a call", f"{self.extra / 2**20:.1f} MiB"),
            ("its results", f"{self.outputs / 2**20:.1f} MiB"),
            ("largest error", f"{self.error:.1e} ({'good' if self.passed else 'TOO LARGE'})"),
        ]
        return "\n".join(f"{name:<32}{value}" for name, value in rows)


def measure(size: int, repeats: int = 5) -> Report:
    """Compute field and gradient on a grid of ``size`` points along each axis, and check them."""
    points = coordinates(size)
    compiling, _ = _timed(lambda: both(*coordinates(min(size, 10))))
    extra, ((_, values), slopes) = _peak_memory(lambda: both(*points))
    outputs = sum(a.nbytes for a in (values, *slopes))
    error = _largest_error((values, *slopes), (field(*points), *partials(*points)))
    del values, slopes
    plain = min(_timed(lambda: field(*points))[0] for _ in range(repeats))
    compiled = min(_timed(lambda: both(*points))[0] for _ in range(repeats))
    return Report(size, plain, compiled, compiling, extra, outputs, error)


def _largest_error(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference, relative to the largest entry that is expected; nan if there is one."""
    errors = [np.max(np.abs(f - e)) / np.max(np.abs(e)) for f, e in zip(found, expected, strict=True)]
    return float(np.max(errors))


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _peak_memory(call: Callable[[], Any]) -> tuple[int, Any]:
    """Return by how many bytes resident memory grew at its highest during a call, and the call's result."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not status.exists():  # only Linux can forget an earlier peak
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = call()
        return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), result

    def kilobytes(key: str) -> int:
        line = next(line for line in status.read_text().splitlines() if line.startswith(key))
        return int(line.split()[1])

    reset.write_text("5")
    before = kilobytes("VmRSS")
    result = call()
    return 1024 * (kilobytes("VmHWM") - before), result


def draw(path: Path, size: int = 64) -> str:
    """Write a picture of the field and its gradient in the plane z = 0.6; return what happened."""
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib is not installed, so there is no picture (`pip install 'tracejit[plot]'`)."
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    axis = np.linspace(-2.0, 2.0, size)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    (_, values), (dx, dy, _) = both(x, y, np.full_like(x, 0.6))
    figure = Figure(figsize=(4.6, 3.8), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.contourf(x, y, values, levels=24, cmap="viridis")
    some = (slice(None, None, size // 16 or 1),) * 2
    axes.quiver(x[some], y[some], dx[some], dy[some], color="white", width=0.004)
    axes.set(xlabel="x", ylabel="y", title="a field and its gradient, z = 0.6", aspect="equal")
    figure.colorbar(image, ax=axes)
    figure.savefig(path)
    return f"The picture is in {path}."


def show() -> str:
    """Return the texts of the tape and of the fused kernel."""
    lowered = both.lower(*coordinates(10))
    parts = [
        ("The function, as traced", str(lowered.forward_tape)),
        ("Value and gradient, simplified", str(lowered.backward_tape)),
        ("The loops that are compiled", lowered.source),
    ]
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return the exit code, which is 0 if the gradient is right."""
    parser = argparse.ArgumentParser(prog="python -m tracejit demo", description="A field and its gradient.")
    parser.add_argument("--size", type=int, default=128, help="points along each axis (default: 128)")
    parser.add_argument("--show", action="store_true", help="print the tape and the fused kernel's source")
    parser.add_argument("--out", type=Path, default=Path("field_gradient.png"), help="file of the picture")
    parser.add_argument("--no-plot", action="store_true", help="no picture")
    options = parser.parse_args(arguments)
    if options.size < 1:
        parser.error("--size must be positive")
    report = measure(options.size)
    if options.show:
        print(show(), end="\n\n")
    print(report)
    if not options.no_plot:
        print(draw(options.out))
    return 0 if report.passed else 1
