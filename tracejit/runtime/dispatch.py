"""The call path for signatures that were seen before: from arguments to compiled code with nothing between.

A `Plan` holds what `tracejit.pipeline.call` found out for one signature with exact shapes: which entry runs, what is
allocated, how the result is put together.  It exists only for plain calls (arrays and floats by position, no decisions
on values, nothing to write back); everything else takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tracejit.frontend.pytree import LEAF, TreeDef
from tracejit.frontend.trace import Static
from tracejit.ir import dims
from tracejit.ir.aval import compute_dtype
from tracejit.runtime.entry import Entry

__all__ = ["MISS", "Plan", "make_plan", "signature"]

MISS = object()
"""What a plan returns when it does not hold any more."""


def signature(args: Sequence[Any]) -> Hashable:
    """Return a key of the exact signature of plain arguments, or None if some argument is not plain."""
    key: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            key.append((arg.dtype, arg.shape, arg.flags.num))
        elif kind is float or kind is np.float64:
            key.append(kind)
        else:
            return None
    return tuple(key)


class Plan:
    """Runs one entry for one exact signature."""

    __slots__ = ("_allocate", "_build", "_consts", "_current", "_function", "_scalars", "_take")

    def __init__(
        self, entry: Entry, shapes: list[tuple[tuple[int, ...], Any]], take: list[tuple[bool, int, Any]]
    ) -> None:
        self._function = entry.compiled[1].function
        self._consts = entry.consts()
        self._current = entry.reads.current
        self._allocate = shapes
        self._take = take
        self._scalars = any(not is_array for is_array, _, _ in take)
        self._build = _builder(entry.out_tree)

    def __call__(self, args: Sequence[Any]) -> Any:
        """Return the result, or `MISS` if something that the function reads has changed."""
        if self._current() is None:
            return MISS
        arrays = [np.empty(shape, dtype) for shape, dtype in self._allocate]
        scalars = self._function(*args, *self._consts, *arrays)
        return self._build([arrays[n] if is_array else kind(scalars[n]) for is_array, n, kind in self._take])


def make_plan(entry: Entry, args: Sequence[Any]) -> Plan | None:
    """Return a plan for calls like this one, or None if it is not plain enough."""
    if (
        entry.told
        or entry.tape.guards
        or entry.written
        or entry.reads.numeric
        or len(args) != len(entry.tape.inputs)
    ):
        return None
    if not all(map(_is_plain, args)):
        return None
    gathered = entry.gather(args)
    if gathered is None:
        return None
    _, _, sizes = gathered
    outputs = entry.compiled[0].outputs
    if any(o.compute != o.dtype for o in outputs) or any(isinstance(n, Static) for n in entry.outputs):
        return None
    if any(entry.arrays):
        return None
    shapes = [
        (tuple(dims.evaluate(d, sizes) for d in o.shape), o.compute) for o in outputs if o.kind == "array"
    ]
    used = [outputs[n] for n in entry.outputs]  # type: ignore[index]
    return Plan(entry, shapes, [(o.kind == "array", o.position, o.dtype.type) for o in used])


def _is_plain(arg: Any) -> bool:
    """Return whether compiled code takes ``arg`` as it is, differentiated or not."""
    if type(arg) is not np.ndarray:
        return type(arg) in (float, np.float64)
    native = arg.dtype.isnative and arg.flags.aligned and compute_dtype(arg.dtype) == arg.dtype
    return bool(native and arg.ndim and arg.dtype.kind in "fc")


def _builder(tree: TreeDef) -> Callable[[list[Any]], Any]:
    """Return the function from leaves to the result; the frequent structures without recursion."""
    if tree == LEAF:
        return lambda leaves: leaves[0]
    if tree.cls is tuple and all(child == LEAF for child in tree.children):
        return tuple
    if tree.cls is tuple and len(tree.children) == 2 and tree.children[0] == LEAF:
        rest = _builder(tree.children[1])
        return lambda leaves: (leaves[0], rest(leaves[1:]))
    return tree.unflatten
