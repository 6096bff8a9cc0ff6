"""Variants of one link, booted in random order."""
