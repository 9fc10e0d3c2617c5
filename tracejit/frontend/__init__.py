"""A Python function and its arguments -> a tape."""
