"""The programs of examples/simulations, against the same loops in Numba, two ports to JAX, and plain NumPy.

Run ``python benchmarks/loops.py``; README.md beside this file says what the columns mean.
"""

import _harness as harness  # first: it limits the threads of all that follows

# isort: split
import argparse
import importlib
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _harness import Bar, Candidate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from simulations.cases import CASES, Case

import tracejit as tj

FEW, MANY = 10, 10**6  # trips, for the time to compile
SHORT = 2e-3  # what takes less is called several times in one measurement

# Loops over triangles, and loops over single numbers.
TRIANGULAR = {
    "factorizations.cholesky",
    "factorizations.cholesky_slices",
    "factorizations.lu",
    "factorizations.ldl",
    "factorizations.gram_schmidt",
    "particles.lennard_jones",
}
SCALAR = {
    "relaxation.gauss_seidel",
    "factorizations.cholesky",
    "factorizations.lu",
    "recurrences.horner",
    "recurrences.clenshaw",
    "factorizations.thomas",
    "factorizations.ldl",
    "sequences.soft_dtw",
}


# --- who takes part -------------------------------------------------------------------------------


def repeated(call: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
    """A call that takes long enough to be timed, and how many calls it is."""
    call()
    seconds, _ = harness.timed(call)
    count = max(1, math.ceil(SHORT / max(seconds, 1e-7)))

    def several() -> Any:
        for _ in range(count - 1):
            call()
        return call()

    return (call if count == 1 else several), count


def flat(value: Any) -> tuple[np.ndarray, ...]:
    """(value, gradients) as one flat tuple of NumPy arrays."""
    return np.asarray(value[0]), *(np.asarray(g) for g in value[1])


def jax_call(case: Case, port: Callable[..., Any], args: Sequence[Any]) -> Callable[[], Any]:
    """Value and gradient with JAX's inputs on its device already, waiting for its outputs."""
    jax = importlib.import_module("jax")
    static = tuple(n for n, x in enumerate(args) if isinstance(x, int))
    function = jax.jit(jax.value_and_grad(port, argnums=case.argnums), static_argnums=static)
    owned = [x if n in static else jax.numpy.asarray(x) for n, x in enumerate(args)]
    compiled = function.lower(*owned).compile()
    dynamic = [x for n, x in enumerate(owned) if n not in static]
    return lambda: jax.block_until_ready(compiled(*dynamic))


def ports(name: str) -> Callable[..., Any] | None:
    module, table = {"jax": ("loops_jax", "PORTS"), "kept": ("loops_jax_kept", "KEPT")}[name]
    return getattr(importlib.import_module(module), table).get


def calls(case: Case, skip: Iterable[str]) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """What is timed for a program: (call, how to make arrays of what it returns) by column."""
    args = case.arguments(*case.large)
    forward, both = tj.jit(case.function), tj.value_and_grad(case.function, argnums=case.argnums)
    found: dict[str, Any] = {
        "gradient": (lambda: both(*args), flat),
        "forward": (lambda: forward(*args), lambda v: (v,)),
    }
    if "hand" not in skip:
        hand = importlib.import_module("loops_by_hand").BY_HAND[case.name]
        found["hand"] = (lambda: hand(*args), lambda v: (v,))
    for key in ("jax", "kept"):
        port = None if key in skip else ports(key)(case.name)
        if port is not None:
            found[key] = (jax_call(case, port, args), flat)
    if "numpy" not in skip:
        found["numpy"] = (lambda: case.function(*args), lambda v: (v,))
    return found


# --- speed ----------------------------------------------------------------------------------------


@dataclass
class Figures:
    """Milliseconds by column, and ratios within the rounds."""

    case: Case
    seconds: dict[str, float]
    ratios: dict[tuple[str, str], float]

    def ratio(self, mine: str, theirs: str) -> float | None:
        return self.ratios.get((mine, theirs))


RATIOS = (
    ("forward", "hand"),
    ("gradient", "forward"),
    ("jax", "gradient"),
    ("kept", "gradient"),
    ("numpy", "gradient"),
)
LONG = ("numpy", "kept")  # once, when results are compared: they take seconds


def measure(case: Case, skip: Iterable[str], rounds: int) -> Figures:
    """Compare all results, then time each candidate once per round."""
    everyone = {key: Candidate(f"{case.name}, {key}", *pair) for key, pair in calls(case, skip).items()}
    harness.agree(list(everyone.values()), rtol=1e-7)
    counts = dict.fromkeys(everyone, 1)
    for key, candidate in everyone.items():
        if key not in LONG:
            candidate.call, counts[key] = repeated(candidate.call)
    harness.interleave([c for key, c in everyone.items() if key not in LONG], rounds, time.perf_counter)
    for key in {*LONG} & {*everyone}:
        everyone[key].seconds.append(everyone[key].first)
    seconds = {key: c.median / counts[key] for key, c in everyone.items()}

    def ratio(mine: str, theirs: str) -> float:
        if mine in LONG:
            return seconds[mine] / seconds[theirs]
        return everyone[mine].against(everyone[theirs]) * counts[theirs] / counts[mine]

    known = [pair for pair in RATIOS if set(pair) <= set(everyone)]
    return Figures(case, seconds, {pair: ratio(*pair) for pair in known})


def geometric_mean(values: Iterable[float | None]) -> float | None:
    known = [math.log(v) for v in values if v is not None]
    return math.exp(sum(known) / len(known)) if known else None


def worst(figures: Iterable[Figures], mine: str, theirs: str, pick: Callable[..., Any] = max) -> float | None:
    known = [r for f in figures if (r := f.ratio(mine, theirs)) is not None]
    return pick(known) if known else None


def against_jax(f: Figures) -> float | None:
    """The port with the same loops, or the only one there is."""
    kept = f.ratio("kept", "gradient")
    return f.ratio("jax", "gradient") if kept is None else kept


def speed(cases: Sequence[Case], skip: Iterable[str], rounds: int) -> tuple[str, list[Bar]]:
    figures = []
    for case in cases:
        print(f"  {case.name}", file=sys.stderr, flush=True)
        figures.append(measure(case, skip, rounds))
    head = [
        "",
        "forward ms",
        "/ by hand",
        "gradient ms",
        "/ forward",
        "JAX /",
        "JAX kept /",
        "NumPy forward /",
    ]
    rows = []
    for f in figures:
        cells = [None if r is None else f"{r:.2f}" for r in (f.ratio(*pair) for pair in RATIOS)]
        hand, own, jax, kept, plain = (cell or "-" for cell in cells)
        times = (f"{1e3 * f.seconds[key]:.3f}" for key in ("forward", "gradient"))
        rows.append([f.case.name, next(times), hand, next(times), own, jax, kept, plain])
    text = harness.table("value and gradient at the large size", head, rows)
    triangular = [f for f in figures if f.case.name in TRIANGULAR]
    others = [f for f in figures if f.case.name not in TRIANGULAR]
    scalar = [f for f in figures if f.case.name in SCALAR]
    fastest = [min(r for p in ("jax", "kept") if (r := f.ratio(p, "gradient")) is not None)
               for f in figures if against_jax(f) is not None]  # fmt: skip
    plain = [f.ratio("numpy", "gradient") for f in figures]
    return text, [
        Bar("forward over loops by hand, worst", worst(figures, "forward", "hand"), 1.5),
        Bar("value and gradient over forward, worst", worst(others, "gradient", "forward"), 4),
        Bar("the same, loops over triangles", worst(triangular, "gradient", "forward"), 5),
        Bar(
            "faster than JAX with its loops, mean",
            geometric_mean(map(against_jax, figures)),
            5,
            at_least=True,
        ),
        Bar("the same, loops over numbers", geometric_mean(map(against_jax, scalar)), 20, at_least=True),
        Bar("faster than JAX's better port, mean", geometric_mean(fastest), 1, at_least=True),
        Bar("the same, worst", min(fastest, default=None), 1, at_least=True),
        Bar("faster than NumPy's forward run, mean", geometric_mean(plain), 1, at_least=True),
    ]


# --- compile time ---------------------------------------------------------------------------------


def with_trips(case: Case, trips: int) -> tuple[Any, ...]:
    """Arguments of the large case, but for the number of trips; where that is a size, at most the large one."""
    args = case.arguments(*case.large)
    counts = [n for n, x in enumerate(args) if isinstance(x, int)]
    if not counts:
        return case.arguments(*(min(size, trips) for size in case.large))
    return tuple(trips if n == counts[-1] else x for n, x in enumerate(args))


def compile_seconds(trips: str) -> dict[str, float]:
    """Seconds until value and gradient of each program are machine code; nothing is run."""
    tj.grad(lambda x: x * x).lower(1.0)  # numba is loaded, and has filled its registries
    seconds = {}
    for case in CASES:
        both = tj.value_and_grad(case.function, argnums=case.argnums)
        args = with_trips(case, int(trips))
        seconds[case.name], _ = harness.timed(lambda both=both, args=args: both.lower(*args).llvm)
    return seconds


def compiling() -> tuple[str, list[Bar]]:
    few, many = (harness.in_fresh_process(__file__, "--probe", "compile", str(n)) for n in (FEW, MANY))
    rows = [[name, f"{few[name]:.2f}", f"{many[name]:.2f}"] for name in few]
    text = harness.table("seconds to compile value and gradient", ["", f"{FEW} trips", f"{MANY} trips"], rows)
    ratio = median(many[name] / few[name] for name in few)
    return text, [
        Bar("compile time, worst", max(few.values()), 3, unit=" s"),
        Bar(f"{MANY} over {FEW} trips, median", ratio, 1.2),
        Bar(f"{MANY} over {FEW} trips, worst", max(many[name] / few[name] for name in few), 1.5),
    ]


# --- memory ---------------------------------------------------------------------------------------


def cholesky_memory(_: str) -> float:
    """In arrays of the matrix's size."""
    (case,) = (c for c in CASES if c.name == "factorizations.cholesky")
    gradient = tj.grad(case.function)
    gradient(*case.arguments(100))
    args = case.arguments(500)
    return harness.peak_extra_memory(lambda: gradient(*args)) / args[0].nbytes


def ode_memory(_: str) -> float:
    """In megabytes."""
    (case,) = (c for c in CASES if c.name == "odes.scalar_rk4")
    gradient = tj.grad(case.function, argnums=case.argnums)
    gradient(*case.arguments(1000))
    args = case.arguments(MANY)
    return harness.peak_extra_memory(lambda: gradient(*args)) / 1e6


PROBES = {"compile": compile_seconds, "cholesky": cholesky_memory, "ode": ode_memory}


def memory() -> tuple[str, list[Bar]]:
    figures = {what: harness.in_fresh_process(__file__, "--probe", what, "") for what in ("cholesky", "ode")}
    bars = [
        Bar("Cholesky, n = 500: peak extra memory / matrix", figures["cholesky"], 4),
        Bar(f"scalar ODE of {MANY} steps: peak extra memory", figures["ode"], 100, unit=" MB"),
    ]
    return "", bars


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs whose name contains one of these; all without")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip", nargs="*", default=[], choices=("hand", "jax", "kept", "numpy"))
    parser.add_argument("--only", choices=("speed", "compile", "memory"), help="one part of the figures")
    parser.add_argument("--probe", nargs=2, metavar=("WHAT", "ARGUMENT"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    core = harness.pin_to_one_core()
    if options.probe:
        what, argument = options.probe
        print(json.dumps(PROBES[what](argument)))
        return
    cases = [c for c in CASES if not options.names or any(name in c.name for name in options.names)]
    absent = ["jax", "kept"] if importlib.util.find_spec("jax") is None else []
    parts: dict[str, Callable[[], tuple[str, list[Bar]]]] = {
        "speed": lambda: speed(cases, {*options.skip, *absent}, options.rounds),
        "compile": compiling,
        "memory": memory,
    }
    print(f"{harness.describe_machine()}; core {core}", end="\n\n")
    bars: list[Bar] = []
    for name, part in parts.items():
        if options.only in (None, name):
            text, new = part()
            print(text, end="\n\n", flush=True)
            bars += new
    print(*bars, sep="\n")


if __name__ == "__main__":
    main()
