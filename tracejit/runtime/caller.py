"""The way from Python to machine code, itself machine code: arguments are checked, outputs made, the kernel called.

One function serves all kernels. What it does for one of them stands in a plan, a block of words that lies in the
`bytes` object it is bound to (layouts below). It returns the object that the plan has for misses if something is not
as the plan wants it, and the caller then goes the long way. The text is LLVM's; `CALL` in outline:

    for check in plan.checks:   if find(check) is not check.expected: return miss
    for input in plan.inputs:   object = find(input); if not fits(input, object): return miss
    for array in plan.arrays:   PyArray_NewFromDescr(...)
    status = entry(slots)                                       # without the interpreter lock
    for guard in plan.guards:   if scalars[guard.number] is not guard.expected: return miss
    for step in plan.results:   push an array, push a scalar, or make a tuple of the last ones
"""

from __future__ import annotations

import functools

from tracejit.runtime.caller_checks import CHECKS

__all__ = [
    "ARRAY",
    "ARRAY_WORDS",
    "CALL",
    "CHECK_WORDS",
    "FLOATING",
    "HEADER_WORDS",
    "INPUT_WORDS",
    "INVOKE",
    "PACK",
    "RESULT_WORDS",
    "SCALAR",
    "WHOLE",
]

# Words per record. "Offset" counts bytes from the start of the plan.
HEADER_WORDS = 18
"""entry, miss, arguments, checks, offset, inputs, offset, arrays, offset, scalars, steps of the result, offset, and
the functions PyArray_NewFromDescr and PyArray_Scalar, the type of arrays, decisions, offset, threads"""
CHECK_WORDS = 4
"""how to find it (0: argument a, 1: object a, 2: entry b of dict a, 3: at byte b of a), a, b, expected object"""
INPUT_WORDS = 9
"""how to find it, a, b, type, axes (`FLOATING`, `WHOLE`: none), offset of the extents, dtype, mask of flags, flags"""
FLOATING, WHOLE = -1, -2
"""A number that lies behind the header of its object; an `int`."""
ARRAY_WORDS = 3
"""axes, offset of the extents, dtype"""
RESULT_WORDS = 3
"""kind (`ARRAY` a, `SCALAR` a of dtype b, `PACK`: a tuple of the last a), a, b"""
ARRAY, SCALAR, PACK = 0, 1, 2
GUARD_WORDS = 3
"""scalar, mask of its bits, the bits that it has if Python would have gone this way"""

INVOKE = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define i32 @tracejit_invoke(ptr %entry, ptr %slots) {
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 %entry(ptr %slots)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %status
}
"""

_CALL = """
define ptr @tracejit_call(ptr %self, ptr %args, i64 %nargs) {
start:
  %plan = getelementptr i8, ptr %self, i64 BYTES_HEADER
  %entry = load ptr, ptr %plan
  %miss.place = getelementptr i64, ptr %plan, i64 1
  %miss = load ptr, ptr %miss.place
  %nargs.place = getelementptr i64, ptr %plan, i64 2
  %nargs.wanted = load i64, ptr %nargs.place
  %checks.count.place = getelementptr i64, ptr %plan, i64 3
  %checks.count = load i64, ptr %checks.count.place
  %checks.offset.place = getelementptr i64, ptr %plan, i64 4
  %checks.offset = load i64, ptr %checks.offset.place
  %checks = getelementptr i8, ptr %plan, i64 %checks.offset
  %inputs.count.place = getelementptr i64, ptr %plan, i64 5
  %inputs.count = load i64, ptr %inputs.count.place
  %inputs.offset.place = getelementptr i64, ptr %plan, i64 6
  %inputs.offset = load i64, ptr %inputs.offset.place
  %inputs = getelementptr i8, ptr %plan, i64 %inputs.offset
  %arrays.count.place = getelementptr i64, ptr %plan, i64 7
  %arrays.count = load i64, ptr %arrays.count.place
  %arrays.offset.place = getelementptr i64, ptr %plan, i64 8
  %arrays.offset = load i64, ptr %arrays.offset.place
  %arrays = getelementptr i8, ptr %plan, i64 %arrays.offset
  %scalars.count.place = getelementptr i64, ptr %plan, i64 9
  %scalars.count = load i64, ptr %scalars.count.place
  %steps.count.place = getelementptr i64, ptr %plan, i64 10
  %steps.count = load i64, ptr %steps.count.place
  %steps.offset.place = getelementptr i64, ptr %plan, i64 11
  %steps.offset = load i64, ptr %steps.offset.place
  %steps = getelementptr i8, ptr %plan, i64 %steps.offset
  %new.array.place = getelementptr i64, ptr %plan, i64 12
  %new.array = load ptr, ptr %new.array.place
  %new.scalar.place = getelementptr i64, ptr %plan, i64 13
  %new.scalar = load ptr, ptr %new.scalar.place
  %array.type.place = getelementptr i64, ptr %plan, i64 14
  %array.type = load ptr, ptr %array.type.place
  %guards.count.place = getelementptr i64, ptr %plan, i64 15
  %guards.count = load i64, ptr %guards.count.place
  %guards.offset.place = getelementptr i64, ptr %plan, i64 16
  %guards.offset = load i64, ptr %guards.offset.place
  %guards = getelementptr i8, ptr %plan, i64 %guards.offset
  %objects.count = add i64 %inputs.count, %arrays.count
  %slots.used = add i64 %objects.count, %scalars.count
  %slots.count = add i64 %slots.used, 2
  %objects = alloca ptr, i64 %objects.count
  %slots = alloca ptr, i64 %slots.count
  %scalars.size = mul i64 %scalars.count, 16
  %scalars = alloca i8, i64 %scalars.size, align 16
  %wholes = alloca i64, i64 %inputs.count
  %stack = alloca ptr, i64 %steps.count
  %about = alloca ptr
  %same.nargs = icmp eq i64 %nargs, %nargs.wanted
  br i1 %same.nargs, label %check, label %missed

check:
  %c = phi i64 [0, %start], [%c.next, %check.body]
  %checks.done = icmp eq i64 %c, %checks.count
  br i1 %checks.done, label %input, label %check.body
check.body:
  %c.words = mul i64 %c, CHECK_WORDS
  %check.record = getelementptr i64, ptr %checks, i64 %c.words
  %seen = call ptr @find(ptr %check.record, ptr %args)
  %expected.place = getelementptr i64, ptr %check.record, i64 3
  %expected = load ptr, ptr %expected.place
  %c.next = add i64 %c, 1
  %is.expected = icmp eq ptr %seen, %expected
  br i1 %is.expected, label %check, label %missed

input:
  %i = phi i64 [0, %check], [%i.next, %input.kept]
  %inputs.done = icmp eq i64 %i, %inputs.count
  br i1 %inputs.done, label %hold, label %input.body
input.body:
  %i.words = mul i64 %i, INPUT_WORDS
  %input.record = getelementptr i64, ptr %inputs, i64 %i.words
  %object = call ptr @find(ptr %input.record, ptr %args)
  %object.fits = call i1 @fits(ptr %input.record, ptr %object, ptr %plan)
  br i1 %object.fits, label %input.known, label %missed
input.known:
  %object.place = getelementptr ptr, ptr %objects, i64 %i
  store ptr %object, ptr %object.place
  %object.slot = getelementptr ptr, ptr %slots, i64 %i
  %object.axes.place = getelementptr i64, ptr %input.record, i64 4
  %object.axes = load i64, ptr %object.axes.place
  %is.whole = icmp eq i64 %object.axes, WHOLE
  br i1 %is.whole, label %input.whole, label %input.contents
input.whole:
  %whole = call i64 @PyLong_AsLongLong(ptr %object)
  %whole.place = getelementptr i64, ptr %wholes, i64 %i
  store i64 %whole, ptr %whole.place
  store ptr %whole.place, ptr %object.slot
  %whole.doubtful = icmp eq i64 %whole, -1
  br i1 %whole.doubtful, label %input.doubtful, label %input.kept
input.doubtful:
  %whole.error = call ptr @PyErr_Occurred()
  %whole.fits = icmp eq ptr %whole.error, null
  br i1 %whole.fits, label %input.kept, label %input.large
input.large:
  call void @PyErr_Clear()
  br label %missed
input.contents:
  %object.contents = getelementptr i8, ptr %object, i64 16
  store ptr %object.contents, ptr %object.slot
  br label %input.kept
input.kept:
  %i.next = add i64 %i, 1
  br label %input

; From here on the inputs are held: another thread may drop a global while the kernel runs.
hold:
  %h = phi i64 [0, %input], [%h.next, %hold.body]
  %hold.done = icmp eq i64 %h, %inputs.count
  br i1 %hold.done, label %array, label %hold.body
hold.body:
  %held.place = getelementptr ptr, ptr %objects, i64 %h
  %held = load ptr, ptr %held.place
  call void @Py_IncRef(ptr %held)
  %h.next = add i64 %h, 1
  br label %hold

array:
  %o = phi i64 [0, %hold], [%o.next, %array.kept]
  %owned = add i64 %inputs.count, %o
  %arrays.done = icmp eq i64 %o, %arrays.count
  br i1 %arrays.done, label %scalar, label %array.body
array.body:
  %o.words = mul i64 %o, ARRAY_WORDS
  %array.record = getelementptr i64, ptr %arrays, i64 %o.words
  %array.axes = load i64, ptr %array.record
  %array.ndim = trunc i64 %array.axes to i32
  %array.offset.place = getelementptr i64, ptr %array.record, i64 1
  %array.offset = load i64, ptr %array.offset.place
  %array.extents = getelementptr i8, ptr %plan, i64 %array.offset
  %array.dtype.place = getelementptr i64, ptr %array.record, i64 2
  %array.dtype = load ptr, ptr %array.dtype.place
  call void @Py_IncRef(ptr %array.dtype)
  %array.object = call ptr %new.array(ptr %array.type, ptr %array.dtype, i32 %array.ndim,
      ptr %array.extents, ptr null, ptr null, i32 0, ptr null)
  %array.failed = icmp eq ptr %array.object, null
  br i1 %array.failed, label %failed, label %array.kept
array.kept:
  %array.place = getelementptr ptr, ptr %objects, i64 %owned
  store ptr %array.object, ptr %array.place
  %array.contents = getelementptr i8, ptr %array.object, i64 16
  %array.slot = getelementptr ptr, ptr %slots, i64 %owned
  store ptr %array.contents, ptr %array.slot
  %o.next = add i64 %o, 1
  br label %array

scalar:
  %s = phi i64 [0, %array], [%s.next, %scalar.body]
  %scalars.done = icmp eq i64 %s, %scalars.count
  br i1 %scalars.done, label %run, label %scalar.body
scalar.body:
  %scalar.bytes = mul i64 %s, 16
  %scalar.memory = getelementptr i8, ptr %scalars, i64 %scalar.bytes
  %scalar.number = add i64 %objects.count, %s
  %scalar.slot = getelementptr ptr, ptr %slots, i64 %scalar.number
  store ptr %scalar.memory, ptr %scalar.slot
  %s.next = add i64 %s, 1
  br label %scalar

run:
  %about.slot = getelementptr ptr, ptr %slots, i64 %slots.used
  store ptr %about, ptr %about.slot
  %threads.place = getelementptr i64, ptr %plan, i64 17
  %threads = load ptr, ptr %threads.place
  %threads.number = add i64 %slots.used, 1
  %threads.slot = getelementptr ptr, ptr %slots, i64 %threads.number
  store ptr %threads, ptr %threads.slot
  %status = call i32 @tracejit_invoke(ptr %entry, ptr %slots)
  %ran = icmp eq i32 %status, 0
  br i1 %ran, label %guard, label %stopped
stopped:
  ; Python's own error is passed on; Numba's is found again, and raised, by whoever goes the long way.
  %has.error = icmp slt i32 %status, 0
  call void @release(ptr %objects, i64 %objects.count)
  br i1 %has.error, label %null, label %missed

; Whether the decisions that Python took while it traced would be the same.
guard:
  %g = phi i64 [0, %run], [%g.next, %guard.body]
  %guards.done = icmp eq i64 %g, %guards.count
  br i1 %guards.done, label %step, label %guard.body
guard.body:
  %g.words = mul i64 %g, GUARD_WORDS
  %guard.record = getelementptr i64, ptr %guards, i64 %g.words
  %guard.scalar = load i64, ptr %guard.record
  %guard.bytes = mul i64 %guard.scalar, 16
  %guard.memory = getelementptr i8, ptr %scalars, i64 %guard.bytes
  %guard.found = load i64, ptr %guard.memory
  %guard.mask.place = getelementptr i64, ptr %guard.record, i64 1
  %guard.mask = load i64, ptr %guard.mask.place
  %guard.bits = and i64 %guard.found, %guard.mask
  %guard.expected.place = getelementptr i64, ptr %guard.record, i64 2
  %guard.expected = load i64, ptr %guard.expected.place
  %g.next = add i64 %g, 1
  %guard.holds = icmp eq i64 %guard.bits, %guard.expected
  br i1 %guard.holds, label %guard, label %another
another:
  call void @release(ptr %objects, i64 %objects.count)
  br label %missed

step:
  %r = phi i64 [0, %guard], [%r.next, %pushed]
  %top = phi i64 [0, %guard], [%top.next, %pushed]
  %steps.done = icmp eq i64 %r, %steps.count
  br i1 %steps.done, label %finish, label %step.body
step.body:
  %r.words = mul i64 %r, RESULT_WORDS
  %step.record = getelementptr i64, ptr %steps, i64 %r.words
  %kind = load i64, ptr %step.record
  %step.a.place = getelementptr i64, ptr %step.record, i64 1
  %step.a = load i64, ptr %step.a.place
  switch i64 %kind, label %pack [i64 0, label %push.array  i64 1, label %push.scalar]
push.array:
  %pushed.number = add i64 %inputs.count, %step.a
  %pushed.place = getelementptr ptr, ptr %objects, i64 %pushed.number
  %pushed.array = load ptr, ptr %pushed.place
  call void @Py_IncRef(ptr %pushed.array)
  br label %push
push.scalar:
  %result.bytes = mul i64 %step.a, 16
  %result.memory = getelementptr i8, ptr %scalars, i64 %result.bytes
  %result.dtype.place = getelementptr i64, ptr %step.record, i64 2
  %result.dtype = load ptr, ptr %result.dtype.place
  %pushed.scalar = call ptr %new.scalar(ptr %result.memory, ptr %result.dtype, ptr null)
  br label %push
pack:
  %first = sub i64 %top, %step.a
  %tuple = call ptr @PyTuple_New(i64 %step.a)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %unfinished, label %item
item:
  %t = phi i64 [0, %pack], [%t.next, %item.body]
  %items.done = icmp eq i64 %t, %step.a
  br i1 %items.done, label %push, label %item.body
item.body:
  %item.number = add i64 %first, %t
  %item.place = getelementptr ptr, ptr %stack, i64 %item.number
  %item.object = load ptr, ptr %item.place
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %t, ptr %item.object)
  %t.next = add i64 %t, 1
  br label %item
push:
  %new = phi ptr [%pushed.array, %push.array], [%pushed.scalar, %push.scalar], [%tuple, %item]
  %base = phi i64 [%top, %push.array], [%top, %push.scalar], [%first, %item]
  %no.result = icmp eq ptr %new, null
  br i1 %no.result, label %unfinished, label %pushed
pushed:
  %new.place = getelementptr ptr, ptr %stack, i64 %base
  store ptr %new, ptr %new.place
  %top.next = add i64 %base, 1
  %r.next = add i64 %r, 1
  br label %step

finish:
  call void @release(ptr %objects, i64 %objects.count)
  %result = load ptr, ptr %stack
  ret ptr %result
unfinished:
  call void @release(ptr %stack, i64 %top)
  br label %release.all
release.all:
  call void @release(ptr %objects, i64 %objects.count)
  br label %null
failed:
  call void @release(ptr %objects, i64 %owned)
  br label %null
null:
  ret ptr null
missed:
  call void @Py_IncRef(ptr %miss)
  ret ptr %miss
}
"""

_CONSTANTS = {
    "CHECK_WORDS": CHECK_WORDS,
    "INPUT_WORDS": INPUT_WORDS,
    "ARRAY_WORDS": ARRAY_WORDS,
    "RESULT_WORDS": RESULT_WORDS,
    "GUARD_WORDS": GUARD_WORDS,
    "WHOLE": WHOLE,
    "BYTES_HEADER": bytes.__basicsize__ - 1,
}

CALL = functools.reduce(
    lambda text, item: text.replace(item[0], str(item[1])), _CONSTANTS.items(), INVOKE + CHECKS + _CALL
)
