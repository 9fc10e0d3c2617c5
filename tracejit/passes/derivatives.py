"""The derivatives that users ask for, built from a traced function: each appends to the current builder.

Every function here takes what a trace found, the call it belongs to, and one atom per input of the traced tape; it
returns the leaves of the result (atoms, or `Static` values) and their structure.  At the top level the atoms are the
inputs of the compiled tape; inside another trace they are that trace's atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.errors import DisconnectedError, NonNumericError, NonScalarOutputError, StructureError
from tracejit.frontend.arguments import Call, Group
from tracejit.frontend.pytree import LEAF, TreeDef
from tracejit.frontend.trace import Static, Traced, ZeroD
from tracejit.ir.aval import Aval, Shape
from tracejit.ir.source import Source, here
from tracejit.ir.tape import Atom, Tape, current
from tracejit.ops.base import Maybe
from tracejit.ops.broadcasting import convert, full, operands_text, shape_text
from tracejit.ops.elementwise import add
from tracejit.passes.jvp import jvp
from tracejit.passes.pointwise import mixing_equation
from tracejit.passes.replay import replay
from tracejit.passes.transpose import vjp
from tracejit.tracebacks import warn_user

__all__ = [
    "Built",
    "directional",
    "fill_gradients",
    "forward",
    "gradient",
    "identity",
    "last_line",
    "leaves_of",
    "pulled_back",
    "second_order",
    "tuple_tree",
    "value",
    "zeros_for",
]

Built = tuple[list[Any], TreeDef]


def tuple_tree(children: Sequence[TreeDef]) -> TreeDef:
    """Return the structure of a tuple of trees."""
    return TreeDef(tuple, tuple(range(len(children))), tuple(children))


def leaves_of(traced: Traced, outputs: Sequence[Atom]) -> list[Any]:
    """Return the output leaves of the traced function."""
    return [leaf if isinstance(leaf, Static) else outputs[leaf] for leaf in traced.outputs]


def value(traced: Traced, call: Call, atoms: Sequence[Atom]) -> Built:
    """The function's result."""
    return leaves_of(traced, replay(traced.tape, atoms)), traced.out_tree


def identity(traced: Traced, call: Call, atoms: Sequence[Atom]) -> Built:
    """The function itself; behind its result leaves come the new contents of arguments that it wrote into."""
    outputs = replay(traced.tape, atoms)
    return [*leaves_of(traced, outputs), *(outputs[n] for _, n in traced.written)], traced.out_tree


def gradient(
    traced: Traced, call: Call, atoms: Sequence[Atom], *, with_value: bool, has_aux: bool, disconnected: str
) -> Built:
    """Value (optional) and gradient of a function with one real entry as output."""
    outputs, pullback = vjp(traced.tape, atoms, call.wrt)
    leaves = leaves_of(traced, outputs)
    value_tree, aux = _split_aux(traced, leaves, has_aux)
    value = _scalar_output(traced, call, leaves, value_tree)
    seeds: list[Maybe] = [None] * len(traced.tape.outputs)
    number = traced.outputs[0]
    assert isinstance(number, int)
    seeds[number] = full(1, value.shape, value.dtype)
    gradients, tree = fill_gradients(call, traced.tape, pullback(seeds), disconnected)
    parts = (
        [([value, *aux[0]], tuple_tree([LEAF, aux[1]])) if has_aux else ([value], LEAF)] if with_value else []
    )
    parts.append((gradients, tree))
    if has_aux and not with_value:
        parts.append(aux)
    if len(parts) == 1:
        return parts[0]
    return [leaf for part in parts for leaf in part[0]], tuple_tree([part[1] for part in parts])


def _split_aux(traced: Traced, leaves: list[Any], has_aux: bool) -> tuple[TreeDef, Built]:
    if not has_aux:
        return traced.out_tree, ([], LEAF)
    tree = traced.out_tree
    if tree.cls is not tuple or len(tree.children) != 2:
        raise StructureError(
            "With has_aux=True the function must return a pair `(value, auxiliary)`.",
            where=last_line(traced.tape),
            detail="It returns one value." if tree.cls is None else f"It returns {tree}.",
            hint="Return the pair, or leave `has_aux` out.",
        )
    return tree.children[0], (leaves[tree.children[0].size :], tree.children[1])


def _scalar_output(traced: Traced, call: Call, leaves: Sequence[Any], tree: TreeDef) -> Atom:
    """Return the value to differentiate; raise unless it is one real number."""
    if tree.cls is not None:
        raise NonScalarOutputError(
            f"grad needs a function that returns one real scalar, but this one returns {tree}.",
            where=last_line(traced.tape),
            hint="Return one of the values, or use `has_aux=True` for a pair `(value, auxiliary)`, or `tj.jacobian`.",
        )
    value = leaves[0]
    if isinstance(value, Static):
        raise NonNumericError(
            f"grad needs a function that returns one real scalar, but this one returns {value.value!r}.",
            where=last_line(traced.tape),
            hint="Is a `return` missing?" if value.value is None else "Return a number.",
        )
    atom: Atom = value
    if atom.aval.size != 1:
        pointwise = mixing_equation(traced.tape, call.wrt, traced.outputs[0]) is None
        raise NonScalarOutputError(
            f"grad needs a function that returns one real scalar, but the output has shape {shape_text(atom.shape)}.",
            where=last_line(traced.tape),
            detail=_differentiated(traced.tape, call),
            hint="The function is pointwise (each output entry depends on the same entry of the inputs): use "
            '`tj.elementwise_grad(f)` or `tj.jacobian(f, structure="pointwise")` for the derivative at each point, '
            "or `.sum()` for the gradient of the total."
            if pointwise
            else "Reduce it to a scalar, for example with `.sum()`, or use `tj.jacobian(f)`.",
        )
    if atom.dtype.kind == "c":
        raise NonScalarOutputError(
            f"grad needs a real output, but the output is complex ({atom.dtype}).",
            where=last_line(traced.tape),
            detail=_differentiated(traced.tape, call),
            hint="Return `np.real(z)`, `np.imag(z)` or `np.abs(z)**2`, or use `tj.jacobian`.",
        )
    return convert(atom, dtype=np.float64) if not atom.aval.inexact else atom


def last_line(tape: Tape) -> Source | None:
    """Return where the traced function computed last, near its ``return``; if it computes nothing, the call."""
    return next((eqn.source for eqn in reversed(tape.eqns) if eqn.source is not None), here())


def _differentiated(tape: Tape, call: Call) -> str:
    return f"differentiated: {operands_text([tape.inputs[n] for n in call.wrt])}"


def fill_gradients(call: Call, tape: Tape, gradients: Sequence[Maybe], disconnected: str) -> Built:
    """Arrange cotangents by argument; absent ones are zeros (or an error, by ``disconnected``)."""
    by_leaf = dict(zip(call.wrt, gradients, strict=True))
    leaves: list[Any] = []
    for group in call.groups:
        for number in group.leaves:
            if number is None:
                leaves.append(Static(None))
                continue
            found = by_leaf[number]
            if found is None:
                _report_disconnected(group, disconnected, tape)
            atom = zeros_for(tape.inputs[number].aval) if found is None else found
            leaves.append(ZeroD(atom) if number in call.zero_d else atom)
    trees = [g.tree for g in call.groups]
    return leaves, (trees[0] if call.single else tuple_tree(trees))


def _report_disconnected(group: Group, disconnected: str, tape: Tape) -> None:
    message = f"The output does not depend on argument {group.name!r}: its gradient is zero."
    if disconnected == "raise":
        raise DisconnectedError(
            message,
            where=last_line(tape),
            hint="Integer and boolean results, `arg*` functions and rounding have no derivative; "
            'pass `disconnected="zero"` to get zeros.',
        )
    if disconnected == "warn":
        warn_user(message)


def zeros_for(aval: Aval) -> Atom:
    """Return zeros of an aval."""
    return full(0, aval.shape, aval.dtype)


def forward(traced: Traced, atoms: Sequence[Atom], tangents: Sequence[Maybe]) -> tuple[list[Any], list[Any]]:
    """Return the output leaves and their tangents along ``tangents`` (one per input, None for zero)."""
    outputs, pushed = jvp(traced.tape, atoms, tangents)
    moved: list[Any] = []
    for number in traced.outputs:
        if isinstance(number, Static):
            moved.append(number)
            continue
        aval, tangent = outputs[number].aval, pushed[number]
        if tangent is None:
            tangent = zeros_for(aval if aval.inexact else aval.with_dtype(np.dtype(float)))
        moved.append(tangent)
    return leaves_of(traced, outputs), moved


def directional(traced: Traced, call: Call, atoms: Sequence[Atom]) -> Built:
    """Value and derivative along the directions that were passed behind the arguments."""
    primals, directions = call.groups[: -call.extra], call.groups[-call.extra :]
    tangents: list[Maybe] = [None] * len(atoms)
    for primal, direction in zip(primals, directions, strict=True):
        for number, along in zip(primal.leaves, direction.leaves, strict=True):
            if number is not None and along is not None:
                tangents[number] = convert(atoms[along], dtype=atoms[number].dtype)
    values, moved = forward(traced, atoms, tangents)
    return [*values, *moved], tuple_tree([traced.out_tree, traced.out_tree])


_LIKE_THE_ARGUMENT = "The vector stands for a change of the argument, so it has its structure and its shapes."


def second_order(traced: Traced, call: Call, atoms: Sequence[Atom]) -> Built:
    """Derivative of the traced gradient along the vector that was passed behind the arguments."""
    primal, vector = call.groups
    tangents: list[Maybe] = [None] * len(atoms)
    if primal.tree != vector.tree:
        raise StructureError(
            f"The vector has structure {vector.tree}, but {primal.tree} is needed, that of {primal.name!r}.",
            where=here(),
            hint=_LIKE_THE_ARGUMENT,
        )
    for number, along in zip(primal.leaves, vector.leaves, strict=True):
        if number is None or along is None:
            continue
        if not same_shape(atoms[number].shape, atoms[along].shape):
            raise StructureError(
                f"The vector has shape {shape_text(atoms[along].shape)}, but shape "
                f"{shape_text(atoms[number].shape)} is needed, that of {primal.name!r}.",
                where=here(),
                hint=_LIKE_THE_ARGUMENT,
            )
        tangents[number] = convert(atoms[along], dtype=atoms[number].dtype)
    return forward(traced, atoms, tangents)[1], traced.out_tree


def same_shape(a: Shape, b: Shape) -> bool:
    """Return whether shapes are equal in the traced call."""
    return len(a) == len(b) and all(
        x == y or current().decide("==", x - y) for x, y in zip(a, b, strict=True)
    )


def pulled_back(traced: Traced, call: Call, atoms: Sequence[Atom]) -> Built:
    """Gradients of the arguments from a cotangent of the output that was passed behind them."""
    outputs, pullback = vjp(traced.tape, atoms, call.wrt)
    seeds: list[Maybe] = [None] * len(outputs)
    for number, given in zip(traced.outputs, call.trailing, strict=True):
        if isinstance(number, int) and given is not None and outputs[number].aval.inexact:
            cotangent = convert(atoms[given], dtype=outputs[number].dtype)
            seeds[number] = cotangent if seeds[number] is None else add(seeds[number], cotangent)
    return fill_gradients(call, traced.tape, pullback(seeds), "zero")
