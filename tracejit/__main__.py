"""``python -m tracejit demo``."""

from __future__ import annotations

import sys

from tracejit.demo import main

USAGE = "usage: python -m tracejit demo [--size N] [--show] [--out PNG] [--no-plot]"


def run(arguments: list[str]) -> int:
    """Run the command that the first argument names; return the exit code."""
    if arguments[:1] == ["demo"]:
        return main(arguments[1:])
    print(USAGE, file=sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
