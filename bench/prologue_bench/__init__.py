"""Boots variants of one kernel link and measures them."""
