"""Simulation code as people write it: loops, writes in place, branches; all of it can be differentiated."""
