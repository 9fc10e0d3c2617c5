"""Source text in, compiled function out: keyed by content, kept as a file, safe with threads and forks."""

import linecache
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from tracejit.errors import CompileError, TracejitError
from tracejit.runtime import compile as door
from tracejit.runtime.compile import ArgSpec, compile_function
from tracejit.runtime.directories import cache_directory
from tracejit.runtime.source_files import content_key, write_source

F8 = np.dtype("f8")
SCALAR = (ArgSpec(F8),)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(door, "_compiled", {})
    return tmp_path / "cache"


def test_a_source_becomes_a_function_and_a_file(cache):
    source = "def twice(x):\n    return 2 * x\n"
    twice = compile_function(source, "twice", SCALAR)
    assert twice(1.5) == twice.function(1.5) == 3.0
    assert twice.source == Path(twice.path).read_text() == source
    assert Path(twice.path).parent == cache / "source"
    assert "define" in twice.llvm()
    assert twice.assembly()
    assert 0 < twice.compile_seconds < 60
    assert linecache.getline(twice.path, 2) == "    return 2 * x\n"


def test_the_same_source_compiles_once():
    source = "def f(x):\n    return x + 1\n"
    f = compile_function(source, "f", SCALAR)
    assert compile_function(source, "f", (ArgSpec(F8),)) is f
    assert compile_function(source, "f", (ArgSpec(np.dtype("f4")),)) is not f
    assert compile_function(source + "\n", "f", SCALAR) is not f


def test_extra_names_are_part_of_the_key():
    source = "def f(x):\n    return g(x) * c\n"
    g = compile_function("def g(x):\n    return x + 1\n", "g", SCALAR)
    one = compile_function(source, "f", SCALAR, extra_namespace={"g": g.function, "c": 10.0})
    two = compile_function(source, "f", SCALAR, extra_namespace={"g": g.function, "c": 20.0})
    assert (one(1.0), two(1.0)) == (20.0, 40.0)


def test_compiled_functions_can_be_called_from_njit_code():
    import numba

    f = compile_function("def f(x):\n    return exp(x)\n", "f", SCALAR).function
    assert numba.njit(lambda x: f(x) + 1)(0.0) == 2.0


def test_inputs_may_be_read_only_and_outputs_may_not():
    source = "def f(x, out):\n    for i in range(x.shape[0]):\n        out[i] = x[i]\n"
    f = compile_function(source, "f", (ArgSpec(F8, 1), ArgSpec(F8, 1, "C", True)))
    x, out = np.arange(3.0), np.empty(3)
    x.flags.writeable = False
    f(x, out)
    assert out.tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        f(out, x)
    with pytest.raises(CompileError):
        compile_function(source, "f", (ArgSpec(F8, 1), ArgSpec(F8, 1)))


def test_division_by_zero_is_ieee_and_the_order_of_operations_is_kept():
    f = compile_function("def f(x):\n    return 1.0 / (x - x), (x + 1e16) - 1e16\n", "f", SCALAR)
    assert f(1.0) == (np.inf, 0.0)


def test_a_failure_names_the_function_and_keeps_its_source():
    source = "def broken(x):\n    return x.nonsense()\n"
    with pytest.raises(CompileError, match="'broken'") as caught:
        compile_function(source, "broken", SCALAR)
    assert isinstance(caught.value, TracejitError)
    path = str(caught.value.where)
    assert Path(path).read_text() == source
    assert "nonsense" in str(caught.value)
    assert path in str(caught.value)
    with pytest.raises(CompileError, match="SyntaxError"):
        compile_function("def f(x:\n", "f", SCALAR)


def test_numba_gives_no_advice_about_generated_code():
    source = "def f(a, b):\n    return np.dot(a, b)\n"
    strided = ArgSpec(F8, 2, "A")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f = compile_function(source, "f", (strided, strided))
    assert seen == []
    a = np.arange(16.0).reshape(4, 4)[::2, ::2]
    np.testing.assert_array_equal(f(a, a), a @ a)


def test_threads_share_one_compilation(monkeypatch):
    calls = []
    real = door._compile
    monkeypatch.setattr(door, "_compile", lambda *args: calls.append(1) or real(*args))
    results = []
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        results.append(compile_function("def f(x):\n    return x * 3\n", "f", SCALAR))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(result is results[0] for result in results)


FORK = """
import os, sys, threading, time
import numpy as np
from tracejit.runtime import compile as door
from tracejit.runtime.compile import ArgSpec, compile_function

def f(text):
    return compile_function(f"def f(x):\\n    return x + {text}\\n", "f", (ArgSpec(np.dtype("f8")),))

f("1.0")
real = door._compile
def slow(*args):
    started.set()
    time.sleep(0.3)
    return real(*args)
door._compile = slow
started = threading.Event()
other = threading.Thread(target=f, args=("2.0",))
other.start()
started.wait()
child = os.fork()
if child == 0:
    os._exit(0 if f("3.0")(1.0) == 4.0 else 1)
_, status = os.waitpid(child, 0)
other.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_during_a_compilation_can_compile():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


def test_numba_is_imported_only_when_something_is_compiled():
    code = "import sys, tracejit.runtime.compile; assert not {'numba', 'llvmlite'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_the_directory_is_private(cache):
    path = Path(write_source("x = 1\n", "x"))
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_a_directory_that_others_can_write_is_not_used(cache):
    (cache / "source").mkdir(parents=True)
    (cache / "source").chmod(0o777)
    path = write_source("x = 1\n", "x")
    assert not Path(path).exists()
    assert linecache.getline(path, 1) == "x = 1\n"
    linecache.checkcache()
    assert linecache.getline(path, 1) == "x = 1\n"


def test_a_cache_that_cannot_be_made_is_done_without(cache):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file in the way")
    f = compile_function("def f(x):\n    return x - 1\n", "f", SCALAR)
    assert f(1.0) == 0.0
    assert not Path(f.path).exists()
    assert linecache.getline(f.path, 1) == "def f(x):\n"


def test_a_damaged_file_is_written_again():
    path = Path(write_source("x = 1\n", "x"))
    path.write_text("x = 2\n")
    assert write_source("x = 1\n", "x") == str(path)
    assert path.read_text() == "x = 1\n"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_place_of_the_cache(monkeypatch):
    monkeypatch.delenv("TRACEJIT_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/tracejit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("~/.cache/tracejit").expanduser()


def test_keys_depend_on_every_part():
    assert content_key("a", "b") == content_key("a", "b")
    assert (
        len({content_key("a", "b"), content_key("ab"), content_key("b", "a"), content_key("a", "b", "")}) == 4
    )


def test_a_first_compilation_imports_no_scipy_and_leaves_numba_whole():
    code = """
import sys, gc
import numpy as np, tracejit as tj
assert tj.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3)).shape == (3,)
assert "numba" in sys.modules and not {"scipy.linalg", "scipy.fft", "rocket_fft"} & set(sys.modules)
assert gc.isenabled()
import numba

@numba.njit
def f(a):
    return np.dot(a, a)[0, 0] + np.linalg.inv(a)[0, 0] + np.fft.fft(a[0])[0]

assert f(np.eye(3)) == 3.0
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TRACEJIT_CACHE": "0"})


def test_blas_is_found_without_scipy_linalg_and_scipy_stays_whole():
    code = """
import sys
from tracejit.ops import lapack
assert lapack.address("dgemm") and lapack.address("zgetrf")
assert "scipy.linalg" not in sys.modules and "numba" not in sys.modules
import numpy as np, scipy.linalg, scipy.linalg.cython_blas, scipy.linalg.cython_lapack
assert lapack.address.__wrapped__("dgemm") == lapack.address("dgemm")
assert scipy.linalg.inv(np.eye(2) * 2)[0, 0] == 0.5
import numba

@numba.njit
def f(a):
    return np.dot(a, a)[0, 0] + np.linalg.inv(a)[0, 0]

assert f(np.eye(3)) == 2.0
"""
    subprocess.run([sys.executable, "-c", code], check=True)
