"""Readers of traces of any kind into ranges: perf.data, text of perf and OpenCSD, snapshots, recordings."""
