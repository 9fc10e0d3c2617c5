"""Wrong programs: what a user may do, and which error has to explain it.

The functions stand in modules of their own, as a user's do: messages quote their lines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

X = np.linspace(0.1, 1.2, 12)
GRID = np.linspace(0.0, 1.0, 36).reshape(12, 3)
TABLE = np.zeros(3)


@dataclass(frozen=True)
class Case:
    """A wrong program.

    Parameters
    ----------
    run
        Raises the error.
    error
        Its type.
    builtin
        The built-in type that it also has.
    """

    run: Callable[[], Any]
    error: type[Exception]
    builtin: type[Exception]


CASES: dict[str, Case] = {}


Run = Callable[[], Any]


def case(error: type[Exception], builtin: type[Exception]) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        CASES[run.__name__] = Case(run, error, builtin)
        return run

    return register
