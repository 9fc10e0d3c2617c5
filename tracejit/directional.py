"""Derivatives along directions that the caller passes: `jvp` and `vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.errors import StructureError
from tracejit.frontend.pytree import flatten
from tracejit.ir.source import here
from tracejit.passes import derivatives
from tracejit.pipeline import Transform, call
from tracejit.tracebacks import boundary
from tracejit.transformed import Function

__all__ = ["jvp", "vjp"]

_VALUE = Transform(derivatives.value, None, ("value",))


@boundary
def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Value, and derivative along a direction (forward mode).

    Parameters
    ----------
    function : callable
    primals : sequence
        Its arguments.
    tangents : sequence
        One direction per argument, of the same structure and shapes.

    Returns
    -------
    value, derivative
        Both in the structure of the function's output.

    Raises
    ------
    StructureError
        If tangents do not fit the primals.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> value, slope = tj.jvp(np.sin, (0.0,), (1.0,))
    >>> float(slope)
    1.0
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise StructureError(
            "jvp takes a tuple of primals and a tuple of tangents.",
            where=here(),
            detail=f"They are {type(primals).__name__} and {type(tangents).__name__}.",
            hint="For a function of one argument write `tj.jvp(f, (x,), (v,))`.",
        )
    _check_like(tuple(primals), tuple(tangents), "tangent")
    count = len(primals)
    transform = Transform(derivatives.directional, tuple(range(2 * count)), ("jvp", count), extra=count)
    return call(function, transform, (*primals, *tangents), {})


@boundary
def vjp(function: Function, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Value, and the function that pulls cotangents back (reverse mode).

    Parameters
    ----------
    function : callable
    *primals
        Its arguments.

    Returns
    -------
    value
        The function's output.
    pull : callable
        ``pull(cotangent)``, with a cotangent of the output's structure and shape, returns a tuple of one
        gradient per primal.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> value, pull = tj.vjp(lambda x: x ** 2, np.array([1.0, 2.0]))
    >>> pull(np.array([1.0, 0.0]))
    (array([2., 0.]),)
    """
    value = call(function, _VALUE, primals, {})
    leaves, tree = flatten(primals)
    # The caller may write into its arrays before it pulls.
    primals = tree.unflatten([leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
    transform = Transform(derivatives.pulled_back, tuple(range(len(primals))), ("vjp",), extra=1)

    @boundary
    def pull(cotangent: Any) -> tuple[Any, ...]:
        _check_like(value, cotangent, "cotangent")
        result: tuple[Any, ...] = call(function, transform, (*primals, cotangent), {})
        return result

    return value, pull


def _check_like(expected: Any, given: Any, what: str) -> None:
    """Raise unless ``given`` has the structure and the shapes of ``expected``."""
    leaves, tree = flatten(expected)
    others, other_tree = flatten(given)
    if tree != other_tree:
        raise StructureError(
            f"The {what} has structure {other_tree}, but {tree} is needed (* is an array or a number).",
            where=here(),
            hint=f"A {what} has the structure of the value that it belongs to.",
        )
    for leaf, other in zip(leaves, others, strict=True):
        if np.iscomplexobj(other) and not np.iscomplexobj(leaf):
            raise StructureError(
                f"The {what} is complex, but the value that it belongs to is real.",
                where=here(),
                hint="Pass its real part.",
            )
        if np.shape(leaf) != np.shape(other):
            raise StructureError(
                f"The {what} has shape {np.shape(other)}, but shape {np.shape(leaf)} is needed.",
                where=here(),
                hint=f"A {what} has the shape of the value that it belongs to.",
            )
