"""Temporaries: one block of memory for a call, shared in time, kept for the next call, given back for certain."""

import concurrent.futures
import os
import re
import sys

import numpy as np
import pytest

import tracejit as tj
from tracejit.runtime import workspace
from tracejit.runtime.workspace import kept_bytes


def rolled(x):
    """Four temporaries one after the other, of which no two but neighbours are needed at the same time."""
    for shift in range(1, 5):
        x = np.roll(np.exp(np.sin(x)), shift) * np.exp(np.sin(x))
    return x


@pytest.fixture(autouse=True)
def nothing_kept():
    tj.clear_caches()
    assert kept_bytes() == 0
    yield
    tj.clear_caches()


def test_memory_is_kept_and_found_again():
    f = tj.jit(rolled)
    x = np.linspace(0, 1, 100_000)
    f(x)
    kept = kept_bytes()
    assert kept >= x.nbytes
    for _ in range(5):
        f(x)
    assert kept_bytes() == kept
    f(x[:1000])
    assert kept_bytes() == kept, "a small call uses the block of a large one"
    tj.clear_caches()
    assert kept_bytes() == 0


def test_temporaries_share_memory_where_their_lives_do_not_meet():
    x = np.linspace(0, 1, 10_000)
    lowered = tj.jit(rolled).lower(x)
    arrays = re.findall(r"(\w+) = placed\(block, (\w+),", lowered.source)
    assert len(arrays) > len({offset for _, offset in arrays}) >= 2
    assert lowered.memory.outputs == x.nbytes
    assert lowered.memory.workspace == pytest.approx(2 * x.nbytes, rel=0.01)
    assert lowered.memory.peak == lowered.memory.outputs + lowered.memory.workspace
    assert not lowered.memory.grows
    np.testing.assert_allclose(lowered(x), rolled(x), rtol=1e-13)


def test_handles_of_shared_memory_have_one_number():
    """Otherwise LLVM moves the writes of the later array before the reads of the earlier one."""
    source = tj.jit(rolled).lower(np.linspace(0, 1, 1000)).source
    places = dict(re.findall(r"(\w+) = placed\(block, (\w+),", source))
    numbers = dict(re.findall(r"\w+ = distinct\((\w+), (\d+)\)", source))
    shared = {}
    for array, offset in places.items():
        shared.setdefault(offset, set()).add(numbers[array])
    assert all(len(found) == 1 for found in shared.values())
    assert len(set().union(*shared.values())) == len(shared)


def test_the_prediction_is_what_is_taken():
    x = np.linspace(0, 1, 200_000)
    f = tj.jit(rolled)
    predicted = f.lower(x).memory.workspace
    f(x)
    assert predicted <= kept_bytes() <= predicted + 4096


def test_results_never_lie_in_the_workspace():
    f = tj.jit(lambda x: (rolled(x), rolled(x)[::-1]))
    x = np.linspace(0, 1, 5000)
    first = f(x)
    copies = [a.copy() for a in first]
    second = f(x + 1)
    assert all(a.flags.owndata for a in (*first, *second))
    np.testing.assert_array_equal(first[0], copies[0])
    np.testing.assert_array_equal(first[1], copies[1])


def test_exceptions_give_back_what_was_taken():
    def picked(x, places):
        y = np.roll(np.exp(np.sin(x)), 1)
        total = 0.0
        for i in range(len(places)):
            total = total + y[places[i]]
            y[i] = y[i - 1] * total
        return total + np.sum(np.cumsum(y))

    g = tj.value_and_grad(picked)
    x, good = np.linspace(0, 1, 50_000), np.arange(20)
    g(x, good)
    g(x, good)
    kept = kept_bytes()
    bad = np.where(good == 17, 50_000, good)
    for _ in range(50):
        with pytest.raises(IndexError):
            g(x, bad)
    assert kept_bytes() == kept
    caller = g.lower(x, good).njit
    for _ in range(50):
        with pytest.raises(IndexError):
            caller(x, bad)
    assert kept_bytes() == kept
    assert np.isfinite(g(x, good)[0])


def test_memory_of_an_iteration_is_given_back_before_the_next():
    """Masks select a number of entries that only the iteration knows."""

    def masked(x, steps):
        total = 0.0
        for i in range(steps):
            y = x[x > i * 0.1]
            total = total + np.sum(np.cumsum(y) * y)
        return total

    f = tj.jit(masked)
    x = np.linspace(0, 1, 20_000)
    lowered = f.lower(x, 10)
    assert lowered.memory.grows and "back(room, mark" in lowered.source
    f(x, 10)
    kept = kept_bytes()
    f(x, 10)
    assert kept_bytes() == kept < 10 * x.nbytes
    assert f(x, 10) == pytest.approx(masked(x, 10), rel=1e-12)


def test_what_is_kept_is_bounded():
    f = tj.jit(lambda x: np.sum(np.roll(np.cumsum(x), 1)))
    f(np.ones(1000))
    kept = kept_bytes()
    large = np.broadcast_to(np.float64(1.0), (workspace.KEPT_AT_MOST // 8 + 1000,))  # costs nothing by itself
    assert f.lower(large).memory.workspace > workspace.KEPT_AT_MOST
    assert f(large) > 0
    assert kept_bytes() == kept


def test_too_much_is_a_memory_error():
    f = tj.jit(lambda x, y: np.sum(np.cumsum(x[:, None] * y, axis=0), axis=0)[:1])
    x, y = np.ones(10), np.ones(12)
    assert f(x, y) == [55.0]
    huge = np.broadcast_to(np.float64(1.0), (2**40,))
    with pytest.raises(MemoryError):
        f(huge, huge[: 2**39])
    assert f(x, y) == [55.0]


def test_many_threads_have_memory_of_their_own():
    f = tj.jit(rolled)
    inputs = [np.linspace(0, k + 1, 3000 + 7 * k) for k in range(32)]
    expected = [f(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            for found, wanted in zip(pool.map(f, inputs), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)
    assert kept_bytes() <= workspace.KEPT_AT_MOST


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_goes_on():
    f = tj.jit(rolled)
    x = np.linspace(0, 1, 10_000)
    expected = f(x)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(f(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
def test_calls_touch_no_fresh_pages():
    import resource

    f = tj.jit(lambda x: np.sum(rolled(x)))
    x = np.linspace(0, 1, 400_000)
    f(x)
    f(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        f(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 50
