"""The simulations as somebody who knows Numba writes their loops: forward only.

What is a loop over scalars already is compiled as it stands; slices are written out, without temporaries.
"""

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit as numba_njit
from simulations import (
    factorizations,
    finance,
    heat,
    odes,
    particles,
    recurrences,
    relaxation,
    sequences,
    waves,
)

njit = numba_njit(error_model="numpy", nogil=True)


def as_it_stands(function: Callable[..., Any], *helpers: Callable[..., Any]) -> Any:
    """Compile a program, and the functions that it calls."""
    known = {**function.__globals__, **{helper.__name__: njit(helper) for helper in helpers}}
    return njit(types.FunctionType(function.__code__, known, function.__name__))


@njit
def rod_in_place(u, k, steps):
    u = u.copy()
    for _ in range(steps):
        left = u[0]
        for i in range(1, len(u) - 1):
            here = u[i]
            u[i] = here + k * (u[i + 1] - 2 * here + left)
            left = here
    return np.sum(u**2)


@njit
def plate_in_place(u, k, steps):
    """Two buffers are what makes this one vectorise."""
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                new[i, j] = u[i, j] + k * (around - 4 * u[i, j])
        u, new = new, u
    return np.sum(u**2)


@njit
def plate_two_buffers(u, k, steps):
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                new[i, j] = u[i, j] + k[i, j] * (around - 4 * u[i, j])
        u, new = new, u
    return np.sum(u**2)


@njit
def block_two_buffers(u, k, steps):
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                for m in range(1, u.shape[2] - 1):
                    c = u[i, j, m]
                    x = k * (u[i + 1, j, m] + u[i - 1, j, m] - 2 * c)
                    y = k * (u[i, j + 1, m] + u[i, j - 1, m] - 2 * c)
                    z = k * (u[i, j, m + 1] + u[i, j, m - 1] - 2 * c)
                    new[i, j, m] = c + x + y + z
        u, new = new, u
    return np.sum(u**2)


@njit
def red_black_slices(f, omega, sweeps):
    u = np.zeros_like(f)
    for _ in range(sweeps):
        for first in range(1, 3):
            for i in range(first, len(u) - 1, 2):
                u[i] += omega * (0.5 * (u[i - 1] + u[i + 1] - f[i]) - u[i])
    return np.sum(u * f)


@njit
def fdtd(eps, amplitude, steps):
    n, m = eps.shape
    ez, hx, hy = np.zeros((n, m)), np.zeros((n, m - 1)), np.zeros((n - 1, m))
    for t in range(steps):
        for i in range(n):
            for j in range(m - 1):
                hx[i, j] -= 0.5 * (ez[i, j + 1] - ez[i, j])
        for i in range(n - 1):
            for j in range(m):
                hy[i, j] += 0.5 * (ez[i + 1, j] - ez[i, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                curl = hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1]
                ez[i, j] += 0.5 * curl / eps[i, j]
        ez[n // 2, m // 3] += amplitude * math.exp(-(((t - 8.0) / 3) ** 2))
    return np.sum(eps * ez**2) + np.sum(hx**2) + np.sum(hy**2)


@njit
def shallow_water(h, gravity, steps):
    n = len(h)
    h, q = h.copy(), np.zeros(n)
    new_h, new_q, flux = np.zeros(n), np.zeros(n), np.zeros(n)
    ratio = 0.1
    for _ in range(steps):
        for i in range(n):
            flux[i] = q[i] * q[i] / h[i] + 0.5 * gravity * h[i] * h[i]
        for i in range(1, n - 1):
            new_h[i] = 0.5 * (h[i + 1] + h[i - 1]) - 0.5 * ratio * (q[i + 1] - q[i - 1])
            new_q[i] = 0.5 * (q[i + 1] + q[i - 1]) - 0.5 * ratio * (flux[i + 1] - flux[i - 1])
        new_h[0], new_h[-1] = new_h[1], new_h[-2]
        new_q[0], new_q[-1] = -new_q[1], -new_q[-2]
        h, new_h = new_h, h
        q, new_q = new_q, q
    return h[0] ** 2 + 0.1 * np.sum(h * h)


@njit
def advection(u, speed, steps):
    n = len(u)
    u, face = u.copy(), np.zeros(n)
    for _ in range(steps):
        for i in range(n):
            left = u[i] - u[i - 1 if i > 0 else n - 1]
            right = u[i + 1 if i < n - 1 else 0] - u[i]
            slope = 0.0
            if left * right > 0:
                slope = math.copysign(min(abs(left), abs(right)), left)
            face[i] = u[i] + 0.5 * (1 - speed) * slope
        last = face[n - 1]
        for i in range(n):
            u[i] -= speed * (face[i] - last)
            last = face[i]
    return np.sum(u**2)


@njit
def relax_pressure(p, new_p, source, sweeps):
    n = len(p)
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                around = p[i + 1, j] + p[i - 1, j] + p[i, j + 1] + p[i, j - 1]
                new_p[i, j] = 0.25 * (around - source[i, j])
        for i in range(n):
            new_p[i, 0], new_p[i, -1] = new_p[i, 1], new_p[i, -2]
        for j in range(n):
            new_p[0, j] = new_p[1, j]
            new_p[-1, j] = 0.0
        p, new_p = new_p, p
    return p, new_p


@njit
def kinetic_energy(lid, viscosity, n, steps, sweeps):
    h = 1.0 / (n - 1)
    dt = 0.2 * h
    u, v, p, new_p, source = (
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((n, n)),
    )
    un, vn = np.zeros((n, n)), np.zeros((n, n))
    u[-1, :] = lid
    for _ in range(steps):
        un[...] = u
        vn[...] = v
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a, b = un[i, j], vn[i, j]
                spread = un[i + 1, j] + un[i - 1, j] + un[i, j + 1] + un[i, j - 1] - 4 * a
                along, across = un[i, j + 1] - un[i, j - 1], un[i + 1, j] - un[i - 1, j]
                u[i, j] = a + dt * (viscosity / h**2 * spread - a * along / (2 * h) - b * across / (2 * h))
                spread = vn[i + 1, j] + vn[i - 1, j] + vn[i, j + 1] + vn[i, j - 1] - 4 * b
                along, across = vn[i, j + 1] - vn[i, j - 1], vn[i + 1, j] - vn[i - 1, j]
                v[i, j] = b + dt * (viscosity / h**2 * spread - a * along / (2 * h) - b * across / (2 * h))
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                div = u[i, j + 1] - u[i, j - 1] + v[i + 1, j] - v[i - 1, j]
                source[i, j] = div * h / (2 * dt)
        p, new_p = relax_pressure(p, new_p, source, sweeps)
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] -= dt * (p[i, j + 1] - p[i, j - 1]) / (2 * h)
                v[i, j] -= dt * (p[i + 1, j] - p[i - 1, j]) / (2 * h)
    return 0.5 * np.sum(u * u + v * v) * h**2


@njit
def cholesky_slices(a):
    a = a.copy()
    n = a.shape[0]
    for j in range(n):
        for i in range(j, n):
            s = 0.0
            for k in range(j):
                s += a[i, k] * a[j, k]
            if i == j:
                a[j, j] = np.sqrt(a[j, j] - s)
            else:
                a[i, j] = (a[i, j] - s) / a[j, j]
    total = 0.0
    for i in range(n):
        total += np.log(a[i, i])
    return 2 * total


@njit
def slopes(x, y, a, b, c, d):
    return a * x - b * x * y, c * x * y - d * y


@njit
def rk4(y, p, h, steps):
    a, b, c, d = p
    x, y = y
    for _ in range(steps):
        x1, y1 = slopes(x, y, a, b, c, d)
        x2, y2 = slopes(x + h / 2 * x1, y + h / 2 * y1, a, b, c, d)
        x3, y3 = slopes(x + h / 2 * x2, y + h / 2 * y2, a, b, c, d)
        x4, y4 = slopes(x + h * x3, y + h * y3, a, b, c, d)
        x = x + h / 6 * (x1 + 2 * x2 + 2 * x3 + x4)
        y = y + h / 6 * (y1 + 2 * y2 + 2 * y3 + y4)
    return x * y


@njit
def pendulum(length, damping, steps):
    dt, t, angle, speed, total = 0.01, 0.0, 1.0, 0.0, 0.0
    for _ in range(steps):
        speed += dt * (-9.81 / length * np.sin(angle) - damping * speed + 0.5 * math.cos(t))
        angle += dt * speed
        total += angle * angle
        t += dt
    return total / steps


@njit
def kalman_2d(data, f, q, r):
    f0, f1, f2, f3 = f[0, 0], f[0, 1], f[1, 0], f[1, 1]
    x0, x1, p0, p1, p2, p3, total = 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0
    for z in data:
        x0, x1 = f0 * x0 + f1 * x1, f2 * x0 + f3 * x1
        a0, a1, a2, a3 = f0 * p0 + f1 * p2, f0 * p1 + f1 * p3, f2 * p0 + f3 * p2, f2 * p1 + f3 * p3
        p0, p1, p2, p3 = a0 * f0 + a1 * f1 + q, a0 * f2 + a1 * f3, a2 * f0 + a3 * f1, a2 * f2 + a3 * f3 + q
        s, miss = p0 + r, z - x0
        g0, g1 = p0 / s, p2 / s
        x0, x1 = x0 + g0 * miss, x1 + g1 * miss
        p0, p1, p2, p3 = p0 - g0 * p0, p1 - g0 * p1, p2 - g1 * p0, p3 - g1 * p1
        total -= 0.5 * (np.log(2 * math.pi * s) + miss * miss / s)
    return total


@njit
def lstm(x, w, u, b):
    n = u.shape[1]
    h, c, z = np.zeros(n), np.zeros(n), np.zeros(4 * n)
    total = 0.0
    for t in range(x.shape[0]):
        for i in range(4 * n):
            s = b[i]
            for j in range(x.shape[1]):
                s += w[i, j] * x[t, j]
            for j in range(n):
                s += u[i, j] * h[j]
            z[i] = s
        for i in range(n):
            forget, enter = 1 / (1 + np.exp(-z[i])), 1 / (1 + np.exp(-z[n + i]))
            leave = 1 / (1 + np.exp(-z[2 * n + i]))
            c[i] = forget * c[i] + enter * np.tanh(z[3 * n + i])
            h[i] = leave * np.tanh(c[i])
            total += h[i] * h[i]
    return total


@njit
def hmm_forward(log_start, log_step, log_seen, observed):
    n = len(log_start)
    alpha, new = log_start + log_seen[:, observed[0]], np.zeros(n)
    for t in range(1, len(observed)):
        for j in range(n):
            top = -np.inf
            for i in range(n):
                top = max(top, alpha[i] + log_step[i, j])
            s = 0.0
            for i in range(n):
                s += np.exp(alpha[i] + log_step[i, j] - top)
            new[j] = log_seen[j, observed[t]] + top + np.log(s)
        alpha, new = new, alpha
    top = np.max(alpha)
    return top + np.log(np.sum(np.exp(alpha - top)))


@njit
def descend(target, rate, steps):
    """Newton's iteration and its derivative side by side."""
    w = 0.5
    for _ in range(steps):
        square, d_square = 1 + w * w, 2 * w
        root, d_root = 1 + 0.5 * w * w, w
        while abs(root * root - square) > 1e-12:
            quotient = square / root
            d_quotient = (d_square - quotient * d_root) / root
            root, d_root = 0.5 * (root + quotient), 0.5 * (d_root + d_quotient)
        w = w - rate * (2 * (root - target) * d_root + 0.2 * (w - target))
    return w


@njit
def ridge(penalty, x, y, rate, steps):
    half, n = len(y) // 2, x.shape[1]
    w, slope = np.zeros(n), np.zeros(n)
    for _ in range(steps):
        for j in range(n):
            slope[j] = penalty * w[j]
        for i in range(half):
            miss = -y[i]
            for j in range(n):
                miss += x[i, j] * w[j]
            for j in range(n):
                slope[j] += x[i, j] * miss
        for j in range(n):
            w[j] -= rate * slope[j]
    total = 0.0
    for i in range(half, len(y)):
        miss = -y[i]
        for j in range(n):
            miss += x[i, j] * w[j]
        total += miss * miss
    return total


BY_HAND = {
    "heat.rod_in_place": rod_in_place,
    "heat.rod_two_buffers": as_it_stands(heat.rod_two_buffers),
    "heat.plate_in_place": plate_in_place,
    "heat.plate_two_buffers": plate_two_buffers,
    "heat.block_in_place": as_it_stands(heat.block_in_place),
    "heat.block_two_buffers": block_two_buffers,
    "relaxation.gauss_seidel": as_it_stands(relaxation.gauss_seidel),
    "relaxation.red_black": as_it_stands(relaxation.red_black),
    "relaxation.red_black_slices": red_black_slices,
    "waves.fdtd": fdtd,
    "waves.shallow_water": shallow_water,
    "waves.advection": advection,
    "waves.advection_points": as_it_stands(waves.advection_points),
    "cavity.kinetic_energy": kinetic_energy,
    "factorizations.thomas": as_it_stands(factorizations.thomas),
    "factorizations.cholesky": as_it_stands(factorizations.cholesky),
    "factorizations.cholesky_slices": cholesky_slices,
    "factorizations.lu": as_it_stands(factorizations.lu),
    "factorizations.ldl": as_it_stands(factorizations.ldl),
    "factorizations.gram_schmidt": as_it_stands(factorizations.gram_schmidt),
    "recurrences.horner": as_it_stands(recurrences.horner),
    "recurrences.clenshaw": as_it_stands(recurrences.clenshaw),
    "recurrences.kepler": as_it_stands(recurrences.kepler),
    "recurrences.bisection": as_it_stands(recurrences.bisection),
    "recurrences.escape": as_it_stands(recurrences.escape),
    "recurrences.escape_grid": as_it_stands(recurrences.escape_grid, recurrences.escape),
    "particles.leapfrog": as_it_stands(particles.leapfrog),
    "particles.lennard_jones": as_it_stands(particles.lennard_jones),
    "particles.charge_on_grid": as_it_stands(particles.charge_on_grid),
    "odes.rk4": rk4,
    "odes.scalar_rk4": as_it_stands(odes.scalar_rk4),
    "odes.rk45": as_it_stands(odes.rk45, odes.van_der_pol),
    "odes.pendulum": pendulum,
    "sequences.kalman": as_it_stands(sequences.kalman),
    "sequences.kalman_2d": kalman_2d,
    "sequences.lstm": lstm,
    "sequences.soft_dtw": as_it_stands(sequences.soft_dtw),
    "sequences.hmm_forward": hmm_forward,
    "learning.descend_in_reverse": descend,
    "learning.descend_forward": descend,
    "learning.ridge": ridge,
    "finance.asian_option": as_it_stands(finance.asian_option),
}
