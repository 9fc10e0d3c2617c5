"""The heat equation in one, two and three dimensions, in place and with two buffers.

What did the rod look like before, and how does what is left of the heat depend on its conductivity?
"""

import numpy as np

import tracejit as tj


def rod_after(u, k, steps):
    """The right side is evaluated before anything is written, as NumPy does it."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def rod_in_place(u, k, steps):
    return np.sum(rod_after(u, k, steps) ** 2)


def rod_two_buffers(u, k, steps):
    """Point by point; the conductivity depends on the temperature."""
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k / (1 + u[i] * u[i]) * (u[i + 1] - 2 * u[i] + u[i - 1])
        u, new = new, u
    return np.sum(u**2)


def plate_in_place(u, k, steps):
    """One array of the caller's shape and nothing else."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += k * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )  # fmt: skip
    return np.sum(u**2)


def plate_two_buffers(u, k, steps):
    """The arrays change places; the conductivity ``k`` is a field."""
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + k[1:-1, 1:-1] * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        u, new = new, u
    return np.sum(u**2)


def block_in_place(u, k, steps):
    """Newest values at once, point by point: three loops in a fourth."""
    u = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                for m in range(1, u.shape[2] - 1):
                    around = u[i + 1, j, m] + u[i - 1, j, m] + u[i, j + 1, m] + u[i, j - 1, m]
                    around += u[i, j, m + 1] + u[i, j, m - 1]
                    u[i, j, m] += k * (around - 6 * u[i, j, m])
    return np.sum(u**2)


def block_two_buffers(u, k, steps):
    """Named views that write through."""
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        c = u[1:-1, 1:-1, 1:-1]
        inner = new[1:-1, 1:-1, 1:-1]
        inner[...] = c + k * (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] - 2 * c)
        inner += k * (u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1] - 2 * c)
        inner += k * (u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 2 * c)
        u, new = new, u
    return np.sum(u**2)


def main() -> None:
    x = np.linspace(0, 1, 41)
    wanted = np.sin(np.pi * x) + 0.3 * np.sin(3 * np.pi * x)
    data = rod_after(wanted, 0.4, 50)

    def misfit(u):
        return np.sum((rod_after(u, 0.4, 50) - data) ** 2)

    u = np.zeros_like(x)
    objective = tj.value_and_grad(misfit)
    for _ in range(1000):
        value, slope = objective(u)
        u -= 0.2 * slope
    print(
        f"start found from the temperatures after 50 steps: misfit {value:.1e}, off by {np.max(np.abs(u - wanted)):.3f}"
    )
    value, (_, by_k) = tj.value_and_grad(rod_in_place, argnums=(0, 1))(wanted, 0.4, 50)
    print(f"heat that is left: {value:.4f}, per unit of conductivity {by_k:.4f}")


if __name__ == "__main__":
    main()
