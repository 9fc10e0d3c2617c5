"""Scalar-loop simulations in JAX with their loops kept: `fori_loop` and ``.at[].set``.

Trip counts that depend on an outer index have no reverse mode, so triangles are squares with a mask.
"""

import jax.numpy as jnp
from jax.lax import fori_loop


def rod_two_buffers(u, k, steps):
    def point(u, i, new):
        return new.at[i].set(u[i] + k / (1 + u[i] * u[i]) * (u[i + 1] - 2 * u[i] + u[i - 1]))

    def step(_, state):
        u, new = state
        return fori_loop(1, len(u) - 1, lambda i, new: point(u, i, new), new), u

    return jnp.sum(fori_loop(0, steps, step, (u, u))[0] ** 2)


def block_in_place(u, k, steps):
    n, m, p = u.shape

    def point(i, j, q, u):
        around = (
            u[i + 1, j, q]
            + u[i - 1, j, q]
            + u[i, j + 1, q]
            + u[i, j - 1, q]
            + u[i, j, q + 1]
            + u[i, j, q - 1]
        )
        return u.at[i, j, q].add(k * (around - 6 * u[i, j, q]))

    def row(i, j, u):
        return fori_loop(1, p - 1, lambda q, u: point(i, j, q, u), u)

    def plane(i, u):
        return fori_loop(1, m - 1, lambda j, u: row(i, j, u), u)

    return jnp.sum(fori_loop(0, steps, lambda _, u: fori_loop(1, n - 1, plane, u), u) ** 2)


def relax_point(f, omega, i, j, u):
    new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return omega * (new - u[i, j])


def gauss_seidel(f, omega, sweeps):
    n, m = f.shape

    def row(i, u):
        return fori_loop(1, m - 1, lambda j, u: u.at[i, j].add(relax_point(f, omega, i, j, u)), u)

    u = fori_loop(0, sweeps, lambda _, u: fori_loop(1, n - 1, row, u), jnp.zeros_like(f))
    return jnp.sum(u * f)


def red_black(f, omega, sweeps):
    """The number of points of a row depends on it: one is added that changes nothing."""
    n, m = f.shape

    def point(colour, i, k, u):
        j = jnp.minimum(1 + (i + colour) % 2 + 2 * k, m - 1)
        return u.at[i, j].add(jnp.where(j < m - 1, relax_point(f, omega, i, j, u), 0.0))

    def row(colour, i, u):
        return fori_loop(0, (m - 1) // 2, lambda k, u: point(colour, i, k, u), u)

    def sweep(_, u):
        for colour in range(2):
            u = fori_loop(1, n - 1, lambda i, u, colour=colour: row(colour, i, u), u)
        return u

    return jnp.sum(fori_loop(0, sweeps, sweep, jnp.zeros_like(f)) * f)


def thomas(lower, diagonal, upper, right):
    n = len(diagonal)

    def down(i, state):
        d, x = state
        w = lower[i - 1] / d[i - 1]
        return d.at[i].add(-w * upper[i - 1]), x.at[i].add(-w * x[i - 1])

    d, x = fori_loop(1, n, down, (diagonal, right))

    def back(k, x):
        i = n - 2 - k
        return x.at[i].set((x[i] - upper[i] * x[i + 1]) / d[i])

    x = fori_loop(0, n - 1, back, x.at[n - 1].divide(d[n - 1]))
    return jnp.sum(x * x)


def cholesky(a):
    n = a.shape[0]

    def entry(j, i, a):
        s = fori_loop(0, n, lambda k, s: s - jnp.where(k < j, a[i, k] * a[j, k], 0.0), a[i, j])
        root = jnp.sqrt(jnp.where(i == j, s, 1.0))
        new = jnp.where(i == j, root, s / a[j, j])
        return a.at[i, j].set(jnp.where(i >= j, new, a[i, j]))

    a = fori_loop(0, n, lambda j, a: fori_loop(0, n, lambda i, a: entry(j, i, a), a), a)
    return 2 * jnp.sum(jnp.log(jnp.diag(a)))


def lu(a):
    n = a.shape[0]

    def row(k, i, a):
        below = i > k
        a = a.at[i, k].set(jnp.where(below, a[i, k] / a[k, k], a[i, k]))

        def entry(j, a):
            return a.at[i, j].add(jnp.where(below & (j > k), -a[i, k] * a[k, j], 0.0))

        return fori_loop(0, n, entry, a)

    a = fori_loop(0, n, lambda k, a: fori_loop(0, n, lambda i, a: row(k, i, a), a), a)
    return jnp.sum(jnp.log(jnp.diag(a) ** 2)) / 2


def ldl(a):
    n = a.shape[0]

    def column(j, state):
        low, d = state
        s = fori_loop(0, n, lambda k, s: s - jnp.where(k < j, low[j, k] ** 2 * d[k], 0.0), a[j, j])
        d = d.at[j].set(s)

        def entry(i, low):
            s = fori_loop(0, n, lambda k, s: s - jnp.where(k < j, low[i, k] * low[j, k] * d[k], 0.0), a[i, j])
            return low.at[i, j].set(jnp.where(i > j, s / d[j], jnp.where(i == j, 1.0, 0.0)))

        return fori_loop(0, n, entry, low), d

    low, d = fori_loop(0, n, column, (jnp.zeros_like(a), jnp.zeros_like(a[0])))
    return jnp.sum(jnp.log(d)) + jnp.sum(low)


def gram_schmidt(a):
    rows, columns = a.shape

    def take_out(i, j, q):
        dot = fori_loop(0, rows, lambda k, s: s + q[k, i] * q[k, j], 0.0)
        dot = jnp.where(j < i, dot, 0.0)
        return fori_loop(0, rows, lambda k, q: q.at[k, i].add(-dot * q[k, j]), q)

    def column(i, state):
        q, total = state
        q = fori_loop(0, columns, lambda j, q: take_out(i, j, q), q)
        norm = jnp.sqrt(fori_loop(0, rows, lambda k, s: s + q[k, i] ** 2, 0.0))
        q = fori_loop(0, rows, lambda k, q: q.at[k, i].divide(norm), q)
        return q, total + jnp.log(norm) * q[0, i]

    return fori_loop(0, columns, column, (a, 0.0))[1]


def horner(c, x):
    n = len(c)
    return fori_loop(0, n, lambda k, y: y * x + c[n - 1 - k], 0.0)


def clenshaw(c, x):
    n = len(c)
    b1, b2 = fori_loop(0, n - 1, lambda k, b: (c[n - 1 - k] + 2 * x * b[0] - b[1], b[0]), (0.0, 0.0))
    return c[0] + x * b1 - b2


def soft_dtw(x, y, gamma):
    n, m = len(x), len(y)

    def entry(i, j, cost):
        a, b, c = cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]
        low = jnp.minimum(jnp.minimum(a, b), c)
        s = jnp.exp((low - a) / gamma) + jnp.exp((low - b) / gamma) + jnp.exp((low - c) / gamma)
        return cost.at[i, j].set((x[i - 1] - y[j - 1]) ** 2 + low - gamma * jnp.log(s))

    def row(i, cost):
        return fori_loop(1, m + 1, lambda j, cost: entry(i, j, cost), cost)

    return fori_loop(1, n + 1, row, jnp.full((n + 1, m + 1), 1e6).at[0, 0].set(0.0))[n, m]


def kalman(data, a, q, r):
    def step(k, state):
        mean, variance, total = state
        mean, variance = a * mean, a * variance * a + q
        s, miss = variance + r, data[k] - mean
        total = total - 0.5 * (jnp.log(2 * jnp.pi * s) + miss * miss / s)
        gain = variance / s
        return mean + gain * miss, (1 - gain) * variance, total

    return fori_loop(0, len(data), step, (0.0, 1.0, 0.0))[2]


def charge_on_grid(x, charge, cells):
    def particle(p, rho):
        place = x[p] * (cells - 1)
        i = place.astype(int)
        w = place - i
        return rho.at[i].add(charge[p] * (1 - w)).at[i + 1].add(charge[p] * w)

    return jnp.sum(fori_loop(0, len(x), particle, jnp.zeros(cells)) ** 2)


KEPT = {
    "heat.rod_two_buffers": rod_two_buffers,
    "heat.block_in_place": block_in_place,
    "relaxation.gauss_seidel": gauss_seidel,
    "relaxation.red_black": red_black,
    "factorizations.thomas": thomas,
    "factorizations.cholesky": cholesky,
    "factorizations.lu": lu,
    "factorizations.ldl": ldl,
    "factorizations.gram_schmidt": gram_schmidt,
    "recurrences.horner": horner,
    "recurrences.clenshaw": clenshaw,
    "sequences.soft_dtw": soft_dtw,
    "sequences.kalman": kalman,
    "particles.charge_on_grid": charge_on_grid,
}
