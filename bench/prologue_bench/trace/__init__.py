"""Recordings of the instructions that a kernel executes: a guest in QEMU, and a plugin that writes ranges."""
