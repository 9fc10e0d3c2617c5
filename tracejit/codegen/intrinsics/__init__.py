"""NumPy functions, reductions, memory accesses -> LLVM instructions in compiled loops (imports numba)."""
