"""Listeners of a running kernel, their owners, and code that nobody owns."""
