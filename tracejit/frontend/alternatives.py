"""What to write instead of NumPy functions that cannot be traced: each row goes when its function comes."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ALTERNATIVES", "GENERAL", "way_out"]

GENERAL = "Write it with supported NumPy functions, or compute it outside of the traced function."

ALTERNATIVES: dict[Any, str] = {
    np.may_share_memory: "Traced arrays have no memory; whether one is a view of another is known from the code.",
    np.packbits: "Add up with weights: `(bits * 2 ** np.arange(8)[::-1]).sum(-1)`.",
    np.shares_memory: "Traced arrays have no memory; whether one is a view of another is known from the code.",
    np.unpackbits: "Shift and mask: `(x[..., None] >> np.arange(8)[::-1]) & 1`.",
}


def way_out(function: Any) -> str:
    """Return what to write instead of a function."""
    return ALTERNATIVES.get(function, GENERAL)
