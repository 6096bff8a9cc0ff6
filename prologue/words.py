"""Numbers of things in sentences, and the words that may have been meant."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str, *, plural: str = "") -> str:
    """Write a number of things, such as ``1 site`` and ``2,000 sites``; ``plural`` if it is not the word with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def meant(word: str, known: Iterable[str]) -> str:
    """Write ``did you mean NAME or OTHER?`` for known words that are near; nothing if none is."""
    from difflib import get_close_matches  # at fault only: the build step must start fast

    near = get_close_matches(word, list(known), n=3)
    return f"did you mean {' or '.join(near)}?" if near else ""
