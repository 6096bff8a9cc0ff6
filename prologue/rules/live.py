"""What an audit of running text says, for the rules that report it. Data only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from prologue.arrays import U64, Bool
from prologue.rules.base import Hit

LiveKind = Literal["first slot", "call", "label", "word", "unexplained", "unstable"]


class LiveWord(NamedTuple):
    """A word of running text that is not as it must be, by link-time address.

    ``words`` words from there on are of the same kind. ``expected`` is what should stand there. ``message`` says what
    the word is, what the file has, and what decides.
    """

    kind: LiveKind
    vaddr: int
    live: int
    expected: int
    message: str
    words: int = 1


class MechanismCount(NamedTuple):
    """How many words a mechanism could change in text that memory has, and how many differ from the file."""

    mechanism: str
    words: int
    changed: int
    wrong: int
    unsure: int


class OwnedWords(NamedTuple):
    """The words of one table of a mechanism, and which of them differ from the file; arrays of shape (n,)."""

    mechanism: str
    vaddrs: U64
    changed: Bool


class Audited(NamedTuple):
    """One file's text in memory: words that are wrong, counts, and what was not looked at or could not be decided."""

    words: tuple[LiveWord, ...]
    mechanisms: tuple[MechanismCount, ...]
    text: int  # words of text that were looked at
    unlooked: tuple[tuple[str, int], ...]  # sections of which memory lacks words, and how many
    owned: tuple[OwnedWords, ...] = ()
    mismatch: str = ""  # why the memory is not that of this file; then there is nothing else


def live_hits(live: Audited | None, kind: LiveKind) -> Iterator[Hit]:
    """The words of one kind, for its rule."""
    for word in live.words if live is not None else ():
        if word.kind == kind:
            yield Hit(word.vaddr, word.message, (word.live,), (word.expected,))
