"""Trace a body once for all iterations: find what it carries, and make inputs and outputs of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from tracejit.frontend.carries import (
    Carry,
    Static,
    alike,
    arrays_in,
    grows,
    merged,
    of_handle,
    of_place,
    path_of,
    refuse_alias,
    root_of,
    split,
)
from tracejit.frontend.places import Place, Snapshot
from tracejit.frontend.pytree import TreeDef
from tracejit.frontend.regions import Handle, Log, RegionFailed
from tracejit.frontend.registry import operand
from tracejit.frontend.tracer import TracedArray
from tracejit.frontend.values import MISSING
from tracejit.ir.dims import Undecided
from tracejit.ir.tape import Atom, Builder, Var

__all__ = ["Attempt", "Pass"]

_LIMIT = 12

_guesses: weakref.WeakKeyDictionary[CodeType, frozenset[tuple[str, bool]]] = weakref.WeakKeyDictionary()
"""Per loop body what it carried the last time: (path, whether the array there was written into)."""


@dataclass(eq=False)
class Pass:
    """One run of a body on inputs that stand for any iteration.

    Attributes
    ----------
    builder, log
        Closed again.
    inputs, outputs : list
        Per carry its variables at the start, and its leaves at the end (atoms, or `Static`).
    objects : list
        Per carry what the user's code left there.
    ended : Any
        How the body ended.
    changes : dict
        Per further place that was changed: the place, its leaves at the end, their structure.
    writes : dict
        Per further handle that was written into: the handle, and its atom at the end.
    """

    builder: Builder
    log: Log
    inputs: list[list[Var]] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    ended: Any = None
    changes: dict[Any, tuple[Place, list[Any], TreeDef]] = field(default_factory=dict)
    writes: dict[int, tuple[Any, Atom]] = field(default_factory=dict)


class Attempt:
    """The attempt to make a region of a body.

    Parameters
    ----------
    functions : iterable of callable
        What is going to run; their variables are where state lies.
    names : collection of str
        The variables among these that are wanted afterwards or in the next iteration.
    """

    def __init__(self, functions: Iterable[Any], names: Collection[str], extra: Iterable[Any] = ()) -> None:
        functions = [f for f in functions if f is not None]
        self.snapshot = Snapshot([*functions, *extra])
        self.unwanted = {
            id(cell)
            for f in functions
            for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
            if name not in names
        }
        self.carries: dict[Any, Carry] = {}

    # --- one pass -------------------------------------------------------------------------------------------

    def run(self, step: Callable[[], Any]) -> tuple[Pass, list[Carry]]:
        """Run ``step`` on fresh inputs for the carries; return what happened, and what else it carries."""
        found = Pass(Builder(), Log())
        try:
            with found.builder, found.log:
                self._present(found)
                found.ended = step()
                further = self._collect(found)
        finally:
            self.snapshot.restore()
            found.log.undo()
        return found, further

    def _present(self, found: Pass) -> None:
        for carry in self.carries.values():
            variables = [found.builder.input(a) for a in carry.avals]
            found.inputs.append(variables)
            if carry.handle is not None:
                carry.handle._present(variables[0])
                found.entries.append(carry.handle)
            else:
                assert carry.place is not None
                entry = carry.rebuilt(map(TracedArray, variables), carry.leaves)
                carry.place.put(entry)
                found.entries.append(entry)

    def _collect(self, found: Pass) -> list[Carry]:
        changed = {p.id: p for p in self.snapshot.changes() if id(p.container.owner) not in self.unwanted}
        for (key, carry), entry in zip(self.carries.items(), found.entries, strict=True):
            if carry.handle is not None:
                found.outputs.append([carry.handle.atom])
                found.objects.append(carry.handle)
                continue
            place = changed.pop(key, None) or self.snapshot.place(key)
            assert place is not None
            self._leave(found, carry, place.new, entry)
        for key, place in changed.items():
            leaves, tree = split(place.new)
            atoms = [leaf if isinstance(leaf, Static) else operand(leaf) for leaf in leaves]
            found.changes[key] = place, atoms, tree
        known = {id(c.handle) for c in self.carries.values()}
        written = [h for h in found.log.written.values() if id(h) not in known]
        found.writes.update((id(h), (h, h.atom)) for h in written)
        return [*(of_place(*change) for change in found.changes.values()), *map(of_handle, written)]

    def _leave(self, found: Pass, carry: Carry, value: Any, entry: Any) -> None:
        if value is MISSING:
            raise RegionFailed(f"{path_of(carry)} is deleted")
        leaves, tree = split(value)
        if tree != carry.tree:
            raise RegionFailed(f"{path_of(carry)} changes from {carry.tree} to {tree}")
        for leaf, before in zip(leaves, carry.leaves, strict=True):
            if isinstance(leaf, Static) != isinstance(before, Static) or not alike(leaf, before):
                raise RegionFailed(f"{path_of(carry)} holds something else in each iteration")
        found.outputs.append([operand(leaf) for leaf in leaves if not isinstance(leaf, Static)])
        found.objects.append(value)

    # --- until nothing is added -----------------------------------------------------------------------------

    def settle(self, step: Callable[[], Any], first: Callable[[Pass], None], code: CodeType) -> Pass:
        """Run ``step`` until it carries what it is given to carry; return the last pass."""
        names = _guesses.get(code)
        if names:
            self._guess(names)
            try:
                return self._settled(step, first, code)
            except (RegionFailed, Undecided, Exception):
                self.carries.clear()  # it may have been the guess
        return self._settled(step, first, code)

    def _settled(self, step: Callable[[], Any], first: Callable[[Pass], None], code: CodeType) -> Pass:
        for number in range(_LIMIT):
            found, further = self.run(step)
            if number == 0:
                first(found)
            if self.snapshot.renewed():
                continue
            for carry in further:
                self._add(carry)
            if not (self._widen(found) or further):
                self._check_aliases(found)
                self._check_integers(found)
                self._remember(code)
                return found
        raise RegionFailed("what it carries does not settle")

    def _guess(self, names: Collection[tuple[str, bool]]) -> None:
        """Start with what this loop carried the last time: inner loops are traced again and again."""
        for place in self.snapshot.named():
            if (place.path, False) in names and id(place.container.owner) not in self.unwanted:
                leaves, tree = split(place.old)
                if any(not isinstance(leaf, Static) for leaf in leaves):
                    self._add(Carry(place, None, leaves, tree, []))
            if (place.path, True) in names and _is_whole_array(place.old):
                self._add(of_handle(place.old))

    def _remember(self, code: CodeType) -> None:
        names = {(c.place.path, False) for c in self.carries.values() if c.place is not None}
        handles = {id(c.handle) for c in self.carries.values() if c.handle is not None}
        names |= {(p.path, True) for p in self.snapshot.named() if id(p.old) in handles}
        _guesses[code] = frozenset(names)

    def _add(self, carry: Carry) -> None:
        if carry.place is not None:
            if not carry.avals:
                carry.avals = [operand(leaf).aval for leaf in carry.numbers()]
            carry.shared = not carry.created and carry.place.shared
        self.carries.setdefault(id(carry.handle) if carry.place is None else carry.place.id, carry)

    def _widen(self, found: Pass) -> bool:
        changed = False
        for carry, atoms in zip(self.carries.values(), found.outputs, strict=False):
            wide = [merged(a, atom.aval) for a, atom in zip(carry.avals, atoms, strict=True)]
            if carry.handle is None and wide != carry.avals:
                carry.avals = wide
                changed = True
        return changed

    def _check_aliases(self, found: Pass) -> None:
        """Raise where two names for one array would become two arrays, if that could be noticed."""
        rows = [
            (carry, arrays_in(value), arrays_in(entry))
            for carry, value, entry in zip(self.carries.values(), found.objects, found.entries, strict=True)
            if carry.handle is None
        ]
        for carry, after, _ in rows:
            refuse_alias(path_of(carry), after, found.log)
        shared = {id(v) for carry, _, entry in rows if carry.shared for v in entry}
        for _ in rows:  # an array that somebody else holds may move from name to name
            shared |= {
                id(v) for _, after, entry in rows if any(id(a) in shared for a in after) for v in entry
            }
        for carry, _, entry in rows:
            if any(id(v) in shared and v._version for v in entry):
                raise RegionFailed(
                    f"the array {path_of(carry)} is written into and replaced, and has another name too"
                )

    def _check_integers(self, found: Pass) -> None:
        """Raise where a Python integer, which has no largest value, is multiplied up by a loop."""
        rows = zip(self.carries.values(), found.inputs, found.outputs, strict=True)
        pairs = [
            (start, end)
            for carry, starts, ends in rows
            for aval, start, end in zip(carry.avals, starts, ends, strict=True)
            if aval.weak and aval.dtype.kind == "i"
        ]
        if pairs and grows(found.builder.eqns, {start for start, _ in pairs}, {end for _, end in pairs}):
            raise RegionFailed("a Python integer is multiplied in each iteration and may outgrow 64 bits")

    # --- afterwards -----------------------------------------------------------------------------------------

    def commit(self, found: Pass, results: Sequence[Atom]) -> None:
        """Leave the results where the body left what they stand for."""
        values = iter(results)
        made: dict[int, TracedArray] = {}
        for carry, objects in zip(self.carries.values(), found.objects, strict=True):
            new = [next(values) for _ in carry.avals]
            if carry.handle is not None:
                carry.handle._rebind(new[0])
                continue
            assert carry.place is not None
            leaves = split(objects)[0]
            numbers = [leaf for leaf in leaves if not isinstance(leaf, Static)]
            handles = []
            for leaf, atom, aval in zip(numbers, new, carry.avals, strict=True):
                if aval.weak and isinstance(atom, Var):
                    atom.aval = replace(atom.aval, weak=True)
                handles.append(made.setdefault(id(leaf), TracedArray(atom)))
            carry.place.put(carry.rebuilt(handles, leaves))


def _is_whole_array(value: Any) -> bool:
    return issubclass(type(value), Handle) and root_of(value) is value
