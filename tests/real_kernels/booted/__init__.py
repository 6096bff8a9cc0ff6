"""Tests that boot real kernels."""
