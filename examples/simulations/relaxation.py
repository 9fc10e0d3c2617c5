"""Relaxation of the Poisson equation: each point at once from its newest neighbours."""

import numpy as np

import tracejit as tj


def gauss_seidel(f, omega, sweeps):
    """Over-relaxed sweeps over a square with zero boundary; the potential energy of the load ``f``."""
    n, m = f.shape
    u = np.zeros_like(f)
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
                u[i, j] += omega * (new - u[i, j])
    return np.sum(u * f)


def red_black(f, omega, sweeps):
    """The squares of a chess board: where a row begins depends on row and colour."""
    n, m = f.shape
    u = np.zeros_like(f)
    for _ in range(sweeps):
        for colour in range(2):
            for i in range(1, n - 1):
                for j in range(1 + (i + colour) % 2, m - 1, 2):
                    new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
                    u[i, j] += omega * (new - u[i, j])
    return np.sum(u * f)


def red_black_slices(f, omega, sweeps):
    """The same sweeps on a line, with strided slices."""
    u = np.zeros_like(f)
    for _ in range(sweeps):
        u[1:-1:2] += omega * (0.5 * (u[:-2:2] + u[2::2] - f[1:-1:2]) - u[1:-1:2])
        u[2:-1:2] += omega * (0.5 * (u[1:-2:2] + u[3::2] - f[2:-1:2]) - u[2:-1:2])
    return np.sum(u * f)


def main() -> None:
    load = np.zeros((16, 16))
    load[5, 9] = load[10, 5] = 1.0
    for sweep in (gauss_seidel, red_black):
        energy = tj.value_and_grad(sweep, argnums=1)
        for omega in (1.0, 1.5, 1.9):
            value, slope = energy(load, omega, 10)
            print(f"{sweep.__name__}, over-relaxation {omega}: energy {value:.4f}, slope {slope:+.4f}")


if __name__ == "__main__":
    main()
