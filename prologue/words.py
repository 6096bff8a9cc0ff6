"""Numbers of things in sentences, places in symbols, words that may have been meant, and text from input files."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str, *, plural: str = "") -> str:
    """Write a number of things, such as ``1 site`` and ``2,000 sites``; ``plural`` if it is not the word with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def at_offset(name: str, offset: int) -> str:
    """Write a place in something with a name as the kernel does: ``name+0x10``, and ``name`` where it begins."""
    return f"{name}+{offset:#x}" if offset else name


def meant(word: str, known: Iterable[str]) -> str:
    """Write ``did you mean NAME, OTHER or THIRD?`` for known words that are near; nothing if none is.

    A kernel has 200,000 names, and difflib takes microseconds for each: it sees those of about that length that have a
    third of the word, as is. Two typing errors leave a third of a word alone.
    """
    from difflib import get_close_matches  # at fault only: the build step must start fast

    third = -(-len(word) // 3)
    thirds = {word[k : k + third] for k in range(0, len(word), third or 1)}
    least, most = len(word) * 3 / 7, len(word) * 7 / 3  # beyond, difflib's ratio is below its limit of 0.6
    likely = [name for name in known if least <= len(name) <= most and any(part in name for part in thirds)]
    *others, last = get_close_matches(word, likely, n=3) or [""]
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def printable(text: str) -> str:
    r"""Return the text on one line, with ``\x1b`` and the like for characters that a report must not contain.

    These are control characters (XML 1.0 cannot express them), line ends (formats depend on lines), marks that
    reverse the direction of writing, and the lone surrogates that Python puts into file names that are not UTF-8.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
