"""Listeners of a running kernel, their owners, and code without an owner."""
