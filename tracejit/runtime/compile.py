"""The one door to Numba: source text in, compiled function out.

Numba is imported at the first compilation, not with tracejit: it takes half a second, which a program that
only traces never pays.
"""

from __future__ import annotations

import dis
import functools
import gc
import importlib
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Literal

import numpy as np

from tracejit.errors import CompileError
from tracejit.runtime import objects, workspace
from tracejit.runtime.locks import lock
from tracejit.runtime.source_files import content_key, write_source
from tracejit.runtime.symbols import HELPER, PIECE, bind, finder

Layout = Literal["C", "F", "A"]


@dataclass(frozen=True)
class ArgSpec:
    """The type of one argument of a compiled function.

    Parameters
    ----------
    dtype
        NumPy dtype in native byte order.
    ndim
        Number of dimensions; None for a scalar.
    layout
        "C" or "F" for contiguous arrays, "A" for any strides.
    writable
        Whether the function writes into it.  Where it does not, read-only arrays can be passed too.
    """

    dtype: np.dtype[Any]
    ndim: int | None = None
    layout: Layout = "C"
    writable: bool = False

    def __str__(self) -> str:
        if self.ndim is None:
            return self.dtype.str
        return f"{self.dtype.str}[{self.ndim},{self.layout}{',w' if self.writable else ''}]"


ROOM = ArgSpec(np.dtype(np.void))
"""The last argument of a kernel: where it takes memory from."""


@dataclass(frozen=True, eq=False)
class CompiledFunction:
    """A generated source and the function made of it.

    ``function`` is a Numba dispatcher: it is called from Python, and from inside ``@njit`` code.
    """

    name: str
    source: str
    path: str
    signature: tuple[ArgSpec, ...]
    function: Callable[..., Any]
    compile_seconds: float
    # What the code refers to besides; kept alive, since the key of the cache holds its identity.
    namespace: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def llvm(self) -> str:
        """LLVM text after optimisation."""
        (text,) = self.function.inspect_llvm().values()  # type: ignore[attr-defined]
        return text

    def assembly(self) -> str:
        """Machine code of this CPU as text."""
        (text,) = self.function.inspect_asm().values()  # type: ignore[attr-defined]
        return text


_compiled: dict[str, CompiledFunction] = {}


def clear_compiled() -> None:
    """Forget the functions that were compiled for callers that Numba compiles."""
    with lock:
        _compiled.clear()


def compile_function(
    source: str,
    name: str,
    signature: tuple[ArgSpec, ...],
    *,
    extra_namespace: Mapping[str, object] | None = None,
    pieces: Mapping[str, object] | None = None,
    content: str | None = None,
) -> CompiledFunction:
    """Compile the function ``name`` of ``source`` for one signature; the same again costs a look-up.

    The source finds ``np``, ``math``, all of ``codegen.vector_math.NAMESPACE``, and ``extra_namespace``; ``pieces``
    are called in the place of functions that it defines.  Two sources are the same if their ``content`` is: the source
    by default, or what is left of it without comments.

    Raises
    ------
    CompileError
        With the name, the path of the source and Numba's own message.
    """
    extra, parts = dict(extra_namespace or {}), dict(pieces or {})
    identities = sorted((key, id(value)) for key, value in (*extra.items(), *parts.items()))
    key = content_key(content or source, name, *signature, identities)
    found = _compiled.get(key)
    if found is None:
        with lock:
            found = _compiled.get(key)
            if found is None:
                found = _compiled[key] = _compile(source, name, signature, extra, parts)
    return found


def prepare_compiler() -> None:
    """Import everything that the first compilation would import."""
    with lock, undisturbed():
        _numba()
        importlib.import_module("tracejit.codegen.vector_math")
        target: Any = importlib.import_module("numba.core.registry").cpu_target
        target.typing_context.refresh()
        target.target_context.refresh()


_kernels: dict[Callable[..., Any], Callable[..., Any]] = {}
_helpers: dict[Callable[..., Any], Callable[..., Any]] = {}


def compile_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function for use in generated sources, which call its machine code: it is compiled once.

    It takes C-contiguous arrays, which it sees with a single axis each, and numbers.  Plain functions that it
    calls are compiled with it; one that has the name of an intrinsic becomes that, and so does the function itself.
    """
    with lock:
        intrinsic = _namespace([function.__name__]).get(function.__name__)
        if intrinsic is not None:
            return intrinsic
        if function not in _kernels:
            separate = importlib.import_module("tracejit.codegen.intrinsics.separate")
            name = public_name(function)
            _kernels[function] = separate.separate(_helper(function), name, bind, objects.keep)
        return _kernels[function]


def public_name(function: Callable[..., Any]) -> str | None:
    """Return the name by which any process finds ``function``; None if only this one has it."""
    module = sys.modules.get(function.__module__)
    found = getattr(module, function.__qualname__, None)
    return f"{function.__module__}.{function.__qualname__}" if found is function else None


@finder(PIECE)
@finder(HELPER)
def _load_kept(symbol: str) -> int | None:
    """Return the address of a plain function or a piece that an earlier process compiled."""
    code = objects.find_for_good(symbol)
    return None if code is None else code.address


def _helper(function: Callable[..., Any]) -> Callable[..., Any]:
    if function not in _helpers:
        _helpers[function] = _jit(_numba(), no_cpython_wrapper=True)(None)(_with_helpers(function))
    return _helpers[function]


def _with_helpers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with its global functions replaced by compiled ones."""
    code, outer = function.__code__, function.__globals__
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    called = [name for name in names if isinstance(outer.get(name), FunctionType)]
    if not called:
        return function
    intrinsics = _namespace(called)
    helpers = {name: intrinsics.get(name) or _helper(outer[name]) for name in called}
    return FunctionType(code, {**outer, **helpers}, function.__name__, function.__defaults__)


def _compile(
    source: str,
    name: str,
    signature: tuple[ArgSpec, ...],
    extra: dict[str, object],
    pieces: dict[str, object],
) -> CompiledFunction:
    start = time.perf_counter()
    path, function = jit_source(source, name, signature, extra, pieces)
    seconds = time.perf_counter() - start
    return CompiledFunction(name, source, path, signature, function, seconds, {**extra, **pieces})


def jit_source(
    source: str,
    name: str,
    signature: tuple[ArgSpec, ...],
    extra: Mapping[str, object],
    pieces: Mapping[str, object] = MappingProxyType({}),
    *,
    entry: bool = False,
) -> tuple[str, Any]:
    """Return the path of a source and Numba's dispatcher of its function ``name``.

    ``extra`` is what the source refers to; ``pieces`` are called in the place of functions that it defines.  With
    ``entry``, it has the entry of `codegen.intrinsics.entry_point` in the place of that for Python's objects, and must
    not be called from Python.
    """
    numba = _numba()
    options: dict[str, Any] = {}
    if entry:
        entry_point = importlib.import_module("tracejit.codegen.intrinsics.entry_point")
        options["pipeline_class"] = entry_point.Pipeline
    path = write_source(source, name)
    try:
        namespace = _executed(source, path, extra)
        namespace |= pieces
        types = tuple(_numba_type(numba, spec) for spec in signature)
        with undisturbed():
            return path, _jit(numba, **options)(types)(namespace[name])
    except Exception as error:
        raise CompileError(
            f"cannot compile the generated function {name!r}",
            where=path,
            detail=f"{type(error).__name__}: {error}",
            hint="This is a defect of tracejit; please report it with the file above.",
        ) from error


def jit_for_callers(source: str, name: str, extra: Mapping[str, object]) -> Any:
    """Return Numba's dispatcher of the function ``name`` of a source, for the types that callers ask for."""
    namespace = _executed(source, write_source(source, name), extra)
    return _jit(_numba(), no_cpython_wrapper=True)(None)(namespace[name])


def _executed(source: str, path: str, extra: Mapping[str, object]) -> dict[str, Any]:
    """Return the globals of a source after it ran."""
    _silence_numba_about(_numba(), path)
    code = compile(source, path, "exec")
    namespace = {**_namespace(_names_in(code)), **extra}
    exec(code, namespace)
    return namespace


# --- the lazy imports: the only places where tracejit reaches for Numba -------------------------------------


@functools.cache
def _numba() -> Any:
    import numba

    # Numba imports scipy.linalg to see whether there is a BLAS, a tenth of a second. It is there, since tracejit needs
    # scipy; whatever calls it asks again.
    linalg: Any = importlib.import_module("numba.np.linalg")
    look, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        arraymath: Any = importlib.import_module("numba.np.arraymath")
        arraymath.ensure_blas = look
    finally:
        linalg.ensure_blas = look
    for name in workspace.CALLED:
        bind(name)
    return numba


def _namespace(names: Iterable[str]) -> dict[str, Any]:
    """Fresh globals for a source that uses these names."""
    # By name, because the intrinsics import Numba as soon as they are imported.
    known = importlib.import_module("tracejit.codegen.vector_math").NAMESPACE
    return {"np": np, "math": math, "__name__": __name__, **{n: known[n] for n in names if n in known}}


def _names_in(code: CodeType) -> set[str]:
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Compile without what would take longer than the compilation.

    Numba loads all extensions that are installed when it compiles for the first time. They are for code of the user's
    (rocket-fft imports scipy.fft); what generated code needs of them is imported where it is named, and the first
    function that the user compiles loads them. And Python looks for garbage among all that Numba makes at first.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        extensions: Any = importlib.import_module("numba.core.entrypoints")
        loaded, extensions._already_initialized = extensions._already_initialized, True
        try:
            yield
        finally:
            extensions._already_initialized = loaded
    finally:
        if was_on:
            gc.enable()


def _jit(numba: Any, **options: Any) -> Callable[..., Any]:
    """Numba's decorator with the flags of the project.

    Division by zero follows IEEE arithmetic, the GIL is released, no fast-math (single instructions carry the
    permissions they need), no second entry point that only C callbacks use.
    """

    def decorate(signature: Any) -> Any:
        flags = {
            "error_model": "numpy",
            "nogil": True,
            "fastmath": False,
            "no_cfunc_wrapper": True,
            **options,
        }
        return numba.njit(signature, **flags)

    return decorate


def _silence_numba_about(numba: Any, path: str) -> None:
    """No advice about generated files: whoever sees it did not write them.

    A filter, and not ``catch_warnings``, which would change the filters of other threads; set anew each time
    because code around may have restored an older list.
    """
    module = re.escape(path.removesuffix(".py"))
    warnings.filterwarnings("ignore", category=numba.core.errors.NumbaWarning, module=module)


def _numba_type(numba: Any, spec: ArgSpec) -> Any:
    if spec == ROOM:
        return numba.types.voidptr
    element = numba.from_dtype(spec.dtype)
    if spec.ndim is None:
        return element
    return numba.types.Array(element, spec.ndim, spec.layout, readonly=not spec.writable)
