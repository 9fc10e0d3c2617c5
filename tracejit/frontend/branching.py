"""``if`` inside a region: both branches are traced, and the running tape chooses between their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CellType
from typing import Any

import numpy as np

from tracejit.frontend.carries import (
    State,
    Static,
    alike,
    arrays_in,
    fitted,
    merged,
    refuse_alias,
    split,
    unset,
)
from tracejit.frontend.carrying import Attempt, Pass
from tracejit.frontend.exits import code_of, exit_from, has_value, value_of
from tracejit.frontend.pytree import LEAF, TreeDef
from tracejit.frontend.regions import RegionFailed, active
from tracejit.frontend.registry import is_traced, operand
from tracejit.frontend.tracer import TracedArray
from tracejit.frontend.values import MISSING
from tracejit.ir.aval import Aval
from tracejit.ir.tape import Atom, Lit, Tape, Var
from tracejit.ops.branch import cond
from tracejit.ops.broadcasting import convert
from tracejit.ops.region import close

__all__ = ["branch", "is_undecided", "truth"]


def is_undecided(test: Any) -> bool:
    """Return whether only the running tape will know the truth of ``test``, and may be left to act on it."""
    if active() is None or type(test) is not TracedArray:
        return False
    return not isinstance(test.atom, Lit) and test.atom.aval.size == 1


def truth(test: TracedArray) -> Atom:
    """Return the truth value of a traced scalar as a traced bool."""
    atom = test._scalar()
    return atom if atom.dtype.kind == "b" else convert(atom, dtype=np.dtype(bool))


def branch(
    test: Any,
    true: Callable[[], Any] | None,
    false: Callable[[], Any] | None,
    names: Collection[str] = (),
    roots: Sequence[Any] = (),
    wait: bool = False,
) -> Any:
    """``if test: true() else: false()``; returns how the branch ended.

    ``roots`` is where the user's state is found, if not through the variables of the branches; ``wait``
    leaves the
    decision to the running tape outside of loops too.
    """
    if not (is_undecided(test) or (wait and not isinstance(test.atom, Lit))):
        chosen = true if test else false
        return None if chosen is None else chosen()
    functions = [true or _nothing, false or _nothing]
    attempt = Attempt(functions, names) if not roots else Attempt((), names, roots)
    passes = [attempt.run(f)[0] for f in functions]
    while attempt.snapshot.renewed():
        passes = [attempt.run(f)[0] for f in functions]
    union = _Union(passes)
    tapes, operands = union.tapes()
    return union.commit(cond(truth(test), operands, tapes[1], tapes[0]))


def _nothing() -> None:
    return None


@dataclass(eq=False)
class _Result:
    """What both branches leave in one place: per branch the leaves, all of one structure."""

    put: Callable[[Any], None]
    path: str
    leaves: list[list[Any] | None]
    tree: TreeDef | None = None

    def numbers(self, branch: int) -> list[Atom] | None:
        found = self.leaves[branch]
        return None if found is None else [a for a in found if not isinstance(a, Static)]

    def avals(self) -> list[Aval]:
        left, right = (self.numbers(b) for b in range(2))
        if left is None or right is None:
            return [a.aval for a in left or right or ()]
        return [merged(a.aval, b.aval) for a, b in zip(left, right, strict=True)]

    def outputs(self, branch: int) -> list[Atom]:
        """Append this branch's results in their common dtypes; zeros where it leaves nothing."""
        atoms, avals = self.numbers(branch), self.avals()
        if atoms is None:
            return [unset(a) for a in avals]
        return [fitted(atom, aval) for atom, aval in zip(atoms, avals, strict=True)]


class _Union:
    """The results of two branches together."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = passes
        self.results = [*self._places(), *self._handles()]
        self.code, self.value = self._ends()

    def _places(self) -> list[_Result]:
        keys = dict.fromkeys(key for p in self.passes for key in p.changes)
        return [self._place(key) for key in keys]

    def _place(self, key: Any) -> _Result:
        place = next(p.changes[key][0] for p in self.passes if key in p.changes)
        result = _Result(place.put, place.path, [])
        for found in self.passes:
            if key in found.changes:
                changed, leaves, tree = found.changes[key]
                if changed.new is MISSING:
                    raise RegionFailed(f"{place.path} is deleted")
                refuse_alias(place.path, arrays_in(changed.new), found.log)
            elif place.old is MISSING:
                if not isinstance(place.container.owner, CellType | State):
                    raise RegionFailed(f"{place.path} is added in one branch only")
                result.leaves.append(None)
                continue
            else:
                before, tree = split(place.old)
                leaves = [leaf if isinstance(leaf, Static) else operand(leaf) for leaf in before]
            result.leaves.append(leaves)
            self._agree(result, tree)
        self._same_statics(result)
        return result

    def _agree(self, result: _Result, tree: TreeDef) -> None:
        if result.tree is not None and result.tree != tree:
            raise RegionFailed(f"{result.path} is {result.tree} in one branch and {tree} in the other")
        result.tree = tree

    def _same_statics(self, result: _Result) -> None:
        left, right = result.leaves
        for a, b in zip(left or (), right or (), strict=left is not None and right is not None):
            if isinstance(a, Static) != isinstance(b, Static) or (isinstance(a, Static) and not alike(a, b)):
                raise RegionFailed(f"{result.path} is not a number in both branches")

    def _handles(self) -> list[_Result]:
        found = {key: handle for p in self.passes for key, (handle, _) in p.writes.items()}
        return [_of_handle(handle, self.passes) for handle in found.values()]

    def _ends(self) -> tuple[Any, _Result | None]:
        ends = [p.ended for p in self.passes]
        codes = [code_of(e) for e in ends]
        value = None
        if any(has_value(e) for e in ends):
            value = _Result(lambda new: None, "what is returned", [])
            for end in ends:
                if not has_value(end):
                    value.leaves.append(None)
                    continue
                leaves, tree = split(value_of(end))
                value.leaves.append([leaf if isinstance(leaf, Static) else operand(leaf) for leaf in leaves])
                self._agree(value, tree)
            self._same_statics(value)
        plain = not any(is_traced(c) for c in codes) and codes[0] == codes[1]
        return codes[0] if plain else _Result(
            lambda new: None, "how it ends", [[operand(c)] for c in codes], LEAF
        ), value

    def _all(self) -> list[_Result]:
        ends = [self.code] if isinstance(self.code, _Result) else []
        return [*self.results, *ends, *([self.value] if self.value is not None else [])]

    def tapes(self) -> tuple[list[Tape], list[Var]]:
        """Return both tapes with the same operands."""
        closed = []
        for number, found in enumerate(self.passes):
            with found.builder:
                outputs = [atom for result in self._all() for atom in result.outputs(number)]
            closed.append(close(found.builder, (), outputs))
        operands = list(dict.fromkeys(v for _, outer in closed for v in outer))
        return [_spread(tape, outer, operands) for tape, outer in closed], operands

    def commit(self, results: Sequence[Var]) -> Any:
        """Leave the chosen results in their places; return how the branch ended."""
        values = iter(results)
        new = {id(result): self._rebuilt(result, values) for result in self._all()}
        for result in self.results:
            result.put(new[id(result)])
        code = new[id(self.code)] if isinstance(self.code, _Result) else self.code
        return exit_from(code, None if self.value is None else new[id(self.value)], self.value is not None)

    def _rebuilt(self, result: _Result, values: Iterator[Var]) -> Any:
        handles = []
        for aval in result.avals():
            atom = next(values)
            if aval.weak:
                atom.aval = replace(atom.aval, weak=True)
            handles.append(TracedArray(atom))
        leaves = next(found for found in result.leaves if found is not None)
        assert result.tree is not None
        new = iter(handles)
        return result.tree.unflatten(
            [leaf.value if isinstance(leaf, Static) else next(new) for leaf in leaves]
        )


def _of_handle(handle: Any, passes: Sequence[Pass]) -> _Result:
    def put(new: Any) -> None:
        handle._rebind(new.atom)

    return _Result(put, "an array", [_written(p, handle) for p in passes], LEAF)


def _written(found: Pass, handle: Any) -> list[Any]:
    return [found.writes[id(handle)][1] if id(handle) in found.writes else operand(handle)]


def _spread(tape: Tape, outer: Sequence[Var], operands: Sequence[Var]) -> Tape:
    """Return ``tape`` with one input per operand, used or not."""
    known = dict(zip(outer, tape.inputs, strict=True))
    inputs = tuple(known.get(v) or Var(v.aval) for v in operands)
    return Tape(inputs, tape.consts, tape.eqns, tape.outputs, tape.sizes, tape.guards)
