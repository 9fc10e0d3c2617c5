"""Maxima along axes, ties, places of maxima, and arguments that do not matter."""

import numpy as np

import tracejit as tj

X = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])


def main() -> None:
    # Tied entries share the gradient: it sums to one per maximum.
    for axis in (None, 0, 1, -1, (0, 1)):
        slope = tj.grad(lambda x, axis: np.sum(np.max(x, axis=axis)), argnums=0)(X, axis)
        print(f"np.max(x, axis={axis}):", slope.tolist())

    # The place of a maximum is an integer: nothing depends on it smoothly.
    def pick(x, weights):
        return weights[np.argmax(x, axis=1)].sum()

    by_x, by_weights = tj.grad(pick, argnums=(0, 1))(X, np.array([1.0, 2.0, 4.0]))
    print("by x:", by_x.tolist(), "by the weights:", by_weights.tolist())

    # By default a gradient that is zero everywhere is just zeros; ask, and it is an error.
    try:
        tj.grad(pick, disconnected="raise")(X, np.array([1.0, 2.0, 4.0]))
    except tj.errors.DisconnectedError as error:
        print(error)


if __name__ == "__main__":
    main()
