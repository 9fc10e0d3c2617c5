"""What a user waits for: the first gradient of a process, a call on small arrays, a new lambda in every iteration.

Run ``python benchmarks/latency.py``; README.md beside this file says what the rows mean.
"""

import _harness as harness  # first: it limits the threads of all that follows

# isort: split
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _harness import Bar

# --- the functions, for NumPy and for jax.numpy ---------------------------------------------------------------


def field(xp: Any) -> Callable[..., Any]:
    """A scalar of one array: three elementwise functions and a sum."""

    def f(x, k):
        return xp.sum(k * xp.sin(x) * xp.exp(-x * x))

    return f


def residuals(xp: Any) -> Callable[..., Any]:
    """Twenty operations: a damped oscillation with a drift, fitted to data."""

    def f(p, t, y):
        wave = p[0] * xp.exp(-p[1] * t) * xp.cos(p[2] * t + p[3])
        return xp.sum((wave + p[4] * xp.sin(t) * t - p[5] * xp.sqrt(1 + t * t) - y) ** 2) / t.size

    return f


def network(xp: Any) -> Callable[..., Any]:
    """Three dense layers and a softmax."""

    def f(w1, w2, w3, x):
        z = xp.tanh(xp.tanh(x @ w1) @ w2) @ w3
        z = z - xp.max(z, axis=1, keepdims=True)
        return -xp.mean(z[:, 0] - xp.log(xp.sum(xp.exp(z), axis=1)))

    return f


def arguments(name: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    if name == "field":
        return rng.random(1000), 0.3
    if name == "residuals":
        return rng.random(6), rng.random(50), rng.random(50)
    return tuple(rng.normal(0, 0.2, shape) for shape in ((20, 30), (30, 30), (30, 10), (16, 20)))


FUNCTIONS: Mapping[str, Callable[[Any], Callable[..., Any]]] = {
    "field": field,
    "residuals": residuals,
    "network": network,
}


# --- in a new process -----------------------------------------------------------------------------------------


def first_gradient(library: str, name: str) -> dict[str, Any]:
    """Import, differentiate, compile, run; the seconds from the first import on."""
    if "TRACEJIT_CACHE_DIR" in os.environ:
        del os.environ["TRACEJIT_CACHE"]  # the harness turns the cache off
    start = time.perf_counter()
    args = arguments(name)
    if library == "tracejit":
        import tracejit as tj

        imported = time.perf_counter()
        result = tj.grad(FUNCTIONS[name](np))(*args)
    else:
        import jax

        if "JAX_CACHE" in os.environ:
            jax.config.update("jax_compilation_cache_dir", os.environ["JAX_CACHE"])
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        imported = time.perf_counter()
        result = np.asarray(jax.jit(jax.grad(FUNCTIONS[name](jax.numpy)))(*args))
    end = time.perf_counter()
    return {"import": imported - start, "total": end - start, "sum": float(np.sum(result))}


_UNSET = ("PYTHONDONTWRITEBYTECODE", "TRACEJIT_CACHE_DIR")


def in_new_process(library: str, name: str, rounds: int, **variables: str) -> dict[str, Any]:
    """Medians over some processes, of which the first one only warms the disk."""
    environment = {k: v for k, v in os.environ.items() if k not in _UNSET} | variables
    found = []
    for _ in range(rounds + 1):
        done = subprocess.run(
            [sys.executable, __file__, "--first", library, name],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: median(f[key] for f in found[1:]) for key in found[0]}


def start_up(rounds: int) -> list[Bar]:
    bars = []
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        shared = {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        for name in FUNCTIONS:
            cold = in_new_process("tracejit", name, rounds, **shared)
            warm = in_new_process("tracejit", name, rounds, TRACEJIT_CACHE_DIR=f"{folder}/cache", **shared)
            jax = in_new_process("jax", name, rounds, **shared)
            kept = in_new_process("jax", name, rounds, JAX_CACHE=f"{folder}/jax", **shared)
            sums = [run["sum"] for run in (cold, warm, jax, kept)]
            np.testing.assert_allclose(sums, sums[0], rtol=1e-9)
            for label, ours, theirs in (
                ("no cache", cold, jax),
                ("from the disk", warm, kept),
                ("from the disk, JAX without", warm, jax),
            ):
                ratio = ours["total"] / theirs["total"]
                row = [ours["import"], ours["total"], theirs["import"], theirs["total"]]
                rows.append([f"{name}, {label}", *(f"{v:.3f}" for v in row), f"{ratio:.2f}"])
            bars += [
                Bar(f"first gradient of {name} in a new process, over JAX", cold["total"] / jax["total"], 1),
                Bar("the same from the disk, over JAX from its own", warm["total"] / kept["total"], 0.5),
                Bar("the same from the disk, over JAX without", warm["total"] / jax["total"], 0.5),
                Bar("the same from the disk", warm["total"], 0.3, unit=" s"),
            ]
    head = ["first gradient, seconds", "import", "in all", "JAX import", "JAX in all", "ratio"]
    print(harness.table("A new process, NumPy's import included", head, rows))
    return bars


# --- calls ----------------------------------------------------------------------------------------------------


def per_call(call: Callable[[], Any], clock: Callable[[], float], number: int = 2000) -> float:
    start = clock()
    for _ in range(number):
        call()
    return (clock() - start) / number


def overhead(rounds: int, clock: Callable[[], float]) -> list[Bar]:
    import jax

    import tracejit as tj

    def product(x, y):
        return np.sum(x * y)

    def jax_product(x, y):
        return jax.numpy.sum(x * y)

    x, y = np.arange(4.0), np.ones(4)
    on_device = jax.numpy.asarray(x), jax.numpy.asarray(y)
    ours, theirs = tj.value_and_grad(product, (0, 1)), jax.jit(jax.value_and_grad(jax_product, (0, 1)))
    calls: dict[str, Callable[[], Any]] = {
        "tracejit": lambda: ours(x, y),
        "JAX, NumPy arrays": lambda: jax.block_until_ready(theirs(x, y)),
        "JAX, arrays on its device": lambda: jax.block_until_ready(theirs(*on_device)),
        "NumPy, the function alone": lambda: product(x, y),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(per_call(call, clock))
    medians = {name: 1e6 * median(found) for name, found in seconds.items()}
    rows = [[name, f"{value:.2f}"] for name, value in medians.items()]
    print("\n" + harness.table("Value and gradient of sum(x * y), two arrays of 4", ["", "us a call"], rows))
    mine = medians["tracejit"]
    return [
        Bar("a call on two arrays of 4", mine, 2, unit=" us"),
        Bar(
            "the same over JAX with arrays on its device", mine / medians["JAX, arrays on its device"], 1 / 3
        ),
    ]


def lambdas(iterations: int, clock: Callable[[], float]) -> list[Bar]:
    import jax

    import tracejit as tj

    rng = np.random.default_rng(1)
    p = rng.random(6)
    data = [(rng.random(50), rng.random(50)) for _ in range(iterations)]
    f, jax_f = residuals(np), residuals(jax.numpy)

    def ours(t, y):
        return tj.grad(lambda p: f(p, t, y))(p)

    def theirs(t, y):
        return np.asarray(jax.jit(jax.grad(lambda p: jax_f(p, t, y)))(p))

    np.testing.assert_allclose(ours(*data[0]), theirs(*data[0]), rtol=1e-9)
    compiles, traces = tj.stats.compiles, tj.stats.traces
    start = clock()
    for t, y in data:
        ours(t, y)
    mine = (clock() - start) / iterations
    new = tj.stats.compiles - compiles, tj.stats.traces - traces
    start = clock()
    for t, y in data[:10]:
        theirs(t, y)
    other = (clock() - start) / 10
    again = traced_again(clock)
    rows = [
        ["tracejit", f"{1e3 * mine:.3f}", f"{new[1]}", f"{new[0]}"],
        ["JAX", f"{1e3 * other:.3f}", "10 of 10", "10 of 10"],
        ["tracejit, everything but machine code forgotten", f"{1e3 * again:.3f}", "", ""],
    ]
    head = ["", "ms each", "traces", "compilations"]
    title = f"\nA new lambda around new data, {iterations} times (20 operations)"
    print(harness.table(title, head, rows))
    return [
        Bar(f"{iterations} new lambdas, compilations after the first", float(new[0]), 0, unit=""),
        Bar("a new lambda", 1e3 * mine, 1, unit=" ms"),
        Bar("a trace of 20 operations, from nothing to a result", 1e3 * again, 1, unit=" ms"),
    ]


def traced_again(clock: Callable[[], float]) -> float:
    """Seconds of a call whose function has to be traced, differentiated and simplified, but not compiled."""
    import tracejit as tj
    from tracejit.runtime.entries import clear_entries

    p, t, y = arguments("residuals")
    found = []
    for _ in range(30):
        clear_entries()
        start = clock()
        tj.grad(residuals(np))(p, t, y)
        found.append(clock() - start)
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", nargs=2, metavar=("LIBRARY", "FUNCTION"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("start", "calls", "lambdas"))
    options = parser.parse_args()
    if options.first:
        print(json.dumps(first_gradient(*options.first)))
        return
    harness.pin_to_one_core()
    print(harness.describe_machine() + "\n")
    bars = []
    if options.only in (None, "start"):
        bars += start_up(options.rounds)
    if options.only in (None, "calls"):
        bars += overhead(options.rounds, time.perf_counter)
    if options.only in (None, "lambdas"):
        bars += lambdas(1000, time.perf_counter)
    print("\n" + "\n".join(map(str, bars)))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
