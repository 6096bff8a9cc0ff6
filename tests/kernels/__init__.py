"""Kernels that are not plain: built from source, booted and traced, processed and not. ``python -m tests.kernels``."""
