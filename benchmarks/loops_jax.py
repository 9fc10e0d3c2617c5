"""The simulations as somebody who knows JAX writes them: `scan` and `fori_loop` where the algorithm is
sequential, whole arrays and masks where it is not.

Rows and entries come into a scan as its inputs and leave it stacked where that is possible, because an
``.at[i].set`` in a scan costs its gradient an array per step. Trip counts are static; what loops an unknown
number of times has no port, because `while_loop` has no reverse mode.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def rod_in_place(u, k, steps):
    def step(_, u):
        return u.at[1:-1].add(k * (u[2:] - 2 * u[1:-1] + u[:-2]))

    return jnp.sum(lax.fori_loop(0, steps, step, u) ** 2)


def rod_two_buffers(u, k, steps):
    def step(_, u):
        c = u[1:-1]
        return u.at[1:-1].set(c + k / (1 + c * c) * (u[2:] - 2 * c + u[:-2]))

    return jnp.sum(lax.fori_loop(0, steps, step, u) ** 2)


def laplacian(u):
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def plate_in_place(u, k, steps):
    return jnp.sum(lax.fori_loop(0, steps, lambda _, u: u.at[1:-1, 1:-1].add(k * laplacian(u)), u) ** 2)


def plate_two_buffers(u, k, steps):
    inner = k[1:-1, 1:-1]
    return jnp.sum(lax.fori_loop(0, steps, lambda _, u: u.at[1:-1, 1:-1].add(inner * laplacian(u)), u) ** 2)


def block_in_place(u, k, steps):
    """Planes, rows and points from scans that carry the newest neighbour."""

    def point(left, entry):
        above, front, c, right, below, back = entry
        new = c + k * (above + front + left + right + below + back - 6 * c)
        return new, new

    def row(above, rows):
        front, c, below, back = rows
        entries = (above[1:-1], front[1:-1], c[1:-1], c[2:], below[1:-1], back[1:-1])
        _, inner = lax.scan(point, c[0], entries)
        new = c.at[1:-1].set(inner)
        return new, new

    def plane(front, planes):
        c, back = planes
        _, inner = lax.scan(row, c[0], (front[1:-1], c[1:-1], c[2:], back[1:-1]))
        new = c.at[1:-1].set(inner)
        return new, new

    def sweep(_, u):
        _, inner = lax.scan(plane, u[0], (u[1:-1], u[2:]))
        return u.at[1:-1].set(inner)

    return jnp.sum(lax.fori_loop(0, steps, sweep, u) ** 2)


def block_two_buffers(u, k, steps):
    def step(_, u):
        c = u[1:-1, 1:-1, 1:-1]
        x = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] - 2 * c
        y = u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1] - 2 * c
        z = u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 2 * c
        return u.at[1:-1, 1:-1, 1:-1].add(k * (x + y + z))

    return jnp.sum(lax.fori_loop(0, steps, step, u) ** 2)


def gauss_seidel(f, omega, sweeps):
    """Rows and points from scans that carry the newest neighbour."""

    def point(left, entry):
        above, c, right, below, load = entry
        new = c + omega * (0.25 * (above + below + left + right - load) - c)
        return new, new

    def row(above, rows):
        c, below, load = rows
        entries = (above[1:-1], c[1:-1], c[2:], below[1:-1], load[1:-1])
        _, inner = lax.scan(point, c[0], entries)
        new = c.at[1:-1].set(inner)
        return new, new

    def sweep(_, u):
        _, inner = lax.scan(row, u[0], (u[1:-1], u[2:], f[1:-1]))
        return u.at[1:-1].set(inner)

    return jnp.sum(lax.fori_loop(0, sweeps, sweep, jnp.zeros_like(f)) * f)


def red_black(f, omega, sweeps):
    n, m = f.shape
    squares = (jnp.arange(1, n - 1)[:, None] + jnp.arange(1, m - 1)) % 2

    def half(colour, u):
        c = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        new = c + omega * (0.25 * (around - f[1:-1, 1:-1]) - c)
        return u.at[1:-1, 1:-1].set(jnp.where(squares == (1 + colour) % 2, new, c))

    u = lax.fori_loop(0, sweeps, lambda _, u: half(1, half(0, u)), jnp.zeros_like(f))
    return jnp.sum(u * f)


def red_black_slices(f, omega, sweeps):
    def sweep(_, u):
        u = u.at[1:-1:2].add(omega * (0.5 * (u[:-2:2] + u[2::2] - f[1:-1:2]) - u[1:-1:2]))
        return u.at[2:-1:2].add(omega * (0.5 * (u[1:-2:2] + u[3::2] - f[2:-1:2]) - u[2:-1:2]))

    return jnp.sum(lax.fori_loop(0, sweeps, sweep, jnp.zeros_like(f)) * f)


def fdtd(eps, amplitude, steps):
    n, m = eps.shape

    def step(t, fields):
        ez, hx, hy = fields
        hx = hx - 0.5 * (ez[:, 1:] - ez[:, :-1])
        hy = hy + 0.5 * (ez[1:, :] - ez[:-1, :])
        curl = hy[1:, 1:-1] - hy[:-1, 1:-1] - hx[1:-1, 1:] + hx[1:-1, :-1]
        ez = ez.at[1:-1, 1:-1].add(0.5 * curl / eps[1:-1, 1:-1])
        ez = ez.at[n // 2, m // 3].add(amplitude * jnp.exp(-(((t - 8.0) / 3) ** 2)))
        return ez, hx, hy

    start = jnp.zeros((n, m)), jnp.zeros((n, m - 1)), jnp.zeros((n - 1, m))
    ez, hx, hy = lax.fori_loop(0, steps, step, start)
    return jnp.sum(eps * ez**2) + jnp.sum(hx**2) + jnp.sum(hy**2)


def shallow_water(h, gravity, steps):
    ratio = 0.1

    def step(_, state):
        h, q = state
        flux = q * q / h + 0.5 * gravity * h * h
        inner_h = 0.5 * (h[2:] + h[:-2]) - 0.5 * ratio * (q[2:] - q[:-2])
        inner_q = 0.5 * (q[2:] + q[:-2]) - 0.5 * ratio * (flux[2:] - flux[:-2])
        h = jnp.concatenate([inner_h[:1], inner_h, inner_h[-1:]])
        return h, jnp.concatenate([-inner_q[:1], inner_q, -inner_q[-1:]])

    h, _ = lax.fori_loop(0, steps, step, (h, jnp.zeros_like(h)))
    return h[0] ** 2 + 0.1 * jnp.sum(h * h)


def advection(u, speed, steps):
    def step(_, u):
        left = u - jnp.roll(u, 1)
        right = jnp.roll(u, -1) - u
        small = jnp.minimum(jnp.abs(left), jnp.abs(right))
        face = u + 0.5 * (1 - speed) * jnp.where(left * right > 0, jnp.sign(left) * small, 0.0)
        return u - speed * (face - jnp.roll(face, 1))

    return jnp.sum(lax.fori_loop(0, steps, step, u) ** 2)


def kinetic_energy(lid, viscosity, n, steps, sweeps):
    h = 1.0 / (n - 1)
    dt = 0.2 * h

    def across(a):
        return (a[1:-1, 2:] - a[1:-1, :-2]) / (2 * h)

    def up(a):
        return (a[2:, 1:-1] - a[:-2, 1:-1]) / (2 * h)

    def relax(source, _, p):
        p = p.at[1:-1, 1:-1].set(0.25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - source))
        p = p.at[:, 0].set(p[:, 1]).at[:, -1].set(p[:, -2])
        return p.at[0, :].set(p[1, :]).at[-1, :].set(0.0)

    def step(_, state):
        u, v, p = state
        inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
        new_u = dt * (viscosity / h**2 * laplacian(u) - inner_u * across(u) - inner_v * up(u))
        new_v = dt * (viscosity / h**2 * laplacian(v) - inner_u * across(v) - inner_v * up(v))
        u, v = u.at[1:-1, 1:-1].add(new_u), v.at[1:-1, 1:-1].add(new_v)
        source = (across(u) + up(v)) * h * h / dt
        p = lax.fori_loop(0, sweeps, partial(relax, source), p)
        return u.at[1:-1, 1:-1].add(-dt * across(p)), v.at[1:-1, 1:-1].add(-dt * up(p)), p

    zero = jnp.zeros((n, n))
    u, v, _ = lax.fori_loop(0, steps, step, (zero.at[-1, :].set(lid), zero, zero))
    return 0.5 * jnp.sum(u * u + v * v) * h**2


def thomas(lower, diagonal, upper, right):
    def down(above, row):
        low, d, up_before, r = row
        w = low / above[0]
        new = d - w * up_before, r - w * above[1]
        return new, new

    first = diagonal[0], right[0]
    (d, r), rest = lax.scan(down, first, (lower, diagonal[1:], upper, right[1:]))

    def back(below, row):
        d, r, up = row
        x = (r - up * below) / d
        return x, x

    before = jnp.append(first[0], rest[0][:-1]), jnp.append(first[1], rest[1][:-1])
    last = r / d
    _, x = lax.scan(back, last, (*before, upper), reverse=True)
    return jnp.sum(x * x) + last * last


def cholesky(a):
    """A column per step, from a product of a masked row with the whole matrix."""
    rows = jnp.arange(a.shape[0])

    def column(j, low):
        done = jnp.where(rows < j, low[j], 0.0)
        s = a[:, j] - low @ done
        s = jnp.where(rows >= j, s / jnp.sqrt(s[j]), 0.0)
        return low.at[:, j].set(s)

    low = lax.fori_loop(0, a.shape[0], column, jnp.zeros_like(a))
    return 2 * jnp.sum(jnp.log(jnp.diag(low)))


def lu(a):
    rows = jnp.arange(a.shape[0])

    def step(k, a):
        factor = jnp.where(rows > k, a[:, k] / a[k, k], 0.0)
        a = a - jnp.outer(factor, jnp.where(rows > k, a[k], 0.0))
        return a.at[:, k].set(jnp.where(rows > k, factor, a[:, k]))

    return jnp.sum(jnp.log(jnp.diag(lax.fori_loop(0, a.shape[0], step, a)) ** 2)) / 2


def ldl(a):
    rows = jnp.arange(a.shape[0])

    def column(j, state):
        low, d = state
        s = a[:, j] - low @ jnp.where(rows < j, low[j] * d, 0.0)
        low = low.at[:, j].set(jnp.where(rows > j, s / s[j], jnp.where(rows == j, 1.0, 0.0)))
        return low, d.at[j].set(s[j])

    low, d = lax.fori_loop(0, a.shape[0], column, (jnp.zeros_like(a), jnp.zeros_like(a[0])))
    return jnp.sum(jnp.log(d)) + jnp.sum(low)


def gram_schmidt(a):
    """Each finished column is taken out of all the later ones at once."""
    columns = jnp.arange(a.shape[1])

    def step(i, state):
        q, total = state
        column = q[:, i]
        norm = jnp.sqrt(column @ column)
        column = column / norm
        q = q.at[:, i].set(column)
        q = q - jnp.outer(column, jnp.where(columns > i, column @ q, 0.0))
        return q, total + jnp.log(norm) * column[0]

    return lax.fori_loop(0, a.shape[1], step, (a, 0.0))[1]


def horner(c, x):
    return lax.scan(lambda y, entry: (y * x + entry, None), 0.0, c, reverse=True)[0]


def clenshaw(c, x):
    def step(state, entry):
        b1, b2 = state
        return (entry + 2 * x * b1 - b2, b1), None

    (b1, b2), _ = lax.scan(step, (0.0, 0.0), c[1:], reverse=True)
    return c[0] + x * b1 - b2


def escape_grid(cx, cy, trips):
    cx, cy = jnp.meshgrid(cx, cy)

    def step(k, state):
        x, y, count, out = state
        new_x, new_y = x * x - y * y + cx, 2 * x * y + cy
        square = new_x * new_x + new_y * new_y
        now = (square > 1e4) & ~out
        smooth = k + 1 - jnp.log(0.5 * jnp.log(jnp.where(now, square, 1e4))) / math.log(2.0)
        x, y = jnp.where(out, x, new_x), jnp.where(out, y, new_y)
        return x, y, jnp.where(now, smooth, count), out | now

    zero = jnp.zeros_like(cx)
    known = (cx + 1) ** 2 + cy**2 < 0.0625
    return jnp.sum(lax.fori_loop(0, trips, step, (zero, zero, zero, known))[2])


def escape(cx, cy, trips):
    return escape_grid(cx[None], cy[None], trips)


def leapfrog(position, velocity, mass, steps):
    dt = 0.01

    def step(_, state):
        x, v = state
        x = x + 0.5 * dt * v
        d = x[None, :, :] - x[:, None, :]
        pull = dt * mass / (jnp.sum(d * d, axis=2) + 0.01) ** 1.5
        v = v + jnp.sum(pull[:, :, None] * d, axis=1)
        return x + 0.5 * dt * v, v

    _, v = lax.fori_loop(0, steps, step, (position, velocity))
    return 0.5 * jnp.sum(mass * jnp.sum(v * v, axis=1))


def lennard_jones(x, sigma, cutoff):
    d = x[:, None, :] - x[None, :, :]
    r2 = jnp.sum(d * d, axis=2)
    near = jnp.triu(r2 < cutoff**2, 1)
    s6 = (sigma**2 / jnp.where(near, r2, 1.0)) ** 3
    return jnp.sum(jnp.where(near, 4 * (s6 * s6 - s6), 0.0))


def charge_on_grid(x, charge, cells):
    place = x * (cells - 1)
    i = place.astype(int)
    w = place - i
    rho = jnp.zeros(cells).at[i].add(charge * (1 - w)).at[i + 1].add(charge * w)
    return jnp.sum(rho**2)


def rk4(y, p, h, steps):
    def f(y):
        a, b, c, d = p
        return jnp.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])

    def step(_, y):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    y = lax.fori_loop(0, steps, step, y)
    return y[0] * y[1]


def scalar_rk4(y, rate, h, steps):
    def f(y):
        return rate * y * (1 - y)

    def step(_, y):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, steps, step, y)


def pendulum(length, damping, steps):
    dt = 0.01

    def step(_, state):
        t, angle, speed, total = state
        torque = -9.81 / length * jnp.sin(angle) - damping * speed + 0.5 * jnp.cos(t)
        speed = speed + dt * torque
        angle = angle + dt * speed
        return t + dt, angle, speed, total + angle * angle

    return lax.fori_loop(0, steps, step, (0.0, 1.0, 0.0, 0.0))[3] / steps


def kalman(data, a, q, r):
    def step(state, z):
        mean, variance, total = state
        mean, variance = a * mean, a * variance * a + q
        s, miss = variance + r, z - mean
        total = total - 0.5 * (jnp.log(2 * math.pi * s) + miss * miss / s)
        gain = variance / s
        return (mean + gain * miss, (1 - gain) * variance, total), None

    return lax.scan(step, (0.0, 1.0, 0.0), data)[0][2]


def kalman_2d(data, f, q, r):
    def step(state, z):
        x, p, total = state
        x = f @ x
        p = f @ p @ f.T + q * jnp.eye(2)
        s = p[0, 0] + r
        miss = z - x[0]
        gain = p[:, 0] / s
        total = total - 0.5 * (jnp.log(2 * math.pi * s) + miss**2 / s)
        return (x + gain * miss, p - jnp.outer(gain, p[0]), total), None

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2), 0.0), data)[0][2]


def lstm(x, w, u, b):
    """The products with the inputs are taken out of the loop."""
    n = u.shape[1]

    def step(state, row):
        h, c = state
        z = row + u @ h
        gates = 1 / (1 + jnp.exp(-z[: 3 * n]))
        c = gates[:n] * c + gates[n : 2 * n] * jnp.tanh(z[3 * n :])
        h = gates[2 * n :] * jnp.tanh(c)
        return (h, c), jnp.sum(h * h)

    return jnp.sum(lax.scan(step, (jnp.zeros(n), jnp.zeros(n)), x @ w.T + b)[1])


def soft_dtw(x, y, gamma):
    """Rows and entries from scans that carry the entry before."""

    def entry(left, inputs):
        corner, above, distance = inputs
        low = jnp.minimum(jnp.minimum(corner, above), left)
        s = jnp.exp((low - corner) / gamma) + jnp.exp((low - above) / gamma) + jnp.exp((low - left) / gamma)
        new = distance + low - gamma * jnp.log(s)
        return new, new

    def row(above, xi):
        _, inner = lax.scan(entry, 1e6, (above[:-1], above[1:], (xi - y) ** 2))
        return jnp.concatenate([jnp.array([1e6]), inner]), None

    first = jnp.full(len(y) + 1, 1e6).at[0].set(0.0)
    return lax.scan(row, first, x)[0][-1]


def hmm_forward(log_start, log_step, log_seen, observed):
    def step(alpha, symbol):
        return log_seen[:, symbol] + jax.nn.logsumexp(alpha[:, None] + log_step, axis=0), None

    alpha, _ = lax.scan(step, log_start + log_seen[:, observed[0]], observed[1:])
    return jax.nn.logsumexp(alpha)


def ridge(penalty, x, y, rate, steps):
    half = len(y) // 2

    def objective(w):
        miss = x[:half] @ w - y[:half]
        return 0.5 * jnp.sum(miss**2) + 0.5 * penalty * jnp.sum(w**2)

    w = lax.fori_loop(0, steps, lambda _, w: w - rate * jax.grad(objective)(w), jnp.zeros(x.shape[1]))
    return jnp.sum((x[half:] @ w - y[half:]) ** 2)


def asian_option(spot, volatility, strike, normals):
    """Days in a scan, all paths side by side."""
    rate, dt = 0.03, 1.0 / normals.shape[1]

    def day(state, draws):
        price, total = state
        drift = (rate - 0.5 * volatility**2) * dt
        price = price * jnp.exp(drift + volatility * math.sqrt(dt) * draws)
        return (price, total + price), None

    start = jnp.full(normals.shape[0], spot), jnp.zeros(normals.shape[0])
    (_, total), _ = lax.scan(day, start, normals.T)
    payoff = jnp.maximum(total / normals.shape[1] - strike, 0.0)
    return math.exp(-rate) * jnp.mean(payoff)


PORTS = {
    "heat.rod_in_place": rod_in_place,
    "heat.rod_two_buffers": rod_two_buffers,
    "heat.plate_in_place": plate_in_place,
    "heat.plate_two_buffers": plate_two_buffers,
    "heat.block_in_place": block_in_place,
    "heat.block_two_buffers": block_two_buffers,
    "relaxation.gauss_seidel": gauss_seidel,
    "relaxation.red_black": red_black,
    "relaxation.red_black_slices": red_black_slices,
    "waves.fdtd": fdtd,
    "waves.shallow_water": shallow_water,
    "waves.advection": advection,
    "waves.advection_points": advection,
    "cavity.kinetic_energy": kinetic_energy,
    "factorizations.thomas": thomas,
    "factorizations.cholesky": cholesky,
    "factorizations.cholesky_slices": cholesky,
    "factorizations.lu": lu,
    "factorizations.ldl": ldl,
    "factorizations.gram_schmidt": gram_schmidt,
    "recurrences.horner": horner,
    "recurrences.clenshaw": clenshaw,
    "recurrences.escape": escape,
    "recurrences.escape_grid": escape_grid,
    "particles.leapfrog": leapfrog,
    "particles.lennard_jones": lennard_jones,
    "particles.charge_on_grid": charge_on_grid,
    "odes.rk4": rk4,
    "odes.scalar_rk4": scalar_rk4,
    "odes.pendulum": pendulum,
    "sequences.kalman": kalman,
    "sequences.kalman_2d": kalman_2d,
    "sequences.lstm": lstm,
    "sequences.soft_dtw": soft_dtw,
    "sequences.hmm_forward": hmm_forward,
    "learning.ridge": ridge,
    "finance.asian_option": asian_option,
}
