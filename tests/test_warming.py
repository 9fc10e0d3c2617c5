"""Warming up, and the line that is shown while something takes long."""

import io
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime import progress


def test_warming_compiles_for_arguments_to_come():
    def f(x):
        return np.sum(np.log1p(np.exp(x)) ** 3)

    g = tj.grad(f)
    tj.warmup((g, np.zeros(20)))
    compiles, traces = tj.stats.compiles, tj.stats.traces
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(g(x), 3 * np.log1p(np.exp(x)) ** 2 / (1 + np.exp(-x)), rtol=1e-14)
    assert (tj.stats.compiles, tj.stats.traces) == (compiles, traces)


@pytest.mark.parametrize("wait", [True, False])
def test_warming_imports_the_compiler(wait):
    code = f"""
import sys, threading
import tracejit as tj
tj.warmup(wait={wait})
for thread in threading.enumerate():
    if thread.name == "tracejit warmup":
        thread.join()
assert "numba" in sys.modules
import numpy as np
assert tj.grad(lambda x: np.sum(x**2))(np.ones(2)).tolist() == [2.0, 2.0]
"""
    environment = {**os.environ, "TRACEJIT_CACHE": "0"}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120, env=environment)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_told_what_takes_long(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.shown("compiling 'f', 10 lines"):
        time.sleep(0.3)
    text = terminal.getvalue()
    assert "tracejit: compiling 'f', 10 lines, 0 s" in text
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize("case", ["short", "file", "off", "none"])
def test_nothing_is_said_otherwise(monkeypatch, case):
    stream = {"file": io.StringIO(), "none": None}.get(case, Terminal())
    monkeypatch.setattr(progress, "PATIENCE", 5.0 if case == "short" else 0.01)
    monkeypatch.setattr(sys, "stderr", stream)
    if case == "off":
        monkeypatch.setenv("TRACEJIT_PROGRESS", "0")
    with progress.shown("compiling"):
        time.sleep(0.05)
    assert stream is None or not stream.getvalue()


def test_an_error_passes_and_the_line_is_erased(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(ZeroDivisionError), progress.shown("compiling"):
        time.sleep(0.1)
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\r\x1b[K")


FORK = """
import os, sys, threading, time
import numpy as np
import tracejit as tj
from tracejit.runtime import kernel

real, started = kernel.door.jit_source, threading.Event()

def slow(*args, **kwargs):
    started.set()
    time.sleep(0.3)
    return real(*args, **kwargs)

kernel.door.jit_source = slow
x = np.ones(3)
other = threading.Thread(target=lambda: tj.grad(lambda x: np.sum(x**3))(x))
other.start()
started.wait()
child = os.fork()
if child == 0:
    g = tj.grad(lambda x: np.sum(x**2))
    os._exit(0 if all(g(x).tolist() == [2.0] * 3 for _ in range(3)) else 1)
_, status = os.waitpid(child, 0)
other.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_compiles_can_call():
    environment = {**os.environ, "TRACEJIT_CACHE": "0"}
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120, env=environment)
