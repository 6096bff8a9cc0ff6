"""Exact evidence: what a boot executes and writes, counted by a plugin of ours under QEMU's ``-icount``."""
