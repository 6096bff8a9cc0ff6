"""Turns results into text and JSON."""
