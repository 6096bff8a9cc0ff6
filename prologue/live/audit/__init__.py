"""The audit of a running kernel: for every word of its text the mechanism that wrote it, and whether it is right."""
