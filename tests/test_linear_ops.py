"""The ops that move entries: derivatives, batches, reads, generated loops against their NumPy meaning."""

import itertools
from typing import Any

import numpy as np
import op_table
import pytest
from samples_linear import LINEAR

from tracejit.ir.aval import Aval
from tracejit.ir.check import check
from tracejit.ir.tape import Builder, Tape
from tracejit.ops.base import REGISTRY, Linear, Read
from tracejit.ops.indexing import Indirect
from tracejit.ops.joining import Piecewise
from tracejit.passes.vmap import vmap

CASES = [
    pytest.param(name, arrays, params, id=f"{name}-{k}")
    for name, samples in LINEAR.items()
    for k, (arrays, params) in enumerate(samples)
]
INDIRECT = [c for c in CASES if c.values[0] in ("gather", "scatter_add", "scatter_set")]


@pytest.mark.parametrize(("name", "arrays", "params"), CASES)
def test_derivatives(name: str, arrays: Any, params: Any) -> None:
    if arrays:
        op_table.check_derivatives(op_table.op_tape(REGISTRY[name], arrays, params), arrays, 2, 1e-12)


@pytest.mark.parametrize(("name", "arrays", "params"), CASES)
def test_generated_loops(name: str, arrays: Any, params: Any) -> None:
    tape = op_table.op_tape(REGISTRY[name], arrays, params)
    for got, want in zip(op_table.run_compiled(tape, arrays), op_table.run(tape, arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    if arrays and REGISTRY[name].name != "iota":
        back = op_table.reverse_tape(tape)
        cotangents = [np.arange(o.size, dtype=float).reshape(o.shape) for o in op_table.run(tape, arrays)]
        operands = [*arrays, *cotangents]
        for got, want in zip(
            op_table.run_compiled(back, operands), op_table.run(back, operands), strict=True
        ):
            np.testing.assert_array_equal(got, want)


def holds(condition: tuple[int, ...]) -> bool:
    if len(condition) == 3:
        low, value, high = condition
        return low <= value < high
    step, value = condition
    return value % step == 0


@pytest.mark.parametrize(("name", "arrays", "params"), CASES)
def test_reads_say_where_entries_come_from(name: str, arrays: Any, params: Any) -> None:
    op = REGISTRY[name]
    avals = [Aval(a.shape, a.dtype) for a in arrays]
    (result,) = op_table.run(op_table.op_tape(op, arrays, params), arrays)
    for index in np.ndindex(result.shape):
        reads: tuple[Read | None, ...]
        if isinstance(op, Piecewise):
            reads = op.reads(index, *avals, **params)
        elif isinstance(op, Linear):
            reads = (op.read(index, *avals, **params),)
        else:
            return
        if reads == (None,):
            assert name == "reshape"
            return
        source = next((r for r in reads if all(map(holds, r.conditions))), None)
        assert result[index] == (0 if source is None else arrays[source.operand][source.index])


@pytest.mark.parametrize(
    ("name", "arrays", "params"), [c for c in CASES if c.values[0].startswith(("gath", "scat"))]
)
def test_addresses_say_where_entries_go(name: str, arrays: Any, params: Any) -> None:
    op = REGISTRY[name]
    avals = [Aval(a.shape, a.dtype) for a in arrays]
    (result,) = op_table.run(op_table.op_tape(op, arrays, params), arrays)
    x = arrays[0].copy()
    for index in np.ndindex(result.shape if name == "gather" else arrays[1].shape):
        address = op.address(index, *avals, **params)
        place = tuple(arrays[a.operand][a.index] if isinstance(a, Indirect) else a for a in address)
        if name == "gather":
            assert result[index] == x[place]
        else:
            x[place] = arrays[1][index] + (x[place] if name == "scatter_add" else 0)
    if name != "gather":
        np.testing.assert_allclose(result, x, rtol=1e-15)


def batched_tape(tape: Tape, arrays: Any, flags: tuple[bool, ...]) -> Tape:
    with Builder() as builder:
        inputs = [builder.input(Aval(a.shape, a.dtype)) for a in arrays]
        outputs, _ = vmap(tape, inputs, flags, 2)
        return check(builder.finish(outputs))


@pytest.mark.parametrize(("name", "arrays", "params"), CASES)
def test_batches(name: str, arrays: Any, params: Any) -> None:
    tape = op_table.op_tape(REGISTRY[name], arrays, params)
    for flags in itertools.islice(itertools.product([False, True], repeat=len(arrays)), 1, None):
        stacked = [
            np.stack([a, a[::-1] if a.ndim else a]) if f else a for a, f in zip(arrays, flags, strict=True)
        ]
        (batch,) = op_table.run(batched_tape(tape, stacked, flags), stacked)
        for k in range(2):
            single = [a[k] if f else a for a, f in zip(stacked, flags, strict=True)]
            np.testing.assert_array_equal(batch[k], op_table.run(tape, single)[0])
