"""What to write instead of NumPy functions that cannot be traced: each row goes when its function comes."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ALTERNATIVES", "GENERAL", "way_out"]

GENERAL = "Write it with supported NumPy functions, or compute it outside of the traced function."

ALTERNATIVES: dict[Any, str] = {
    np.apply_along_axis: "Give the function's own `axis=`, or use `tj.vmap`.",
    np.apply_over_axes: "Call the reduction with a tuple of axes.",
    np.bincount: "Add up with `np.add.at(totals, places, weights)` into an array of zeros.",
    np.convolve: "Add up shifted slices: `sum(w[k] * x[k : k + n] for k in range(len(w)))`.",
    np.correlate: "Add up shifted slices: `sum(w[k] * x[k : k + n] for k in range(len(w)))`.",
    np.corrcoef: "Divide `d @ d.T` by norms, with `d = x - x.mean(axis=1, keepdims=True)`.",
    np.cov: "Write `d @ d.T / (n - 1)` with `d = x - x.mean(axis=1, keepdims=True)`.",
    np.digitize: "Places have no derivative: compute them outside, or add up comparisons `(x >= edge)`.",
    np.gradient: "Write the differences with slices: `(u[2:] - u[:-2]) / (2 * h)`.",
    np.histogram: "Counts have no derivative: compute them outside, or add up smooth weights.",
    np.interp: "Find the places i outside, then write `y[i] + (x - p[i]) * slope[i]`.",
    np.piecewise: "Use `np.where` or `np.select`.",
    np.polyfit: "Solve the normal equations, or fit with `scipy.optimize` and `tj.value_and_grad`.",
    np.polyval: "Use Horner's rule: `for c in coefficients: y = y * x + c`.",
    np.searchsorted: "Places have no derivative: compute them outside of the traced function.",
    np.unique: "The size of the result depends on values: compute it outside of the traced function.",
    np.vander: "Write `x[:, None] ** np.arange(n)`.",
}


def way_out(function: Any) -> str:
    """Return what to write instead of a function."""
    return ALTERNATIVES.get(function, GENERAL)
