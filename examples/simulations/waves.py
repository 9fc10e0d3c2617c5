"""Hyperbolic equations: a wave in two media, shallow water, advection with a slope limiter."""

import math

import numpy as np

import tracejit as tj


def fdtd(eps, amplitude, steps):
    """Maxwell's equations in two dimensions on Yee's grid, with a soft source; energy at the end."""
    n, m = eps.shape
    ez = np.zeros_like(eps)
    hx = np.zeros_like(eps[:, 1:])
    hy = np.zeros_like(eps[1:, :])
    for t in range(steps):
        hx -= 0.5 * (ez[:, 1:] - ez[:, :-1])
        hy += 0.5 * (ez[1:, :] - ez[:-1, :])
        curl = hy[1:, 1:-1] - hy[:-1, 1:-1] - hx[1:-1, 1:] + hx[1:-1, :-1]
        ez[1:-1, 1:-1] += 0.5 * curl / eps[1:-1, 1:-1]
        ez[n // 2, m // 3] += amplitude * math.exp(-(((t - 8.0) / 3) ** 2))
    return np.sum(eps * ez**2) + np.sum(hx**2) + np.sum(hy**2)


def shallow_water(h, gravity, steps):
    """Height and discharge of a channel with closed ends, Lax-Friedrichs; the height at the left wall."""
    h = h.copy()
    q = np.zeros_like(h)
    ratio = 0.1
    for _ in range(steps):
        flux = q * q / h + 0.5 * gravity * h * h
        new_h = h.copy()
        new_q = q.copy()
        new_h[1:-1] = 0.5 * (h[2:] + h[:-2]) - 0.5 * ratio * (q[2:] - q[:-2])
        new_q[1:-1] = 0.5 * (q[2:] + q[:-2]) - 0.5 * ratio * (flux[2:] - flux[:-2])
        new_h[0], new_h[-1] = new_h[1], new_h[-2]
        new_q[0], new_q[-1] = -new_q[1], -new_q[-2]
        h, q = new_h, new_q
    return h[0] ** 2 + 0.1 * np.sum(h * h)


def advection(u, speed, steps):
    """A profile carried along a ring by a second-order scheme with the minmod limiter."""
    u = u.copy()
    for _ in range(steps):
        left = u - np.roll(u, 1)
        right = np.roll(u, -1) - u
        slope = np.where(left * right > 0, np.sign(left) * np.minimum(np.abs(left), np.abs(right)), 0.0)
        face = u + 0.5 * (1 - speed) * slope
        u -= speed * (face - np.roll(face, 1))
    return np.sum(u**2)


def advection_points(u, speed, steps):
    """The same point by point, with Python's own ``min``, ``max`` and ``abs``."""
    n = len(u)
    u = u.copy()
    face = np.zeros_like(u)
    for _ in range(steps):
        for i in range(n):
            left = u[i] - u[i - 1]
            right = u[(i + 1) % n] - u[i]
            slope = 0.0
            if left > 0 and right > 0:
                slope = min(left, right)
            elif left < 0 and right < 0:
                slope = max(left, right)
            face[i] = u[i] + 0.5 * (1 - speed) * slope
        for i in range(n - 1, -1, -1):
            u[i] -= speed * (face[i] - face[i - 1])
    return np.sum(u**2)


def main() -> None:
    slab = np.ones((24, 24))
    slab[:, 14:18] = 4.0
    by_eps = tj.grad(fdtd)(slab, 1.0, 60)
    print(
        "energy in the box depends most on the material at",
        *map(int, np.unravel_index(np.argmax(np.abs(by_eps)), by_eps.shape)),
    )

    dam = np.where(np.linspace(0, 1, 60) < 0.4, 1.0, 0.6)
    value, by_height = tj.value_and_grad(shallow_water)(dam, 9.81, 40)
    print(f"dam break: {value:.4f}, sensitive to the initial height in {np.count_nonzero(by_height)} cells")

    ring = np.exp(-((np.linspace(-3, 3, 80)) ** 2))
    value, by_speed = tj.value_and_grad(advection, argnums=1)(ring, 0.4, 100)
    print(f"advection: {value:.4f} left of {np.sum(ring**2):.4f}, per unit of speed {by_speed:.4f}")


if __name__ == "__main__":
    main()
