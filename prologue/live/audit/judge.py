"""Puts together what the mechanisms say of one file's text: every word has one owner, or is as it was linked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among
from prologue.insn import a64
from prologue.live.audit.audited import Audited, LiveKind, LiveWord, MechanismCount, OwnedWords
from prologue.live.audit.breakpoints import Breakpoint
from prologue.live.audit.claims import Claims
from prologue.live.audit.describe import Describer
from prologue.live.system.running_text import LiveSection

TWICE: Final = -1


class TextJudge:
    """One file's text. ``sections`` are without breakpoints; ``lifted`` are those, by link-time address."""

    def __init__(
        self,
        sections: Sequence[tuple[LiveSection, U32]],
        lifted: dict[int, Breakpoint],
        describer: Describer,
        not_known: str = "",
    ) -> None:
        """``sections`` come with the words that were linked; ``not_known``: why no word may be called wrong."""
        self._sections = sections
        self._lifted = lifted
        self._describer = describer
        self._not_known = not_known
        # Of these the original is not known, only that a breakpoint covers it.
        covered = [vaddr for vaddr, one in lifted.items() if one.original is None]
        self._covered: U64 = np.array(sorted(covered), np.uint64)
        unstable = sorted({vaddr for section, _ in sections for vaddr in section.unstable})
        self._unstable: U64 = np.array(unstable, np.uint64)

    def judge(self, claims: Sequence[Claims], unlooked: Sequence[tuple[str, int]]) -> Audited:
        """All words that are wrong, ascending, and counts."""
        owners = [self._owners(section, claims) for section, _ in self._sections]
        words = [word for one in claims for word in self._wrong(one)]
        words += self._breakpoints()
        for (section, linked), owner in zip(self._sections, owners, strict=True):
            words += self._unexplained(section, linked, owner, claims)
        words = [without_verdict(word, self._not_known) for word in words] if self._not_known else words
        for (section, linked), owner in zip(self._sections, owners, strict=True):
            words += self._restless(section, linked, owner, claims)
        free = [word for word in words if not word.mechanism]
        counts = self._counts(claims)
        looked = sum(int(section.there.sum()) for section, _ in self._sections)
        owned = [self._owned(one.mechanism, one.vaddrs) for one in claims]
        covered: U64 = np.array(sorted(self._lifted), np.uint64)
        breakpoints: U32 = np.array([self._lifted[vaddr].brk for vaddr in covered.tolist()], np.uint32)
        owned.append(self._owned("breakpoints", covered)._replace(live=breakpoints))
        words.sort(key=lambda word: word.vaddr)
        return Audited(
            words=tuple(words),
            mechanisms=tuple(counts),
            text=looked,
            unlooked=tuple(unlooked),
            owned=tuple(owned),
            restless=sum(word.kind == "unstable" for word in free),
            missing=sum(section.missing for section, _ in self._sections),
            unknown=sum(word.words for word in free if word.kind == "unknown"),
            agreements=tuple(one.agreement for one in claims if one.agreement is not None and one.right.all()),
            notes=tuple(one.note for one in claims if one.note),
        )

    def _owned(self, mechanism: str, vaddrs: U64) -> OwnedWords:
        live, linked = self._both(vaddrs)
        return OwnedWords(mechanism, vaddrs, linked=linked, live=live)

    def _owners(self, section: LiveSection, claims: Sequence[Claims]) -> I64:
        """Which claim owns each word: its number plus one; 0 for none, TWICE for two."""
        owner = np.zeros(len(section.words), np.int64)
        for number, one in enumerate(claims, 1):
            offset = one.vaddrs - np.uint64(section.section.addr)
            at = (offset[offset < np.uint64(4 * len(owner))] >> np.uint64(2)).astype(np.int64)
            owner[at] = np.where(owner[at] == 0, number, TWICE)
        return owner

    def _settled(self, vaddrs: U64) -> Bool:
        """Words that can be judged: they stand still, and it is known what they are."""
        return ~among(vaddrs, self._unstable) & ~among(vaddrs, self._covered)

    def _wrong(self, one: Claims) -> Iterator[LiveWord]:
        wrong = np.flatnonzero(~one.right)
        for k in wrong[self._settled(one.vaddrs[wrong])].tolist():
            vaddr, expected = int(one.vaddrs[k]), int(one.expected[k])
            live, linked = self._word(vaddr)
            shown = [
                f"{word:#010x}" if one.kind == "data" else self._insn(word, vaddr) for word in (live, linked, expected)
            ]
            message = f"holds {shown[0]}, linked {shown[1]}; expected {shown[2]}: {one.why(k)}"
            own = one.malformed is not None and bool(one.malformed[k]) and one.kind != "data"
            kind: LiveKind = one.kind if own and one.kind != "data" else "word"
            if one.unknown is not None and one.unknown[k]:
                kind = "unknown"
            yield LiveWord(
                kind=kind, vaddr=vaddr, live=live, expected=expected, message=message, mechanism=one.mechanism
            )

    def _word(self, vaddr: int) -> tuple[int, int]:
        """The live and the linked word."""
        for section, linked in self._sections:
            at = (vaddr - section.section.addr) // 4
            if 0 <= at < len(linked):
                return int(section.words[at]), int(linked[at])
        raise LookupError(hex(vaddr))

    def _insn(self, word: int, vaddr: int) -> str:
        return self._describer.insn(word, vaddr)

    def _breakpoints(self) -> Iterator[LiveWord]:
        """Copies that kprobes execute instead of what they cover."""
        for vaddr, one in self._lifted.items():
            if one.copy is not None and one.original is not None and one.copy != one.original:
                message = (
                    f"a kprobe covers {self._insn(one.original, vaddr)}, but the copy that is executed instead is "
                    f"{self._insn(one.copy, vaddr)}"
                )
                yield LiveWord(kind="word", vaddr=vaddr, live=one.copy, expected=one.original, message=message)

    def _unexplained(
        self, section: LiveSection, linked: U32, owner: I64, claims: Sequence[Claims]
    ) -> Iterator[LiveWord]:
        """Words that no mechanism owns, or that two do, and that are not as linked; neighbours are one finding."""
        yield from self._wiped(section, linked)
        odd = np.flatnonzero((section.words != linked) & section.there & (owner <= 0) & ~section.zeros)
        if not len(odd):
            return
        vaddrs = np.uint64(section.section.addr) + odd.astype(np.uint64) * np.uint64(4)
        odd = odd[self._settled(vaddrs)]
        edges = np.flatnonzero(np.diff(odd, prepend=-2) != 1)
        for run in np.split(odd, edges[1:]) if len(odd) else ():
            first = int(run[0])
            vaddr, live, was = section.section.addr + 4 * first, int(section.words[first]), int(linked[first])
            more = f" ({len(run):,} words from here on)" if len(run) > 1 else ""
            why = _owned_by_several(vaddr, claims) if owner[first] == TWICE else _nearest(owner, first, claims)
            message = f"holds {self._insn(live, vaddr)}, linked {self._insn(was, vaddr)}{more}: {_what(live)}{why}"
            yield LiveWord(kind="unexplained", vaddr=vaddr, live=live, expected=was, message=message, words=len(run))

    def _wiped(self, section: LiveSection, linked: U32) -> Iterator[LiveWord]:
        """Pages of zeros; neighbours are one finding. No mechanism claims a word of them."""
        edges = np.flatnonzero(np.diff(section.zeros.astype(np.int8), prepend=0, append=0)).tolist()
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            vaddr, was = section.section.addr + 4 * first, int(linked[first])
            message = (
                f"holds zeros, linked {self._insn(was, vaddr)} ({end - first:,} words from here on): whole pages were "
                "wiped, or could not be read"
            )
            yield LiveWord(kind="unexplained", vaddr=vaddr, live=0, expected=was, message=message, words=end - first)

    def _restless(self, section: LiveSection, linked: U32, owner: I64, claims: Sequence[Claims]) -> Iterator[LiveWord]:
        for vaddr in section.unstable:
            at = (vaddr - section.section.addr) // 4
            live, one = int(section.words[at]), claims[int(owner[at]) - 1] if owner[at] > 0 else None
            is_data = one is not None and one.kind == "data"
            shown = f"{live:#010x}" if is_data else self._insn(live, vaddr)
            message = f"held {shown} when last read, and still changed after several readings"
            mechanism = "" if one is None else one.mechanism
            yield LiveWord(
                kind="unstable", vaddr=vaddr, live=live, expected=int(linked[at]), message=message, mechanism=mechanism
            )

    def _counts(self, claims: Sequence[Claims]) -> list[MechanismCount]:
        """Claims of one mechanism are one row; breakpoints are the last. A word is undecided in one row only."""
        rows: dict[str, MechanismCount] = {}
        for one in claims:
            live, linked = self._both(one.vaddrs)
            settled = self._settled(one.vaddrs)
            wrong = ~one.right & settled
            unknown = wrong if self._not_known else wrong & False if one.unknown is None else wrong & one.unknown
            row = MechanismCount(
                mechanism=one.mechanism,
                words=len(one.vaddrs),
                changed=int((live != linked).sum()),
                wrong=int((wrong & ~unknown).sum()),
                unsure=int((one.unsure | one.changing | ~settled | unknown).sum()),
                restless=int((one.changing | among(one.vaddrs, self._unstable) | one.unsure & one.busy).sum()),
                unknown=int(unknown.sum()),
                agreed=int((one.right & settled).sum()) if one.agreement is not None else 0,
            )
            old = rows.get(one.mechanism)
            rows[one.mechanism] = row if old is None else old.plus(row)
        count = len(self._lifted)
        counted = among(self._covered, self._unstable)
        for one in claims:
            counted |= among(self._covered, one.vaddrs)
        return [
            *rows.values(),
            MechanismCount(mechanism="breakpoints", words=count, changed=count, wrong=0, unsure=int((~counted).sum())),
        ]

    def _both(self, vaddrs: U64) -> tuple[U32, U32]:
        live, before = np.zeros(len(vaddrs), np.uint32), np.zeros(len(vaddrs), np.uint32)
        for section, linked in self._sections:
            offset = vaddrs - np.uint64(section.section.addr)
            inside = np.flatnonzero(offset < np.uint64(4 * len(linked)))
            at = (offset[inside] >> np.uint64(2)).astype(np.int64)
            live[inside], before[inside] = section.words[at], linked[at]
        return live, before


def without_verdict(word: LiveWord, not_known: str) -> LiveWord:
    """Return a word that does not fit as one of which nothing can be said, and why."""
    if word.kind == "unknown":
        return word
    return replace(word, kind="unknown", message=f"{word.message}; {not_known}")


def _what(word: int) -> str:
    """What kind of word it is, where that helps."""
    return "a breakpoint that is in no table; " if a64.classify(word) == "BRK" else ""


def _owned_by_several(vaddr: int, claims: Sequence[Claims]) -> str:
    owners = list(dict.fromkeys(one.mechanism for one in claims if (one.vaddrs == np.uint64(vaddr)).any()))
    who = f"two entries of the {owners[0]}" if len(owners) == 1 else f"the {' and the '.join(owners)}"
    return f"{who} own it, and only one of them can have written it"


def _nearest(owner: I64, at: int, claims: Sequence[Claims]) -> str:
    """The mechanism whose word is next to it, and so fails to explain it."""
    for distance in range(1, 1024):
        for other in (at - distance, at + distance):
            if 0 <= other < len(owner) and owner[other] > 0:
                where = "before" if other < at else "after"
                mechanism = claims[int(owner[other]) - 1].mechanism
                return f"no mechanism owns it; {4 * distance} bytes {where} it is a word of the {mechanism}"
    return "no mechanism owns it, nor any word near it"
