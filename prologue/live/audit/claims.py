"""What a mechanism says of its words: which they are, and what stands there if it was the only one that wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.live.audit.audited import Agreement

ClaimKind = Literal["first slot", "call", "label", "word", "data"]
"""What a word is: first slots, calls and labels have rules of their own if ``malformed``; data are not disassembled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Words of one mechanism, by link-time address; arrays of shape (n,).

    ``expected`` is what should stand there; of several that may, the one that the mechanism would write now.
    ``unsure`` are right in form, but what decides which form it is could not be read. ``changing`` are right in form,
    and the mechanism is at work. ``busy`` if it was at work while memory was read, so that ``unsure`` may be of the
    moment. ``why`` says of one of them, by index, what decides. Of those ``unknown`` that are not right, what would be
    right is not known. ``agreement``: the words are right because all places of one value agree, if they are. ``note``
    is what else the report has to say of all of them.
    """

    mechanism: str
    kind: ClaimKind
    vaddrs: U64
    expected: U32
    right: Bool
    unsure: Bool
    changing: Bool
    why: Callable[[int], str]
    malformed: Bool | None = None  # the words that are wrong in a way that ``kind`` has a rule for; None for none
    unknown: Bool | None = None  # None for none
    busy: bool = False
    agreement: Agreement | None = None
    note: str = ""


class Compared(NamedTuple):
    """Addresses, live words, and what should stand there; arrays of shape (n,)."""

    vaddrs: U64
    live: U32
    expected: U32


@dataclass(frozen=True, slots=True, kw_only=True)
class But:
    """What is said of words besides; arrays of shape (n,), None for "of none of them"."""

    allowed: Bool | None = None  # right, although not the expected word
    unsure: Bool | None = None
    changing: Bool | None = None
    malformed: Bool | None = None
    unknown: Bool | None = None
    busy: bool = False
    agreement: Agreement | None = None
    note: str = ""


NOTHING: Final = But()


def claim(mechanism: str, kind: ClaimKind, words: Compared, why: Callable[[int], str], but: But = NOTHING) -> Claims:
    """Claims of which those are right whose live word is the expected one, or is ``allowed``."""
    no = np.zeros(len(words.vaddrs), np.bool_)
    same: Bool = words.live == words.expected
    right = same if but.allowed is None else same | but.allowed
    return Claims(
        mechanism=mechanism,
        kind=kind,
        vaddrs=words.vaddrs,
        expected=words.expected,
        right=right,
        unsure=no if but.unsure is None else but.unsure & right,
        changing=no if but.changing is None else but.changing & right & ~same,
        why=why,
        malformed=but.malformed,
        unknown=but.unknown,
        busy=but.busy,
        agreement=but.agreement,
        note=but.note,
    )
