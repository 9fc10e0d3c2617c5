"""NumPy functions, reductions and memory accesses -> LLVM instructions inside compiled loops (imports numba)."""
