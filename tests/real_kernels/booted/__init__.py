"""Tests that boot real kernels: one after another, see tests/support/sharing.py."""
