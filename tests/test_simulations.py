"""The programs of examples/simulations: values and derivatives of both modes against other ways to get them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from derivative_checks import traced, unrolled_loops
from simulations.cases import CASES, Case

import tracejit as tj

Along = Callable[[Any], Any]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

# One program for each kind of loop is compiled in every run of the tests, the others with `-m slow`.
QUICK = {
    "heat.rod_in_place", "heat.block_in_place", "relaxation.red_black", "waves.advection_points",
    "factorizations.cholesky", "factorizations.cholesky_slices", "recurrences.kepler", "recurrences.escape",
    "particles.lennard_jones", "odes.rk45", "odes.pendulum", "sequences.soft_dtw", "learning.descend_in_reverse",
}  # fmt: skip

# Programs whose every derivative is smooth enough, and cheap enough, to differentiate once more.
TWICE = (
    "heat.rod_two_buffers", "heat.plate_two_buffers", "relaxation.gauss_seidel", "waves.shallow_water",
    "factorizations.thomas", "factorizations.cholesky", "factorizations.lu", "recurrences.horner",
    "recurrences.kepler", "recurrences.bisection", "recurrences.escape", "particles.leapfrog",
    "particles.lennard_jones", "odes.rk4", "odes.pendulum", "sequences.kalman", "sequences.soft_dtw",
    "learning.descend_in_reverse", "learning.descend_forward",
)  # fmt: skip


def direction(case: Case, args: tuple[Any, ...]) -> dict[int, Any]:
    """A tangent for every argument that is differentiated, by its number."""
    rng = np.random.default_rng(11)
    return {n: rng.normal(size=np.shape(args[n])) if np.ndim(args[n]) else rng.normal() for n in case.argnums}


def along(case: Case, args: tuple[Any, ...], tangents: dict[int, Any]) -> Along:
    """The program on a line through its arguments."""

    def function(s: Any) -> Any:
        moved = [x + s * tangents[n] if n in tangents else x for n, x in enumerate(args)]
        return case.function(*moved)

    return function


def difference(function: Along, step: float) -> Any:
    """A central difference of fourth order at zero."""
    near, far = (function(k * step) - function(-k * step) for k in (1, 2))
    return (8 * near - far) / (12 * step)


def by_reverse(function: Along) -> Along:
    return tj.grad(function)


def by_forward(function: Along) -> Along:
    return lambda s: tj.jvp(function, (s,), (1.0,))[1]


@each_case
def test_derivatives(case: Case) -> None:
    args = case.arguments(*case.small)
    tangents = direction(case, args)
    line = along(case, args, tangents)
    with tj.interpret():
        value, slopes = tj.value_and_grad(case.function, argnums=case.argnums)(*args)
        forward = by_forward(line)(0.0)
    np.testing.assert_allclose(value, case.function(*args), rtol=1e-13)
    slope = sum(np.sum(g * t) for g, t in zip(slopes, tangents.values(), strict=True))
    assert slope != 0
    np.testing.assert_allclose(slope, difference(line, 1e-4), rtol=1e-6)
    np.testing.assert_allclose(forward, slope, rtol=1e-10)
    if case.analytic:
        np.testing.assert_allclose(forward, line(np.complex128(1e-30j)).imag / 1e-30, rtol=1e-11)


@each_case
def test_loops_are_regions_and_mean_what_unrolled_ones_mean(case: Case) -> None:
    args = case.arguments(*case.small)
    _, reasons = traced(case.function, *args)
    assert not reasons

    def anew(*args: Any) -> Any:
        """The entries of the program itself are those with regions."""
        return case.function(*args)

    with tj.interpret():
        expected = tj.grad(case.function, argnums=case.argnums)(*args)
        with unrolled_loops():
            slopes = tj.grad(anew, argnums=case.argnums)(*args)
            for got, wanted in zip(slopes, expected, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.max(np.abs(wanted)))


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=() if c.name in QUICK else pytest.mark.slow, id=c.name) for c in CASES]
)
def test_compiled_code_does_what_the_interpreter_does(case: Case) -> None:
    args = case.arguments(*case.small)
    both = tj.value_and_grad(case.function, argnums=case.argnums)
    value, slopes = both(*args)
    with tj.interpret():
        expected, expected_slopes = both(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for got, wanted in zip(slopes, expected_slopes, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-12 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_of_every_mix_of_modes(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    args = case.arguments(*case.small)
    line = along(case, args, direction(case, args))
    with tj.interpret():
        wanted = difference(by_reverse(line), 1e-4)
        assert wanted != 0
        for outer in (by_reverse, by_forward):
            for inner in (by_reverse, by_forward):
                np.testing.assert_allclose(outer(inner(line))(0.0), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["recurrences.kepler", "odes.scalar_rk4", "sequences.kalman"])
def test_compiled_second_derivatives(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    args = case.arguments(*case.small)
    curvature = by_forward(by_reverse(along(case, args, direction(case, args))))
    compiled = curvature(0.0)
    with tj.interpret():
        np.testing.assert_allclose(compiled, curvature(0.0), rtol=1e-11)


def test_every_program_is_a_case() -> None:
    """A program in the folder that takes part in no test would be a promise that nobody keeps."""
    tables = {Path(case.function.__code__.co_filename).stem for case in CASES}
    folder = Path(CASES[0].function.__code__.co_filename).parent
    assert tables == {path.stem for path in folder.glob("*.py")} - {"__init__", "cases"}
    assert {*TWICE, *QUICK} <= {case.name for case in CASES}
