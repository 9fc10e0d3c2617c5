"""One pinned thread, interleaved repeats, medians of ratios, and a table: what every benchmark here shares.

Import this module before any library that starts threads.
"""

import os

# One thread for every library; XLA has its own words for it.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TRACEJIT_CACHE"] = "0"  # what is compiled here is compiled in this run

import ctypes
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

Call = Callable[[], Any]


def pin_to_one_core() -> int:
    """Keep this process, and what it starts, on the last core it may use; returns the core."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def describe_machine() -> str:
    """One line that says what the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    return f"{model}, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


@dataclass
class Candidate:
    """One way to do the work: ``call`` does it once, ``result`` turns what it returns into NumPy arrays."""

    name: str
    call: Call
    result: Callable[[Any], Sequence[Any]] = tuple
    first: float = 0.0
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return median(self.seconds)

    def against(self, other: "Candidate") -> float:
        """How many times the time of ``other`` this one takes: the median over the rounds."""
        return median(mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True))


def timed(call: Call, clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Seconds, and what the call returned."""
    start = clock()
    value = call()
    return clock() - start, value


def agree(candidates: Sequence[Candidate], rtol: float) -> None:
    """Call each candidate for the first time and compare with the first; a wrong number ends the run.

    A candidate that gives fewer results (only the value) is compared in those.
    """
    reference: Sequence[Any] = ()
    for candidate in candidates:
        candidate.first, value = timed(candidate.call)
        results = candidate.result(value)
        reference = reference or results
        for number, (got, wanted) in enumerate(zip(results, reference, strict=False)):
            scale = float(np.max(np.abs(wanted)))
            message = f"{candidate.name} against {candidates[0].name}, result {number}"
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * scale, err_msg=message)


def interleave(candidates: Sequence[Candidate], rounds: int, clock: Callable[[], float]) -> None:
    """Time every candidate once per round, so that a slow spell of the machine hits all of them alike."""
    for number in range(rounds):
        turn = number % len(candidates)
        for candidate in (*candidates[turn:], *candidates[:turn]):
            candidate.seconds.append(timed(candidate.call, clock)[0])


def _status(key: str) -> int:
    """A memory figure of this process in bytes, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def peak_extra_memory(call: Call) -> int:
    """Bytes by which the resident set grew at its highest during one call, whoever allocated them."""
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    kept = call()
    peak = _status("VmHWM") - before
    del kept
    return peak


def in_fresh_process(script: str, *arguments: str) -> Any:
    """Run ``script`` with arguments in a new process; the last line it prints is JSON."""
    command = [sys.executable, script, *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Bar:
    """A figure that was promised; ``value`` is None where it could not be measured."""

    what: str
    value: float | None
    limit: float
    at_least: bool = False
    unit: str = "x"

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        if self.value is None:
            return f"not measured  {self.what}: {sign} {self.limit:g}{self.unit}"
        met = self.value >= self.limit if self.at_least else self.value <= self.limit
        verdict = "met" if met else "NOT MET"
        return f"{verdict:<13} {self.what}: {self.value:.3g}{self.unit} ({sign} {self.limit:g}{self.unit})"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned text, the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        return "  ".join((row[0].ljust(widths[0]), *numbers)).rstrip()

    return "\n".join((title, line(head), line(["-" * width for width in widths]), *map(line, rows)))
