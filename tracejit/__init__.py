"""Derivatives of NumPy code, compiled.

Plain NumPy functions are traced into a tape, differentiated on the tape, and compiled into native loops.

Examples
--------
>>> import numpy as np
>>> import tracejit as tj
>>> @tj.grad
... def energy(u):
...     return np.sum(np.sin(u) ** 2)
>>> energy(np.array([0.0, np.pi / 4]))
array([0., 1.])
"""

from tracejit import errors
from tracejit.api import (
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacobian,
    jit,
    trace,
    value_and_grad,
    vmap,
)
from tracejit.debug.check_grads import check_grads
from tracejit.directional import jvp, vjp
from tracejit.frontend.explicit_loops import cond, fori_loop, scan, while_loop
from tracejit.pipeline import Stats, interpret, stats
from tracejit.runtime.caches import clear_caches
from tracejit.warming import warmup

__version__ = "0.1.0.dev0"

__all__ = [
    "Stats",
    "check_grads",
    "clear_caches",
    "cond",
    "elementwise_grad",
    "errors",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "interpret",
    "jacobian",
    "jit",
    "jvp",
    "scan",
    "stats",
    "trace",
    "value_and_grad",
    "vjp",
    "vmap",
    "warmup",
    "while_loop",
]
