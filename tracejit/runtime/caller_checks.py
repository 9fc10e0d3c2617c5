"""LLVM text of what `tracejit.runtime.caller` calls: finding objects, comparing them with a plan, letting go."""

__all__ = ["CHECKS"]

CHECKS = """
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()

; The object that a record names, borrowed; null if there is none.
define internal ptr @find(ptr %record, ptr %args) {
  %how = load i64, ptr %record
  %a.place = getelementptr i64, ptr %record, i64 1
  %a = load i64, ptr %a.place
  %a.pointer = inttoptr i64 %a to ptr
  switch i64 %how, label %object [i64 0, label %argument  i64 2, label %entry  i64 3, label %field]
argument:
  %argument.place = getelementptr ptr, ptr %args, i64 %a
  %given = load ptr, ptr %argument.place
  ret ptr %given
object:
  ret ptr %a.pointer
entry:
  %b.place = getelementptr i64, ptr %record, i64 2
  %b = load ptr, ptr %b.place
  %found = call ptr @PyDict_GetItemWithError(ptr %a.pointer, ptr %b)
  ret ptr %found
field:
  %offset.place = getelementptr i64, ptr %record, i64 2
  %offset = load i64, ptr %offset.place
  %field.place = getelementptr i8, ptr %a.pointer, i64 %offset
  %contents = load ptr, ptr %field.place
  ret ptr %contents
}

; Whether an object has the type, and if it is an array the dtype, flags and shape, that a record wants.
define internal i1 @fits(ptr %record, ptr %object, ptr %plan) {
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %no, label %look
look:
  %type.place = getelementptr ptr, ptr %object, i64 1
  %type = load ptr, ptr %type.place
  %wanted.place = getelementptr i64, ptr %record, i64 3
  %wanted = load ptr, ptr %wanted.place
  %same.type = icmp eq ptr %type, %wanted
  br i1 %same.type, label %typed, label %no
typed:
  %axes.place = getelementptr i64, ptr %record, i64 4
  %axes = load i64, ptr %axes.place
  %is.scalar = icmp slt i64 %axes, 0
  br i1 %is.scalar, label %yes, label %array
array:
  %ndim.place = getelementptr i8, ptr %object, i64 24
  %ndim = load i32, ptr %ndim.place
  %axes.short = trunc i64 %axes to i32
  %same.ndim = icmp eq i32 %ndim, %axes.short
  %dtype.place = getelementptr i8, ptr %object, i64 56
  %dtype = load ptr, ptr %dtype.place
  %dtype.wanted.place = getelementptr i64, ptr %record, i64 6
  %dtype.wanted = load ptr, ptr %dtype.wanted.place
  %same.dtype = icmp eq ptr %dtype, %dtype.wanted
  %flags.place = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.place
  %mask.place = getelementptr i64, ptr %record, i64 7
  %mask = load i32, ptr %mask.place
  %flags.wanted.place = getelementptr i64, ptr %record, i64 8
  %flags.wanted = load i32, ptr %flags.wanted.place
  %masked = and i32 %flags, %mask
  %same.flags = icmp eq i32 %masked, %flags.wanted
  %same.both = and i1 %same.ndim, %same.dtype
  %same.all = and i1 %same.both, %same.flags
  br i1 %same.all, label %shape, label %no
shape:
  %extents.place = getelementptr i8, ptr %object, i64 32
  %extents = load ptr, ptr %extents.place
  %offset.place = getelementptr i64, ptr %record, i64 5
  %offset = load i64, ptr %offset.place
  %wanted.extents = getelementptr i8, ptr %plan, i64 %offset
  br label %axis
axis:
  %n = phi i64 [0, %shape], [%n.next, %compare]
  %done = icmp eq i64 %n, %axes
  br i1 %done, label %yes, label %compare
compare:
  %extent.place = getelementptr i64, ptr %extents, i64 %n
  %extent = load i64, ptr %extent.place
  %extent.wanted.place = getelementptr i64, ptr %wanted.extents, i64 %n
  %extent.wanted = load i64, ptr %extent.wanted.place
  %n.next = add i64 %n, 1
  %same.extent = icmp eq i64 %extent, %extent.wanted
  br i1 %same.extent, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @release(ptr %objects, i64 %count) {
start:
  br label %loop
loop:
  %n = phi i64 [0, %start], [%n.next, %body]
  %done = icmp eq i64 %n, %count
  br i1 %done, label %end, label %body
body:
  %place = getelementptr ptr, ptr %objects, i64 %n
  %object = load ptr, ptr %place
  call void @Py_DecRef(ptr %object)
  %n.next = add i64 %n, 1
  br label %loop
end:
  ret void
}
"""
