"""The claims of a mechanism to words of the text, with the words that it would have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.live.audit.audited import Agreement

ClaimKind = Literal["first slot", "call", "label", "word", "data"]
"""Kinds of words: first slots, calls and labels have rules of their own if ``malformed``; data are not disassembled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Words of one mechanism, by link-time address; arrays of shape (n,).

    ``expected`` is the right word; of several that may be, the one that the mechanism would write now. ``unsure`` are
    right in form, but the data that decides the form could not be read. ``changing`` are right in form, and the
    mechanism is at work. ``busy`` if it was at work while memory was read, so that ``unsure`` may be of the moment.
    ``reason`` gives, for an index, what decides. For those ``unknown`` that are not right, the right word is not known.
    ``agreement``: if the words are right, it is because all places of one value agree. ``note`` is for the report.
    """

    mechanism: str
    kind: ClaimKind
    vaddrs: U64
    expected: U32
    right: Bool
    unsure: Bool
    changing: Bool
    reason: Callable[[int], str]
    malformed: Bool | None = None  # the words that are wrong in a way that ``kind`` has a rule for; None for none
    unknown: Bool | None = None  # None for none
    busy: bool = False
    agreement: Agreement | None = None
    note: str = ""

    def only(self, chosen: Bool) -> Claims:
        """Return the claims to some of the words; ``chosen`` has shape (n,)."""
        rows, reason = np.flatnonzero(chosen).tolist(), self.reason
        return replace(
            self,
            vaddrs=self.vaddrs[chosen],
            expected=self.expected[chosen],
            right=self.right[chosen],
            unsure=self.unsure[chosen],
            changing=self.changing[chosen],
            reason=lambda k: reason(rows[k]),
            malformed=None if self.malformed is None else self.malformed[chosen],
            unknown=None if self.unknown is None else self.unknown[chosen],
        )


class Compared(NamedTuple):
    """Addresses, live words, and expected ones; arrays of shape (n,)."""

    vaddrs: U64
    live: U32
    expected: U32


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFlags:
    """Flags of claimed words; arrays of shape (n,), None if no word has the flag."""

    allowed: Bool | None = None  # right, although not the expected word
    unsure: Bool | None = None
    changing: Bool | None = None
    malformed: Bool | None = None
    unknown: Bool | None = None
    busy: bool = False
    agreement: Agreement | None = None
    note: str = ""


_NO_FLAGS: Final = ClaimFlags()


def claim(
    mechanism: str, kind: ClaimKind, words: Compared, reason: Callable[[int], str], flags: ClaimFlags = _NO_FLAGS
) -> Claims:
    """Make claims; a word is right if the live one is the expected one, or is ``allowed``."""
    no = np.zeros(len(words.vaddrs), np.bool_)
    same: Bool = words.live == words.expected
    right = same if flags.allowed is None else same | flags.allowed
    return Claims(
        mechanism=mechanism,
        kind=kind,
        vaddrs=words.vaddrs,
        expected=words.expected,
        right=right,
        unsure=no if flags.unsure is None else flags.unsure & right,
        changing=no if flags.changing is None else flags.changing & right & ~same,
        reason=reason,
        malformed=flags.malformed,
        unknown=flags.unknown,
        busy=flags.busy,
        agreement=flags.agreement,
        note=flags.note,
    )
