"""Every public callable of NumPy, and every ufunc of scipy.special, has its place in ``tools/coverage.py``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.special

import tracejit as tj
from tracejit.errors import UnsupportedError
from tracejit.frontend.alternatives import ALTERNATIVES

ROOT = Path(__file__).resolve().parent.parent


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tracejit_coverage", ROOT / "tools" / "coverage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


coverage = _load()
ROWS = coverage.rows()
MADE_HERE = coverage.versions() in coverage.DOCUMENT.read_text()


def test_everything_is_sorted():
    assert len(ROWS) > 700
    assert {r.kind for r in ROWS} == set(coverage.KINDS)
    assert {r.namespace for r in ROWS} == {"numpy", "numpy.linalg", "numpy.fft", "scipy.special"}


def test_what_nobody_sorted_is_noticed():
    with pytest.raises(LookupError, match=r"numpy\.brand_new is not sorted"):
        coverage.sort("numpy", "brand_new", lambda x: x)


def test_a_table_must_not_name_what_is_supported(monkeypatch):
    monkeypatch.setattr(coverage, "CONSTANT", {"sum"})
    with pytest.raises(LookupError, match=r"numpy\.sum is supported"):
        coverage.sort("numpy", "sum", np.sum)


@pytest.mark.skipif(not MADE_HERE, reason="the document was made with other versions")
def test_tables_name_nothing_that_does_not_exist():
    names = {r.name for r in ROWS}
    for table in (coverage.ZERO, coverage.CONSTANT, coverage.NOT_ARRAY_MATH, coverage.UNSUPPORTED):
        assert set(table) <= names


@pytest.mark.skipif(not MADE_HERE, reason="the document was made with other versions")
def test_the_document_is_up_to_date():
    assert coverage.DOCUMENT.read_text() == coverage.document(), "run: python tools/coverage.py"


def test_few_functions_of_numpy_are_unsupported():
    refused = [r for r in ROWS if r.kind == "unsupported" and r.namespace != "scipy.special"]
    assert len(refused) <= 10
    assert all("instead: " in r.remark for r in refused)
    assert {f.__name__ for f in ALTERNATIVES} <= {r.name for r in refused}


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.kind == "unsupported" and r.namespace == "scipy.special"][:3]
)
def test_unsupported_ufuncs_raise(row):
    ufunc = getattr(scipy.special, row.name)
    with pytest.raises(UnsupportedError, match=row.name):
        tj.jit(lambda x: ufunc(*(x,) * ufunc.nin))(0.5)
