"""Forget what was traced and compiled."""

from __future__ import annotations

from tracejit.runtime.compile import clear_compiled
from tracejit.runtime.directories import clear_directory
from tracejit.runtime.dispatch import clear_plans
from tracejit.runtime.entries import clear_entries
from tracejit.runtime.kernel import clear_kernels
from tracejit.runtime.workspace import clear_workspace

__all__ = ["clear_caches"]


def clear_caches(*, disk: bool = False) -> None:
    """Forget all traces and all compiled code, and give back the memory that is kept for temporaries.

    The next call of each function traces it again, and takes its machine code from the disk or compiles it. Compiled
    objects that the caller holds (`lower`) stay as they are.

    Parameters
    ----------
    disk : bool, default False
        Remove what is kept on the disk, too, so that the next calls compile.

    Examples
    --------
    >>> import tracejit as tj
    >>> float(tj.grad(lambda x: x * x)(3.0))
    6.0
    >>> tj.clear_caches()
    >>> float(tj.grad(lambda x: x * x)(3.0))
    6.0
    """
    clear_plans()
    clear_entries()
    clear_kernels()
    clear_compiled()
    clear_workspace()
    if disk:
        clear_directory()
