"""Handlers of the ``prologue bench`` commands."""
