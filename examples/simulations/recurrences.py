"""Scalar loops: polynomials, roots by iteration, and escape times."""

import numpy as np

import tracejit as tj


def horner(c, x):
    """A polynomial, highest coefficient last."""
    y = 0.0
    for k in range(len(c) - 1, -1, -1):
        y = y * x + c[k]
    return y


def clenshaw(c, x):
    """A series of Chebyshev polynomials."""
    b1, b2 = 0.0, 0.0
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + 2 * x * b1 - b2, b1
    return c[0] + x * b1 - b2


def kepler(mean, eccentricity):
    """The eccentric anomaly of each body by Newton's method, to a tolerance; the sum of their sines."""
    total = 0.0
    for m in mean:
        anomaly = m
        step = 1.0
        while abs(step) > 1e-12:
            step = (anomaly - eccentricity * np.sin(anomaly) - m) / (1 - eccentricity * np.cos(anomaly))
            anomaly = anomaly - step
        total += np.sin(anomaly)
    return total


def bisection(a, low, high):
    """The roots of ``x**3 + x = a`` for an array ``a``; their squares.

    The interval never depends smoothly on ``a``: a step of Newton's method from the root found carries the
    first derivative, a second one the second.
    """
    total = 0.0
    for i in range(len(a)):
        left, right = low, high
        while right - left > 1e-13:
            middle = 0.5 * (left + right)
            if middle**3 + middle < a[i]:
                left = middle
            else:
                right = middle
        x = 0.5 * (left + right)
        for _ in range(2):
            x = x - (x**3 + x - a[i]) / (3 * x**2 + 1)
        total += x * x
    return total


def escape(cx, cy, trips):
    """Smooth count of the iterations of ``z*z + c`` until it escapes."""
    x, y = 0 * cx, 0 * cy
    count = 0.0
    for k in range(trips):
        x, y = x * x - y * y + cx, 2 * x * y + cy
        square = x * x + y * y
        if square > 1e4:
            count = k + 1 - np.log(0.5 * np.log(square)) / np.log(2.0)
            break
    return count


def escape_grid(cx, cy, trips):
    """The sum over a grid of points; early ``continue`` for those known to stay."""
    total = 0.0
    for i in range(len(cy)):
        for j in range(len(cx)):
            if (cx[j] + 1) ** 2 + cy[i] ** 2 < 0.0625:
                continue
            total += escape(cx[j], cy[i], trips)
    return total


def main() -> None:
    c, x = np.arange(1.0, 6.0), 0.5
    print("powers of x from Horner's scheme:", tj.grad(horner)(c, x))
    print(f"third derivative: {tj.grad(tj.grad(tj.grad(horner, 1), 1), 1)(c, x):.1f}")
    mean = np.array([0.5, 1.0])
    value, (by_mean, by_e) = tj.value_and_grad(kepler, argnums=(0, 1))(mean, 0.6)
    print(f"Kepler: {value:.6f}, by mean anomaly {by_mean.round(6)}, by eccentricity {by_e:.6f}")
    squares, slopes = tj.value_and_grad(bisection)(np.array([2.0, 10.0]), 0.0, 5.0)
    print(f"roots 1 and 2: squares {squares:.6f}, slopes {slopes.round(6)} = {[2 / 4, round(4 / 13, 6)]}")
    print("slope of the escape count:", [round(float(g), 4) for g in tj.grad(escape, (0, 1))(0.4, 0.3, 100)])


if __name__ == "__main__":
    main()
