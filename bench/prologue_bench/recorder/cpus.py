"""CPUs as the kernel names them: lists of their numbers, and the words of their MIDR registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def count_cpus(text: str) -> int:
    """Count the CPUs of a list like ``0-3,6``; 0 if it is none."""
    try:
        spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError:
        return 0
    return sum(span[-1] - span[0] + 1 for span in spans)


def summarise_midrs(words: Iterable[str]) -> str:
    """Return kinds of CPU and how many of each, ``410fd034 x4``, from the hexadecimal MIDR of every CPU."""
    return ", ".join(f"{midr} x{count}" for midr, count in Counter(word[-8:] for word in words).items())
