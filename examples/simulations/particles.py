"""Particles: gravity with a leapfrog integrator, a Lennard-Jones fluid with cutoff, charges on a grid."""

import numpy as np

import tracejit as tj


def leapfrog(position, velocity, mass, steps):
    """Bodies under their own gravity, softened; kinetic energy at the end."""
    x, v = position.copy(), velocity.copy()
    n = len(mass)
    dt = 0.01
    for _ in range(steps):
        x += 0.5 * dt * v
        for i in range(n):
            for j in range(n):
                if i != j:
                    dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                    pull = dt * mass[j] / (dx * dx + dy * dy + dz * dz + 0.01) ** 1.5
                    v[i, 0] += pull * dx
                    v[i, 1] += pull * dy
                    v[i, 2] += pull * dz
        x += 0.5 * dt * v
    return 0.5 * np.sum(mass * np.sum(v * v, axis=1))


def lennard_jones(x, sigma, cutoff):
    """Energy of all pairs that are closer than the cutoff."""
    n = x.shape[0]
    energy = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 0.0
            for d in range(x.shape[1]):
                r2 += (x[i, d] - x[j, d]) ** 2
            if r2 < cutoff**2:
                s6 = (sigma**2 / r2) ** 3
                energy += 4 * (s6 * s6 - s6)
    return energy


def charge_on_grid(x, charge, cells):
    """Particles in cells: each one shares its charge among two points; energy of the density."""
    rho = np.zeros(cells)
    for p in range(len(x)):
        place = x[p] * (cells - 1)
        i = int(place)
        w = place - i
        rho[i] += charge[p] * (1 - w)
        rho[i + 1] += charge[p] * w
    return np.sum(rho**2)


def main() -> None:
    rng = np.random.default_rng(0)
    x = np.stack(np.meshgrid(*3 * [np.arange(3.0)]), -1).reshape(-1, 3) + rng.uniform(-0.1, 0.1, (27, 3))
    force = tj.value_and_grad(lennard_jones)
    before = lennard_jones(x, 1.0, 2.5)
    for _ in range(200):
        energy, slope = force(x, 1.0, 2.5)
        x -= 0.002 * slope / max(1.0, 0.02 * np.abs(slope).max())
    print(f"27 atoms relaxed from {before:.1f} to {energy:.1f}")
    v = rng.normal(size=(27, 3))
    by_mass = tj.grad(leapfrog, argnums=2)(x, v, np.ones(27), 20)
    print("the body whose mass counts most:", int(np.argmax(np.abs(by_mass))))


if __name__ == "__main__":
    main()
