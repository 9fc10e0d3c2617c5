"""Ordinary differential equations: fixed steps, adaptive steps, and an object that steps itself."""

import math

import numpy as np

import tracejit as tj


def predator_prey(y, p):
    a, b, c, d = p
    return np.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])


def rk4(y, p, h, steps):
    """Lotka and Volterra's equations by the classical method of fourth order."""
    for _ in range(steps):
        k1 = predator_prey(y, p)
        k2 = predator_prey(y + h / 2 * k1, p)
        k3 = predator_prey(y + h / 2 * k2, p)
        k4 = predator_prey(y + h * k3, p)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0] * y[1]


def scalar_rk4(y, rate, h, steps):
    """One number and nothing else: logistic growth."""
    for _ in range(steps):
        k1 = rate * y * (1 - y)
        z = y + 0.5 * h * k1
        k2 = rate * z * (1 - z)
        z = y + 0.5 * h * k2
        k3 = rate * z * (1 - z)
        z = y + h * k3
        k4 = rate * z * (1 - z)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def van_der_pol(x, v, mu):
    return v, mu * (1 - x * x) * v - x


def rk45(x, v, mu, end, tolerance):
    """Van der Pol's oscillator with the embedded pair of Dormand and Prince.

    How many steps there are, and which are rejected, is known only while it runs.
    """
    t, h = 0.0, 0.1
    while t < end:
        if t + h > end:
            h = end - t
        a1, b1 = van_der_pol(x, v, mu)
        a2, b2 = van_der_pol(x + h * a1 / 5, v + h * b1 / 5, mu)
        a3, b3 = van_der_pol(x + h * (3 * a1 + 9 * a2) / 40, v + h * (3 * b1 + 9 * b2) / 40, mu)
        a4, b4 = van_der_pol(
            x + h * (44 / 45 * a1 - 56 / 15 * a2 + 32 / 9 * a3),
            v + h * (44 / 45 * b1 - 56 / 15 * b2 + 32 / 9 * b3),
            mu,
        )
        a5, b5 = van_der_pol(
            x + h * (19372 / 6561 * a1 - 25360 / 2187 * a2 + 64448 / 6561 * a3 - 212 / 729 * a4),
            v + h * (19372 / 6561 * b1 - 25360 / 2187 * b2 + 64448 / 6561 * b3 - 212 / 729 * b4),
            mu,
        )
        a6, b6 = van_der_pol(
            x
            + h * (9017 / 3168 * a1 - 355 / 33 * a2 + 46732 / 5247 * a3 + 49 / 176 * a4 - 5103 / 18656 * a5),
            v
            + h * (9017 / 3168 * b1 - 355 / 33 * b2 + 46732 / 5247 * b3 + 49 / 176 * b4 - 5103 / 18656 * b5),
            mu,
        )
        new_x = x + h * (35 / 384 * a1 + 500 / 1113 * a3 + 125 / 192 * a4 - 2187 / 6784 * a5 + 11 / 84 * a6)
        new_v = v + h * (35 / 384 * b1 + 500 / 1113 * b3 + 125 / 192 * b4 - 2187 / 6784 * b5 + 11 / 84 * b6)
        a7, b7 = van_der_pol(new_x, new_v, mu)
        ex = h * (
            71 / 57600 * a1 - 71 / 16695 * a3 + 71 / 1920 * a4 - 17253 / 339200 * a5 + 22 / 525 * a6 - a7 / 40
        )
        ev = h * (
            71 / 57600 * b1 - 71 / 16695 * b3 + 71 / 1920 * b4 - 17253 / 339200 * b5 + 22 / 525 * b6 - b7 / 40
        )
        error = np.sqrt((ex * ex + ev * ev) / 2) / tolerance
        if error < 1:
            t = t + h
            x, v = new_x, new_v
        h = h * min(5.0, max(0.2, 0.9 * (error + 1e-10) ** -0.2))
    return x


class Pendulum:
    """A damped pendulum that keeps its state, its clock and its path."""

    def __init__(self, length, damping, dt, steps):
        self.length = length
        self.damping = damping
        self.dt = dt
        self.t = 0.0
        self.state = np.array([1.0, 0.0]) + 0 * length
        self.path = np.zeros(steps) + 0 * length

    def step(self, k):
        angle, speed = self.state
        torque = -9.81 / self.length * np.sin(angle) - self.damping * speed + 0.5 * math.cos(self.t)
        self.state[1] += self.dt * torque
        self.state[0] += self.dt * self.state[1]
        self.path[k] = self.state[0]
        self.t += self.dt


def pendulum(length, damping, steps):
    """Mean square of the angle of a driven pendulum."""
    p = Pendulum(length, damping, 0.01, steps)
    for k in range(steps):
        p.step(k)
    return np.sum(p.path**2) / steps


def main() -> None:
    y, p = np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.1, 0.4])
    value, (_, by_p) = tj.value_and_grad(rk4, argnums=(0, 1))(y, p, 0.01, 1000)
    print(f"predators times prey after ten years: {value:.4f}, by rates {by_p.round(3)}")
    value, (_, _, by_mu) = tj.value_and_grad(rk45, argnums=(0, 1, 2))(2.0, 0.0, 1.0, 10.0, 1e-8)
    print(f"van der Pol at t = 10: {value:.6f}, by mu {by_mu:.6f}")
    value, slope = tj.value_and_grad(pendulum)(0.8, 0.2, 1000)
    print(f"swing of the pendulum: {value:.4f}, per metre {slope:.4f}")


if __name__ == "__main__":
    main()
