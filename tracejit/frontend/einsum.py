"""``np.einsum``: subscripts in either format -> labels -> diagonals, sums and contractions of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.errors import ContractionError
from tracejit.frontend.reducing import given, refuse_out, strong
from tracejit.frontend.registry import implements
from tracejit.ir import dims
from tracejit.ir.dims import Dim
from tracejit.ir.tape import Atom, current
from tracejit.ops.broadcasting import convert, reduce_sum, shape_text, squeeze
from tracejit.ops.contraction import contraction
from tracejit.ops.linear import diagonal, transpose

__all__ = ["einsum"]

Label = int | str
Labels = tuple[Label, ...]


# --- subscripts -------------------------------------------------------------------------------------------


def _parse(args: Sequence[Any]) -> tuple[list[Any], list[Labels], Labels | None]:
    """Return the operands, the labels of each (``...`` among them), and those of the result, if given."""
    if isinstance(args[0], str):
        text, *operands = args
        inputs, arrow, output = text.replace(" ", "").partition("->")
        return operands, [_letters(t) for t in inputs.split(",")], _letters(output) if arrow else None
    count = len(args) // 2
    labels = [_sublist(args[2 * i + 1]) for i in range(count)]
    output_list = _sublist(args[-1]) if len(args) % 2 else None
    return [args[2 * i] for i in range(count)], labels, output_list


def _letters(text: str) -> Labels:
    before, dots, after = text.partition("...")
    labels = (*before, *((dots,) if dots else ()), *after)
    wrong = [c for c in labels if c != "..." and not c.isalpha()]
    if wrong:
        raise ValueError(
            f"invalid subscript '{wrong[0]}' in einstein sum subscripts string, subscripts must be letters"
        )
    return labels


def _sublist(labels: Sequence[Any]) -> Labels:
    return tuple("..." if label is Ellipsis else int(label) for label in labels)


def _named(
    inputs: Sequence[Labels], output: Labels | None, ndims: Sequence[int]
) -> tuple[list[Labels], Labels]:
    """Return the labels with ``...`` replaced by one per axis (counted from the right), and the result's."""
    spans = []
    for number, (labels, ndim) in enumerate(zip(inputs, ndims, strict=True)):
        span = ndim - len([i for i in labels if i != "..."])
        if span < 0 or (span > 0 and "..." not in labels):
            count = "does not contain enough" if span > 0 else "contains too many"
            raise ValueError(f"einstein sum subscripts string {count} subscripts for operand {number}")
        spans.append(span)
    widest = max(spans, default=0)
    named = [_expanded(labels, span) for labels, span in zip(inputs, spans, strict=True)]
    if output is None:
        counts: dict[Label, int] = {}
        for label in (i for labels in inputs for i in labels if i != "..."):
            counts[label] = counts.get(label, 0) + 1
        once = sorted((i for i, n in counts.items() if n == 1), key=lambda i: (isinstance(i, str), i))
        return named, (*_expanded(("...",), widest), *once)
    return named, _expanded(output, widest)


def _expanded(labels: Labels, span: int) -> Labels:
    out: list[Label] = []
    for label in labels:
        out += [f"...{i}" for i in range(span, 0, -1)] if label == "..." else [label]
    return tuple(out)


# --- evaluation -------------------------------------------------------------------------------------------


class _Term:
    """An operand and the labels of its axes."""

    def __init__(self, atom: Atom, labels: Labels) -> None:
        self.atom, self.labels = atom, labels

    def with_diagonals(self) -> _Term:
        """Return the term in which no label occurs twice."""
        for label in self.labels:
            axes = [axis for axis, i in enumerate(self.labels) if i == label]
            if len(axes) > 1:
                size = self.atom.shape[axes[0]]
                x = diagonal(self.atom, axes=(axes[0], axes[1]), start=(0, 0), size=size)
                rest = tuple(i for axis, i in enumerate(self.labels) if axis not in axes[:2])
                return _Term(x, (*rest, label)).with_diagonals()
        return self

    def without_ones(self, extents: dict[Label, Dim]) -> _Term:
        """Return the term without the axes of length one that broadcast."""
        ones = tuple(a for a, d in enumerate(self.atom.shape) if d == 1 and extents[self.labels[a]] != 1)
        labels = tuple(i for a, i in enumerate(self.labels) if a not in ones)
        return _Term(squeeze(self.atom, axes=ones), labels)

    def reduced_to(self, wanted: Labels) -> Atom:
        """Return the sum over all labels that are not ``wanted``, in that order."""
        axes = tuple(a for a, i in enumerate(self.labels) if i not in wanted)
        left = [i for i in self.labels if i in wanted]
        x = reduce_sum(self.atom, axes=axes)
        result: Atom = transpose(x, perm=tuple(left.index(i) for i in wanted))
        return result


def _extents(terms: Sequence[_Term]) -> dict[Label, Dim]:
    """Return the extent of each label; raise if two operands differ and neither has length one."""
    extents: dict[Label, Dim] = {}
    for term in terms:
        for label, dim in zip(term.labels, term.atom.shape, strict=True):
            known = extents.setdefault(label, dim)
            if known == 1:
                extents[label] = dim
            elif dim not in (1, known) and not current().decide("==", dim - known):
                raise ContractionError(
                    f"Operands of `np.einsum` disagree about the size of subscript {label!r}: "
                    f"{dims.hint(known)} and {dims.hint(dim)}.",
                    where=current().source(),
                    detail="Shapes: " + ", ".join(shape_text(t.atom.shape) for t in terms),
                    hint="Axes with the same subscript must have equal sizes, or one of them 1.",
                )
    return extents


def _order(terms: Sequence[_Term], output: Labels) -> list[tuple[int, ...]]:
    """Return which terms to contract next, step by step."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    numbers = {label: k for k, label in enumerate({i: None for t in terms for i in t.labels})}
    arguments: list[Any] = []
    for term in terms:
        shape = tuple(dims.hint(d) for d in term.atom.shape)
        arguments += [np.broadcast_to(np.float64(0), shape), [numbers[i] for i in term.labels]]
    path, _ = np.einsum_path(*arguments, [numbers[i] for i in output], optimize="greedy")
    return [tuple(step) for step in path[1:]]


def _pair(a: _Term, b: _Term, needed: set[Label], output: Labels | None) -> _Term:
    numbers = {label: k for k, label in enumerate(dict.fromkeys((*a.labels, *b.labels)))}
    kept = output if output is not None else tuple(i for i in numbers if i in needed)
    subscripts = tuple(tuple(numbers[i] for i in labels) for labels in (a.labels, b.labels, kept))
    return _Term(contraction(a.atom, b.atom, subscripts), kept)  # type: ignore[arg-type]


def einsum(atoms: Sequence[Atom], inputs: Sequence[Labels], output: Labels) -> Atom:
    """Return the sum of products of ``atoms`` whose axes have the labels ``inputs``."""
    unknown = [i for i in output if not any(i in labels for labels in inputs)]
    if unknown or len(set(output)) < len(output):
        what = f"'{unknown[0]}' which never appeared in an input" if unknown else "that is repeated"
        raise ValueError(f"einstein sum subscripts string included output subscript {what}")
    terms = [_Term(x, labels) for x, labels in zip(atoms, inputs, strict=True)]
    extents = _extents(terms)
    terms = [t.without_ones(extents).with_diagonals() for t in terms]
    for step in _order(terms, output):
        chosen = [terms[i] for i in step]
        terms = [t for i, t in enumerate(terms) if i not in step]
        while len(chosen) > 1:
            a, b, *chosen = chosen
            last = not terms and not chosen
            needed = {*output, *(i for t in (*terms, *chosen) for i in t.labels)}
            chosen.insert(0, _pair(a, b, needed, output if last else None))
        terms.append(chosen[0])
    return terms[0].reduced_to(output)


@implements(np.einsum)
def _einsum(
    *operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: Any = "K",
    casting: Any = "safe",
) -> Atom:  # fmt: skip
    refuse_out(out, "einsum")
    arrays, inputs, output = _parse(operands)
    if len(arrays) != len(inputs):
        raise ValueError(
            f"{'fewer' if len(arrays) < len(inputs) else 'more'} operands provided to einstein sum function "
            "than specified in the subscripts string"
        )
    atoms = [strong(a) for a in arrays]
    inputs, output = _named(inputs, output, [len(a.shape) for a in atoms])
    result = np.dtype(dtype) if given(dtype) else np.result_type(*(a.dtype for a in atoms))
    work = np.dtype(np.int64) if result.kind == "b" else result
    return convert(einsum([convert(a, dtype=work) for a in atoms], inputs, output), dtype=result)
