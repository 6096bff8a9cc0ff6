"""Recordings of what a kernel executes: a guest in QEMU, and a plugin that writes ranges."""
