"""Instruction traces: readers, the code that ran, and whether an image can be that code."""
