"""perf.data files, read and written."""
