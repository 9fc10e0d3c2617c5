"""What object code depends on besides the source that it was made of: the versions, the machine, the settings.

Nothing is imported for it. Packages are known by the file that states their version, tracejit itself by the sizes and
times of its files, so that whoever edits it never runs code of yesterday.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["fingerprint"]

_VERSION_FILES = {
    "numba": "_version.py",
    "llvmlite": "_version.py",
    "scipy": "version.py",
    "rocket_fft": "_version.py",
}


@functools.cache
def fingerprint() -> str:
    """Return a hash of everything outside a generated source that its machine code depends on."""
    digest = hashlib.sha256()
    for part in _parts():
        digest.update(part.encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def _parts() -> Iterator[str]:
    yield from (sys.version, sys.platform, str(sys.maxsize), np.__version__)
    yield from _own_files()
    for package, file in _VERSION_FILES.items():
        yield from _version(package, file)
    yield from _cpu()
    yield from _settings()


def _own_files() -> Iterator[str]:
    for folder, _, names in os.walk(Path(__file__).parent.parent):
        for name in names:
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                yield f"{name} {status.st_size} {status.st_mtime_ns}"


def _version(package: str, file: str) -> Iterator[str]:
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, file)
        try:
            status = path.stat()
            yield f"{path} {status.st_mtime_ns} {path.read_text(encoding='utf-8')}"
        except OSError:
            yield f"{path} is missing"


def _cpu() -> Iterator[str]:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    yield f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features.flatten()} {llvm.llvm_version_info}"


def _settings() -> Iterator[str]:
    """Numba's settings, where they may stand, and which vector functions calls may become."""
    for name in sorted(os.environ):
        if (name.startswith("NUMBA_") and name != "NUMBA_NUM_THREADS") or name == "TRACEJIT_VECTOR_MATH":
            yield f"{name}={os.environ[name]}"
    try:
        yield Path(".numba_config.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        yield ""
