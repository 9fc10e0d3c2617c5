"""Memory for the temporaries of kernels: blocks that calls take, give back, and find again.

A kernel has a *room*, two words: how many threads it may use, and the block that it took last, in whose header the one
before it stands. Whoever calls the kernel makes the room and, however the kernel ends, gives back what is in it: an
exception loses no memory, and no call pays for fresh pages. Blocks are kept for the process and not for an entry or a
thread, so that what is kept is bounded by what runs at the same time. A block that is being used belongs to one call.

The text is LLVM's, as that of `runtime.caller`: kernels call it while they do not hold the interpreter lock.
"""

from __future__ import annotations

import ctypes
import functools
import os

from tracejit.runtime.native_code import addresses, function
from tracejit.runtime.symbols import finder

__all__ = ["CALLED", "KEPT_AT_MOST", "clear_workspace", "kept_bytes"]

KEPT_AT_MOST = 2**29
"""Bytes that are kept for later calls; what is larger than that is given back to the system at once."""

_BLOCKS = 16
_PAGE = 4096

_TEXT = """
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)

; A block: 64 bytes of header (the block that the room had before, the capacity, the address that the allocator gave),
; then the memory. Pointers to blocks point to the memory.
@blocks = internal global [BLOCKS x ptr] zeroinitializer
@kept = internal global i64 0
@locked = internal global i64 0

define internal i64 @capacity(ptr %block) {
  %place = getelementptr i8, ptr %block, i64 -56
  %size = load i64, ptr %place
  ret i64 %size
}

; Whoever finds the list in use does without it: nobody waits.
define internal i1 @lock() {
  %old = atomicrmw xchg ptr @locked, i64 1 acquire
  %free = icmp eq i64 %old, 0
  ret i1 %free
}

define internal void @unlock() {
  store atomic i64 0, ptr @locked release, align 8
  ret void
}

define internal void @drop(ptr %block) {
  %place = getelementptr i8, ptr %block, i64 -48
  %raw = load ptr, ptr %place
  call void @PyMem_RawFree(ptr %raw)
  ret void
}

; The smallest kept block of at least so many bytes, taken from the list; null if there is none.
define internal ptr @find(i64 %size) {
start:
  %mine = call i1 @lock()
  br i1 %mine, label %loop, label %none
loop:
  %n = phi i64 [0, %start], [%n.next, %next]
  %best = phi ptr [null, %start], [%best.next, %next]
  %best.size = phi i64 [-1, %start], [%best.size.next, %next]
  %best.place = phi ptr [null, %start], [%best.place.next, %next]
  %done = icmp eq i64 %n, BLOCKS
  br i1 %done, label %found, label %look
look:
  %place = getelementptr ptr, ptr @blocks, i64 %n
  %block = load ptr, ptr %place
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %next, label %compare
compare:
  %found.size = call i64 @capacity(ptr %block)
  %fits = icmp uge i64 %found.size, %size
  %smaller = icmp ult i64 %found.size, %best.size
  %better = and i1 %fits, %smaller
  %new = select i1 %better, ptr %block, ptr %best
  %new.size = select i1 %better, i64 %found.size, i64 %best.size
  %new.place = select i1 %better, ptr %place, ptr %best.place
  br label %next
next:
  %best.next = phi ptr [%best, %look], [%new, %compare]
  %best.size.next = phi i64 [%best.size, %look], [%new.size, %compare]
  %best.place.next = phi ptr [%best.place, %look], [%new.place, %compare]
  %n.next = add i64 %n, 1
  br label %loop
found:
  %nothing = icmp eq ptr %best, null
  br i1 %nothing, label %end, label %remove
remove:
  store ptr null, ptr %best.place
  %before = load i64, ptr @kept
  %after = sub i64 %before, %best.size
  store i64 %after, ptr @kept
  br label %end
end:
  call void @unlock()
  ret ptr %best
none:
  ret ptr null
}

; Memory of so many bytes, 64-byte aligned, that belongs to the room; null if there is none.
define ptr @tjw_take(ptr %room, i64 %bytes) {
start:
  %large = icmp ugt i64 %bytes, LARGEST
  br i1 %large, label %failed, label %round
round:
  %more = add i64 %bytes, PAGE_LESS_ONE
  %size = and i64 %more, -PAGE
  %known = call ptr @find(i64 %size)
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %link, label %make
make:
  %asked = add i64 %size, 128
  %raw = call ptr @PyMem_RawMalloc(i64 %asked)
  %is.raw = icmp ne ptr %raw, null
  br i1 %is.raw, label %place, label %failed
place:
  %address = ptrtoint ptr %raw to i64
  %behind = add i64 %address, 127
  %aligned = and i64 %behind, -64
  %made = inttoptr i64 %aligned to ptr
  %size.place = getelementptr i8, ptr %made, i64 -56
  store i64 %size, ptr %size.place
  %raw.place = getelementptr i8, ptr %made, i64 -48
  store ptr %raw, ptr %raw.place
  br label %link
link:
  %block = phi ptr [%known, %round], [%made, %place]
  %head.place = getelementptr i8, ptr %room, i64 8
  %head = load ptr, ptr %head.place
  %before.place = getelementptr i8, ptr %block, i64 -64
  store ptr %head, ptr %before.place
  store ptr %block, ptr %head.place
  ret ptr %block
failed:
  ret ptr null
}

; Give back everything that the room took after the block at the mark; everything if that is null.
define void @tjw_give(ptr %room, ptr %mark) {
start:
  %head.place = getelementptr i8, ptr %room, i64 8
  br label %loop
loop:
  %head = load ptr, ptr %head.place
  %done = icmp eq ptr %head, %mark
  br i1 %done, label %end, label %pop
pop:
  %before.place = getelementptr i8, ptr %head, i64 -64
  %before = load ptr, ptr %before.place
  store ptr %before, ptr %head.place
  call void @keep(ptr %head)
  br label %loop
end:
  ret void
}

; Put a block on the list, in the place of smaller ones if there is no room for all.
define internal void @keep(ptr %block) {
start:
  %size = call i64 @capacity(ptr %block)
  %large = icmp ugt i64 %size, KEPT_AT_MOST
  br i1 %large, label %drop, label %ask
ask:
  %mine = call i1 @lock()
  br i1 %mine, label %try, label %drop
try:
  br label %loop
loop:
  %n = phi i64 [0, %try], [%n.next, %next]
  %free.place = phi ptr [null, %try], [%free.next, %next]
  %least = phi i64 [-1, %try], [%least.next, %next]
  %least.place = phi ptr [null, %try], [%least.place.next, %next]
  %done = icmp eq i64 %n, BLOCKS
  br i1 %done, label %decide, label %look
look:
  %place = getelementptr ptr, ptr @blocks, i64 %n
  %other = load ptr, ptr %place
  %empty = icmp eq ptr %other, null
  br i1 %empty, label %next, label %compare
compare:
  %other.size = call i64 @capacity(ptr %other)
  %less = icmp ult i64 %other.size, %least
  %least.new = select i1 %less, i64 %other.size, i64 %least
  %least.place.new = select i1 %less, ptr %place, ptr %least.place
  br label %next
next:
  %free.next = phi ptr [%place, %look], [%free.place, %compare]
  %least.next = phi i64 [%least, %look], [%least.new, %compare]
  %least.place.next = phi ptr [%least.place, %look], [%least.place.new, %compare]
  %n.next = add i64 %n, 1
  br label %loop
decide:
  %before = load i64, ptr @kept
  %after = add i64 %before, %size
  %bounded = icmp ule i64 %after, KEPT_AT_MOST
  %has.place = icmp ne ptr %free.place, null
  %fits = and i1 %bounded, %has.place
  br i1 %fits, label %insert, label %evict
insert:
  store ptr %block, ptr %free.place
  store i64 %after, ptr @kept
  call void @unlock()
  ret void
evict:
  %gains = icmp ult i64 %least, %size
  br i1 %gains, label %replace, label %refuse
replace:
  %victim = load ptr, ptr %least.place
  store ptr null, ptr %least.place
  %less.kept = sub i64 %before, %least
  store i64 %less.kept, ptr @kept
  call void @drop(ptr %victim)
  br label %try
refuse:
  call void @unlock()
  br label %drop
drop:
  call void @drop(ptr %block)
  ret void
}

; Free all blocks that nobody uses.
define void @tjw_clear() {
start:
  %mine = call i1 @lock()
  br i1 %mine, label %loop, label %end
loop:
  %n = phi i64 [0, %start], [%n.next, %next]
  %done = icmp eq i64 %n, BLOCKS
  br i1 %done, label %finish, label %look
look:
  %place = getelementptr ptr, ptr @blocks, i64 %n
  %block = load ptr, ptr %place
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %next, label %release
release:
  store ptr null, ptr %place
  call void @drop(ptr %block)
  br label %next
next:
  %n.next = add i64 %n, 1
  br label %loop
finish:
  store i64 0, ptr @kept
  call void @unlock()
  br label %end
end:
  ret void
}

define i64 @tjw_kept() {
  %kept = load atomic i64, ptr @kept monotonic, align 8
  ret i64 %kept
}

; In the child of a fork: what other threads of the parent were doing with the list will never be finished.
define void @tjw_forked() {
  store i64 0, ptr @locked
  ret void
}
"""

_VALUES = {
    "BLOCKS": _BLOCKS,
    "LARGEST": 2**56,
    "KEPT_AT_MOST": KEPT_AT_MOST,
    "PAGE_LESS_ONE": _PAGE - 1,
    "PAGE": _PAGE,
}
CALLED = ("tjw_take", "tjw_give")
"""Functions that kernels call."""

_NAMES = ("tjw_take", "tjw_give", "tjw_clear", "tjw_kept", "tjw_forked")


@functools.cache
def _text() -> str:
    return functools.reduce(lambda text, item: text.replace(item[0], str(item[1])), _VALUES.items(), _TEXT)


@functools.cache
def _addresses() -> dict[str, int]:
    found = addresses(_text(), *_NAMES)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function(_text(), _NAMES, "tjw_forked", None))
    return found


@finder("tjw_")
def _address(name: str) -> int | None:
    """Return the address of a function that kernels call."""
    return _addresses().get(name)


def kept_bytes() -> int:
    """Return how many bytes are kept for calls to come."""
    return int(function(_text(), _NAMES, "tjw_kept", ctypes.c_int64)())


def clear_workspace() -> None:
    """Give the memory that no call uses back to the system."""
    function(_text(), _NAMES, "tjw_clear", None)()
