"""Transforms that users call: a few lines each over `tracejit.pipeline`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracejit.ir.tape import Tape
from tracejit.passes import derivatives, jacobians
from tracejit.pipeline import Transform, trace_tape
from tracejit.tracebacks import boundary
from tracejit.transformed import Argnums, Function, Transformed, decorator, number, numbers

__all__ = [
    "elementwise_grad",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "trace",
    "value_and_grad",
    "vmap",
]

_DENSE_LIMIT = 2**30


def _gradient(
    function: Function, name: str, argnums: Argnums, with_value: bool, has_aux: bool, disconnected: str
) -> Any:
    if disconnected not in ("zero", "warn", "raise"):
        raise ValueError(f'disconnected must be "zero", "warn" or "raise", not {disconnected!r}')
    options = {"with_value": with_value, "has_aux": has_aux, "disconnected": disconnected}
    derive = functools.partial(derivatives.gradient, **options)  # type: ignore[arg-type]
    return Transformed(function, Transform(derive, numbers(argnums), (name, has_aux, disconnected)))


@decorator
def grad(
    function: Function, argnums: Argnums = 0, *, has_aux: bool = False, disconnected: str = "zero"
) -> Any:
    """Gradient of a function that returns one real number.

    Parameters
    ----------
    function : callable
        Plain NumPy code. Its output has exactly one entry, of real dtype.
    argnums : int or sequence of int
        Positional arguments to differentiate with respect to; negative numbers count from the end.
    has_aux : bool
        The function returns a pair ``(value, auxiliary)``; only ``value`` is differentiated.
    disconnected : {"zero", "warn", "raise"}
        What an argument gets that does not influence the output.

    Returns
    -------
    callable
        Takes the same arguments; returns the gradient with the shape, the floating dtype and the container
        structure of the argument (a tuple of gradients if ``argnums`` is a sequence), or
        ``(gradient, auxiliary)``.

    Raises
    ------
    NonScalarOutputError
        If the output does not have exactly one entry, or is complex.

    Notes
    -----
    Reverse-mode automatic differentiation [1]_ on a tape.  For complex arguments the result is
    ``df/dx - 1j*df/dy``, the conjugate of the direction of steepest ascent.

    References
    ----------
    .. [1] A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.grad(lambda x: np.sum(x ** 2))(np.array([1, 2, 3]))
    array([2., 4., 6.])

    As a decorator, with respect to the second argument:

    >>> @tj.grad(argnums=1)
    ... def slope(x, k):
    ...     return np.sum(np.sin(k * x))
    >>> float(slope(np.zeros(3), 2.0))
    0.0
    """
    return _gradient(function, "grad", argnums, False, has_aux, disconnected)


@decorator
def value_and_grad(
    function: Function, argnums: Argnums = 0, *, has_aux: bool = False, disconnected: str = "zero"
) -> Any:
    """Value and gradient, from one pass.

    Parameters
    ----------
    function, argnums, has_aux, disconnected
        As in `grad`.

    Returns
    -------
    callable
        Returns ``(value, gradient)``, or ``((value, auxiliary), gradient)``; the first form is what
        ``scipy.optimize.minimize(jac=True)`` takes.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> value, slope = tj.value_and_grad(lambda x: np.sum(x ** 2))(np.array([1.0, 2.0]))
    >>> float(value), slope
    (5.0, array([2., 4.]))
    """
    return _gradient(function, "value_and_grad", argnums, True, has_aux, disconnected)


@decorator
def elementwise_grad(function: Function, argnums: Argnums = 0) -> Any:
    """Derivative of a field at each point: of output entry *i* with respect to input entry *i*.

    Parameters
    ----------
    function : callable
        Every output entry depends on the same entry of the inputs only (broadcasting allowed); this is
        proved on the tape.
    argnums : int or sequence of int

    Returns
    -------
    callable
        Returns an array of the output's shape (a tuple of them if ``argnums`` is a sequence).

    Raises
    ------
    PointwiseError
        If points are mixed; the message names the line.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.elementwise_grad(lambda x, y: x ** 2 + y)(np.array([[1, 2], [1, 2]]), np.array([[1, 1], [2, 2]]))
    array([[2., 4.],
           [2., 4.]])
    """
    return Transformed(function, Transform(jacobians.pointwise, numbers(argnums), ("elementwise_grad",)))


@decorator
def jacobian(
    function: Function,
    argnums: Argnums = 0,
    *,
    structure: str = "dense",
    mode: str | None = None,
    holomorphic: bool = False,
    max_dense_bytes: int = _DENSE_LIMIT,
) -> Any:
    """Derivative of every output entry with respect to every input entry.

    Parameters
    ----------
    function : callable
    argnums : int or sequence of int
    structure : {"dense", "pointwise", "sparse"}
        ``"pointwise"``: as `elementwise_grad`.  ``"sparse"`` is not available yet and says so.
    mode : {None, "forward", "reverse"}
        By default the one that needs fewer sweeps.
    holomorphic : bool
        The function is complex differentiable, by complex numbers; its derivative is complex.  Of any other
        function of complex numbers ``z = x + iy`` the output must be real; the derivative is
        ``df/dx - i df/dy``, as that of `grad`.
    max_dense_bytes : int
        Refuse dense results above this size, in bytes, before computing.

    Returns
    -------
    callable
        Returns an array of shape ``output.shape + input.shape`` (in the containers of outputs and inputs).

    Raises
    ------
    TooLargeError
        For a dense result over ``max_dense_bytes``.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.jacobian(lambda x: np.array([x[0] * x[1], x[1] ** 2]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [0., 6.]])
    """
    if structure == "pointwise":
        derive = functools.partial(jacobians.pointwise, holomorphic=holomorphic)
        return Transformed(function, Transform(derive, numbers(argnums), ("pointwise", holomorphic)))
    options = {"mode": mode, "holomorphic": holomorphic, "limit": max_dense_bytes}
    jacobians.check_options(structure, mode)
    derive = functools.partial(jacobians.dense, **options)  # type: ignore[arg-type]
    key = ("jacobian", mode, holomorphic, max_dense_bytes)
    return Transformed(function, Transform(derive, numbers(argnums), key))


@decorator
def hessian(function: Function, argnums: Argnums = 0) -> Any:
    """Second derivatives of a function that returns one real number.

    Parameters
    ----------
    function : callable
    argnums : int or sequence of int

    Returns
    -------
    callable
        Returns an array of shape ``input.shape + input.shape``, by forward over reverse mode.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return jacobian(grad(function, argnums), argnums, mode="forward")


@decorator
def hvp(function: Function, argnums: int = 0) -> Any:
    """Product of the Hessian with a vector, without the Hessian.

    Parameters
    ----------
    function : callable
        Returns one real number.
    argnums : int

    Returns
    -------
    callable
        Called with the function's arguments followed by the vector (shape and structure of the argument).

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.hvp(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    array([6., 0.])
    """
    chosen = number(argnums)
    # The vector stands behind the arguments, which negative numbers count without it.
    pair = (chosen if chosen >= 0 else chosen - 1, -1)
    transform = Transform(derivatives.second_order, pair, ("hvp",), extra=1)
    return Transformed(grad(function, chosen), transform)


@decorator
def jit(function: Function) -> Any:
    """The function itself, compiled; keeps NumPy's meaning, writes into arguments included.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> f = tj.jit(lambda x: np.sin(x) + 1)
    >>> f(np.zeros(2))
    array([1., 1.])
    """
    return Transformed(function, _IDENTITY)


_IDENTITY = Transform(derivatives.identity, None, ("jit",), writes=True)


@decorator
def vmap(function: Function, in_axes: Any = 0, out_axes: int = 0) -> Any:
    """Apply a function to each entry along an axis of its arguments, in one compiled call.

    Parameters
    ----------
    function : callable
    in_axes : int, None, or sequence of them
        Axis to map over, per argument; None for an argument that stays as it is.
    out_axes : int
        Where the axis is put in the outputs.

    Returns
    -------
    callable

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> tj.vmap(np.dot)(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [0.0, 1.0]]))
    array([3., 4.])
    """
    axes = in_axes if isinstance(in_axes, int | None) else tuple(in_axes)
    derive = functools.partial(jacobians.batched, in_axes=axes, out_axes=out_axes)
    return Transformed(function, Transform(derive, None, ("vmap", axes, out_axes), split=axes))


def trace(function: Function) -> Callable[..., Tape]:
    """Return a function that returns the tape of ``function`` instead of its value.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
        Takes the function's arguments; returns a `tracejit.ir.tape.Tape`, whose ``str`` is its text form.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> len(tj.trace(lambda x: np.sum(x * x))(np.ones(3)).eqns)
    2
    """

    @functools.wraps(function)
    @boundary
    def tape_of(*args: Any, **kwargs: Any) -> Tape:
        return trace_tape(function, args, kwargs)

    return tape_of
