"""One object per operation: shape rule, NumPy meaning, derivative, batching, loop text."""
