"""A scalar field on a 3-D ``np.meshgrid`` and its gradient at every point: the demonstration, as a script.

    python examples/field_gradient.py [--size N] [--show] [--out PNG] [--no-plot]

The field, its gradient on paper, and the comparison are in ``tracejit/demo.py``.
"""

import sys

from tracejit.demo import main

if __name__ == "__main__":
    sys.exit(main())
