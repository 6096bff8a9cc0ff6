"""Kernels with unusual configurations: built, booted and traced, processed and not. ``python -m tests.kernels``."""
