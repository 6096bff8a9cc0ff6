"""Says of every word of a running kernel's text which mechanism put it there, and whether it may stand there."""
