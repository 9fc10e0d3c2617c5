"""Calls of C functions, which the loop vectoriser may replace, and of LLVM's own functions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from . import libm

BITS = {ir.FloatType: 32, ir.DoubleType: 64}
BYTE_POINTER = ir.IntType(8).as_pointer()


def constant(like: Any, value: float) -> Any:
    """A constant of the LLVM type of ``like``."""
    return ir.Constant(like.type, value)


def llvm_call(builder: Any, name: str, *values: Any) -> Any:
    """Call ``llvm.<name>`` overloaded on the type of the values."""
    kind = values[0].type
    signature = ir.FunctionType(kind, [kind] * len(values))
    function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], signature)
    return builder.call(function, values)


def c_call(builder: Any, context: Any, name: str, *values: Any) -> Any:
    """Call the C function ``name`` (of the float type of the values) by its private name."""
    kind = values[0].type
    bits = BITS[type(kind)]
    name += "f" if bits == 32 else ""
    scalar = libm.PREFIX + name
    call = builder.call(_declare(builder.module, scalar, ir.FunctionType(kind, [kind] * len(values))), values)
    attributes = ["nounwind", "willreturn", "memory(none)"]
    _, _, features = context.codegen().magic_tuple()
    variants = libm.vector_variants(name, len(values), bits, features)
    if variants:
        # Registers of 512 bits live on the stack during calls, and LLVM finds out too late to align it for
        # them: every access may cross a cache line (measured: 17 % of the time of a kernel).
        add_attributes(builder.function.attributes, '"stackrealign"')
        _keep_declared(builder.module, kind, len(values), variants)
        pattern = "v" * len(values)
        mapping = ",".join(
            f"_ZGV_LLVM_N{lanes}{pattern}_{scalar}({symbol})" for lanes, symbol in variants.items()
        )
        attributes.append(f'"vector-function-abi-variant"="{mapping}"')
    add_attributes(call.attributes, *attributes)
    return call


def add_attributes(attributes: Any, *names: str) -> None:
    """Add attributes that llvmlite's closed list of names does not have."""
    for name in names:
        set.add(attributes, name)


def _declare(module: Any, name: str, signature: Any) -> Any:
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, signature, name)


def _keep_declared(module: Any, kind: Any, arity: int, variants: dict[int, str]) -> None:
    """Declare vector functions and list them in @llvm.compiler.used: LLVM drops what nothing uses."""
    new = [(lanes, symbol) for lanes, symbol in variants.items() if symbol not in module.globals]
    if not new:
        return
    used = module.globals.get("llvm.compiler.used")
    kept = list(used.initializer.constant) if used else []
    for lanes, symbol in new:
        vector = ir.VectorType(kind, lanes)
        function = _declare(module, symbol, ir.FunctionType(vector, [vector] * arity))
        kept.append(function.bitcast(BYTE_POINTER))
    array = ir.ArrayType(BYTE_POINTER, len(kept))
    if used is None:
        used = ir.GlobalVariable(module, array, "llvm.compiler.used")
        used.linkage, used.section = "appending", "llvm.metadata"
    # llvmlite has no way to lengthen a global; these three attributes are all that its text is made of.
    used.value_type, used.type, used.initializer = array, array.as_pointer(), ir.Constant(array, kept)
