"""Lists of CPUs, as the kernel writes them."""

from __future__ import annotations


def count_cpus(text: str) -> int:
    """How many CPUs a list like ``0-3,6`` has; 0 if it is none."""
    try:
        spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError:
        return 0
    return sum(span[-1] - span[0] + 1 for span in spans)
