"""Sample operands and parameters of the ops that move entries, for the tables of `op_table`."""

import numpy as np
from op_table import SAMPLES, Sample

_RNG = np.random.default_rng(11)
_X = _RNG.normal(size=(4, 5, 3))
_ROWS = np.array([[0, -1, 2], [2, 1, 0]])
_COLUMNS = np.array([[0, 1, 2], [2, 1, -3]])


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


LINEAR: dict[str, list[Sample]] = {
    "reshape": [
        ((_X,), {"shape": (10, 6)}),
        ((_normal(0, 3),), {"shape": (2, 0, 5)}),
        ((_X,), {"shape": (60,)}),
    ],
    "transpose": [((_X,), {"perm": (1, 2, 0)}), ((_X,), {"perm": (2, 1, 0)})],
    "slice": [
        ((_X,), {"start": (1, 4, 0), "size": (2, 3, 3), "step": (2, -2, 1)}),
        ((_X,), {"start": (1, 0, 0), "size": (2, 0, 3), "step": (1, 1, 1)}),
        ((_X,), {"start": (3, 0, 2), "size": (4, 5, 1), "step": (-1, 1, 1)}),
    ],
    "embed": [
        ((_X,), {"start": (1, 9, 2), "step": (2, -2, 1), "shape": (9, 11, 6)}),
        ((_X,), {"start": (3, 0, 2), "step": (-1, 1, 3), "shape": (4, 5, 10)}),
        ((_normal(0),), {"start": (0,), "step": (1,), "shape": (3,)}),
    ],
    "diagonal": [
        ((_X,), {"axes": (2, 0), "start": (0, 1), "size": 3}),
        ((_X,), {"axes": (0, 1), "start": (0, 0), "size": 0}),
    ],
    "embed_diagonal": [
        ((_X,), {"axes": (2, 0), "start": (1, 0), "shape": (4, 4, 5, 5)}),
        ((_normal(3),), {"axes": (0, 1), "start": (0, 2), "shape": (5, 5)}),
    ],
    "iota": [((), {"shape": (3, 4), "axis": a, "dtype": np.dtype(d)}) for a, d in ((0, "i8"), (1, "f8"))],
    "concatenate": [
        ((_X, _X[:, :2], _X[:, :0], _X * 2), {"axis": 1}),
        ((_normal(2), _normal(5)), {"axis": 0}),
    ],
    "slice_update": [
        ((_X, _normal(2, 3, 1)), {"start": (1, 4, 2), "step": (2, -2, 1)}),
        ((_normal(6), _normal(4)), {"start": (1,), "step": (1,)}),
        ((_normal(6), _normal(0)), {"start": (0,), "step": (1,)}),
    ],
    "gather": [
        ((_X, _ROWS, _COLUMNS), {"axes": (2, 1)}),
        ((_X, np.array(-2)), {"axes": (1,)}),
        ((_X, np.array([3, 3, 0])), {"axes": (0,)}),
    ],
    "scatter_add": [
        ((_X, _normal(2, 3, 4), _ROWS, _COLUMNS), {"axes": (2, 1)}),
        ((_X, _normal(3, 5, 3), np.array([3, 3, 0])), {"axes": (0,)}),
        ((_X, _normal(4, 3), np.array(-2)), {"axes": (1,)}),
    ],
    "scatter_set": [
        ((_X, _normal(2, 3, 4), _ROWS, _COLUMNS), {"axes": (2, 1), "unique": False}),
        ((_X, _normal(3, 5, 3), np.array([3, 3, 0])), {"axes": (0,), "unique": False}),
        ((_X, _normal(3, 5, 3), np.array([3, -3, 0])), {"axes": (0,), "unique": True}),
        ((_X, _normal(4, 3), np.array(-2)), {"axes": (1,), "unique": False}),
    ],
}

SAMPLES.update(LINEAR)
