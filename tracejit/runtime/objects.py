"""Object code on the disk: written by the process that compiled it, loaded by all that come later.

A file holds one `ObjectCode` under a key that stands for the generated source, the signature and everything that
`fingerprint` hashes. Its first bytes are a checksum of the rest, and the key stands in it: a damaged, cut or renamed
file is the same as none.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tracejit.codegen.object_code import ObjectCode
from tracejit.runtime.directories import evict, private_directory, read_private, write_atomically
from tracejit.runtime.fingerprint import fingerprint
from tracejit.runtime.machine_code import Code, StaleCodeError, load
from tracejit.runtime.symbols import NOWHERE_ELSE

__all__ = ["find", "find_for_good", "keep"]

_MAGIC = b"tracejit object 1\n"
_DIGEST = 32

_called: list[Code] = []


def find(key: str) -> Code | None:
    """Return the machine code that was kept under ``key``; None if there is none that can be used here."""
    try:
        stored = _decoded(key, read_private(_path(key)))
        return None if stored is None else load(stored)
    except (OSError, StaleCodeError):
        return None


def find_for_good(symbol: str) -> Code | None:
    """As `find`, for what other code calls by this symbol: it stays as long as the process lives."""
    code = find(symbol)
    if code is not None:
        _called.append(code)
    return code


def keep(key: str, code: ObjectCode) -> None:
    """Keep object code under ``key``; a disk that is full or read-only loses only this."""
    if any(name.startswith(NOWHERE_ELSE) for name in code.symbols):
        return
    try:
        write_atomically(_path(key), _encoded(key, code))
        evict()
    except OSError:
        return


def _path(key: str) -> Path:
    folder = private_directory("objects")
    return folder / hashlib.sha256(f"{key}\0{fingerprint()}".encode()).hexdigest()[:40]


def _encoded(key: str, code: ObjectCode) -> bytes:
    about = {"key": key, "entry": code.entry, "symbols": code.symbols, "results": code.results}
    header = json.dumps(about).encode()
    body = len(header).to_bytes(8, "little") + header + code.contents
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decoded(key: str, data: bytes) -> ObjectCode | None:
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    length = int.from_bytes(body[:8], "little")
    about = json.loads(body[8 : 8 + length])
    if about["key"] != key:
        return None
    return ObjectCode(about["entry"], tuple(about["symbols"]), tuple(about["results"]), body[8 + length :])
