"""Classical algorithms as people write them, as regions: values, and gradients in both modes."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from derivative_checks import check_function, traced

import tracejit as tj

# ruff: noqa: E501

X = np.linspace(-1, 2, 12) ** 2 + 0.3
RNG = np.random.default_rng(1)
SPD = RNG.normal(size=(5, 5))
SPD = SPD @ SPD.T + 5 * np.eye(5)
GRID = RNG.normal(size=(10, 11))
NOISE = RNG.normal(size=(6, 10))


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with tj.interpret():
        yield


def heat_in_place(u):
    u = u.copy()
    for _ in range(20):
        u[1:-1] = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u**2).sum()


def heat_two_buffers(u0):
    u = u0.copy()
    new = np.zeros_like(u)
    for _ in range(6):
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        u, new = new, u
    return (u**2).sum()


def gauss_seidel(b):
    n = b.shape[0]
    u = np.zeros(n)
    for _ in range(5):
        for i in range(1, n - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] - b[i])
    return (u**2).sum()


def red_black(b):
    n = b.shape[0]
    u = np.zeros(n)
    for _ in range(5):
        for colour in range(2):
            for i in range(1 + colour, n - 1, 2):
                u[i] = 0.5 * (u[i - 1] + u[i + 1] - b[i])
    return u @ b


def wave(c):
    ez, hy = np.zeros(12), np.zeros(11)
    for t in range(15):
        hy += 0.5 * (ez[1:] - ez[:-1])
        ez[1:-1] += c[1:-1] * 0.1 * (hy[1:] - hy[:-1])
        ez[3] += math.exp(-(((t - 5.0) / 3) ** 2))
    return (ez**2).sum()


def advection(u):
    u = u.copy()
    for _ in range(6):
        left, right = u[1:-1] - u[:-2], u[2:] - u[1:-1]
        slope = np.where(left * right > 0, np.minimum(np.abs(left), np.abs(right)) * np.sign(left), 0.0)
        face = u[1:-1] + 0.4 * slope
        u[2:-1] -= 0.2 * (face[1:] - face[:-1])
    return (u**2).sum()


def thomas(d):
    n = d.shape[0]
    a, b, c = np.full(n, -1.0), np.full(n, 4.0), np.full(n, -1.0)
    cp, dp, x = np.zeros(n), np.zeros(n), np.zeros(n)
    cp[0], dp[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return (x**2).sum()


def cholesky(A):
    n = A.shape[0]
    L = A.copy()
    for j in range(n):
        for k in range(j):
            L[j, j] -= L[j, k] * L[j, k]
        L[j, j] = np.sqrt(L[j, j])
        for i in range(j + 1, n):
            for k in range(j):
                L[i, j] -= L[i, k] * L[j, k]
            L[i, j] /= L[j, j]
    return np.tril(L).sum()


def lu(A):
    A = A.copy()
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]
    return np.log(np.abs(np.diag(A))).sum()


def ldl(A):
    n = A.shape[0]
    L, D = np.eye(n), np.zeros(n)
    for j in range(n):
        D[j] = A[j, j] - (L[j, :j] ** 2) @ D[:j]
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - (L[i, :j] * L[j, :j]) @ D[:j]) / D[j]
    return np.log(D).sum() + L.sum()


def gram_schmidt(A):
    Q = A.copy()
    n = Q.shape[1]
    for i in range(n):
        for j in range(i):
            dot = 0.0
            for k in range(Q.shape[0]):
                dot += Q[k, i] * Q[k, j]
            for k in range(Q.shape[0]):
                Q[k, i] -= dot * Q[k, j]
        Q[:, i] /= np.sqrt((Q[:, i] ** 2).sum())
    return Q @ np.arange(n) @ np.ones(n)


def clenshaw(c):
    x, b1, b2 = 0.3, 0.0, 0.0
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + 2 * x * b1 - b2, b1
    return c[0] + x * b1 - b2


def leapfrog(p):
    pos = p.reshape(-1, 2).copy()
    vel = np.zeros_like(pos)
    n = pos.shape[0]
    for _ in range(5):
        acc = np.zeros_like(pos)
        for i in range(n):
            for j in range(n):
                if i != j:
                    d = pos[j] - pos[i]
                    r2 = d[0] * d[0] + d[1] * d[1] + 0.1
                    acc[i] += d / r2**1.5
        vel += 0.01 * acc
        pos += 0.01 * vel
    return (pos**2).sum()


def lennard_jones(x):
    e = 0.0
    for i in range(12):
        for j in range(i + 1, 12):
            r = abs(x[i] - x[j]) + 0.9
            if r > 2.5:
                continue
            s = (1 / r) ** 6
            e += 4 * (s * s - s)
    return e


def rk4(k):
    def f(y, t):
        return np.array([y[1], -k * y[0] * math.cos(t)])

    y, h, t = np.array([1.0, 0.0]), 0.1, 0.0
    for _ in range(10):
        k1 = f(y, t)
        k2 = f(y + h / 2 * k1, t + h / 2)
        k3 = f(y + h / 2 * k2, t + h / 2)
        k4 = f(y + h * k3, t + h)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return y[0] ** 2 + y[1]


def adaptive(k):
    y, t, h, steps = k, 0.0, 0.1, 0
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        k1 = -k * y
        k2 = -k * (y + h * k1)
        error = abs(h * (k2 - k1)) / 2
        if error < 1e-3:
            y = y + h * (k1 + k2) / 2
            t = t + h
        h = 0.9 * h * min(2.0, max(0.5, (1e-3 / (error + 1e-12)) ** 0.5))
        steps += 1
        if steps > 500:
            break
    return y


def kalman(x):
    a, q, r = x[0], x[1] ** 2, x[2] ** 2
    m, p, logp = 0.0, 1.0, 0.0
    for z in x:
        m, p = a * m, a * p * a + q
        s, v = p + r, z - m
        logp -= 0.5 * (math.log(2 * math.pi * s) + v * v / s)
        gain = p / s
        m, p = m + gain * v, (1 - gain) * p
    return logp


def lstm(w):
    W = w.reshape(4, 3)
    h, c = 0.1, 0.0
    for x in np.linspace(-1, 1, 10):
        g = W @ np.array([x, h, 1.0])
        i, f, o = 1 / (1 + np.exp(-g[:3]))
        c = f * c + i * np.tanh(g[3])
        h = o * np.tanh(c)
    return h * h


def escape_time(c):
    z, n, smooth = 0.0, 0, 0.0
    while n < 60:
        z = z * z + c
        if abs(z) > 10:
            smooth = n + 1 - math.log(math.log(abs(z))) / math.log(2)
            break
        n += 1
    return smooth


def soft_dtw(x):
    n, m = 6, 6
    R = np.full((n + 1, m + 1), 1e3)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - x[j + 5]) ** 2
            a, b, c = -R[i - 1, j - 1], -R[i - 1, j], -R[i, j - 1]
            top = max(a, b, c)
            R[i, j] = d - (top + math.log(math.exp(a - top) + math.exp(b - top) + math.exp(c - top)))
    return R[n, m]


def hmm_forward(x):
    logA = np.log(np.array([[0.9, 0.1], [0.2, 0.8]]))
    alpha = np.log(np.array([0.5, 0.5]))
    for z in x:
        new = np.zeros(2)
        for j in range(2):
            new[j] = np.logaddexp(alpha[0] + logA[0, j], alpha[1] + logA[1, j]) - 0.5 * (z - j) ** 2
        alpha = new
    return np.logaddexp(alpha[0], alpha[1])


def asian_option(sigma):
    payoff = 0.0
    for p in range(6):
        s, total = 100.0, 0.0
        for k in range(10):
            s = s * math.exp(-0.5 * sigma**2 * 0.1 + sigma * math.sqrt(0.1) * NOISE[p, k])
            total += s
        payoff += max(total / 10 - 100.0, 0.0)
    return payoff / 6


def descent(target):
    def loss(w):
        return (w[0] - target) ** 2 + 0.5 * (w[1] * w[0] - 1) ** 2

    w = np.array([0.5, 0.5])
    for _ in range(20):
        w = w - 0.1 * tj.grad(loss)(w)
    return w @ w


def descent_with_a_loop_inside(target):
    def loss(w):
        y = w
        while y * y > 1e-2:
            y = y * 0.5
        return (y - 0.1 * target) ** 2 + (w - target) ** 2

    w = 1.0
    for _ in range(8):
        w = w - 0.1 * tj.grad(loss)(w)
    return w * w


ALGORITHMS = [
    (heat_in_place, X), (heat_two_buffers, GRID), (gauss_seidel, X), (red_black, X), (wave, X), (advection, X), (thomas, X),
    (cholesky, SPD), (lu, SPD), (ldl, SPD), (gram_schmidt, SPD), (clenshaw, X), (leapfrog, np.linspace(0, 3, 10) ** 1.5),
    (lennard_jones, X), (rk4, 2.0), (adaptive, 1.5), (kalman, X), (lstm, X - 1), (escape_time, 0.6), (soft_dtw, X),
    (hmm_forward, X), (asian_option, 0.3), (descent, 0.7), (descent_with_a_loop_inside, 0.7),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), ALGORITHMS, ids=lambda v: getattr(v, "__name__", ""))
def test_algorithm(function, x):
    _, reasons = traced(function, x)
    assert not reasons
    check_function(function, x)
