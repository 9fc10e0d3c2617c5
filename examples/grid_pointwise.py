"""Derivatives element by element on a grid: what people try first, and what it gives.

The field is ``x**2 + y`` on a small grid of integers.
"""

import numpy as np

import tracejit as tj

X = np.array([[1, 2], [1, 2]])
Y = np.array([[1, 1], [2, 2]])


def field(x, y):
    return x**2 + y


def main() -> None:
    # The derivative at each point, if the function is pointwise: tracejit proves that it is.
    print("elementwise_grad:", tj.elementwise_grad(field)(X, Y), sep="\n")
    print('jacobian(structure="pointwise"):', tj.jacobian(field, structure="pointwise")(X, Y), sep="\n")

    # The gradient of the sum is the same here, because each point adds one term.
    print("grad of the sum:", tj.grad(lambda x, y: field(x, y).sum())(X, Y), sep="\n")

    # The gradient of one entry touches one point.
    print("grad of entry [0, 0]:", tj.grad(lambda x, y: field(x, y)[0, 0])(X, Y), sep="\n")

    # All pairs of output and input points: mostly zeros.
    dense = tj.jacobian(lambda x, y: field(x, y).flatten())(X, Y)
    print("shape of the dense Jacobian:", dense.shape)
    print("its diagonal:", dense.reshape(4, 4).diagonal())

    # grad of the field itself has no meaning, and the error says what to write instead.
    try:
        tj.grad(field)(X, Y)
    except tj.errors.NonScalarOutputError as error:
        print("grad of the field:", error)


if __name__ == "__main__":
    main()
