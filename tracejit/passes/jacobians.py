"""Derivatives with more than one number out: pointwise fields, dense Jacobians, batching over an axis.

A dense Jacobian is one batched sweep: the seeds are the rows of an identity matrix, which exists only as the comparison
of two indices inside the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.errors import (
    BroadcastError,
    NonNumericError,
    NonScalarOutputError,
    PointwiseError,
    TooLargeError,
    UnsupportedError,
)
from tracejit.frontend.arguments import Call, Group
from tracejit.frontend.pytree import TreeDef
from tracejit.frontend.trace import Static, Traced
from tracejit.ir import dims
from tracejit.ir.aval import Aval
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, Builder, Eqn, Tape, current
from tracejit.ops.base import Maybe
from tracejit.ops.broadcasting import broadcast, convert, full, lead, operands_text
from tracejit.ops.complex_parts import from_parts
from tracejit.ops.elementwise import add, mul, neg
from tracejit.ops.linear import iota, reshape, transpose
from tracejit.ops.logic import equal
from tracejit.ops.reduction import size_of
from tracejit.passes.derivatives import Built, forward, last_line, leaves_of, tuple_tree, zeros_for
from tracejit.passes.pointwise import mixing_equation
from tracejit.passes.transpose import vjp
from tracejit.passes.vmap import vmap

__all__ = ["batched", "check_options", "dense", "pointwise"]


def check_options(structure: str, mode: str | None) -> None:
    """Raise for values of ``structure`` and ``mode`` that do not exist, or do not exist yet."""
    if structure == "sparse":
        raise UnsupportedError(
            'jacobian(structure="sparse") is not available in this version.',
            hint='Use `structure="pointwise"` for fields, or the dense form with `max_dense_bytes`.',
        )
    if structure != "dense":
        raise ValueError(f'structure must be "dense", "pointwise" or "sparse", not {structure!r}')
    if mode not in (None, "forward", "reverse"):
        raise ValueError(f'mode must be None, "forward" or "reverse", not {mode!r}')


# --- pointwise --------------------------------------------------------------------------------------------------------


def pointwise(traced: Traced, call: Call, atoms: Sequence[Atom], *, holomorphic: bool = False) -> Built:
    """The derivative at each point, proved to be all there is: one forward sweep with tangents of ones per argument."""
    _check_complex(traced, call, holomorphic, "A pointwise derivative", real_inputs=True)
    parts = []
    for group in call.groups:
        wrt = [n for n in group.leaves if n is not None]
        if len(wrt) != 1 or group.tree.cls is not None:
            raise UnsupportedError(
                "A pointwise derivative is taken with respect to one array, "
                f"but argument {group.name!r} is {group.tree}.",
                hint="Pass the coordinates as separate arguments and choose them with `argnums`.",
            )
        _prove(traced, wrt, group)
        ones = full(1, atoms[wrt[0]].shape, atoms[wrt[0]].dtype)
        parts.append((_slopes(traced, atoms, wrt[0], ones), traced.out_tree))
    if call.single:
        return parts[0]
    return [leaf for part in parts for leaf in part[0]], tuple_tree([tree for _, tree in parts])


def _slopes(traced: Traced, atoms: Sequence[Atom], number: int, seed: Atom) -> list[Any]:
    """Return the derivatives of the outputs along ``seed``; of real ones by complex numbers ``df/dx - i df/dy``."""

    def along(direction: Atom) -> list[Any]:
        tangents: list[Maybe] = [None] * len(atoms)
        tangents[number] = direction
        return forward(traced, atoms, tangents)[1]

    moved = along(seed)
    if seed.dtype.kind != "c":
        return moved
    turned = along(mul(seed, 1j))
    return [
        m
        if isinstance(m, Static) or m.dtype.kind == "c"
        else convert(from_parts(m, neg(t)), dtype=seed.dtype)
        for m, t in zip(moved, turned, strict=True)
    ]


def _prove(traced: Traced, wrt: Sequence[int], group: Group) -> None:
    for output in traced.outputs:
        mixing = mixing_equation(traced.tape, wrt, output)
        if mixing is None:
            continue
        raise PointwiseError(
            f"The function is not pointwise in {group.name!r}: "
            + (f"`{mixing.op.name}` mixes points." if isinstance(mixing, Eqn) else f"{mixing}."),
            where=mixing.source if isinstance(mixing, Eqn) else None,
            detail=operands_text(mixing.operands) if isinstance(mixing, Eqn) else "",
            hint="Use `tj.jacobian(f)` for all pairs of output and input points, or `tj.grad` of a scalar.",
        )


# --- dense ------------------------------------------------------------------------------------------------------------


def dense(
    traced: Traced, call: Call, atoms: Sequence[Atom], *, mode: str | None, holomorphic: bool, limit: int
) -> Built:
    """All derivatives, of shape ``output.shape + input.shape`` per pair of output and input."""
    outputs = _numeric_outputs(traced)
    _check_complex(traced, call, holomorphic, "jacobian")
    inputs = [traced.tape.inputs[n].aval for n in call.wrt]
    rows, columns = (sum(dims.hint(a.size) for a in avals) for avals in (outputs, inputs))
    _check_size(rows, columns, outputs, limit)
    sweep = (
        _forward_columns
        if (mode or ("forward" if columns < rows else "reverse")) == "forward"
        else _reverse_rows
    )
    table = sweep(traced, call, atoms, outputs)
    trees = [g.tree for g in call.groups]
    inner = trees[0] if call.single else tuple_tree(trees)
    numbers = [number for group in call.groups for number in group.leaves]
    leaves: list[Any] = [
        Static(None) if number is None else table[row, call.wrt.index(number)]
        for row in range(len(outputs))
        for number in numbers
    ]
    return leaves, graft(traced.out_tree, inner)


def graft(outer: TreeDef, inner: TreeDef) -> TreeDef:
    """Return ``outer`` with ``inner`` in the place of each leaf."""
    if outer.cls is None:
        return inner
    return TreeDef(
        outer.cls, outer.keys, tuple(graft(c, inner) for c in outer.children), outer.extra, outer.order
    )


def _numeric_outputs(traced: Traced) -> list[Aval]:
    avals = []
    for number in traced.outputs:
        if isinstance(number, Static):
            raise NonNumericError(
                f"jacobian needs numeric outputs, but the function returns {number.value!r}.",
                where=last_line(traced.tape),
                hint="Is a `return` missing?" if number.value is None else "Return numbers and arrays only.",
            )
        aval = traced.tape.outputs[number].aval
        avals.append(aval if aval.inexact else aval.with_dtype(np.dtype(float)))
    return avals


def _check_complex(
    traced: Traced, call: Call, holomorphic: bool, what: str, real_inputs: bool = False
) -> None:
    """Raise unless all is complex for a holomorphic function, and outputs are real for any other.

    Complex outputs of ``real_inputs`` have a derivative too, where that is a matter of one direction only.
    """
    kinds = {traced.tape.inputs[n].dtype.kind for n in call.wrt}
    for number in traced.outputs:
        dtype = None if isinstance(number, Static) else traced.tape.outputs[number].dtype
        if dtype is None or (dtype.kind == "c") == holomorphic or (real_inputs and kinds == {"f"}):
            continue
        wrong, hint = ("real", "Leave `holomorphic` out.") if holomorphic else ("complex", _HOLOMORPHIC)
        raise NonScalarOutputError(
            f"{what} needs a {'complex' if holomorphic else 'real'} output, but the output is {wrong} ({dtype}).",
            where=last_line(traced.tape),
            hint=hint,
        )
    if holomorphic and kinds != {"c"}:
        raise NonNumericError(
            f"{what} of a holomorphic function is taken by complex numbers, but an input is real.",
            where=last_line(traced.tape),
            hint="Pass `x.astype(complex)`, or leave `holomorphic` out.",
        )


_HOLOMORPHIC = (
    "Return real and imaginary part, or pass `holomorphic=True` if the function is complex differentiable."
)


def _check_size(rows: int, columns: int, outputs: Sequence[Aval], limit: int) -> None:
    size = rows * columns * max((a.dtype.itemsize for a in outputs), default=8)
    if size > limit:
        raise TooLargeError(
            f"The dense Jacobian has {rows} x {columns} entries, {size / 2**30:.3g} GiB; "
            f"max_dense_bytes allows {limit / 2**30:.3g} GiB.",
            hint='For a field whose points do not mix use `structure="pointwise"`; products with vectors are '
            "`tj.jvp` and `tj.vjp`; or raise `max_dense_bytes`.",
        )


Table = dict[tuple[int, int], Atom]


def _reverse_rows(traced: Traced, call: Call, atoms: Sequence[Atom], outputs: Sequence[Aval]) -> Table:
    """One batched backward sweep per output, seeded with its rows of the identity."""
    table: Table = {}
    for row, (aval, number) in enumerate(zip(outputs, traced.outputs, strict=True)):
        assert isinstance(number, int)

        def sweep(primals: Sequence[Atom], seed: Atom, number: int = number) -> list[Atom]:
            values, pullback = vjp(traced.tape, primals, call.wrt)
            seeds: list[Maybe] = [None] * len(values)
            seeds[number] = seed if values[number].aval.inexact else None
            return [
                zeros_for(traced.tape.inputs[n].aval) if g is None else g
                for n, g in zip(call.wrt, pullback(seeds), strict=True)
            ]

        for column, result in enumerate(_batched_sweep(sweep, atoms, aval)):
            table[row, column] = _split_leading(result, aval.shape)
    return table


def _forward_columns(traced: Traced, call: Call, atoms: Sequence[Atom], outputs: Sequence[Aval]) -> Table:
    """One batched forward sweep per input, seeded with its columns of the identity."""
    table: Table = {}
    for column, number in enumerate(call.wrt):
        aval = atoms[number].aval

        def sweep(primals: Sequence[Atom], seed: Atom, number: int = number) -> list[Atom]:
            return _slopes(traced, primals, number, seed)

        for row, result in enumerate(_batched_sweep(sweep, atoms, aval)):
            count, inner = len(aval.shape), len(result.shape) - 1
            moved = transpose(result, perm=(*range(1, inner + 1), 0))
            wide = reshape(moved, shape=(*outputs[row].shape, *aval.shape)) if count != 1 else moved
            table[row, column] = wide
    return table


def _batched_sweep(sweep: Any, atoms: Sequence[Atom], seed: Aval) -> list[Atom]:
    """Return the results of ``sweep(primals, seed)`` for all unit seeds, along a new leading axis."""
    with Builder() as builder:
        primals = [builder.input(a.aval) for a in atoms]
        outputs = sweep(primals, builder.input(seed))
        captured = list(builder.captured)
    tape: Tape = builder.finish(outputs)
    size = seed.size
    args = [*atoms, _identity_seeds(seed), *captured]
    flags = [*(False for _ in atoms), True, *(False for _ in captured)]
    results, lifted = vmap(tape, args, flags, size)
    return [lead(result, size, is_lifted) for result, is_lifted in zip(results, lifted, strict=True)]


def _identity_seeds(aval: Aval) -> Atom:
    """Return the unit arrays of an aval along a leading axis: entry (i, *index) is 1 where index has flat number i."""
    shape = (aval.size, *aval.shape)
    number = iota(shape=shape, axis=0, dtype=np.dtype(np.int64))
    flat: Any = np.int64(0)
    for axis in range(1, len(shape)):
        stride = dims.prod(shape[axis + 1 :])
        factor = (
            np.int64(stride) if isinstance(stride, int) else broadcast(size_of(stride), shape=shape, axes=())
        )
        flat = add(flat, mul(iota(shape=shape, axis=axis, dtype=np.dtype(np.int64)), factor))
    return convert(equal(number, flat), dtype=aval.dtype)


def _split_leading(result: Atom, shape: tuple[Dim, ...]) -> Atom:
    return result if len(shape) == 1 else reshape(result, shape=(*shape, *result.shape[1:]))


# --- batching ---------------------------------------------------------------------------------------------------------


def batched(traced: Traced, call: Call, atoms: Sequence[Atom], *, in_axes: Any, out_axes: int) -> Built:
    """The function on each entry along the mapped axes."""
    if traced.tape.guards:
        raise UnsupportedError(
            "A function mapped by vmap takes a decision on a traced value, which may differ between entries.",
            where=traced.tape.guards[0].source,
            hint="Use `np.where`, or loop over the entries.",
        )
    axes = [*call.axes, *[None] * (len(atoms) - len(call.axes))]
    moved = [a if axis is None else move_axis(a, axis, 0) for a, axis in zip(atoms, axes, strict=True)]
    flags = [axis is not None for axis in axes]
    sizes = [a.shape[0] for a, flag in zip(moved, flags, strict=True) if flag]
    for other in sizes[1:]:
        if other != sizes[0] and not current().decide("==", other - sizes[0]):
            raise BroadcastError(
                f"vmap over axes of different lengths: {dims.hint(sizes[0])} and {dims.hint(other)}.",
                detail=operands_text(atoms),
                hint="Choose axes of one length with `in_axes`; None keeps an argument as it is.",
            )
    results, lifted = vmap(traced.tape, moved, flags, sizes[0])
    outputs = [move_axis(lead(r, sizes[0], f), 0, out_axes) for r, f in zip(results, lifted, strict=True)]
    return leaves_of(traced, outputs), traced.out_tree


def move_axis(atom: Atom, source: int, target: int) -> Atom:
    """Return ``np.moveaxis``."""
    ndim = len(atom.shape)
    rest = [a for a in range(ndim) if a != source]
    rest.insert(target % ndim, source)
    return transpose(atom, perm=tuple(rest)) if rest != list(range(ndim)) else atom
