"""Matrix factorizations as textbooks print them: in place, with scalar loops over triangles."""

import math

import numpy as np

import tracejit as tj


def thomas(lower, diagonal, upper, right):
    """A tridiagonal system; the sum of the squares of its solution."""
    n = len(diagonal)
    d, x = diagonal.copy(), right.copy()
    for i in range(1, n):
        w = lower[i - 1] / d[i - 1]
        d[i] -= w * upper[i - 1]
        x[i] -= w * x[i - 1]
    x[n - 1] /= d[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = (x[i] - upper[i] * x[i + 1]) / d[i]
    return np.sum(x * x)


def cholesky(a):
    """Log-determinant from the factor, which replaces the lower triangle."""
    a = a.copy()
    n = a.shape[0]
    for j in range(n):
        for i in range(j, n):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            if i == j:
                a[j, j] = np.sqrt(s)
            else:
                a[i, j] = s / a[j, j]
    total = 0.0
    for i in range(n):
        total += 2 * np.log(a[i, i])
    return total


def cholesky_slices(a):
    """The same with products of rows whose length depends on the loops."""
    a = a.copy()
    n = a.shape[0]
    for j in range(n):
        a[j, j] = np.sqrt(a[j, j] - a[j, :j] @ a[j, :j])
        for i in range(j + 1, n):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
    return 2 * np.sum(np.log(np.diag(a)))


def lu(a):
    """Doolittle's elimination in place; log of the absolute determinant."""
    a = a.copy()
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    total = 0.0
    for k in range(n):
        total += np.log(a[k, k] ** 2) / 2
    return total


def ldl(a):
    """Unit lower triangle and diagonal of a symmetric matrix."""
    n = a.shape[0]
    low = np.zeros_like(a)
    d = np.zeros_like(a[0])
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= low[j, k] ** 2 * d[k]
        d[j] = s
        low[j, j] = 1.0
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= low[i, k] * low[j, k] * d[k]
            low[i, j] = s / d[j]
    return np.sum(np.log(d)) + np.sum(low)


def gram_schmidt(a):
    """Columns made orthonormal one after the other; what is left of the last one counts."""
    q = a.copy()
    rows, columns = q.shape
    total = 0.0
    for i in range(columns):
        for j in range(i):
            dot = 0.0
            for k in range(rows):
                dot += q[k, i] * q[k, j]
            for k in range(rows):
                q[k, i] -= dot * q[k, j]
        square = 0.0
        for k in range(rows):
            square += q[k, i] ** 2
        norm = np.sqrt(square)
        for k in range(rows):
            q[k, i] /= norm
        total += np.log(norm) * q[0, i]
    return total


def main() -> None:
    points = np.linspace(0, 1, 12)
    observed = np.cos(5 * points)

    def misfit(length):
        """Negative log-likelihood of a Gaussian process, up to constants."""
        matrix = np.exp(-0.5 * ((points[:, None] - points) / length) ** 2) + 0.01 * np.eye(12)
        return 0.5 * cholesky(matrix) + 0.5 * observed @ np.linalg.solve(matrix, observed)

    slope, curvature = tj.grad(misfit), tj.grad(tj.grad(misfit))
    length = 0.3
    for _ in range(8):
        length -= slope(length) / abs(curvature(length))
    print(f"most likely length of the Gaussian process: {length:.4f}, slope {abs(slope(length)):.0e}")
    matrix = np.exp(-math.pi * (points[:, None] - points) ** 2) + np.eye(12)
    error = np.max(np.abs(tj.grad(lu)(matrix) - np.linalg.inv(matrix).T))
    print(f"gradient of log|det| through LU against the inverse: {error:.0e}")


if __name__ == "__main__":
    main()
