"""Edits and plans: what would be written, and its inverse."""
