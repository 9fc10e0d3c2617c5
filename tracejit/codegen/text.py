"""Small texts of generated code: names, sizes, literals and conversions between dtypes."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tracejit.errors import InternalError
from tracejit.ir.aval import compute_dtype
from tracejit.ir.dims import Dim, FloorDiv, Symbol

__all__ = ["Names", "converted", "dtype_text", "indented", "literal", "needs_cast", "numeric", "size_text"]

DType = np.dtype[Any]

_FLOAT_IN_TEXT = re.compile(r"\d\.|\.\d|math\.|np\.(pi|e)\b")
_ARITHMETIC = re.compile(r"[-+*]|<<|>>|&|\||\^|~")


class Names:
    """Unique Python names.

    Parameters
    ----------
    reserved : iterable of str
        Names that are never given: the functions that the text calls.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = {*reserved, *keyword.kwlist}
        self._counts: dict[str, int] = {}

    def unique(self, wish: str) -> str:
        """Return ``wish`` as a legal name, with a number if it is taken."""
        name = re.sub(r"\W", "_", wish, flags=re.ASCII).lstrip("_") or "v"
        name = name if not name[0].isdigit() else f"v{name}"
        return self.numbered(name) if name in self._taken else self._take(name)

    def numbered(self, stem: str) -> str:
        """Return ``stem`` with the next free number."""
        while True:
            count = self._counts[stem] = self._counts.get(stem, -1) + 1
            if f"{stem}{count}" not in self._taken:
                return self._take(f"{stem}{count}")

    def _take(self, name: str) -> str:
        self._taken.add(name)
        return name


def indented(lines: Iterable[str]) -> list[str]:
    """Return the lines one level deeper."""
    return [f"    {line}" if line else line for line in lines]


def size_text(dim: Dim, names: Mapping[Symbol, str]) -> str:
    """Return ``dim`` as an expression, the same for equal sizes whatever the identity of their symbols."""
    if isinstance(dim, int):
        return str(dim)
    terms = []
    for monomial, coefficient in dim.terms.items():
        factors = sorted(_atom_text(a, names) for a in monomial)
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        terms.append((coefficient < 0, not monomial, "*".join(factors)))
    text = ""
    for negative, _, term in sorted(terms):
        text += f" {'-' if negative else '+'} {term}"
    return text[3:] if text.startswith(" + ") else f"-{text[3:]}"


def _atom_text(atom: Symbol | FloorDiv, names: Mapping[Symbol, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom]
    return f"(({size_text(atom.numerator, names)}) // {atom.denominator})"


def numeric(dtype: DType) -> DType:
    """Return the dtype that loops compute in; raise for anything that is not a number."""
    if dtype.kind not in "biufc":
        raise InternalError(f"Loops cannot compute with dtype {dtype}.")
    return compute_dtype(dtype)


def dtype_text(dtype: DType) -> str:
    """Return ``np.float64`` and the like."""
    return f"np.{numeric(dtype).name}" if dtype.kind != "b" else "np.bool_"


def literal(value: Any, dtype: DType) -> str:
    """Return ``value`` as an expression of exactly this dtype."""
    dtype = numeric(dtype)
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return str(int(value)) if dtype == np.int64 else f"{dtype_text(dtype)}({int(value)})"
    if dtype.kind == "c":
        value = complex(value)
        text = f"complex({_float_text(value.real)}, {_float_text(value.imag)})"
        return text if dtype == np.complex128 else f"{dtype_text(dtype)}({text})"
    text = _float_text(float(value))
    return text if dtype == np.float64 else f"{dtype_text(dtype)}({text})"


def _float_text(value: float) -> str:
    if np.isnan(value):
        return "np.nan"
    if value in (np.inf, -np.inf):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def converted(name: str, source: DType, target: DType) -> str:
    """Return the value ``name`` cast as NumPy casts it."""
    source, target = numeric(source), numeric(target)
    if source == target:
        return name
    if target.kind == "b":
        return f"{name} != 0"
    if source.kind == "c" and target.kind != "c":
        name, source = f"{name}.real", np.empty(0, source).real.dtype
    return name if source == target else f"{dtype_text(target)}({name})"


def needs_cast(text: str, operands: Iterable[DType], result: DType) -> bool:
    """Return whether Numba gives ``text`` another dtype than NumPy: integers widen, literals are float64."""
    result = numeric(result)
    if result.kind == "b":
        return any(d.kind == "b" for d in operands) and bool(_ARITHMETIC.search(text))
    if result.kind in "iu":
        return result.itemsize < 8 and bool(_ARITHMETIC.search(text))
    return result in (np.float32, np.complex64) and bool(_FLOAT_IN_TEXT.search(text))
