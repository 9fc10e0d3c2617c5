"""The cache directory: private to the user, written atomically, limited in size.

What lies there is run as machine code, so whoever could write there could run code as the user: the directory is
made with mode 0700, and refused if it is a link, belongs to somebody else, or can be written by others. The same is
asked of each file that is read. Where no such directory can be had (read-only home, full disk, foreign owner),
nothing is kept, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from pathlib import Path

__all__ = [
    "cache_directory",
    "clear_directory",
    "evict",
    "private_directory",
    "read_private",
    "write_atomically",
]

LIMIT_MB = 256
"""Size of the cache in megabytes, unless ``TRACEJIT_CACHE_SIZE`` says otherwise."""

KINDS = ("source", "objects")
"""Directories in the cache directory."""

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def cache_directory() -> Path:
    """``TRACEJIT_CACHE_DIR``, or the place that the platform has for files that can be made again."""
    chosen = os.environ.get("TRACEJIT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "tracejit" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/tracejit").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tracejit"


def private_directory(kind: str) -> Path:
    """Return a directory of the cache, made if missing; `OSError` if others could write to it, or if it is off."""
    if os.environ.get("TRACEJIT_CACHE", "1") == "0":
        raise FileNotFoundError("TRACEJIT_CACHE=0: there is no cache")
    base = cache_directory()
    base.parent.mkdir(parents=True, exist_ok=True)
    for directory in (base, base / kind):
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(f"{directory} is not a directory of its own")
        _refuse_foreign(status, directory)
    return base / kind


def _refuse_foreign(status: os.stat_result, path: Path) -> None:
    """Raise if others than the user could have written what this is the status of."""
    if not hasattr(os, "getuid"):
        return  # the profile directories of Windows are private as they are
    if status.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} can be written by others")


def read_private(path: Path) -> bytes:
    """Return what is in a file that only the user can have written, and note that it was used."""
    handle = os.open(path, os.O_RDONLY | _NO_LINKS)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(f"{path} is not a file")
        _refuse_foreign(status, path)
        contents = file.read()
    with contextlib.suppress(OSError):  # a read-only disk knows no last use
        os.utime(path)
    return contents


def write_atomically(path: Path, contents: bytes) -> None:
    """Write beside and rename: another process sees the whole file or none."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def evict(limit: int | None = None) -> None:
    """Remove the files that were used longest ago, until the cache is under its limit (in bytes)."""
    limit = _limit() if limit is None else limit
    files = _files()
    total = sum(size for _, size, _ in files)
    if total <= limit:
        return
    # Well under the limit, so that the next files do not each remove one more.
    for _, size, path in sorted(files):
        _remove(path)
        total -= size
        if total <= 0.8 * limit:
            break


def clear_directory() -> None:
    """Remove all files of the cache; its directories stay."""
    for _, _, path in _files():
        _remove(path)


def _limit() -> int:
    try:
        megabytes = float(os.environ.get("TRACEJIT_CACHE_SIZE", ""))
    except ValueError:
        megabytes = LIMIT_MB
    return int(megabytes * 1e6)


def _files() -> list[tuple[float, int, str]]:
    """Return last use, size and path of all files of the cache; other processes may remove them meanwhile."""
    found = []
    for kind in KINDS:
        try:
            for item in os.scandir(private_directory(kind)):
                status = item.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, item.path))
        except OSError:
            continue
    return found


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # another process was first
        os.unlink(path)
