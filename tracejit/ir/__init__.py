"""Sizes, abstract values and tapes: plain immutable data -> text, checks, and their meaning in NumPy."""
