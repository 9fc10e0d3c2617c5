"""Optimisation inside the function: the loop descends along a gradient, and its result is differentiated.

The loss itself iterates an unknown number of times. Inner and outer derivative may be taken in either mode.
"""

import numpy as np

import tracejit as tj


def loss(w, target):
    """Distance of a square root, found by Newton's method to a tolerance, from a target."""
    square = 1 + w * w
    root = 1 + 0.5 * w * w
    while abs(root * root - square) > 1e-12:
        root = 0.5 * (root + square / root)
    return (root - target) ** 2 + 0.1 * (w - target) ** 2


def slope_in_reverse(w, target):
    return tj.grad(loss)(w, target)


def slope_forward(w, target):
    _, tangent = tj.jvp(loss, (w, target), (1.0, 0.0))
    return tangent


def descend_in_reverse(target, rate, steps):
    """Where gradient descent arrives."""
    w = 0.5
    for _ in range(steps):
        w = w - rate * slope_in_reverse(w, target)
    return w


def descend_forward(target, rate, steps):
    """The same with derivatives in forward mode inside."""
    w = 0.5
    for _ in range(steps):
        w = w - rate * slope_forward(w, target)
    return w


def ridge(penalty, x, y, rate, steps):
    """A linear model fitted by descent, judged on the data of the other half."""
    half = len(y) // 2

    def objective(w):
        miss = x[:half] @ w - y[:half]
        return 0.5 * np.sum(miss**2) + 0.5 * penalty * np.sum(w**2)

    w = np.zeros(x.shape[1]) + 0 * penalty
    for _ in range(steps):
        w = w - rate * tj.grad(objective)(w)
    return np.sum((x[half:] @ w - y[half:]) ** 2)


def main() -> None:
    for descend in (descend_in_reverse, descend_forward):
        value, reverse = tj.value_and_grad(descend)(1.3, 0.2, 20)
        _, forward = tj.jvp(lambda t, f=descend: f(t, 0.2, 20), (1.3,), (1.0,))
        print(f"{descend.__name__}: {value:.6f}, reverse outside {reverse:.6f}, forward {forward:.6f}")

    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 10))
    y = x @ np.repeat([1.0, -1.0], 5) + 1.0 * rng.normal(size=40)
    hyper = tj.value_and_grad(ridge)
    penalty = 0.1
    for _ in range(100):
        value, slope = hyper(penalty, x, y, 0.02, 200)
        penalty -= 0.3 * slope
    print(f"best penalty {penalty:.3f}, with an error of {value:.3f} on unseen data; slope {slope:.0e}")


if __name__ == "__main__":
    main()
