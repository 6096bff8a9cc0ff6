"""Text of files that we were given, made fit for a line of a report."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return the text on one line, with ``\x1b`` and the like for whatever a report must not carry.

    That is control characters (XML 1.0 has no way to write them), line ends (a report counts on its lines), marks
    that reverse the direction of writing, and the lone surrogates by which Python keeps file names that are not UTF-8.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
