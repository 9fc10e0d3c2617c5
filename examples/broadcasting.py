"""Broadcasting, reversed exactly: the gradient has the shape of what was broadcast."""

import numpy as np

import tracejit as tj

A = np.ones((1, 3))


def product(x, a):
    """Insert an axis, take it out again, multiply by a row."""
    return x[..., None, :][..., 0].dot(a).sum()


def mixed(x, row, column, number):
    """A matrix, a row, a column and a number in one expression."""
    return np.sum(x * row + column / number)


def main() -> None:
    for dtype in (np.float64, np.float32):
        a = A.astype(dtype)
        flat = tj.grad(product, argnums=1)(np.ones((5, 10), dtype), a)
        print(f"x of shape (5, 10), {a.dtype}:", flat, flat.shape, flat.dtype)
    wide = tj.grad(lambda x, a: x[..., 0].dot(a).sum(), argnums=1)(np.ones((5, 1, 10)), A)
    print("x of shape (5, 1, 10):", wide, wide.shape)

    x, row, column = np.ones((3, 4)), np.arange(4.0), np.ones((3, 1))
    for gradient in tj.grad(mixed, argnums=(0, 1, 2, 3))(x, row, column, 2.0):
        print("shape", np.shape(gradient), "gradient", np.asarray(gradient).tolist())


if __name__ == "__main__":
    main()
