"""A gradient called inside the user's own ``@njit`` loop, with arrays of any size."""

import numba
import numpy as np

import tracejit as tj


def energy(u, stiffness):
    """A chain of springs in a periodic potential."""
    stretch = u[1:] - u[:-1]
    return 0.5 * stiffness * np.sum(stretch**2) - np.sum(np.cos(u))


# Compiled for float64 arrays; the size of the example does not matter.
slope = tj.grad(energy).lower(np.zeros(16), 1.0).njit


@numba.njit
def relax(u, stiffness, step, count):
    """Steepest descent, a loop of the user's own."""
    for _ in range(count):
        (g,) = slope(u, stiffness)
        u = u - step * g
    return u


def main() -> None:
    for size in (20, 1000):
        start = np.linspace(0.0, 6 * np.pi, size)
        end = relax(start, 2.0, 0.1, 500)
        before, after = energy(start, 2.0), energy(end, 2.0)
        print(f"{size} points: energy {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
