"""The threads that large loop nests are split over, and how many of them are used.

A kernel hands `tjt_split` a function of a range of chunks, which works on its own chunks only; how long a chunk is
depends on sizes alone, so results do not depend on who does which. Threads are native, know nothing of Python, and
wait for work on Python's locks, the ones that need no interpreter lock and exist on every platform. One caller at a
time has them; others, which come meanwhile from threads of their own, do their chunks by themselves, and so does a
child after a fork until it starts its own threads. A thread that has not woken up when the work is done is not waited
for.
"""

from __future__ import annotations

import ctypes
import functools
import os
from types import TracebackType

import numpy as np

from tracejit.runtime.native_code import addresses, function
from tracejit.runtime.symbols import finder

__all__ = ["CALLED", "LEAST_WORK", "get_threads", "number_of_threads", "set_least_work", "set_threads"]

LEAST_WORK = 2**19
"""Operations from which on a nest is split: about 100 us, where waking a thread takes ten."""

_MOST = 256
"""Threads."""

_PATIENCE = 2000
"""Looks at a thread that is still working before its end is slept for."""

_TEXT = """
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)
declare i32 @PyThread_start_new_thread(ptr, ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; What a worker does (IDLE 0, CALLED 1, WORKING 2, AWAITED 3), whether it was woken, what it sleeps on, and what is
; released at its end if that is awaited. A cache line each.
%worker = type { i64, i64, ptr, ptr, [4 x i64] }
@workers = internal global [MOST x %worker] zeroinitializer, align 64
@started = internal global i64 0
@busy = internal global i64 0
@threads = internal global i64 1
@least = internal global i64 LEAST_WORK

@part = internal global ptr null
@context = internal global ptr null
@chunks = internal global i64 0
@grain = internal global i64 1
@next = internal global i64 0, align 64

; Do chunks until there are none.
define internal void @run() {
start:
  %part = load ptr, ptr @part
  %context = load ptr, ptr @context
  %chunks = load i64, ptr @chunks
  %grain = load i64, ptr @grain
  br label %loop
loop:
  %first = atomicrmw add ptr @next, i64 %grain monotonic
  %done = icmp sge i64 %first, %chunks
  br i1 %done, label %end, label %body
body:
  %reach = add i64 %first, %grain
  %last = call i64 @llvm.smin.i64(i64 %reach, i64 %chunks)
  call void %part(ptr %context, i64 %first, i64 %last)
  br label %loop
end:
  ret void
}

define internal void @work(ptr %self) {
start:
  %woken = getelementptr %worker, ptr %self, i64 0, i32 1
  %bed.place = getelementptr %worker, ptr %self, i64 0, i32 2
  %bed = load ptr, ptr %bed.place
  %end.place = getelementptr %worker, ptr %self, i64 0, i32 3
  %end = load ptr, ptr %end.place
  br label %sleep
sleep:
  %up = call i32 @PyThread_acquire_lock(ptr %bed, i32 1)
  %was.woken = atomicrmw xchg ptr %woken, i64 0 seq_cst
  %claim = cmpxchg ptr %self, i64 1, i64 2 seq_cst seq_cst
  %claimed = extractvalue { i64, i1 } %claim, 1
  br i1 %claimed, label %go, label %sleep
go:
  call void @run()
  %state = atomicrmw xchg ptr %self, i64 0 seq_cst
  %awaited = icmp eq i64 %state, 3
  br i1 %awaited, label %tell, label %sleep
tell:
  call void @PyThread_release_lock(ptr %end)
  br label %sleep
}

; Start threads until there are so many; return how many there are, at most so many.
define internal i64 @recruit(i64 %wanted) {
start:
  %most = call i64 @llvm.smin.i64(i64 %wanted, i64 MOST)
  br label %loop
loop:
  %have = load i64, ptr @started
  %enough = icmp sge i64 %have, %most
  br i1 %enough, label %full, label %make
make:
  %self = getelementptr [MOST x %worker], ptr @workers, i64 0, i64 %have
  %bed = call ptr @PyThread_allocate_lock()
  %end = call ptr @PyThread_allocate_lock()
  %no.bed = icmp eq ptr %bed, null
  %no.end = icmp eq ptr %end, null
  %neither = or i1 %no.bed, %no.end
  br i1 %neither, label %full, label %close
close:
  %bed.taken = call i32 @PyThread_acquire_lock(ptr %bed, i32 1)
  %end.taken = call i32 @PyThread_acquire_lock(ptr %end, i32 1)
  %bed.place = getelementptr %worker, ptr %self, i64 0, i32 2
  store ptr %bed, ptr %bed.place
  %end.place = getelementptr %worker, ptr %self, i64 0, i32 3
  store ptr %end, ptr %end.place
  %thread = call i32 @PyThread_start_new_thread(ptr @work, ptr %self)
  %failed = icmp eq i32 %thread, -1
  br i1 %failed, label %full, label %count
count:
  %more = add i64 %have, 1
  store i64 %more, ptr @started
  br label %loop
full:
  %all = load i64, ptr @started
  %found = call i64 @llvm.smin.i64(i64 %all, i64 %most)
  ret i64 %found
}

; Call part(context, first, last) for ranges that make up the chunks, by several threads where it is worth it.
define void @tjt_split(ptr %part, ptr %context, i64 %chunks, i64 %work, i64 %wish) {
start:
  %default = load atomic i64, ptr @threads monotonic, align 8
  %no.wish = icmp eq i64 %wish, 0
  %given = select i1 %no.wish, i64 %default, i64 %wish
  %threads = call i64 @llvm.smin.i64(i64 %given, i64 %chunks)
  %several = icmp sgt i64 %threads, 1
  %least = load atomic i64, ptr @least monotonic, align 8
  %long = icmp sge i64 %work, %least
  %worth = and i1 %several, %long
  br i1 %worth, label %ask, label %alone
alone:
  call void %part(ptr %context, i64 0, i64 %chunks)
  ret void
ask:
  %claim = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %claimed = extractvalue { i64, i1 } %claim, 1
  br i1 %claimed, label %prepare, label %alone
prepare:
  %wanted = sub i64 %threads, 1
  %helpers = call i64 @recruit(i64 %wanted)
  %all = add i64 %helpers, 1
  %turns = mul i64 %all, 8
  %share = sdiv i64 %chunks, %turns
  %grain = call i64 @llvm.smax.i64(i64 %share, i64 1)
  store ptr %part, ptr @part
  store ptr %context, ptr @context
  store i64 %chunks, ptr @chunks
  store i64 %grain, ptr @grain
  store atomic i64 0, ptr @next monotonic, align 8
  br label %call
call:
  %n = phi i64 [0, %prepare], [%n.next, %called]
  %all.called = icmp eq i64 %n, %helpers
  br i1 %all.called, label %join, label %wake
wake:
  %worker = getelementptr [MOST x %worker], ptr @workers, i64 0, i64 %n
  store atomic i64 1, ptr %worker seq_cst, align 8
  %woken = getelementptr %worker, ptr %worker, i64 0, i32 1
  %before = atomicrmw xchg ptr %woken, i64 1 seq_cst
  %asleep = icmp eq i64 %before, 0
  br i1 %asleep, label %ring, label %called
ring:
  %bed.place = getelementptr %worker, ptr %worker, i64 0, i32 2
  %bed = load ptr, ptr %bed.place
  call void @PyThread_release_lock(ptr %bed)
  br label %called
called:
  %n.next = add i64 %n, 1
  br label %call
join:
  call void @run()
  br label %collect
collect:
  %m = phi i64 [0, %join], [%m.next, %collected]
  %all.collected = icmp eq i64 %m, %helpers
  br i1 %all.collected, label %end, label %dismiss
dismiss:
  %other = getelementptr [MOST x %worker], ptr @workers, i64 0, i64 %m
  %back = cmpxchg ptr %other, i64 1, i64 0 seq_cst seq_cst
  %dismissed = extractvalue { i64, i1 } %back, 1
  br i1 %dismissed, label %collected, label %watch
watch:
  %looks = phi i64 [0, %dismiss], [%looks.next, %look]
  %state = load atomic i64, ptr %other acquire, align 8
  %idle = icmp eq i64 %state, 0
  br i1 %idle, label %collected, label %look
look:
  %looks.next = add i64 %looks, 1
  %patient = icmp slt i64 %looks, PATIENCE
  br i1 %patient, label %watch, label %announce
announce:
  %notice = cmpxchg ptr %other, i64 2, i64 3 seq_cst seq_cst
  %noticed = extractvalue { i64, i1 } %notice, 1
  br i1 %noticed, label %await, label %collected
await:
  %end.place = getelementptr %worker, ptr %other, i64 0, i32 3
  %end.lock = load ptr, ptr %end.place
  %over = call i32 @PyThread_acquire_lock(ptr %end.lock, i32 1)
  br label %collected
collected:
  %m.next = add i64 %m, 1
  br label %collect
end:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}

define void @tjt_set_threads(i64 %count) {
  store atomic i64 %count, ptr @threads monotonic, align 8
  ret void
}

define void @tjt_set_least(i64 %work) {
  store atomic i64 %work, ptr @least monotonic, align 8
  ret void
}

; In the child of a fork there are no threads, and nobody is at work.
define void @tjt_forked() {
start:
  store i64 0, ptr @started
  store i64 0, ptr @busy
  br label %loop
loop:
  %n = phi i64 [0, %start], [%n.next, %body]
  %done = icmp eq i64 %n, MOST
  br i1 %done, label %end, label %body
body:
  %worker = getelementptr [MOST x %worker], ptr @workers, i64 0, i64 %n
  store %worker zeroinitializer, ptr %worker
  %n.next = add i64 %n, 1
  br label %loop
end:
  ret void
}
"""

_VALUES = {"LEAST_WORK": LEAST_WORK, "MOST": _MOST, "PATIENCE": _PATIENCE}
CALLED = ("tjt_split",)
"""Functions that kernels call."""

_NAMES = ("tjt_split", "tjt_set_threads", "tjt_set_least", "tjt_forked")


@functools.cache
def _text() -> str:
    return functools.reduce(lambda text, item: text.replace(item[0], str(item[1])), _VALUES.items(), _TEXT)


@finder("tjt_")
def _address(name: str) -> int | None:
    """Return the address of a function that kernels call."""
    return _loaded()[name]


@functools.cache
def _loaded() -> dict[str, int]:
    """Return where the functions are; from now on they know how many threads there are to be."""
    found = addresses(_text(), *_NAMES)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function(_text(), _NAMES, "tjt_forked", None))
    _native("tjt_set_threads", get_threads())
    return found


def _native(name: str, value: int) -> None:
    function(_text(), _NAMES, name, None, ctypes.c_int64)(value)


# --- how many -----------------------------------------------------------------------------------------------


class _Setting:
    chosen: int | None = None


def get_threads() -> int:
    """Return how many threads a large loop nest may use.

    Examples
    --------
    >>> import tracejit as tj
    >>> with tj.set_threads(2):
    ...     tj.get_threads()
    2
    """
    return _default_threads() if _Setting.chosen is None else _Setting.chosen


def set_threads(count: int) -> ThreadsChanged:
    """Let large loop nests use this many threads, in the whole process.

    Results do not depend on it, bit for bit. The number at the start is ``NUMBA_NUM_THREADS``, or else
    ``OMP_NUM_THREADS``, or else that of the processors that the process may use.

    Parameters
    ----------
    count : int
        From 1 on.

    Returns
    -------
    ThreadsChanged
        In a ``with`` statement it sets the former number at the end.

    Examples
    --------
    >>> import tracejit as tj
    >>> before = tj.get_threads()
    >>> with tj.set_threads(1):
    ...     tj.get_threads()
    1
    >>> tj.get_threads() == before
    True
    """
    changed = ThreadsChanged(_Setting.chosen)
    _set(number_of_threads(count))
    return changed


class ThreadsChanged:
    """What `set_threads` returns: a context manager that takes it back."""

    def __init__(self, before: int | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set(self._before)


def _set(count: int | None) -> None:
    _Setting.chosen = count
    if _loaded.cache_info().currsize:
        _native("tjt_set_threads", get_threads())


def number_of_threads(count: object) -> int:
    """Return a number of threads as an int; raise if it is none."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"threads must be an int from 1 on, not {count!r}.")
    if count < 1:
        raise ValueError(f"threads must be an int from 1 on, not {count}.")
    return int(count)


@functools.cache
def _default_threads() -> int:
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        first = os.environ.get(name, "").split(",")[0].strip()  # OpenMP: one number per level of nesting
        if first.isdecimal() and int(first) > 0:
            return int(first)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_least_work(operations: int = LEAST_WORK) -> None:
    """Let nests from so many operations on be split: for tests, which have no time for long ones."""
    _loaded()
    _native("tjt_set_least", operations)
