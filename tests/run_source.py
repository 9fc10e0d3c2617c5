"""Run generated sources: as plain Python with every access checked, or compiled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.codegen.emit import Program
from tracejit.ir import dims
from tracejit.ir.tape import Tape, input_symbols
from tracejit.ops.base import REGISTRY
from tracejit.runtime.compile import ArgSpec
from tracejit.runtime.kernel import Kernel, compile_kernel

Array = np.ndarray[Any, Any]


def load(array: Array, *index: Any) -> Any:
    return array[place(array, index)]


def store(array: Array, value: Any, *index: Any) -> None:
    array[place(array, index)] = value


def place(array: Array, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place that an access means; it must lie inside the array."""
    if len(index) == 1 and array.ndim > 1:
        assert array.flags.c_contiguous and 0 <= index[0] < array.size, (array.shape, index)
        return tuple(np.unravel_index(index[0], array.shape))
    assert len(index) == array.ndim and all(0 <= i < n for i, n in zip(index, array.shape, strict=True)), (
        array.shape,
        index,
    )
    return index


PYTHON: dict[str, Any] = {
    "np": np,
    "load": load,
    "store": store,
    "room_for": lambda shape, dtype: 0,
    "workspace": lambda room, size: None,
    "placed": lambda block, offset, shape, dtype: np.full(shape, 99, dtype),
    "grown": lambda room, shape, dtype: np.full(shape, 99, dtype),
    "mark": lambda room: None,
    "back": lambda room, mark: None,
    "scratch": np.empty,
    "in_room": lambda kernel, arguments: kernel(*arguments, None),
    "distinct": lambda array, number: array,
    "where": lambda condition, x, y: x if condition else y,
    "add_reassoc": lambda x, y: x + y,
    "mul_reassoc": lambda x, y: x * y,
    "max_accumulate": np.maximum,
    "min_accumulate": np.minimum,
    **{name: getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)},
    "stop_if_interrupted": lambda: None,
    "nanoseconds": lambda: 0,
    "absorb_mul": REGISTRY["absorb_mul"].impl,
}


def run_python(program: Program, tape: Tape, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and guard values of the source as Python runs it."""
    namespace = {**PYTHON, **program.functions}
    exec(program.source, namespace)
    return _call(lambda *given: namespace[program.name](*given, None), program, tape, args)


def run_compiled(program: Program, tape: Tape, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and guard values of the compiled source."""
    return _call(compiled(program), program, tape, args)


def compiled(program: Program) -> Kernel:
    """The source as a function for arrays."""
    inputs = [ArgSpec(a.dtype, a.ndim, "C" if a.layout == "C" else "A") for a in program.inputs]
    outputs = [ArgSpec(o.compute, len(o.shape), "C", True) for o in program.outputs if o.kind == "array"]
    return compile_kernel(
        program.source, program.name, (*inputs, *outputs), program.functions, program.key, program.pieces
    )


def _call(function: Any, program: Program, tape: Tape, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    extents = {s: np.shape(args[i])[axis] for s, (i, axis) in input_symbols(tape).items()}
    values = [
        np.asarray(a) if p.ndim else p.dtype.type(a) for a, p in zip(args, program.inputs, strict=False)
    ]
    arrays = [
        np.empty(tuple(dims.evaluate(d, extents) for d in o.shape), o.compute)
        for o in program.outputs
        if o.kind == "array"
    ]
    with np.errstate(all="ignore"):
        scalars = function(*values, *(c for _, c in tape.consts), *arrays)
    outputs = [arrays[o.position] if o.kind == "array" else scalars[o.position] for o in program.outputs]
    return outputs, list(scalars[len(outputs) - len(arrays) :])
