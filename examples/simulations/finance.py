"""An Asian option by Monte Carlo over fixed normal numbers: price, delta and vega from one call."""

import math

import numpy as np

import tracejit as tj


def asian_option(spot, volatility, strike, normals):
    """Discounted mean of the payoff on the average price of a path."""
    paths, days = normals.shape
    rate, dt = 0.03, 1.0 / days
    payoff = 0.0
    for p in range(paths):
        price = spot
        total = 0.0
        for d in range(days):
            drift = (rate - 0.5 * volatility**2) * dt
            price = price * np.exp(drift + volatility * math.sqrt(dt) * normals[p, d])
            total += price
        average = total / days
        if average > strike:
            payoff += average - strike
    return math.exp(-rate) * payoff / paths


def main() -> None:
    normals = np.random.default_rng(5).normal(size=(2000, 50))
    price, (delta, vega) = tj.value_and_grad(asian_option, argnums=(0, 1))(100.0, 0.2, 100.0, normals)
    print(f"price {price:.3f}, delta {delta:.4f}, vega {vega:.3f}")


if __name__ == "__main__":
    main()
