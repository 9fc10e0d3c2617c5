"""A lid-driven cavity: incompressible flow, with a pressure Poisson equation solved within each time step.

How fast does the lid have to move for a wanted kinetic energy?
"""

import numpy as np

import tracejit as tj


def kinetic_energy(lid, viscosity, n, steps, sweeps):
    """Chorin's projection with first-order upwind-free differences on n x n points of the unit square."""
    h = 1.0 / (n - 1)
    dt = 0.2 * h
    u = np.zeros((n, n)) + 0 * lid
    v = np.zeros_like(u)
    p = np.zeros_like(u)
    source = np.zeros_like(u)
    u[-1, :] = lid
    for _ in range(steps):
        un = u.copy()
        vn = v.copy()
        u[1:-1, 1:-1] += dt * (
            viscosity / h**2
            * (un[2:, 1:-1] + un[:-2, 1:-1] + un[1:-1, 2:] + un[1:-1, :-2] - 4 * un[1:-1, 1:-1])
            - un[1:-1, 1:-1] * (un[1:-1, 2:] - un[1:-1, :-2]) / (2 * h)
            - vn[1:-1, 1:-1] * (un[2:, 1:-1] - un[:-2, 1:-1]) / (2 * h)
        )  # fmt: skip
        v[1:-1, 1:-1] += dt * (
            viscosity / h**2
            * (vn[2:, 1:-1] + vn[:-2, 1:-1] + vn[1:-1, 2:] + vn[1:-1, :-2] - 4 * vn[1:-1, 1:-1])
            - un[1:-1, 1:-1] * (vn[1:-1, 2:] - vn[1:-1, :-2]) / (2 * h)
            - vn[1:-1, 1:-1] * (vn[2:, 1:-1] - vn[:-2, 1:-1]) / (2 * h)
        )  # fmt: skip
        source[1:-1, 1:-1] = (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1]) * h / (2 * dt)
        for _ in range(sweeps):
            p[1:-1, 1:-1] = 0.25 * (
                p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - source[1:-1, 1:-1]
            )
            p[:, 0], p[:, -1] = p[:, 1], p[:, -2]
            p[0, :] = p[1, :]
            p[-1, :] = 0.0
        u[1:-1, 1:-1] -= dt * (p[1:-1, 2:] - p[1:-1, :-2]) / (2 * h)
        v[1:-1, 1:-1] -= dt * (p[2:, 1:-1] - p[:-2, 1:-1]) / (2 * h)
    return 0.5 * np.sum(u * u + v * v) * h**2


def main() -> None:
    energy = tj.value_and_grad(kinetic_energy)
    wanted, lid = 0.03, 1.0
    for _ in range(6):  # Newton's method on the speed of the lid
        value, slope = energy(lid, 0.02, 17, 100, 20)
        lid -= (value - wanted) / slope
    print(f"a lid at speed {lid:.4f} gives a kinetic energy of {energy(lid, 0.02, 17, 100, 20)[0]:.4f}")


if __name__ == "__main__":
    main()
