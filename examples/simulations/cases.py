"""What to run every program with, small and large: for tests and benchmarks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulations import (
    cavity,
    factorizations,
    finance,
    heat,
    learning,
    odes,
    particles,
    recurrences,
    relaxation,
    sequences,
    waves,
)


@dataclass(frozen=True)
class Case:
    """A program, which arguments to differentiate, and its arguments at two sizes.

    ``analytic`` says that the plain function can be called with complex numbers, as the complex-step rule
    needs it: without `abs`, `max`, `math` and arrays of real numbers.
    """

    function: Callable[..., Any]
    argnums: tuple[int, ...]
    arguments: Callable[..., tuple[Any, ...]]
    small: tuple[int, ...]
    large: tuple[int, ...]
    analytic: bool = True

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def rod(n: int, steps: int) -> tuple[Any, ...]:
    return rng().normal(size=n), 0.2, steps


def plate(n: int, steps: int) -> tuple[Any, ...]:
    return rng().normal(size=(n, n + 1)), 0.1, steps


def plate_field(n: int, steps: int) -> tuple[Any, ...]:
    return rng().normal(size=(n, n + 1)), rng().uniform(0.05, 0.2, (n, n + 1)), steps


def block(n: int, steps: int) -> tuple[Any, ...]:
    return rng().normal(size=(n, n + 1, n + 2)), 0.08, steps


def load(n: int, sweeps: int) -> tuple[Any, ...]:
    return rng().normal(size=(n, n + 1)), 1.2, sweeps


def line_load(n: int, sweeps: int) -> tuple[Any, ...]:
    return rng().normal(size=2 * n + 1), 1.2, sweeps


def media(n: int, steps: int) -> tuple[Any, ...]:
    return rng().uniform(1, 3, (n, n + 2)), 1.3, steps


def channel(n: int, steps: int) -> tuple[Any, ...]:
    return 1 + 0.2 * np.cos(np.linspace(0, 3, n)), 9.81, steps


def ring(n: int, steps: int) -> tuple[Any, ...]:
    return np.sin(np.linspace(0, 6, n)) + 0.1 * rng().normal(size=n), 0.3, steps


def flow(n: int, steps: int, sweeps: int) -> tuple[Any, ...]:
    return 0.8, 0.03, n, steps, sweeps


def tridiagonal(n: int) -> tuple[Any, ...]:
    r = rng()
    return r.normal(size=n - 1), r.normal(size=n) + 4, r.normal(size=n - 1), r.normal(size=n)


def matrix(n: int) -> tuple[Any, ...]:
    a = rng().normal(size=(n, n)) / np.sqrt(n)
    return (a @ a.T + 2 * np.eye(n),)


def coefficients(n: int) -> tuple[Any, ...]:
    return rng().normal(size=n), 0.9


def orbits(n: int) -> tuple[Any, ...]:
    return np.linspace(0.1, 3.0, n), 0.7


def brackets(n: int) -> tuple[Any, ...]:
    return rng().uniform(0, 9, n), 0.0, 2.0


def point(trips: int) -> tuple[Any, ...]:
    return 0.4, 0.5, trips


def window(n: int, trips: int) -> tuple[Any, ...]:
    return np.linspace(-1.9, 0.55, n), np.linspace(-1.13, 1.17, n + 1), trips


def bodies(n: int, steps: int) -> tuple[Any, ...]:
    r = rng()
    return r.normal(size=(n, 3)), 0.3 * r.normal(size=(n, 3)), r.uniform(0.5, 1.5, n), steps


def fluid(n: int) -> tuple[Any, ...]:
    x = np.stack(np.meshgrid(*3 * [1.1 * np.arange(n)]), -1).reshape(-1, 3)
    return x + rng().uniform(-0.1, 0.1, x.shape), 1.0, 2.5


def charges(n: int, cells: int) -> tuple[Any, ...]:
    return rng().uniform(0.01, 0.99, n), rng().normal(size=n), cells


def hunting(steps: int) -> tuple[Any, ...]:
    return np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.1, 0.4]), 0.01, steps


def growth(steps: int) -> tuple[Any, ...]:
    return 0.1, 1.3, 2.0 / steps, steps


def oscillator(end: int) -> tuple[Any, ...]:
    return 2.0, 0.0, 1.0, float(end), 1e-6


def swing(steps: int) -> tuple[Any, ...]:
    return 0.8, 0.2, steps


def observations(n: int) -> tuple[Any, ...]:
    return np.sin(0.1 * np.arange(n)) + 0.3 * rng().normal(size=n), 0.9, 0.2, 0.3


def tracked(n: int) -> tuple[Any, ...]:
    return np.sin(0.1 * np.arange(n)), np.array([[1.0, 0.1], [-0.1, 0.99]]), 0.05, 0.3


def cell(steps: int, n: int) -> tuple[Any, ...]:
    r = rng()
    return r.normal(size=(steps, n)), *(0.3 * r.normal(size=s) for s in ((4 * n, n), (4 * n, n), 4 * n))


def series(n: int) -> tuple[Any, ...]:
    return np.sin(0.3 * np.arange(n)), np.cos(0.25 * np.arange(n + 1)), 0.4


def symbols(n: int, states: int) -> tuple[Any, ...]:
    r = rng()
    logs = (
        np.log(r.dirichlet(np.ones(k), size)) for k, size in ((states, None), (states, states), (4, states))
    )
    return *logs, r.integers(0, 4, n)


def target(steps: int) -> tuple[Any, ...]:
    return 1.4, 0.2, steps


def regression(n: int, steps: int) -> tuple[Any, ...]:
    x = rng().normal(size=(n, 4))
    return 0.3, x, x @ np.array([1.0, -1.0, 0.0, 0.5]) + rng().normal(size=n), 0.5 / n, steps


def market(paths: int, days: int) -> tuple[Any, ...]:
    return 100.0, 0.2, 100.0, rng().normal(size=(paths, days))


CASES = (
    Case(heat.rod_in_place, (0, 1), rod, (9, 5), (1000, 1000)),
    Case(heat.rod_two_buffers, (0, 1), rod, (9, 5), (1000, 1000)),
    Case(heat.plate_in_place, (0, 1), plate, (6, 4), (100, 100)),
    Case(heat.plate_two_buffers, (0, 1), plate_field, (6, 4), (100, 100)),
    Case(heat.block_in_place, (0, 1), block, (4, 3), (20, 20)),
    Case(heat.block_two_buffers, (0, 1), block, (4, 3), (30, 30)),
    Case(relaxation.gauss_seidel, (0, 1), load, (5, 3), (100, 50)),
    Case(relaxation.red_black, (0, 1), load, (5, 3), (100, 50)),
    Case(relaxation.red_black_slices, (0, 1), line_load, (4, 4), (1000, 500)),
    Case(waves.fdtd, (0, 1), media, (6, 12), (100, 100)),
    Case(waves.shallow_water, (0, 1), channel, (8, 6), (1000, 500)),
    Case(waves.advection, (0, 1), ring, (12, 5), (1000, 500), analytic=False),
    Case(waves.advection_points, (0, 1), ring, (12, 5), (1000, 500), analytic=False),
    Case(cavity.kinetic_energy, (0, 1), flow, (6, 3, 3), (41, 20, 20)),
    Case(factorizations.thomas, (0, 1, 2, 3), tridiagonal, (6,), (10_000,)),
    Case(factorizations.cholesky, (0,), matrix, (5,), (128,)),
    Case(factorizations.cholesky_slices, (0,), matrix, (5,), (128,)),
    Case(factorizations.lu, (0,), matrix, (5,), (128,)),
    Case(factorizations.ldl, (0,), matrix, (5,), (128,)),
    Case(factorizations.gram_schmidt, (0,), matrix, (4,), (100,)),
    Case(recurrences.horner, (0, 1), coefficients, (6,), (100_000,)),
    Case(recurrences.clenshaw, (0, 1), coefficients, (6,), (100_000,)),
    Case(recurrences.kepler, (0, 1), orbits, (4,), (5000,), analytic=False),
    Case(recurrences.bisection, (0,), brackets, (4,), (2000,)),
    Case(recurrences.escape, (0, 1), point, (60,), (1000,)),
    Case(recurrences.escape_grid, (0, 1), window, (4, 20), (120, 40)),
    Case(particles.leapfrog, (0, 1, 2), bodies, (4, 3), (60, 20)),
    Case(particles.lennard_jones, (0, 1), fluid, (2,), (8,)),
    Case(particles.charge_on_grid, (0, 1), charges, (7, 6), (100_000, 1000), analytic=False),
    Case(odes.rk4, (0, 1), hunting, (8,), (10_000,)),
    Case(odes.scalar_rk4, (0, 1), growth, (10,), (100_000,)),
    Case(odes.rk45, (0, 1, 2), oscillator, (2,), (200,)),
    Case(odes.pendulum, (0, 1), swing, (12,), (10_000,)),
    Case(sequences.kalman, (0, 1, 2, 3), observations, (8,), (100_000,)),
    Case(sequences.kalman_2d, (0, 1, 2, 3), tracked, (5,), (2_000,)),
    Case(sequences.lstm, (0, 1, 2, 3), cell, (4, 3), (200, 32)),
    Case(sequences.soft_dtw, (0, 1, 2), series, (5,), (200,), analytic=False),
    Case(sequences.hmm_forward, (0, 1, 2), symbols, (6, 3), (1_000, 16)),
    Case(learning.descend_in_reverse, (0, 1), target, (5,), (1_000,), analytic=False),
    Case(learning.descend_forward, (0, 1), target, (5,), (1_000,), analytic=False),
    Case(learning.ridge, (0, 1, 2), regression, (8, 5), (200, 200), analytic=False),
    Case(finance.asian_option, (0, 1), market, (5, 6), (2_000, 50)),
)
