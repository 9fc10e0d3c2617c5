"""Compiled code on the disk: found by later processes, never trusted when damaged, foreign or of another version."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime import directories, fingerprint, kernel, objects
from tracejit.runtime.compile import ArgSpec
from tracejit.runtime.kernel import compile_kernel

F8 = np.dtype("f8")
POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")

PROGRAM = """
import sys
import numpy as np
import tracejit as tj

def f(x, A):
    y = np.zeros_like(x)
    y[1:-1] = x[2:] - x[:-2]
    s = 0.0
    for i in range(x.shape[0]):
        s = s + np.exp(-x[i] * s)
    return s + np.sum(np.tanh(y.reshape(2, -1)) ** 2) + np.sum(np.linalg.solve(A, np.ones(3)))

x, A = np.linspace(0.5, 2.0, 12), np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3)
found = tj.value_and_grad(f, (0, 1))(x, A)
try:
    tj.grad(lambda A: np.sum(np.linalg.inv(A)))(np.zeros((3, 3)))
except np.linalg.LinAlgError as error:
    failure = str(error)
bits = found[0].tobytes() + b"".join(g.tobytes() for g in found[1])
print(tj.pipeline.stats.compiles, "numba" in sys.modules, failure, bits.hex())
"""


def run(cache, *, program=PROGRAM, **variables):
    """Return how many kernels a new process compiled, whether it imported Numba, and what it found."""
    path = Path(cache).parent / "program.py"
    directories.write_atomically(path, program.encode())
    environment = {**os.environ, "TRACEJIT_CACHE_DIR": str(cache), "TRACEJIT_CACHE": "1", **variables}
    done = subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    compiles, numba, found = done.stdout.strip().split(" ", 2)
    return int(compiles), numba == "True", found


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of its own, and no kernel in memory."""
    monkeypatch.setenv("TRACEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRACEJIT_CACHE", "1")
    monkeypatch.setattr(kernel, "_kernels", {})
    return tmp_path / "cache"


def compiled(text="x + 1.0"):
    """Return how many compilations it took to get a kernel, which is right."""
    kernel.clear_kernels()
    source = f"def f(x, room):\n    return ({text}, x < 0)\n"
    before = kernel.compiled_kernels()
    made = compile_kernel(source, "f", (ArgSpec(F8),), {}, source)
    x = np.float64(1.5)
    assert made(x) == (eval(text), False)
    return kernel.compiled_kernels() - before


def stored(cache):
    return sorted(p for p in (cache / "objects").iterdir() if p.is_file())


# --- across processes ---------------------------------------------------------------------------------------


def test_a_new_process_runs_object_code_without_numba(tmp_path):
    first = run(tmp_path / "cache")
    again = run(tmp_path / "cache")
    assert first[:2] == (2, True)
    assert again[:2] == (0, False)
    assert first[2] == again[2]
    assert "Singular matrix" in again[2]


def test_other_vector_functions_are_other_code(tmp_path):
    run(tmp_path / "cache")
    assert run(tmp_path / "cache", TRACEJIT_VECTOR_MATH="0")[0] == 2
    assert run(tmp_path / "cache")[0] == 0


def test_the_cache_can_be_turned_off(tmp_path):
    assert run(tmp_path / "cache", TRACEJIT_CACHE="0")[0] == 2
    assert not (tmp_path / "cache").exists()


def test_processes_share_the_cache_at_the_same_time(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: run(tmp_path / "cache"), range(4)))
    assert len({bits for _, _, bits in found}) == 1
    assert not list((tmp_path / "cache").rglob("*.tmp"))
    assert run(tmp_path / "cache")[:2] == (0, False)


# --- what is not trusted ------------------------------------------------------------------------------------


def test_the_same_kernel_is_found_again(cache):
    assert [compiled(), compiled()] == [1, 0]
    assert compiled("x + 2.0") == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"something else",
        lambda data: data.replace(b"tracejit object 1", b"tracejit object 0"),
    ],
    ids=["bit", "cut", "empty", "other", "format"],
)
def test_damaged_files_are_compiled_again(cache, damage):
    assert compiled() == 1
    for path in stored(cache):
        path.write_bytes(damage(path.read_bytes()))
    assert [compiled(), compiled()] == [1, 0]


def test_a_file_under_the_name_of_another_is_not_used(cache):
    compiled("x + 1.0")
    (one,) = set(stored(cache)) - _callers(cache)
    compiled("x + 2.0")
    (two,) = set(stored(cache)) - _callers(cache) - {one}
    two.write_bytes(one.read_bytes())
    assert compiled("x + 2.0") == 1


def _callers(cache):
    """The files that no kernel is in."""
    return {p for p in stored(cache) if b'"key": "tracejit_' in p.read_bytes()}


@pytest.mark.parametrize("part", ["versions", "settings"])
def test_code_of_another_version_is_not_used(cache, monkeypatch, part):
    assert compiled() == 1
    fingerprint.fingerprint.cache_clear()
    if part == "versions":
        monkeypatch.setattr(fingerprint, "_version", lambda package, file: iter([f"{package} of tomorrow"]))
    else:
        monkeypatch.setenv("NUMBA_OPT", "1")
    try:
        assert compiled() == 1
    finally:
        fingerprint.fingerprint.cache_clear()


def test_code_that_calls_what_is_not_there_is_compiled_again(cache, monkeypatch):
    assert compiled() == 1
    monkeypatch.setattr(objects, "load", _refuse)
    assert compiled() == 1


def _refuse(code):
    raise objects.StaleCodeError("nothing here has that name")


# --- whose directory it is ----------------------------------------------------------------------------------


@POSIX
def test_directories_and_files_are_private(cache):
    compiled()
    assert {stat.S_IMODE(p.stat().st_mode) for p in (cache, cache / "objects")} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in stored(cache)} == {0o600}


@POSIX
@pytest.mark.parametrize("which", ["base", "objects", "file"])
def test_what_others_can_write_is_not_used(cache, which):
    assert compiled() == 1
    for path in {"base": [cache], "objects": [cache / "objects"], "file": stored(cache)}[which]:
        path.chmod(0o770)
    assert compiled() == 1


@POSIX
def test_what_belongs_to_others_is_not_used(cache, monkeypatch):
    assert compiled() == 1
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert compiled() == 1


@POSIX
@pytest.mark.parametrize("which", ["base", "objects", "file"])
def test_links_are_not_followed(cache, tmp_path, which):
    assert compiled() == 1
    for number, path in enumerate(
        {"base": [cache], "objects": [cache / "objects"], "file": stored(cache)}[which]
    ):
        path.rename(tmp_path / f"elsewhere{number}")
        path.symlink_to(tmp_path / f"elsewhere{number}")
    assert compiled() == 1


def test_a_disk_that_cannot_be_written_loses_only_the_cache(cache, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(objects, "write_atomically", full)
    assert [compiled(), compiled()] == [1, 1]
    monkeypatch.undo()


def test_a_place_that_is_no_directory_loses_only_the_cache(cache):
    cache.write_text("a file in the way")
    assert [compiled(), compiled()] == [1, 1]


@POSIX
def test_a_directory_that_cannot_be_written_is_still_read(cache, monkeypatch):
    assert compiled() == 1
    monkeypatch.setattr(os, "utime", _read_only)
    monkeypatch.setattr(objects, "write_atomically", _read_only)
    assert compiled() == 0


def _read_only(*args):
    raise OSError(30, "Read-only file system")


# --- size ---------------------------------------------------------------------------------------------------


def test_what_was_used_longest_ago_goes_first(cache):
    folder = directories.private_directory("objects")
    for number in range(10):
        path = folder / str(number)
        directories.write_atomically(path, bytes(1000))
        os.utime(path, (number, number))
    directories.read_private(folder / "0")
    directories.evict(limit=5000)
    assert {p.name for p in folder.iterdir()} == {"0", "7", "8", "9"}
    directories.evict(limit=5000)
    assert len(list(folder.iterdir())) == 4


def test_the_size_is_limited_by_what_the_user_says(cache, monkeypatch):
    monkeypatch.setenv("TRACEJIT_CACHE_SIZE", "0.002")
    for number in range(4):
        compiled(f"x + {number}.0")
    assert sum(p.stat().st_size for p in stored(cache)) <= 2000


def test_clear_caches_forgets(cache):
    g = tj.grad(lambda x: np.sum(np.exp(x)))
    counts = []
    for disk in (False, True, False):
        before = tj.stats.traces, kernel.compiled_kernels()
        for _ in range(3):
            g(np.ones(3))
        counts.append((tj.stats.traces - before[0], kernel.compiled_kernels() - before[1]))
        tj.clear_caches(disk=disk)
        assert bool(stored(cache)) is not disk
    assert counts == [(1, 1), (1, 0), (1, 1)]
