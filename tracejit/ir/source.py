"""Where in the user's program an equation comes from."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass

import numpy as np

__all__ = ["Source", "here"]

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_HIDDEN = (_OWN, _NUMPY)
_EXAMPLE = _OWN + "demo.py"  # a user of the package that is shipped with it
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's program: ``stack`` holds (file, line, function) from the innermost user frame outwards."""

    stack: tuple[tuple[str, int, str], ...]

    @property
    def file(self) -> str:
        return self.stack[0][0]

    @property
    def line(self) -> int:
        return self.stack[0][1]

    @property
    def function(self) -> str:
        return self.stack[0][2]

    @property
    def text(self) -> str:
        """The source line itself, stripped, or an empty string where the file is not at hand."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """``file.py:12``."""
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        text = self.text
        return f"at {self.file}:{self.line}, in {self.function}" + (f": {text}" if text else "")


def here() -> Source | None:
    """Return the place of the innermost caller that belongs neither to tracejit nor to NumPy."""
    frame = sys._getframe(1)
    stack: list[tuple[str, int, str]] = []
    while frame is not None and len(stack) < _DEPTH:
        code = frame.f_code
        if not code.co_filename.startswith(_HIDDEN) or code.co_filename == _EXAMPLE:
            stack.append((code.co_filename, frame.f_lineno, code.co_name))
        elif stack:
            break  # the call into tracejit that started the trace: what lies outside did not compute anything
        frame = frame.f_back  # type: ignore[assignment]
    return Source(tuple(stack)) if stack else None
