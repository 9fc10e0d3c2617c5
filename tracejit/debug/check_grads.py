"""Compare derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.directional import jvp, vjp
from tracejit.frontend.pytree import TreeDef, flatten
from tracejit.tracebacks import boundary

__all__ = ["check_grads"]

Leaves = list[Any]


@boundary
def check_grads(
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    step: float | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    seed: int = 0,
) -> None:
    """Check derivatives of a function against central differences with Richardson extrapolation.

    Parameters
    ----------
    function : callable
    args : sequence
        Its arguments, all of which are differentiated; floats, arrays and containers of them.
    order : int
        Highest order of derivative to check.
    modes : sequence of {"forward", "reverse"}
    step : float, optional
        Relative step of the differences; by default the fifth root of the machine epsilon.
    rtol, atol : float
        Tolerances.
    seed : int
        Of the random directions.

    Raises
    ------
    AssertionError
        If a derivative differs; the message says of which order and in which mode.

    Notes
    -----
    Forward mode: ``J v`` against differences along a random ``v``.  Reverse mode: ``<w, J v>`` against ``<J^T w, v>``.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.check_grads(lambda x: np.sum(np.sin(x) * x), (np.array([0.3, 1.2]),))
    """
    unknown = set(modes) - {"forward", "reverse"}
    if unknown:
        raise ValueError(f'modes are "forward" and "reverse", not {sorted(unknown)}')
    _check(
        function,
        tuple(map(_float_leaves, args)),
        order,
        1,
        tuple(modes),
        step,
        (rtol, atol),
        np.random.default_rng(seed),
    )


def _check(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    orders: int,
    order: int,
    modes: tuple[str, ...],
    step: float | None,
    tolerance: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    leaves, tree = flatten(args)
    direction = [_random_like(leaf, rng) for leaf in leaves]
    tangents = tree.unflatten(direction)
    value, pushed = jvp(function, args, tangents)
    expected = _differences(function, leaves, tree, direction, step)
    if "forward" in modes:
        for found, wanted in zip(flatten(pushed)[0], expected, strict=True):
            _compare(found, wanted, tolerance, f"forward mode, order {order}")
    if "reverse" in modes:
        _, pull = vjp(function, *args)
        weights = [_random_like(leaf, rng) for leaf in flatten(value)[0]]
        gradients = flatten(pull(flatten(value)[1].unflatten(weights)))[0]
        found = sum(_inner(g, d) for g, d in zip(gradients, direction, strict=True))
        wanted = sum(_inner(w, e) for w, e in zip(weights, expected, strict=True))
        _compare(found, wanted, tolerance, f"reverse mode, order {order}")
    if order < orders:
        _check(lambda *a: jvp(function, a, tangents)[1], args, orders, order + 1, modes, step, tolerance, rng)


def _float_leaves(arg: Any) -> Any:
    leaves, tree = flatten(arg)
    return tree.unflatten(
        [a if np.asarray(a).dtype.kind in "fc" else np.asarray(a, float)[()] for a in leaves]
    )


def _random_like(leaf: Any, rng: np.random.Generator) -> Any:
    array = np.asarray(leaf)
    real = rng.standard_normal(array.shape)
    value = real + 1j * rng.standard_normal(array.shape) if array.dtype.kind == "c" else real
    return np.asarray(value).astype(array.dtype)[()]


def _differences(
    function: Callable[..., Any], leaves: Leaves, tree: TreeDef, direction: Leaves, step: float | None
) -> Leaves:
    def along(h: float) -> Leaves:
        moved = [
            leaf + np.asarray(h * d).astype(np.asarray(d).dtype)
            for leaf, d in zip(leaves, direction, strict=True)
        ]
        return flatten(function(*tree.unflatten(moved)))[0]

    def central(h: float) -> Leaves:
        return [(np.asarray(p) - np.asarray(m)) / (2 * h) for p, m in zip(along(h), along(-h), strict=True)]

    epsilon = max((float(np.finfo(np.asarray(leaf).dtype).eps) for leaf in leaves), default=1e-16)
    h = step or epsilon**0.2
    return [(4 * fine - coarse) / 3 for fine, coarse in zip(central(h / 2), central(h), strict=True)]


def _inner(a: Any, b: Any) -> Any:
    """Return the real pairing that makes forward and reverse mode transposes of each other."""
    return np.real(np.sum(np.asarray(a) * np.asarray(b)))


def _compare(found: Any, wanted: Any, tolerance: tuple[float, float], what: str) -> None:
    rtol, atol = tolerance
    np.testing.assert_allclose(
        np.asarray(found), np.asarray(wanted), rtol=rtol, atol=atol, err_msg=f"derivative differs ({what})"
    )
