"""The compiled object that ``g.lower(*args)`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.ir.tape import Tape
from tracejit.pipeline import Transform, call, compile_njit
from tracejit.runtime.entry import Entry, Sizes
from tracejit.runtime.memory import Memory, memory_of
from tracejit.tracebacks import boundary

__all__ = ["Lowered"]


class Lowered:
    """A function compiled for one signature.

    Attributes
    ----------
    source : str
        The generated Numba source.
    forward_tape : Tape
        The traced function.
    backward_tape : Tape
        What is compiled: the derivative with the forward pass that it needs, simplified.
    njit : callable
        For ``@njit`` code: takes the dynamic argument leaves and then the captured values, as arrays and numbers of the
        same dtypes and ranks; sizes may differ, they are checked.
    memory : Memory
        Bytes that a call takes at the sizes of the example.
    """

    def __init__(
        self, entry: Entry, sizes: Sizes, function: Callable[..., Any], transform: Transform
    ) -> None:
        self._entry, self._sizes = entry, sizes
        self._function, self._transform = function, transform

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._function, self._transform, args, kwargs)

    @boundary
    def compile(self) -> Lowered:
        """Compile now what would be compiled at the first call, and return this object."""
        _ = self._entry.compiled
        return self

    @property
    def source(self) -> str:
        return self._entry.compiled[0].source

    @property
    def forward_tape(self) -> Tape:
        assert self._entry.forward is not None
        return self._entry.forward

    @property
    def backward_tape(self) -> Tape:
        return self._entry.tape

    @property
    def memory(self) -> Memory:
        return memory_of(self._entry.program, self._sizes)

    @property
    def llvm(self) -> str:
        """The LLVM text after optimisation."""
        return self._entry.compiled[1].jitted.llvm()

    @property
    def njit(self) -> Callable[..., Any]:
        return compile_njit(self._entry)

    def __repr__(self) -> str:
        return f"<tracejit compiled {self._transform.key[0]}, {len(self._entry.tape.eqns)} equations>"
