"""A line on the terminal while something takes long to compile, gone when it is done."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["shown"]

PATIENCE = 2.0
"""Seconds without a word."""

_ERASE = "\r\x1b[K"


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Tell whoever sits at a terminal what is being done, if it takes long; ``TRACEJIT_PROGRESS=0`` turns it off."""
    stream = sys.stderr
    if os.environ.get("TRACEJIT_PROGRESS", "1") == "0" or stream is None or not stream.isatty():
        yield
        return
    done = threading.Event()
    start = time.perf_counter()

    def tell() -> None:
        while not done.wait(PATIENCE if time.perf_counter() - start < PATIENCE else 1.0):
            stream.write(f"{_ERASE}tracejit: {what}, {time.perf_counter() - start:.0f} s")
            stream.flush()
        if time.perf_counter() - start >= PATIENCE:
            stream.write(_ERASE)
            stream.flush()

    teller = threading.Thread(target=tell, name="tracejit progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
