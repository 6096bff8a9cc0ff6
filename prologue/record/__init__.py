"""Recorded writes to kernel text: what records them on a machine, and readers for all that holds some."""
