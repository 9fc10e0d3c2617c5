"""What every test shares: reproducible hypothesis, one BLAS thread per worker, no display."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext

# Before NumPy is imported: the workers share the cores already.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# A failing test shows where in tracejit it failed.
os.environ.setdefault("TRACEJIT_FULL_TRACEBACK", "1")
# What earlier runs compiled has no influence.
os.environ["TRACEJIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="tracejit-tests-")
atexit.register(shutil.rmtree, os.environ["TRACEJIT_CACHE_DIR"], ignore_errors=True)

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import tracejit as tj
from tracejit.runtime.entries import clear_entries

# A first example may compile, so time limits per example would only measure Numba.
_common = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _common, derandomize=True, database=None, max_examples=25)
settings.register_profile("thorough", _common, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240917)


@pytest.fixture(params=["interpreted", "compiled"])
def each_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test with NumPy in the place of compiled code, and compiled; every tape is verified."""
    monkeypatch.setenv("TRACEJIT_VERIFY", "1")
    clear_entries()  # the other mode's traces would serve the functions of this one
    with tj.interpret() if request.param == "interpreted" else nullcontext():
        yield request.param
