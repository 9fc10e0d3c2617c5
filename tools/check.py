"""Format, lint and types in one command, as continuous integration runs them: ``python tools/check.py``.

``python tools/check.py --fix`` first repairs what ruff can repair by itself.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
)
REPAIRS = (
    ("ruff", "check", "--fix", "--quiet", "--exit-zero", "."),
    ("ruff", "format", "."),
)


def run(command: tuple[str, ...]) -> bool:
    """Run one tool of this very environment; true if it had nothing to say."""
    print("$", *command, flush=True)
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Run every check, also after one has failed, so that one run shows everything."""
    if arguments not in ([], ["--fix"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        for repair in REPAIRS:
            run(repair)
    passed = [run(check) for check in CHECKS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
