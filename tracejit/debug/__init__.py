"""What helps to find mistakes: gradient checks."""
