"""Readers of traces of any kind into ranges: perf.data, snapshots, text of perf, recordings."""
