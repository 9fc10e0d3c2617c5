"""Sequences: a Kalman filter, a recurrent network, dynamic programming."""

import math

import numpy as np

import tracejit as tj


def kalman(data, a, q, r):
    """Log-likelihood of noisy observations of a first-order process."""
    mean, variance, total = 0.0, 1.0, 0.0
    for z in data:
        mean, variance = a * mean, a * variance * a + q
        s, miss = variance + r, z - mean
        total -= 0.5 * (np.log(2 * math.pi * s) + miss * miss / s)
        gain = variance / s
        mean, variance = mean + gain * miss, (1 - gain) * variance
    return total


def kalman_2d(data, f, q, r):
    """The same with a hidden position and velocity: matrices of two rows, only the position is seen."""
    x = np.zeros_like(f[0])
    p = np.eye(2) + 0 * f
    total = 0.0
    for k in range(len(data)):
        x = f @ x
        p = f @ p @ f.T + q * np.eye(2)
        s = p[0, 0] + r
        miss = data[k] - x[0]
        gain = p[:, 0] / s
        x = x + gain * miss
        p = p - np.outer(gain, p[0])
        total = total - 0.5 * (np.log(2 * math.pi * s) + miss**2 / s)
    return total


def lstm(x, w, u, b):
    """A long short-term memory over the rows of ``x``; squares of the hidden states."""
    n = u.shape[1]
    h = np.zeros_like(b[:n])
    c = np.zeros_like(b[:n])
    total = 0.0
    for row in x:
        z = w @ row + u @ h + b
        gates = 1 / (1 + np.exp(-z[: 3 * n]))
        c = gates[:n] * c + gates[n : 2 * n] * np.tanh(z[3 * n :])
        h = gates[2 * n :] * np.tanh(c)
        total += np.sum(h * h)
    return total


def soft_dtw(x, y, gamma):
    """Alignment of two series, with a smooth minimum over the three ways to go on."""
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), 1e6)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]
            low = min(a, b, c)
            s = math.exp((low - a) / gamma) + math.exp((low - b) / gamma) + math.exp((low - c) / gamma)
            cost[i, j] = (x[i - 1] - y[j - 1]) ** 2 + low - gamma * math.log(s)
    return cost[n, m]


def hmm_forward(log_start, log_step, log_seen, observed):
    """Log-probability of a sequence of symbols under a hidden Markov model."""
    n = len(log_start)
    alpha = log_start + log_seen[:, observed[0]]
    for t in range(1, len(observed)):
        new = np.zeros_like(alpha)
        for j in range(n):
            new[j] = log_seen[j, observed[t]] + logsumexp(alpha + log_step[:, j])
        alpha = new
    return logsumexp(alpha)


def logsumexp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def main() -> None:
    rng = np.random.default_rng(3)
    state, data = 0.0, np.zeros(500)
    for k in range(500):
        state = 0.9 * state + 0.3 * rng.normal()
        data[k] = state + 0.5 * rng.normal()
    objective = tj.value_and_grad(lambda p: -kalman(data, p[0], np.exp(p[1]), np.exp(p[2])))
    p = np.array([0.5, 0.0, 0.0])
    for _ in range(400):
        value, slope = objective(p)
        p -= 0.002 * slope
    print(f"Kalman: a = {p[0]:.2f}, q = {np.exp(p[1]):.2f}, r = {np.exp(p[2]):.2f}, at {value:.1f}")

    x = np.sin(np.linspace(0, 3, 20))
    by_x = tj.grad(soft_dtw)(x, np.sin(np.linspace(0, 3, 30) ** 1.1), 0.1)
    print(f"soft-DTW pulls hardest at sample {np.argmax(np.abs(by_x))}")


if __name__ == "__main__":
    main()
