"""The result of an audit of running text, for the rules that report it. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.rules.base import Hit

LiveKind = Literal["first slot", "call", "label", "word", "unexplained", "unstable", "unknown"]
"""Kinds of wrong words. No rule reports ``unknown``: the word does not fit, but a fitting one is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWord(Hit):
    """A word of running text that is not as it must be, by link-time address.

    ``found`` is the word, and ``expected`` the right one; ``words`` words from there on are of the same kind.
    ``message`` has the word, the file's word, and the reason. ``mechanism`` owns it; empty if none does.
    """

    kind: LiveKind
    words: int = 1
    mechanism: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismCount:
    """Numbers of words that a mechanism could change in text that memory has, and of those that differ from the file.

    ``unsure`` could not be decided: ``unstable`` of them because they, or the data that decides, were being changed;
    ``unknown`` because they do not fit, and the fitting words of this release, or callback, are not known. The others
    are right in form, and nothing that was read decides them. ``agreed`` are right only by the agreement of all places
    of one value.
    """

    mechanism: str
    words: int
    changed: int
    wrong: int
    unsure: int
    unstable: int = 0
    unknown: int = 0
    agreed: int = 0

    def plus(self, other: MechanismCount) -> MechanismCount:
        """Add the counts of another file."""
        counts = (each.name for each in fields(self) if each.name != "mechanism")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in counts})


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
        """Mask of the words that differ from the file."""
        return np.not_equal(self.linked, self.live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A file's text in memory: wrong words, counts, and words that were not looked at or could not be decided."""

    words: tuple[LiveWord, ...]
    mechanisms: tuple[MechanismCount, ...]
    text: int  # words of text that were looked at
    unlooked: tuple[tuple[str, int], ...]  # sections of which memory lacks words, and how many
    owned: tuple[OwnedWords, ...] = ()
    mismatch: str = ""  # reason why memory is not this file's; then there is nothing else
    unstable: int = 0  # words that did not come to rest and that no mechanism owns
    missing: int = 0  # words that memory ought to have: the kernel gives no such memory away
    unknown: int = 0  # words that no known mechanism owns
    agreements: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = ()  # of a mechanism, for all of its words


class Undecided(NamedTuple):
    """The number of words that are not known to be right or wrong.

    ``unstable`` were being changed, or the data that decides was: memory of another moment decides them. ``lacking``
    are right in form, but memory does not have the data that decides, or the vmlinux does not say where it is.
    ``unknown`` do not fit, but the words of this release are not known.
    """

    unstable: int
    lacking: int
    unknown: int = 0


def undecided(audited: Iterable[Audited]) -> Undecided:
    """Return the counts of several files together."""
    files = tuple(audited)
    rows = [row for file in files for row in file.mechanisms]
    unstable, unknown = sum(row.unstable for row in rows), sum(row.unknown for row in rows)
    lacking = sum(row.unsure for row in rows) - unstable - unknown + sum(file.missing for file in files)
    return Undecided(
        unstable + sum(file.unstable for file in files), lacking, unknown + sum(file.unknown for file in files)
    )
