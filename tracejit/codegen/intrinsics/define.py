"""How an intrinsic is defined: one name, an LLVM text per kind of number, typed by its arguments.

Intrinsics, and not small compiled functions: an intrinsic costs microseconds of compiling, a function 20 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numba.core import types
from numba.extending import intrinsic

# (context, builder, signature, llvm values) -> llvm value, as everywhere in Numba.
Lowering = Callable[[Any, Any, Any, Any], Any]
# (builder, *llvm values of one float type) -> llvm value
RealText = Callable[..., Any]


@dataclass(frozen=True)
class Kinds:
    """What a function does with each kind of number; arguments are brought to one type of that kind first.

    Parameters
    ----------
    real
        For float32 and float64; integers are converted to float64 where ``integer`` is missing.
    integer, complex
        For integers (booleans count as int64), and for complex64 and complex128.
    returns
        Result type from the common argument type; the type itself where it is missing.
    widest
        Whether float32 and complex64 are computed, and returned, as float64 and complex128.
    """

    real: Lowering | None
    integer: Lowering | None = None
    complex: Lowering | None = None
    returns: Callable[[Any], Any] | None = None
    widest: bool = False

    def choose(self, kind: Any) -> tuple[Any, Lowering | None]:
        """The type that the arguments are converted to, and the lowering for it."""
        if isinstance(kind, types.Complex):
            return (types.complex128 if self.widest else kind), self.complex
        if isinstance(kind, types.Float):
            return (types.float64 if self.widest else kind), self.real
        if self.integer is None:
            return types.float64, self.real
        return (types.int64 if kind == types.boolean else kind), self.integer

    def resolve(self, typing: Any, arguments: tuple[Any, ...]) -> tuple[Any, Lowering] | None:
        """Signature and lowering for argument types; None, which Numba reports, where there are none."""
        if not all(isinstance(types.unliteral(a), types.Number | types.Boolean) for a in arguments):
            return None
        common = typing.unify_types(*map(types.unliteral, arguments))
        if common is None:
            return None
        kind, lowering = self.choose(common)
        if lowering is None:
            return None
        result = self.returns(kind) if self.returns else kind
        return result(*[kind] * len(arguments)), lowering


class Deferred:
    """An intrinsic that is made when a source names it: Numba takes a tenth of a millisecond for each.

    Parameters
    ----------
    make
        Called once.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.made = functools.cache(make)


class Names(Mapping[str, Any]):
    """Names of intrinsics, those that are `Deferred` made when they are asked for."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        found = self._table[name]
        return found.made() if isinstance(found, Deferred) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def unary(kinds: Kinds) -> Deferred:
    """An intrinsic of one argument."""

    def make() -> Any:
        @intrinsic
        def call(typing, x):  # type: ignore[no-untyped-def]
            return kinds.resolve(typing, (x,))

        return call

    return Deferred(make)


def binary(kinds: Kinds) -> Deferred:
    """An intrinsic of two arguments."""

    def make() -> Any:
        @intrinsic
        def call(typing, x, y):  # type: ignore[no-untyped-def]
            return kinds.resolve(typing, (x, y))

        return call

    return Deferred(make)


def on_values(text: RealText) -> Lowering:
    """A lowering that needs nothing but the LLVM values."""

    def lowering(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return text(builder, *values)

    return lowering


def as_boolean(kind: Any) -> Any:
    """Result type of a predicate."""
    return types.boolean


def real_part(kind: Any) -> Any:
    """Result type of a modulus or an angle."""
    return getattr(kind, "underlying_float", kind)
