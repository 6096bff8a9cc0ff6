"""Finds which program and which words a range was of, and judges ranges and the steps between them."""
