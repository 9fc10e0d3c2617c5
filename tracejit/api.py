"""The functions users call: argument handling, a few lines each over `tracejit.pipeline`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from tracejit.errors import ArgnumsError, StructureError
from tracejit.frontend.pytree import flatten
from tracejit.ir.tape import Tape
from tracejit.lowered import Lowered
from tracejit.passes import derivatives, jacobians
from tracejit.pipeline import Transform, call, entry_for, trace_tape
from tracejit.tracebacks import boundary, hide_own_frames

__all__ = [
    "elementwise_grad",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
]

Function = Callable[..., Any]
Argnums = int | Sequence[int]
_DENSE_LIMIT = 2**30


class Transformed:
    """A function made from another one: call it, or look at its compiled form with `lower`."""

    def __init__(self, function: Function, transform: Transform) -> None:
        functools.update_wrapper(self, function)
        self._function, self._transform = function, transform

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(self._function, self._transform, args, kwargs)
        except BaseException as error:
            hide_own_frames(error)
            raise

    @boundary
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the compiled object for arguments of these shapes and dtypes; nothing is computed.

        Returns
        -------
        Lowered
            With ``source``, ``forward_tape``, ``backward_tape``, ``njit``; callable like this function.
        """
        return Lowered(entry_for(self._function, self._transform, args, kwargs), self._function, self._transform)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Let a decorated method be called on its object; ``argnums`` does not count ``self``."""
        if instance is None:
            return self
        return Transformed(MethodType(self._function, instance), self._transform)

    def __repr__(self) -> str:
        return f"<tracejit {self._transform.key[0]} of {getattr(self._function, '__qualname__', self._function)!s}>"


def _decorator(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``make(f, **options)`` be written ``@make`` and ``@make(**options)`` too."""

    @functools.wraps(make)
    @boundary
    def decorate(function: Function | None = None, *args: Any, **options: Any) -> Any:
        if function is None:
            return lambda f: make(f, *args, **options)
        if not callable(function):
            raise TypeError(f"tracejit.{make.__name__} takes a function, not {type(function).__name__}.")
        return make(function, *args, **options)

    return decorate


def _numbers(argnums: Argnums) -> int | tuple[int, ...]:
    many = isinstance(argnums, Iterable) and not isinstance(argnums, str)
    return tuple(map(_number, argnums)) if many else _number(argnums)  # type: ignore[arg-type]


def _number(argnum: object) -> int:
    if isinstance(argnum, bool) or not isinstance(argnum, int | np.integer):
        raise ArgnumsError(
            f"argnums must be an int or a sequence of ints, not {argnum!r}.",
            hint="It names positional arguments: 0 is the first, -1 the last, (0, 2) the first and the third.",
        )
    return int(argnum)


def _gradient(function: Function, name: str, argnums: Argnums, with_value: bool, has_aux: bool, disconnected: str) -> Any:
    if disconnected not in ("zero", "warn", "raise"):
        raise ValueError(f'disconnected must be "zero", "warn" or "raise", not {disconnected!r}')
    options = {"with_value": with_value, "has_aux": has_aux, "disconnected": disconnected}
    derive = functools.partial(derivatives.gradient, **options)  # type: ignore[arg-type]
    return Transformed(function, Transform(derive, _numbers(argnums), (name, has_aux, disconnected)))


@_decorator
def grad(function: Function, argnums: Argnums = 0, *, has_aux: bool = False, disconnected: str = "zero") -> Any:
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
        Takes the same arguments; returns the gradient with the shape, the floating dtype and the container structure of
        the argument (a tuple of gradients if ``argnums`` is a sequence), or ``(gradient, auxiliary)``.

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


@_decorator
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
        Returns ``(value, gradient)``, or ``((value, auxiliary), gradient)``; fits ``scipy.optimize.minimize(jac=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> value, slope = tj.value_and_grad(lambda x: np.sum(x ** 2))(np.array([1.0, 2.0]))
    >>> float(value), slope
    (5.0, array([2., 4.]))
    """
    return _gradient(function, "value_and_grad", argnums, True, has_aux, disconnected)


@_decorator
def elementwise_grad(function: Function, argnums: Argnums = 0) -> Any:
    """Derivative of a field at each point: of output entry *i* with respect to input entry *i*.

    Parameters
    ----------
    function : callable
        Every output entry depends on the same entry of the inputs only (broadcasting allowed); this is proved on the
        tape.
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
    return Transformed(function, Transform(jacobians.pointwise, _numbers(argnums), ("elementwise_grad",)))


@_decorator
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
        The function is complex differentiable; its derivative is complex.
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
        return Transformed(function, Transform(jacobians.pointwise, _numbers(argnums), ("pointwise",)))
    options = {"mode": mode, "holomorphic": holomorphic, "limit": max_dense_bytes}
    jacobians.check_options(structure, mode)
    derive = functools.partial(jacobians.dense, **options)  # type: ignore[arg-type]
    key = ("jacobian", mode, holomorphic, max_dense_bytes)
    return Transformed(function, Transform(derive, _numbers(argnums), key))


@_decorator
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


@_decorator
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
    number = _number(argnums)
    # The vector stands behind the arguments, which negative numbers count without it.
    transform = Transform(derivatives.second_order, (number if number >= 0 else number - 1, -1), ("hvp",), extra=1)
    return Transformed(grad(function, number), transform)


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
        raise StructureError("jvp takes a tuple of primals and a tuple of tangents.", hint="One argument: `(x,)`.")
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
        ``pull(cotangent)``, with a cotangent of the output's structure and shape, returns a tuple of one gradient per
        primal.

    Examples
    --------
    >>> import numpy as np
    >>> import tracejit as tj
    >>> value, pull = tj.vjp(lambda x: x ** 2, np.array([1.0, 2.0]))
    >>> pull(np.array([1.0, 0.0]))
    (array([2., 0.]),)
    """
    value = call(function, _VALUE, primals, {})
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
        raise StructureError(f"The {what} has structure {other_tree}, but {tree} is needed.")
    for leaf, other in zip(leaves, others, strict=True):
        if np.iscomplexobj(other) and not np.iscomplexobj(leaf):
            raise StructureError(
                f"The {what} is complex, but the value that it belongs to is real.", hint="Pass its real part."
            )
        if np.shape(leaf) != np.shape(other):
            raise StructureError(
                f"The {what} has shape {np.shape(other)}, but shape {np.shape(leaf)} is needed.",
                hint=f"A {what} has the shape of the value that it belongs to.",
            )


@_decorator
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


_VALUE = Transform(derivatives.value, None, ("value",))
_IDENTITY = Transform(derivatives.identity, None, ("jit",), writes=True)


@_decorator
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
