"""Tape -> tape: derivatives, batching, simplification, and the schedule of loop nests."""
