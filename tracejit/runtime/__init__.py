"""Generated source -> compiled function, called, kept and found again."""
