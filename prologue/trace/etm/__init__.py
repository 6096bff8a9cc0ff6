"""A recording as the ETMv4 trace that hardware would have made of it: a snapshot directory, or perf.data."""
