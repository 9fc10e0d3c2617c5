"""Tracebacks and warnings that show the user's lines, not tracejit's.

An exception that leaves tracejit loses the frames of tracejit's own files, so that its traceback ends at
the line of the user's code that is wrong.  ``TRACEJIT_FULL_TRACEBACK=1`` keeps them, and so do exceptions
that report a defect of tracejit itself.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

import numpy as np

from tracejit.errors import CompileError, InternalError

__all__ = ["boundary", "hide_own_frames", "warn_user"]

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
# The demonstration is a user of the package that happens to be shipped with it.
_USERS = (_PACKAGE + "demo.py", _PACKAGE + "__main__.py")
# Types that no message to the user has.
_UNEXPECTED = (AssertionError, AttributeError, KeyError, NameError)


def hide_own_frames(error: BaseException) -> None:
    """Take tracejit's frames out of the traceback of ``error`` and of the exceptions that led to it.

    To be called in an ``except`` block that ends with a plain ``raise``, which adds no frame again.
    """
    if os.environ.get("TRACEJIT_FULL_TRACEBACK", "") not in ("", "0"):
        return
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen and not _is_defect(found):
        seen.add(id(found))
        found.__traceback__ = _users_part(found.__traceback__)
        found = found.__cause__ or found.__context__


def _is_defect(error: BaseException) -> bool:
    """Return whether an exception reports a mistake of tracejit's, which the frames help to find."""
    if isinstance(error, CompileError | InternalError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return isinstance(error, _UNEXPECTED) and last is not None and _is_own(last.tb_frame)


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not _is_own(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    made: TracebackType | None = None
    for part in reversed(kept):
        made = TracebackType(made, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return made


def _is_own(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_PACKAGE) and file not in _USERS


def boundary(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` such that exceptions leave it without tracejit's frames."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide_own_frames(error)
            raise

    return guarded


class _Issued(threading.local):
    count = 0


_issued = _Issued()


def warnings_issued() -> int:
    """Return how many times `warn_user` was called in this thread."""
    return _issued.count


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and (_is_own(frame) or frame.f_code.co_filename.startswith(_NUMPY)):
        frame = frame.f_back
        level += 1
    _issued.count += 1
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)
