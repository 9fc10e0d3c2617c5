"""Object code of one function, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ObjectCode", "object_code"]


@dataclass(frozen=True)
class ObjectCode:
    """What the compiler made of one function.

    Parameters
    ----------
    entry
        Symbol of the function that is called: the entry of a kernel, or a plain function.
    symbols
        What must be bound before the code is loaded.
    results
        NumPy's names of the dtypes of the scalars that a kernel returns.
    contents
        The object file.
    """

    entry: str
    symbols: tuple[str, ...]
    results: tuple[str, ...]
    contents: bytes = field(repr=False)


def object_code(library: Any, entry: str, results: tuple[str, ...] = ()) -> ObjectCode:
    """Return the object code of a library of Numba's that was compiled in this process."""
    module = library._final_module
    symbols = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    symbols += [v.name for v in module.global_variables if v.is_declaration]
    return ObjectCode(entry, tuple(symbols), results, library._get_compiled_object())
