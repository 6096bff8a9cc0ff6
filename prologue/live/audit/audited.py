"""What an audit of running text says, for the rules that report it. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from prologue.arrays import U32, U64, Bool

LiveKind = Literal["first slot", "call", "label", "word", "unexplained", "unstable", "unknown"]
"""What is wrong with a word. No rule reports ``unknown``: it does not fit, but what would fit is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWord:
    """A word of running text that is not as it must be, by link-time address.

    ``words`` words from there on are of the same kind. ``expected`` is what should stand there. ``message`` says what
    the word is, what the file has, and what decides. ``mechanism`` owns it; empty if none does.
    """

    kind: LiveKind
    vaddr: int
    live: int
    expected: int
    message: str
    words: int = 1
    mechanism: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismCount:
    """How many words a mechanism could change in text that memory has, and how many differ from the file.

    ``unsure`` could not be decided: ``restless`` of them because they, or what decides, were being changed;
    ``unknown`` because they do not fit, and what fits in this release, or with this callback, is not known. Nothing
    that was read decides the others, which are right in form. ``agreed`` are right because all places of one value
    agree, which nothing else says.
    """

    mechanism: str
    words: int
    changed: int
    wrong: int
    unsure: int
    restless: int = 0
    unknown: int = 0
    agreed: int = 0

    def plus(self, other: MechanismCount) -> MechanismCount:
        """Those of two files together."""
        return MechanismCount(
            mechanism=self.mechanism,
            words=self.words + other.words,
            changed=self.changed + other.changed,
            wrong=self.wrong + other.wrong,
            unsure=self.unsure + other.unsure,
            restless=self.restless + other.restless,
            unknown=self.unknown + other.unknown,
            agreed=self.agreed + other.agreed,
        )


class Agreement(NamedTuple):
    """A value that stands at several places of the text, and nowhere else: all of them agree."""

    name: str
    value: int
    places: int


class OwnedWords(NamedTuple):
    """The words of one table of a mechanism, as the file and as memory has them; arrays of shape (n,)."""

    mechanism: str
    vaddrs: U64
    linked: U32
    live: U32

    @property
    def changed(self) -> Bool:
        """Which words differ from the file."""
        return np.not_equal(self.linked, self.live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One file's text in memory: words that are wrong, counts, and what was not looked at or could not be decided."""

    words: tuple[LiveWord, ...]
    mechanisms: tuple[MechanismCount, ...]
    text: int  # words of text that were looked at
    unlooked: tuple[tuple[str, int], ...]  # sections of which memory lacks words, and how many
    owned: tuple[OwnedWords, ...] = ()
    mismatch: str = ""  # why the memory is not that of this file; then there is nothing else
    restless: int = 0  # words that did not come to rest and that no mechanism owns
    missing: int = 0  # words that memory ought to have: the kernel gives no such memory away
    unknown: int = 0  # words that no mechanism that is known owns
    agreements: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = ()  # what a mechanism says of all of its words


class Undecided(NamedTuple):
    """Words of which cannot be said whether they are right.

    ``restless`` were being changed, or what decides was: memory of another moment decides them. Nothing that was read
    decides ``lacking``, which are right in form: memory does not have it, or the vmlinux does not say where it is.
    ``unknown`` do not fit, but what this release does is not known.
    """

    restless: int
    lacking: int
    unknown: int = 0


def undecided(every: Iterable[Audited]) -> Undecided:
    """Return the counts of several files together."""
    files = tuple(every)
    rows = [row for one in files for row in one.mechanisms]
    restless, unknown = sum(row.restless for row in rows), sum(row.unknown for row in rows)
    lacking = sum(row.unsure for row in rows) - restless - unknown + sum(one.missing for one in files)
    return Undecided(
        restless + sum(one.restless for one in files), lacking, unknown + sum(one.unknown for one in files)
    )
