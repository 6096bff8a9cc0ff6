"""Reads a running kernel's text by link-time address: a vmlinux, its memory, and the slide between them."""
