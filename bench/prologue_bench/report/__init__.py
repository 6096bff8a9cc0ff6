"""Comparisons and descriptions in the forms in which people and programs read them."""
