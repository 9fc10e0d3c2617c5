"""Schedule of loop nests -> Python source of loops, and the intrinsics that such sources call."""
