"""Fit a model to data with `scipy.optimize.minimize`: value and gradient from one compiled call."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import tracejit as tj


@dataclass
class Data:
    t: np.ndarray
    y: np.ndarray


def model(p, t):
    """A damped oscillation."""
    amplitude, decay, frequency, phase = p
    return amplitude * np.exp(-decay * t) * np.cos(frequency * t + phase)


def misfit(p, data):
    return 0.5 * np.sum((model(p, data.t) - data.y) ** 2)


def main() -> None:
    truth = np.array([2.0, 0.3, 4.0, 0.5])
    t = np.linspace(0.0, 6.0, 400)
    noise = np.random.default_rng(1).normal(0.0, 0.05, t.size)
    data = Data(t, model(truth, t) + noise)

    objective = tj.value_and_grad(misfit)
    found = minimize(objective, x0=[1.5, 0.5, 3.8, 0.3], args=(data,), jac=True, method="BFGS")
    print("true parameters: ", truth)
    print("found parameters:", found.x.round(3), f"after {found.nfev} evaluations")

    # The same with exact products of the Hessian and a vector.
    product = tj.hvp(misfit)
    newton = minimize(
        objective,
        x0=[1.5, 0.5, 3.8, 0.3],
        args=(data,),
        jac=True,
        hessp=lambda p, v, data: product(p, data, v),
        method="trust-krylov",
    )
    print("with Hessian products:", newton.x.round(3), f"after {newton.nit} iterations")

    # How well the data determine the parameters.
    covariance = np.linalg.inv(tj.hessian(misfit)(found.x, data)) * noise.var()
    print("standard errors: ", np.sqrt(covariance.diagonal()).round(4))


if __name__ == "__main__":
    main()
