"""Generated sources as real files, so that tracebacks, profilers and debuggers can show them."""

from __future__ import annotations

import hashlib
import linecache

from tracejit.runtime.directories import private_directory, write_atomically

__all__ = ["content_key", "write_source"]

# Part of every content key: raise it when the meaning of generated sources changes.
VERSION = 1


def content_key(*parts: object) -> str:
    """A hash of the text forms of ``parts`` and the version of the generator."""
    text = "\0".join(map(str, (VERSION, *parts)))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def write_source(source: str, name: str) -> str:
    """Keep ``source`` under a name made of ``name`` and its content, and return the path.

    Where no private directory can be had, the text is kept in memory under a path that does not exist; tracebacks
    find it there all the same.
    """
    file_name = f"{name}_{content_key(source)}.py"
    try:
        path = private_directory("source") / file_name
        if not (path.exists() and path.read_text(encoding="utf-8") == source):
            write_atomically(path, source.encode())
    except OSError:
        return _remember(f"<tracejit {file_name}>", source)
    return str(path)


def _remember(path: str, source: str) -> str:
    """Tell `linecache` the text of a path that is no file."""
    # Without a modification time, linecache never checks the entry against the disk.
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    return path
