"""The call path for signatures that were seen before: from arguments to compiled code with nothing between.

`make_plan` puts into one function of machine code what `tracejit.pipeline.call` found out for one signature with exact
shapes: what is checked, which captured values are read, what is allocated, how the result is put together. It exists
only for plain calls (arrays and numbers by position, nothing to write back); everything else takes the long way.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tracejit.codegen.emit import Argument
from tracejit.frontend.pytree import LEAF, TreeDef, sorted_keys
from tracejit.frontend.reads import Place, Reads
from tracejit.frontend.trace import Static
from tracejit.frontend.values import MISSING
from tracejit.ir import dims
from tracejit.ir.aval import compute_dtype
from tracejit.runtime.entry import Entry
from tracejit.runtime.native_calls import ABSENT, ArrayInput, Find, Outcome, ScalarInput, prepare
from tracejit.runtime.object_layout import CELL_CONTENTS, function_fields

__all__ = ["MISS", "Plans", "clear_plans", "make_plan", "signature"]

MISS = object()
"""What a plan returns when it does not hold any more."""

Plan = Callable[..., Any]
"""A function of the positional arguments; it returns the result, or `MISS`."""

MAX_PLANS = 256
"""Exact signatures that one transformed function remembers."""

MAX_PATHS = 4
"""Plans of each of them."""

_SCALARS = frozenset([float, int, complex, np.bool_, *(np.dtype(kind).type for kind in "bhilqBHILQfdFD")])
"""Types of numbers that are taken as they are."""

_SETTINGS = (str, bool, type(None))

MAX_DEPTH = 8
"""Containers in containers."""

Check = tuple[Find, Any]
Input = ArrayInput | ScalarInput


class Plans:
    """The plans of one transformed function.

    Attributes
    ----------
    latest : callable
        The plan that held last: tried first, without looking at the arguments.
    """

    __slots__ = ("__weakref__", "_known", "_seen", "latest")

    def __init__(self) -> None:
        self.clear()
        _all_plans.add(self)

    def clear(self) -> None:
        """Forget them."""
        self.latest: Plan = _miss
        self._known: dict[Hashable, tuple[Plan, ...]] = {}
        self._seen: set[Hashable] = set()

    def asks(self, key: Hashable) -> bool:
        """Return whether a call that had no plan is to get one: not the first, which may be the only one."""
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def find(self, key: Hashable, leaves: Sequence[Any], flat: bool) -> Any:
        """Return the result of the plan for a signature; `MISS` if there is none, or it does not hold any more.

        If ``flat``, the leaves are the arguments themselves, and the plan may be tried first next time.
        """
        for plan in self._known.get(key, ()):
            result = plan(*leaves)
            if result is not MISS:
                if flat:
                    self.latest = plan
                return result
        return MISS

    def add(self, key: Hashable, plan: Plan, flat: bool) -> None:
        """Remember a plan; some of one signature, which differ in what Python decided, are kept beside each other."""
        if len(self._known) >= MAX_PLANS:
            self.clear()
        self._known[key] = (plan, *self._known.get(key, ())[: MAX_PATHS - 1])
        if flat:
            self.latest = plan


_all_plans: weakref.WeakSet[Plans] = weakref.WeakSet()


def clear_plans() -> None:
    """Forget the plans of all transformed functions."""
    for plans in list(_all_plans):
        plans.clear()


def _miss(*args: Any) -> Any:
    return MISS


def signature(args: Sequence[Any]) -> tuple[Hashable, Sequence[Any]] | None:
    """Return a key of the exact signature of plain arguments, and the numbers and arrays in them in order.

    None if some argument is not plain: an array, a number, a setting, or a list, tuple or dict of those.
    """
    key: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            key.append((arg.dtype, arg.shape, arg.flags.num))
        elif kind in _SCALARS:
            key.append(kind)
        else:
            leaves: list[Any] = []
            key.clear()
            plain = all(_sign(a, key, leaves, MAX_DEPTH) for a in args)
            return (tuple(key), leaves) if plain else None
    return tuple(key), args


def _sign(value: Any, key: list[Any], leaves: list[Any], depth: int) -> bool:
    """Append what identifies ``value``, and its leaves in the order of `pytree.flatten`; return whether it is plain."""
    kind = type(value)
    if kind is np.ndarray:
        key.append((value.dtype, value.shape, value.flags.num))
        leaves.append(value)
    elif kind in _SCALARS:
        key.append(kind)
        leaves.append(value)
    elif kind in _SETTINGS:
        key.append((kind, value))
    elif kind is dict:
        key.append((kind, tuple(value)))
        return depth > 0 and all(_sign(value[name], key, leaves, depth - 1) for name in sorted_keys(value))
    elif kind is list or kind is tuple:
        key.append((kind, len(value)))
        return depth > 0 and all(_sign(item, key, leaves, depth - 1) for item in value)
    else:
        return False
    return True


def make_plan(entry: Entry, args: Sequence[Any], function: Callable[..., Any]) -> Plan | None:
    """Return a plan for calls like this one, or None if it is not plain enough."""
    dynamic = len(entry.tape.inputs) - len(entry.reads.numeric)
    if entry.told or entry.written or any(entry.arrays) or len(args) != dynamic:
        return None
    gathered = entry.gather(args, function)
    if gathered is None:
        return None
    given, _, sizes = gathered
    program, kernel = entry.compiled
    leaves = [program.outputs[n] for n in entry.outputs if not isinstance(n, Static)]
    if len(leaves) < len(entry.outputs) or any(o.compute != o.dtype for o in program.outputs):
        return None
    first = sum(o.kind == "scalar" for o in program.outputs)
    guards = [(n, guard.expected) for n, guard in enumerate(entry.tape.guards, first)]
    if any(kernel.code.results[n].itemsize > 8 for n, _ in guards):
        return None
    if any(o.kind == "scalar" and kernel.code.results[o.position] != o.dtype for o in leaves):
        return None
    checks, finds = _checks(entry.reads, function), _finds(entry.reads, function)
    current = None
    if checks is None or finds is None:
        # Python has to look at what was read, and hands the captured values in as further arguments.
        checks, finds = [], [Find("argument", len(args) + n) for n in range(len(entry.reads.numeric))]
        current = functools.partial(entry.reads.current, function)
    finds = [*(Find("argument", n) for n in range(len(args))), *finds]
    inputs = [_input(find, value) for find, value in zip(finds, given, strict=True)]
    inputs += [_input(Find("object", array), array) for array in entry.consts()]
    taken = [i for i, a in zip(inputs, program.inputs, strict=True) if i is not None and _serves(i, a)]
    if len(taken) < len(inputs):
        return None
    flat = not _is_tuples(entry.out_tree)
    outcome = Outcome(
        [
            (tuple(dims.evaluate(d, sizes) for d in o.shape), o.compute)
            for o in program.outputs
            if o.kind == "array"
        ],
        [(o.kind == "array", o.position) for o in leaves],
        None if flat else entry.out_tree,
        guards,
    )
    count = len(args) if current is None else len(given)
    plan: Plan | None = prepare(kernel.code, count, checks, taken, outcome, MISS)
    if plan is not None and current is not None:
        plan = _after(current, plan)
    return _unflattened(plan, entry.out_tree) if plan is not None and flat else plan


def _after(current: Callable[[], list[Any] | None], plan: Plan) -> Plan:
    """Return a plan that has Python look at what was read."""

    def run(*args: Any) -> Any:
        captured = current()
        return MISS if captured is None else plan(*args, *captured)

    return run


def _unflattened(plan: Plan, tree: TreeDef) -> Plan:
    """Return a plan that makes a result which is not of tuples alone."""

    def run(*args: Any) -> Any:
        leaves = plan(*args)
        return MISS if leaves is MISS else tree.unflatten(list(leaves))

    return run


def _input(find: Find, value: Any) -> Input | None:
    """Return how compiled code takes a value as it is; None if it does not."""
    kind = type(value)
    if kind in _SCALARS:
        return ScalarInput(find, kind)
    if kind is not np.ndarray or not value.ndim or value.dtype.kind not in "biufc":
        return None
    if not (value.dtype.isnative and value.flags.aligned and compute_dtype(value.dtype) == value.dtype):
        return None
    return ArrayInput(find, value.dtype, value.shape, value.flags.c_contiguous)


def _serves(given: Input, wanted: Argument) -> bool:
    """Return whether compiled code finds at an argument what it was compiled for."""
    if np.dtype(given.dtype) != wanted.dtype:
        return False
    if isinstance(given, ScalarInput):
        return wanted.ndim is None
    return len(given.shape) == wanted.ndim and (given.contiguous or wanted.layout == "A")


def _checks(reads: Reads, function: Any) -> list[Check] | None:
    """Return what has to be where it was; None if Python has to look at some of it."""
    checks: list[Check] = []
    with reads.of(function):
        for read in reads.reads:
            if read.kind == "numeric":
                continue
            if read.place is None or read.test == "other":
                return None
            value = read.get()
            if read.place.kind != "root":
                found = _find(read.place)
                if found is None:
                    return None
                checks.append((found, ABSENT if value is MISSING else value))
            if read.test == "function":
                fields = function_fields()
                if fields is None:
                    return None
                parts = value.__code__, value.__defaults__, value.__kwdefaults__
                checks += [
                    (Find("field", value, at), ABSENT if part is None else part)
                    for at, part in zip(fields, parts, strict=True)
                ]
    return checks


def _finds(reads: Reads, function: Any) -> list[Find] | None:
    """Return where captured values are found; None if Python has to look for some of them."""
    numeric = reads.numeric
    with reads.of(function):
        finds = [_find(read.place) for read in numeric if read.place is not None]
    known = [find for find in finds if find is not None]
    return known if len(known) == len(numeric) else None


def _find(place: Place) -> Find | None:
    if place.kind == "entry":
        return Find("entry", place.of, place.at) if type(place.of) is dict else None
    if place.kind == "closure":
        return Find("field", place.of().__closure__[place.at], CELL_CONTENTS)
    return Find("field", place.of, CELL_CONTENTS) if place.kind == "cell" else None


def _is_tuples(tree: TreeDef) -> bool:
    return tree == LEAF or (tree.cls is tuple and all(map(_is_tuples, tree.children)))
