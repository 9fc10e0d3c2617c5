"""Generated sources as real files, so that tracebacks, profilers and debuggers can show them.

The directory is private to the user: whoever could write there could plant code.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import stat
import sys
import tempfile
from pathlib import Path

# Part of every content key: raise it when the meaning of generated sources changes.
VERSION = 1


def cache_directory() -> Path:
    """``TRACEJIT_CACHE_DIR``, or the place that the platform has for files that can be made again."""
    chosen = os.environ.get("TRACEJIT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir())) / "tracejit" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/tracejit").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tracejit"


def content_key(*parts: object) -> str:
    """A hash of the text forms of ``parts`` and the version of the generator."""
    text = "\0".join(map(str, (VERSION, *parts)))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def write_source(source: str, name: str) -> str:
    """Keep ``source`` under a name made of ``name`` and its content, and return the path.

    Where no private directory can be had (read-only home, foreign owner), the text is kept in memory under a
    path that does not exist; tracebacks find it there all the same.
    """
    file_name = f"{name}_{content_key(source)}.py"
    try:
        path = _private_directory() / file_name
        _write_atomically(path, source)
    except OSError:
        return _remember(f"<tracejit {file_name}>", source)
    return str(path)


def _private_directory() -> Path:
    """The directory of sources, made if missing; `PermissionError` if others could write to it."""
    directory = cache_directory() / "source"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        status = directory.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{directory} can be written by others")
    return directory


def _write_atomically(path: Path, text: str) -> None:
    """Write beside and rename: another process sees the whole file or none."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def _remember(path: str, source: str) -> str:
    """Tell `linecache` the text of a path that is no file."""
    # Without a modification time, linecache never checks the entry against the disk.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    return path
