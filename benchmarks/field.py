"""Value and gradient of scalar fields, against JAX, HIPS autograd and a hand-written Numba gradient.

Run ``python benchmarks/field.py``; README.md beside this file says what the rows mean.
"""

import _harness as harness  # first: it limits the threads of all that follows

# isort: split
import argparse
import importlib
import importlib.util
import json
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _harness import Bar, Candidate

# --- the two works, as a user writes them ---------------------------------------------------------


def sin_exp(x, y):
    return np.sum(np.sin(x) * np.exp(-y * y))


def ten_terms(x, y, z):
    field = (
        np.sin(x) * np.exp(-y * y)
        + np.cos(y) * np.tanh(z)
        + np.log(1 + x * x) * np.sin(z)
        + np.exp(-z * z) * np.cos(x)
        + np.sqrt(1 + y * y + z * z)
        + np.arctan(x * y)
        + np.tanh(x) * np.sin(y * z)
        + np.cos(x * z) * np.exp(-x * x)
        + np.log(2 + np.sin(x * y * z))
        + np.sqrt(3 + np.sin(x) + np.cos(y))
    )
    return np.sum(field)


# --- the same by hand -----------------------------------------------------------------------------


def hand_sin_exp() -> Callable[..., Any]:
    """The fused loop that someone who knows Numba would write, with tracejit's vector functions."""
    njit, cos, exp, sin, add = vector_functions("cos", "exp", "sin", "add_reassoc")

    @njit(error_model="numpy", nogil=True)
    def loop(x, y, gx, gy):
        total = 0.0
        for i in range(x.size):
            xi, yi = x[i], y[i]
            s, e = sin(xi), exp(-yi * yi)
            term = s * e
            total = add(total, term)
            gx[i] = cos(xi) * e
            gy[i] = -2.0 * yi * term
        return total

    def value_and_gradient(*points):
        gradient = tuple(np.empty_like(p) for p in points)
        value = loop(*(p.ravel() for p in points), *(g.ravel() for g in gradient))
        return value, gradient

    return value_and_gradient


def hand_ten_terms() -> Callable[..., Any]:
    """Ten terms and their thirty partials in one loop; what two terms share is computed once."""
    names = ("arctan", "cos", "exp", "log", "sin", "sqrt", "tanh", "add_reassoc")
    njit, arctan, cos, exp, log, sin, sqrt, tanh, add = vector_functions(*names)

    @njit(error_model="numpy", nogil=True)
    def loop(xs, ys, zs, gx, gy, gz):
        total = 0.0
        for i in range(xs.size):
            x, y, z = xs[i], ys[i], zs[i]
            xx, yy, zz, xy, yz, xz = x * x, y * y, z * z, x * y, y * z, x * z
            sx, cx, sy, cy, sz, cz = sin(x), cos(x), sin(y), cos(y), sin(z), cos(z)
            tx, tz = tanh(x), tanh(z)
            ex, ey, ez = exp(-xx), exp(-yy), exp(-zz)
            syz, cyz, sxz, cxz = sin(yz), cos(yz), sin(xz), cos(xz)
            sxyz, cxyz = sin(x * yz), cos(x * yz)
            lx = log(1.0 + xx)
            norm = sqrt(1.0 + yy + zz)
            wave = sqrt(3.0 + sx + cy)
            total = add(
                total,
                sx * ey + cy * tz + lx * sz + ez * cx + norm
                + arctan(xy) + tx * syz + cxz * ex + log(2.0 + sxyz) + wave,
            )  # fmt: skip
            in_xy = 1.0 / (1.0 + xy * xy)
            in_xyz = cxyz / (2.0 + sxyz)
            half_wave = 0.5 / wave
            gx[i] = (
                cx * ey + 2.0 * x / (1.0 + xx) * sz - ez * sx + y * in_xy + (1.0 - tx * tx) * syz
                - (z * sxz + 2.0 * x * cxz) * ex + yz * in_xyz + cx * half_wave
            )  # fmt: skip
            gy[i] = (
                -2.0 * y * sx * ey - sy * tz + y / norm + x * in_xy + z * tx * cyz
                + xz * in_xyz - sy * half_wave
            )  # fmt: skip
            gz[i] = (
                cy * (1.0 - tz * tz) + lx * cz - 2.0 * z * ez * cx + z / norm + y * tx * cyz
                - x * sxz * ex + xy * in_xyz
            )  # fmt: skip
        return total

    def value_and_gradient(*points):
        gradient = tuple(np.empty_like(p) for p in points)
        value = loop(*(p.ravel() for p in points), *(g.ravel() for g in gradient))
        return value, gradient

    return value_and_gradient


def vector_functions(*names: str) -> list[Any]:
    """Numba's ``njit`` and tracejit's own SIMD functions by name."""
    namespace = importlib.import_module("tracejit.codegen.vector_math").NAMESPACE
    return [importlib.import_module("numba").njit, *(namespace[name] for name in names)]


# --- who takes part -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A function, its points, and its gradient by hand."""

    name: str
    function: Callable[..., Any]
    by_hand: Callable[[], Callable[..., Any]]
    points: Callable[[int], tuple[np.ndarray, ...]]
    size: int  # where it is timed
    large: int  # where its memory is measured

    @property
    def argnums(self) -> tuple[int, ...]:
        return tuple(range(self.function.__code__.co_argcount))


def line(size: int) -> tuple[np.ndarray, ...]:
    return np.linspace(-2, 4, size), np.linspace(-2, 2, size)


def cube(size: int) -> tuple[np.ndarray, ...]:
    axes = np.linspace(-2, 2, size), np.linspace(-1.5, 2.5, size), np.linspace(-1, 3, size)
    return tuple(np.ascontiguousarray(a) for a in np.meshgrid(*axes, indexing="ij"))


WORKS = {
    "sin_exp": Work("sum(sin(x)*exp(-y*y))", sin_exp, hand_sin_exp, line, 2**20, 2**24),
    "ten_terms": Work("ten terms, 3-D", ten_terms, hand_ten_terms, cube, 128, 256),
}
SIZES = range(21, 61, 2)  # twenty grids


def with_numpy(function: Callable[..., Any], numpy: Any) -> Callable[..., Any]:
    """The same code with another module in the place of ``np``: JAX and autograd need theirs."""
    return types.FunctionType(function.__code__, {**function.__globals__, "np": numpy})


def flat(value: Any) -> tuple[np.ndarray, ...]:
    """(value, gradients) as one flat tuple of NumPy arrays."""
    return np.asarray(value[0]), *(np.asarray(g) for g in value[1])


def numpy_forward(work: Work, points: tuple[np.ndarray, ...]) -> Candidate:
    return Candidate("NumPy, value only", lambda: work.function(*points), lambda v: (v,))


def hand_numba(work: Work, points: tuple[np.ndarray, ...]) -> Candidate:
    call = work.by_hand()
    return Candidate("Numba by hand", lambda: call(*points), flat)


def tracejit_function(work: Work) -> Callable[..., Any]:
    return importlib.import_module("tracejit").value_and_grad(work.function, argnums=work.argnums)


def jax_function(work: Work) -> Callable[..., Any]:
    jax = importlib.import_module("jax")
    call = jax.jit(jax.value_and_grad(with_numpy(work.function, jax.numpy), argnums=work.argnums))
    return lambda *points: jax.block_until_ready(call(*points))


def tracejit_gradient(work: Work, points: tuple[np.ndarray, ...]) -> Candidate:
    call = tracejit_function(work)
    return Candidate("tracejit", lambda: call(*points), flat)


def jax_gradient(work: Work, points: tuple[np.ndarray, ...]) -> Candidate:
    """JAX with its inputs on its device already, waiting for its outputs."""
    call = jax_function(work)
    owned = [importlib.import_module("jax").numpy.asarray(p) for p in points]
    return Candidate("JAX jit", lambda: call(*owned), flat)


def autograd_gradient(work: Work, points: tuple[np.ndarray, ...]) -> Candidate:
    autograd = importlib.import_module("autograd")
    function = with_numpy(work.function, importlib.import_module("autograd.numpy"))
    call = autograd.value_and_grad(function, work.argnums)
    return Candidate("HIPS autograd", lambda: call(*points), flat)


CANDIDATES = {
    "tracejit": tracejit_gradient,
    "hand": hand_numba,
    "jax": jax_gradient,
    "autograd": autograd_gradient,
    "numpy": numpy_forward,
}
OPTIONAL = ("jax", "autograd")


# --- the figures ----------------------------------------------------------------------------------


def speed(work: Work, keys: list[str], rounds: int, clock: Callable[[], float]) -> tuple[str, list[Bar]]:
    """The table of one work, and its bars."""
    points = work.points(work.size)
    group = {key: CANDIDATES[key](work, points) for key in keys}
    everyone = list(group.values())
    reference = everyone[0]
    harness.agree(everyone, rtol=1e-12)
    harness.interleave(everyone, rounds, clock)
    rows = [
        [c.name, f"{1e3 * c.median:.2f}", f"{c.against(reference):.2f}", f"{c.first:.2f}"] for c in everyone
    ]
    head = ["", "ms", f"/ {reference.name}", "first call, s"]
    text = harness.table(f"{work.name}, {points[0].size} points, value and gradient", head, rows)
    ours, jax, hand = (group.get(key) for key in ("tracejit", "jax", "hand"))
    return text, [
        Bar(f"{work.name}: faster than JAX", ours and jax and jax.against(ours), 4, at_least=True),
        Bar(f"{work.name}: time of the loop by hand", ours and hand and ours.against(hand), 1.3),
    ]


def memory_of(work: Work, key: str) -> float:
    """Peak extra memory of one call over the size of its outputs, compiled before.

    Warmed up at another size, so that a workspace which is kept for the next call counts too; JAX, which
    compiles for each size, at the same one.
    """
    CANDIDATES[key](work, work.points(work.large if key == "jax" else work.large // 4)).call()
    points = work.points(work.large)
    candidate = CANDIDATES[key](work, points)
    return harness.peak_extra_memory(candidate.call) / sum(p.nbytes for p in points)


def sizes_of(work: Work, key: str) -> dict[str, float]:
    """Seconds for twenty grid sizes in a row from one function object, and how often it was compiled."""
    call = {"tracejit": tracejit_function, "jax": jax_function}[key](work)
    grids = [work.points(size) for size in SIZES]
    seconds, _ = harness.timed(lambda: [float(call(*points)[0]) for points in grids])
    # A fresh process: what has been compiled was compiled here.  JAX compiles for every size.
    compiles = importlib.import_module("tracejit").stats.compiles if key == "tracejit" else len(grids)
    return {"seconds": seconds, "compiles": compiles}


PROBES = {"memory": memory_of, "sizes": sizes_of}


def probe(what: str, work: str, key: str) -> Any:
    """A figure that needs a process of its own."""
    return harness.in_fresh_process(__file__, "--probe", what, work, key)


def memory(keys: list[str]) -> tuple[str, list[Bar]]:
    measured = {
        (work, key): probe("memory", work, key) for work in WORKS for key in keys if key != "autograd"
    }
    rows = [[f"{WORKS[work].name}, {key}", f"{ratio:.3f}"] for (work, key), ratio in measured.items()]
    text = harness.table("peak extra memory of one call", ["", "/ outputs"], rows)
    bars = [
        Bar(f"{WORKS[work].name}: peak extra memory / outputs", measured.get((work, "tracejit")), 1.05)
        for work in WORKS
    ]
    return text, bars


def sizes(keys: list[str]) -> tuple[str, list[Bar]]:
    measured = {key: probe("sizes", "ten_terms", key) for key in keys if key in ("tracejit", "jax")}
    rows = [[key, f"{m['seconds']:.2f}", str(m["compiles"])] for key, m in measured.items()]
    title = f"ten terms at {len(SIZES)} grid sizes, fresh process"
    compiles = measured["tracejit"]["compiles"] if "tracejit" in measured else None
    text = harness.table(title, ["", "s in all", "compiles"], rows)
    return text, [Bar(f"compiles for {len(SIZES)} grid sizes", compiles, 1, unit="")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--skip", nargs="*", default=[], choices=CANDIDATES, help="leave candidates out")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time: for a machine that is busy")
    parser.add_argument("--probe", nargs=3, metavar=("WHAT", "WORK", "WHO"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    core = harness.pin_to_one_core()
    if options.probe:
        what, work, key = options.probe
        print(json.dumps(PROBES[what](WORKS[work], key)))
        return
    missing = [key for key in OPTIONAL if importlib.util.find_spec(key) is None]
    keys = [key for key in CANDIDATES if key not in (*missing, *options.skip)]
    clock = time.process_time if options.cpu_time else time.perf_counter
    print(f"{harness.describe_machine()}; core {core}, {'CPU' if options.cpu_time else 'wall'} time")
    print(f"peers left out, not installed: {', '.join(missing) or 'none'}", end="\n\n")
    bars: list[Bar] = []
    for part in (*(lambda w=w: speed(w, keys, options.rounds, clock) for w in WORKS.values()),
                 lambda: memory(keys), lambda: sizes(keys)):  # fmt: skip
        text, new = part()
        print(text, end="\n\n", flush=True)
        bars += new
    print(*bars, sep="\n")


if __name__ == "__main__":
    main()
