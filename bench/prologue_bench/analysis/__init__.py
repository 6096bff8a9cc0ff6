"""Samples into series, differences, intervals and verdicts."""
