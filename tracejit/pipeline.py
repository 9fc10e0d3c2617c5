"""The order of everything, once: trace, derive, simplify, fuse, emit, compile; and where compiled entries are kept.

    Python function --trace--> tape --derive--> tape --simplify--> tape --fuse, emit--> source --Numba--> machine code

``TRACEJIT_VERIFY=1`` checks the tape after each stage; ``TRACEJIT_INTERPRET=1`` (or `interpret`) runs tapes with NumPy.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracejit.codegen.emit import Program, lower
from tracejit.errors import GuardError, UnsupportedError
from tracejit.frontend.arguments import Call, arguments
from tracejit.frontend.registry import operand
from tracejit.frontend.trace import (
    Static,
    SymbolTable,
    Traced,
    ZeroD,
    abstract,
    trace_nested,
    trace_root,
    with_symbols,
)
from tracejit.frontend.tracer import wrap
from tracejit.ir.check import check
from tracejit.ir.source import here
from tracejit.ir.tape import Atom, Builder, Tape, is_tracing
from tracejit.passes.derivatives import Built
from tracejit.passes.runtime_sizes import require_known_extents
from tracejit.passes.simplify import simplify
from tracejit.runtime.compile import ArgSpec, compile_function
from tracejit.runtime.dispatch import MISS, Plans, make_plan, signature
from tracejit.runtime.entries import Shelf, shelf_of
from tracejit.runtime.entry import Entry, GuardMismatch, Sizes, layout_of, native
from tracejit.runtime.kernel import Kernel, compile_kernel, compiled_kernels
from tracejit.runtime.keys import signature_of
from tracejit.runtime.limits import MAX_PATHS, runs_long, warn_retraces
from tracejit.runtime.locks import lock
from tracejit.tracebacks import warnings_issued

__all__ = [
    "Stats",
    "Transform",
    "call",
    "call_planned",
    "compile_njit",
    "entry_for",
    "interpret",
    "stats",
    "trace_tape",
]

Derive = Callable[[Traced, Call, Sequence[Atom]], Built]


@dataclass(frozen=True)
class Transform:
    """What is computed of a function.

    Attributes
    ----------
    derive : callable
        ``derive(traced, call, atoms)`` appends to the current builder and returns result leaves and structure.
    argnums : int, tuple of int or None
    key : hashable
        Distinguishes transforms of one function.
    writes : bool
        Writes into arguments are written back to the caller's arrays.
    extra : int
        Trailing arguments that the function itself does not see.
    split : int, None or tuple of them, optional
        Axes of the arguments that the function does not see (`vmap`).
    """

    derive: Derive
    argnums: int | tuple[int, ...] | None
    key: tuple[Any, ...]
    writes: bool = False
    extra: int = 0
    split: Any = None


@dataclass
class Stats:
    """Counts since the process started.

    Attributes
    ----------
    traces : int
        Runs of user functions on traced values.
    compiles : int
        Generated functions that went through the compiler (found again by their text, they do not).
    """

    traces: int = 0
    compiles: int = 0


stats = Stats()


class _Local(threading.local):
    interpret = os.environ.get("TRACEJIT_INTERPRET", "") not in ("", "0")


_local = _Local()


@contextmanager
def interpret() -> Iterator[None]:
    """Run tapes with NumPy instead of compiled code inside the ``with`` block (this thread only)."""
    saved, _local.interpret = _interpreting(), True
    try:
        yield
    finally:
        _local.interpret = saved


def _interpreting() -> bool:
    return _local.interpret


def call_planned(
    function: Callable[..., Any],
    transform: Transform,
    plans: Plans,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """As `call`, with the plans of signatures that were seen before."""
    planned = not kwargs and not _local.interpret and not is_tracing()
    if planned:
        result = plans.latest(*args)
        if result is not MISS:
            return result
    signed = signature(args) if planned else None
    if signed is None:
        return call(function, transform, args, kwargs)
    key, leaves = signed
    result = plans.find(key, leaves, leaves is args)
    if result is not MISS:
        return result
    result, entry, dynamic = _call(function, transform, args, kwargs)
    if entry is not None and plans.asks(key) and _are(leaves, dynamic):
        plan = make_plan(entry, leaves, function)
        if plan is not None:
            plans.add(key, plan, leaves is args)
    return result


def _are(leaves: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether two sequences hold the same objects."""
    return len(leaves) == len(others) and all(map(operator.is_, leaves, others))


def call(
    function: Callable[..., Any], transform: Transform, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the transform of ``function`` at these arguments."""
    return _call(function, transform, args, kwargs)[0]


def _call(
    function: Callable[..., Any], transform: Transform, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Entry | None, Sequence[Any]]:
    """Return the result, the entry that gave it, and the numbers and arrays among the arguments."""
    specification, leaves = arguments(
        function, transform.argnums, args, kwargs, transform.extra, transform.split
    )
    if is_tracing():
        return _call_nested(function, transform, specification, leaves), None, ()
    dynamic = [leaf for leaf in leaves if not isinstance(leaf, Static)]
    shelf = _shelf(function, transform, specification, leaves)
    known: tuple[Any, ...] = ()
    for entry in shelf.candidates():
        if entry.agrees(known):
            try:
                result = _run(entry, dynamic, function)
            except GuardMismatch as mismatch:
                known = mismatch.values
            except _DoesNotFit:
                continue
            else:
                if entry not in shelf.own:
                    shelf.add(entry)
                return result, entry, dynamic
    entry = _new_entry(function, transform, specification, leaves)
    try:
        result = _run(entry, dynamic, function)
    except GuardMismatch:
        # A value on the border of a decision, which rounding in compiled code moves to its other side.
        with interpret():
            return _run(entry, dynamic, function), None, ()
    shelf.add(entry)
    if len(shelf.own) == MAX_PATHS:
        warn_retraces(function, entry)
    return result, entry, dynamic


class _DoesNotFit(Exception):
    """The entry was made for other sizes or captured values."""


def _run(entry: Entry, leaves: Sequence[Any], function: Callable[..., Any]) -> Any:
    gathered = entry.gather(leaves, function)
    if gathered is None:
        raise _DoesNotFit
    given, values, sizes = gathered
    if entry.written:
        _refuse_overlap(entry, given)
    interpreted = _interpreting() or runs_long(entry)
    outputs = entry.interpret(values, sizes) if interpreted else entry.run(values, sizes)
    return entry.finish(outputs, given)


def _refuse_overlap(entry: Entry, leaves: Sequence[Any]) -> None:
    """Raise if the function writes into an array of which another argument sees a part."""
    for number, _ in entry.written:
        for other, leaf in enumerate(leaves):
            if other != number and isinstance(leaf, np.ndarray) and _overlap(leaf, leaves[number]):
                names = [entry.tape.inputs[n].name for n in (number, other)]
                raise UnsupportedError(
                    f"The function writes into {names[0]!r}, which shares memory with {names[1]!r}.",
                    where=here(),
                    hint="Pass a copy of one of them, so that no argument changes through another.",
                )


def _overlap(a: Any, b: Any) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:  # exact answers may take years
        return True


def entry_for(
    function: Callable[..., Any], transform: Transform, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Entry, Sizes]:
    """Return the entry that serves this call, made if needed, and the sizes of this call; nothing is computed."""
    specification, leaves = arguments(
        function, transform.argnums, args, kwargs, transform.extra, transform.split
    )
    dynamic = [leaf for leaf in leaves if not isinstance(leaf, Static)]
    shelf = _shelf(function, transform, specification, leaves)
    for entry in shelf.candidates():
        gathered = None if entry.tape.guards else entry.gather(dynamic, function)
        if gathered is not None:
            return entry, gathered[2]
    entry = _new_entry(function, transform, specification, leaves)
    shelf.add(entry)
    gathered = entry.gather(dynamic, function)
    assert gathered is not None
    return entry, gathered[2]


def _shelf(
    function: Callable[..., Any], transform: Transform, specification: Call, leaves: Sequence[Any]
) -> Shelf:
    wrt = (specification.groups, specification.single)
    return shelf_of(function, (transform.key, specification.tree, wrt, signature_of(leaves)))


def _new_entry(
    function: Callable[..., Any], transform: Transform, specification: Call, leaves: Sequence[Any]
) -> Entry:
    return with_symbols(lambda table: _build(function, transform, specification, leaves, table))


def _build(
    function: Callable[..., Any], transform: Transform, call: Call, leaves: Sequence[Any], table: SymbolTable
) -> Entry:
    stats.traces += 1
    warned = warnings_issued()
    traced = trace_root(function, call.tree, leaves, call.names, table, call.extra, call.axes)
    verify(traced.tape, "trace")
    dynamic = [leaf for leaf in leaves if not isinstance(leaf, Static)]
    avals = [abstract(leaf, table) for leaf in dynamic] + [v.aval for v in traced.tape.inputs[len(dynamic) :]]
    with Builder() as builder:
        inputs = [builder.input(aval, v.name) for aval, v in zip(avals, traced.tape.inputs, strict=True)]
        leaves_out, out_tree = transform.derive(traced, call, inputs)
        atoms, outputs, arrays = _number(leaves_out)
    joint = verify(builder.finish(atoms), "derive")
    require_known_extents(joint)
    tape = verify(simplify(joint), "simplify")
    with traced.reads.of(function):
        values = [*dynamic, *(read.get() for read in traced.reads.numeric)]
    written = [n for n in outputs[out_tree.size :] if isinstance(n, int)]
    return Entry(
        tape=tape,
        reads=traced.reads,
        outputs=outputs[: out_tree.size],
        out_tree=out_tree,
        arrays=arrays[: out_tree.size],
        written=tuple((number, n) for (number, _), n in zip(traced.written, written, strict=False)),
        layouts=tuple(layout_of(native(v)) for v in (*values, *(array for _, array in tape.consts))),
        lower=_lower,
        compile=_compile,
        forward=traced.tape,
        warned=warnings_issued() > warned,
    )


def _number(leaves: Sequence[Any]) -> tuple[list[Atom], tuple[int | Static, ...], tuple[bool, ...]]:
    """Return the tape's outputs, per leaf its number (or the static value), and whether it is a 0-d array."""
    atoms: list[Atom] = []
    outputs: list[int | Static] = []
    for leaf in leaves:
        if isinstance(leaf, Static):
            outputs.append(leaf)
        else:
            outputs.append(len(atoms))
            atoms.append(leaf.atom if isinstance(leaf, ZeroD) else leaf)
    return atoms, tuple(outputs), tuple(isinstance(leaf, ZeroD) for leaf in leaves)


def _lower(entry: Entry) -> Program:
    return lower(entry.tape, entry.layouts, entry.name)


def _compile(entry: Entry) -> Kernel:
    program = entry.program
    outputs = [ArgSpec(o.compute, len(o.shape), "C", True) for o in program.outputs if o.kind == "array"]
    with lock:
        before = compiled_kernels()
        kernel = compile_kernel(
            program.source,
            program.name,
            (*_input_types(program), *outputs),
            program.functions,
            program.key,
            program.pieces,
        )
        stats.compiles += compiled_kernels() - before
    return kernel


def _input_types(program: Program) -> tuple[ArgSpec, ...]:
    return tuple(ArgSpec(a.dtype, a.ndim, "C" if a.layout == "C" else "A") for a in program.inputs)


def compile_njit(entry: Entry) -> Callable[..., Any]:
    """Return the function for ``@njit`` code: it checks sizes, allocates the outputs and returns them as a tuple."""
    program, kernel = entry.compiled
    made = compile_function(
        program.entry,
        f"{program.name}_entry",
        _input_types(program),
        extra_namespace={program.name: kernel.jitted.function, "GuardError": GuardError},
    )
    return made.function


def verify(tape: Tape, stage: str) -> Tape:
    """Return ``tape``, checked if ``TRACEJIT_VERIFY`` is set."""
    return check(tape, stage) if os.environ.get("TRACEJIT_VERIFY", "") not in ("", "0") else tape


def _call_nested(
    function: Callable[..., Any], transform: Transform, call: Call, leaves: Sequence[Any]
) -> Any:
    """Append the transform to the trace that is on."""
    atoms = [leaf if isinstance(leaf, Static) else operand(leaf) for leaf in leaves]
    traced = trace_nested(function, call.tree, atoms, call.extra, call.axes)
    inputs = [*(a for a in atoms if not isinstance(a, Static)), *traced.captured]
    result, out_tree = transform.derive(traced, call, inputs)
    if transform.writes:
        given = [leaf for leaf in leaves if not isinstance(leaf, Static)]
        for (number, _), contents in zip(traced.written, result[out_tree.size :], strict=True):
            given[number][...] = wrap(contents)
    return out_tree.unflatten(wrap([_plain(leaf) for leaf in result[: out_tree.size]]))


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, Static):
        return leaf.value
    return leaf.atom if isinstance(leaf, ZeroD) else leaf


def trace_tape(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tape:
    """Return the tape of ``function`` itself at these arguments."""
    call, leaves = arguments(function, None, args, kwargs)
    return with_symbols(lambda table: trace_root(function, call.tree, leaves, call.names, table)).tape
