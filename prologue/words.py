"""Numbers of things, in the words of a sentence."""

from __future__ import annotations


def counted(count: int, noun: str, *, plural: str = "") -> str:
    """Write a number of things, such as ``1 site`` and ``2,000 sites``; ``plural`` if it is not the word with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
