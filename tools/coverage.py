"""Sort every public callable of NumPy: ``python tools/coverage.py`` writes ``docs/coverage.md``.

What the registry knows is supported; everything else must be named in one of the tables below, with a reason.
`sort` raises for a name that is in none, so a new release of NumPy or scipy is noticed.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

from tracejit.frontend.by_name import FUNCTIONS_BY_NAME, ufunc_meaning
from tracejit.frontend.numpy_api import CREATORS, FUNCTIONS, UFUNCS
from tracejit.frontend.scipy_special import UFUNC_PARTS
from tracejit.ops.elementwise import Elementwise
from tracejit.ops.special import Special

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"

KINDS = {
    "differentiable": "Supported, with its derivative.",
    "values": "Supported; a derivative raises an error, because none is known in closed form.",
    "zero": "Supported; integers, booleans, steps and dtypes have the derivative zero.",
    "constant": "Takes no traced value by its nature: sizes, dtypes, files, text. Works inside traced functions.",
    "other": "Not array math.",
    "unsupported": "Raises an error that says what to write instead.",
}


def _words(text: str) -> set[str]:
    return set(text.split())


ZERO = _words(
    """
    all allclose any argmax argmin argpartition argsort argwhere around array2string array_equal array_equiv
    array_repr array_str can_cast common_type count_nonzero diag_indices_from digitize einsum_path
    empty_like fix flatnonzero isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj ix_ lexsort
    matrix_rank min_scalar_type nanargmax nanargmin ndim nonzero ones_like ravel_multi_index result_type round
    searchsorted shape size spacing tri tril_indices_from triu_indices_from unravel_index zeros_like arange empty
    eye fftfreq identity indices ones rfftfreq zeros
    """
)
"""Functions of the registry whose results do not vary with any argument, or in steps."""

CONSTANT = _words(
    """
    bartlett base_repr binary_repr blackman broadcast_shapes busday_count busday_offset datetime_as_string
    datetime_data diag_indices format_float_positional format_float_scientific from_dlpack frombuffer fromfile
    fromiter fromregex fromstring genfromtxt hamming hanning is_busday isdtype isfortran isscalar issubdtype
    iterable kaiser load loadtxt mask_indices mintypecode promote_types tril_indices triu_indices typename
    """
)

NOT_ARRAY_MATH = _words(
    """
    LinAlgError asmatrix bmat busdaycalendar broadcast dtype errstate finfo flatiter get_include get_printoptions
    getbufsize geterr geterrcall iinfo info matrix memmap ndarray ndenumerate ndindex nditer nested_iters poly1d
    printoptions recarray record row_stack save savetxt savez savez_compressed set_printoptions setbufsize seterr
    seterrcall show_config show_runtime test ufunc
    """
)

_MEMORY = "allocates memory in scipy, and crashes or raises on NaN"
_COMPLEX = "complex results of scipy"
_JV = "`jv(v, x) + 1j * yv(v, x)` for positive `x`"

REFUSED = {"bitwise_count", "isnat"}
"""Ufuncs whose meaning is to raise."""

UNSUPPORTED: dict[str, tuple[str, str]] = {
    "bitwise_count": ("bits of integers", "`sum((x >> k) & 1 for k in range(64))`"),
    "isnat": ("dates are not numbers", "dates that stay outside of the function"),
    "asarray_chkfinite": ("raises by values", "`np.asarray`"),
    "frompyfunc": ("makes arrays of objects", "`np.vectorize`, `tj.vmap`"),
    "may_share_memory": ("traced arrays have no memory", "nothing: views are known from the code"),
    "packbits": ("bits of integers", "`(bits * 2 ** np.arange(8)[::-1]).sum(-1)`"),
    "require": ("memory layouts", "`np.asarray`"),
    "shares_memory": ("traced arrays have no memory", "nothing: views are known from the code"),
    "unpackbits": ("bits of integers", "`(x[..., None] >> np.arange(8)[::-1]) & 1`"),
    "hankel1": (_COMPLEX, _JV),
    "hankel1e": (_COMPLEX, _JV),
    "hankel2": (_COMPLEX, "`jv(v, x) - 1j * yv(v, x)` for positive `x`"),
    "hankel2e": (_COMPLEX, "`jv(v, x) - 1j * yv(v, x)` for positive `x`"),
    "kelvin": (_COMPLEX, "`ber(x) + 1j * bei(x)`, `ker`, `kei`"),
    "modfresnelm": (_COMPLEX, "`fresnel`"),
    "modfresnelp": (_COMPLEX, "`fresnel`"),
    "wofz": (_COMPLEX, "`erfcx(y)` is `wofz(1j * y)`"),
    **dict.fromkeys(
        _words("""
        mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem
        obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv pbdv pbvv pro_ang1 pro_ang1_cv pro_cv
        pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv
        """),
        (_MEMORY, "values that were computed outside"),
    ),
}


@dataclass(frozen=True)
class Row:
    """One callable and where it belongs."""

    namespace: str
    name: str
    kind: str
    remark: str = ""


def namespaces() -> Iterator[tuple[str, ModuleType, Callable[[Any], bool]]]:
    """Yield each public namespace, and which of its entries count."""
    for module in (np, np.linalg, np.fft):
        yield module.__name__, module, callable
    yield "scipy.special", scipy.special, lambda value: isinstance(value, np.ufunc)


def rows() -> list[Row]:
    """Return one row per public callable."""
    return [
        sort(namespace, name, getattr(module, name))
        for namespace, module, counts in namespaces()
        for name in sorted(dir(module))
        if not name.startswith("_") and counts(getattr(module, name))
    ]


def sort(namespace: str, name: str, value: Any) -> Row:
    """Return the row of one callable.

    Raises
    ------
    LookupError
        If nothing is known about it, or if a table names what the registry supports.
    """
    by_hand = [
        kind
        for kind, names in (("constant", CONSTANT), ("other", NOT_ARRAY_MATH), ("unsupported", UNSUPPORTED))
        if name in names
    ]
    if is_supported(namespace, name, value):
        if by_hand:
            raise LookupError(f"{namespace}.{name} is supported: take it out of the table {by_hand[0]!r}.")
        return _supported(namespace, name, value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return Row(namespace, name, "other", "scalar type")
    if len(by_hand) != 1:
        raise LookupError(
            f"{namespace}.{name} is not sorted: support it, or name it in one table of {__file__}."
        )
    reason = ", instead: ".join(UNSUPPORTED[name]) if name in UNSUPPORTED else ""
    return Row(namespace, name, by_hand[0], reason)


def is_supported(namespace: str, name: str, value: Any) -> bool:
    """Return whether traced values have a meaning for it."""
    if isinstance(value, np.ufunc):
        return ufunc_meaning(value) is not None and name not in REFUSED
    if name in FUNCTIONS_BY_NAME.get(namespace, {}):
        return True
    return value.__hash__ is not None and (value in FUNCTIONS or value in CREATORS)


def _supported(namespace: str, name: str, value: Any) -> Row:
    meaning = UFUNCS.get(value) if isinstance(value, np.ufunc) else None
    parts = UFUNC_PARTS.get(name, (meaning,)) if namespace == "scipy.special" else (meaning,)
    specials = [op for op in parts if isinstance(op, Special)]
    if specials and all(all(op.open) for op in specials):
        return Row(namespace, name, "values")
    if name in ZERO or (isinstance(meaning, Elementwise) and not any(meaning.partials)):
        return Row(namespace, name, "zero")
    closed = sorted({k for op in specials for k, is_open in enumerate(op.open) if is_open})
    remark = f"not in argument {', '.join(map(str, closed))}" if closed else ""
    return Row(namespace, name, "differentiable", remark)


def document() -> str:
    """Return the text of ``docs/coverage.md``."""
    found = rows()
    lines = [
        "# Which functions can be traced",
        "",
        f"Made by `python tools/coverage.py` for {versions()}.",
        "",
    ]
    lines += ["| | " + " | ".join(n for n, _, _ in namespaces()) + " |", "| --- |" + " --- |" * 4]
    for kind in KINDS:
        counts = [str(sum(r.kind == kind and r.namespace == n for r in found)) for n, _, _ in namespaces()]
        lines.append(f"| {kind} | {' | '.join(counts)} |")
    for kind, meaning in KINDS.items():
        lines += ["", f"## {kind.capitalize()}", "", meaning]
        for namespace, _, _ in namespaces():
            lines += _section([r for r in found if r.kind == kind and r.namespace == namespace], namespace)
    return "\n".join(lines) + "\n"


def _section(found: list[Row], namespace: str) -> list[str]:
    if not found:
        return []
    by_remark: dict[str, list[str]] = {"": []}
    for row in found:
        by_remark.setdefault(row.remark, []).append(f"`{row.name}`")
    plain = by_remark.pop("")
    remarked = [f"* {' '.join(names)}: {remark}" for remark, names in by_remark.items()]
    lines = ["", f"### {namespace}"]
    lines += ["", *textwrap.wrap(" ".join(plain), 110, break_on_hyphens=False)] if plain else []
    return [*lines, "", *remarked] if remarked else lines


def versions() -> str:
    """Return what the document holds for."""
    return f"NumPy {_short(np.__version__)}, scipy {_short(scipy.__version__)}"


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    print(f"wrote {DOCUMENT}", file=sys.stderr)
