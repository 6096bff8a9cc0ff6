"""Text from input files, made safe for one line of a report."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text on one line, with ``\x1b`` and the like for characters that a report must not contain.

    These are control characters (XML 1.0 cannot express them), line ends (formats depend on lines), marks that
    reverse the direction of writing, and the lone surrogates that Python puts into file names that are not UTF-8.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
