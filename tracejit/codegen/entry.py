"""The entry of a kernel for callers that are compiled themselves: checks, allocation, call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tracejit.codegen.text import dtype_text, indented, literal, size_text
from tracejit.ir import dims
from tracejit.ir.dims import Symbol
from tracejit.ir.tape import Tape, input_symbols

if TYPE_CHECKING:
    from tracejit.codegen.emit import Argument, Output

__all__ = ["entry_source"]


def entry_source(
    name: str,
    tape: Tape,
    inputs: tuple[Argument, ...],
    outputs: tuple[Output, ...],
    sizes: Mapping[Symbol, str],
) -> str:
    """Return the source of ``<name>_entry``; see `tracejit.codegen.emit.Program`."""
    names = [a.name for a in inputs]  # none begins with an underscore
    lines = [*_checks(tape, inputs, sizes), *_allocations(outputs, sizes)]
    arrays = [f"_result{o.position}" for o in outputs if o.kind == "array"]
    given = [*names, *arrays]
    lines.append(f"_scalars = in_room({name}, ({', '.join(given)}{',' if len(given) == 1 else ''}))")
    scalars = sum(o.kind == "scalar" for o in outputs)
    for number, guard in enumerate(tape.guards, scalars):
        expected = literal(guard.expected, guard.var.dtype)
        lines += [
            f"if _scalars[{number}] != {expected}:",
            f"    raise GuardError({_guard_text(guard.source)!r})",
        ]
    parts = [f"_result{o.position}" if o.kind == "array" else f"_scalars[{o.position}]" for o in outputs]
    lines.append(f"return ({', '.join(parts)}{',' if len(parts) == 1 else ''})")
    return "\n".join([f"def {name}_entry({', '.join(names)}):", *indented(lines), ""])


def _guard_text(source: object) -> str:
    where = f" {source}" if source is not None else ""
    return (
        f"compiled for another path: a condition of the traced call does not hold for these arguments{where}"
    )


def _checks(tape: Tape, inputs: tuple[Argument, ...], sizes: Mapping[Symbol, str]) -> Iterator[str]:
    """Yield the lines that read the sizes and compare everything that the kernel relies on."""
    places = input_symbols(tape)
    for symbol, (number, axis) in places.items():
        size = sizes[symbol]
        yield f"{size} = {inputs[number].name}.shape[{axis}]"
        yield from _require(
            f"{size} < {symbol.lower}",
            f"axis {axis} of {inputs[number].name} must have at least {symbol.lower} entries:"
            " shorter ones have code of their own",
        )
    for number, argument in enumerate(inputs):
        for axis, extent in enumerate(argument.shape):
            known = dims.as_symbol(extent)
            if known is not None and places.get(known) == (number, axis):
                continue
            text = size_text(extent, sizes)
            failure = f"{argument.name}.shape[{axis}] != {text}"
            yield from _require(failure, f"axis {axis} of {argument.name} must have {text} entries")
    for guard in tape.sizes:
        text = size_text(guard.size, sizes)
        opposite = {"!=": "==", ">=": "<", "<": ">="}[guard.relation]
        yield from _require(f"{text} {opposite} 0", f"compiled for sizes with {text} {guard.relation} 0")


def _require(failure: str, message: str) -> Iterator[str]:
    yield f"if {failure}:"
    yield f"    raise GuardError({message!r})"


def _allocations(outputs: tuple[Output, ...], sizes: Mapping[Symbol, str]) -> Iterator[str]:
    for output in outputs:
        if output.kind == "array":
            extents = ", ".join(size_text(d, sizes) for d in output.shape)
            yield f"_result{output.position} = np.empty(({extents},), {dtype_text(output.compute)})"
