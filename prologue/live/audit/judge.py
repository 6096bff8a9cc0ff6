"""The judge of a file's text by the claims of all mechanisms: every word has one owner, or is as it was linked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among, runs_of, spans_of
from prologue.insn import a64
from prologue.insn.disasm import insn_text
from prologue.kernel.binary import Binary
from prologue.live.audit.audited import Audited, LiveKind, LiveWord, MechanismCount, OwnedWords
from prologue.live.audit.breakpoints import Breakpoint
from prologue.live.audit.claims import Claims
from prologue.live.memory.state import KernelState
from prologue.live.system.running_kernel import LiveText
from prologue.live.system.running_text import LiveSection
from prologue.words import at_offset


class Describer:
    """The describer of one file's instructions; ``state`` has the symbols that are no part of the file."""

    def __init__(self, binary: Binary, slide: int, state: KernelState | None) -> None:
        self._binary = binary
        self._slide = slide
        self._state = state

    def insn(self, word: int, vaddr: int) -> str:
        """Describe an instruction at a link-time address, and its branch target."""
        text = f"`{insn_text(word, vaddr)}`"
        target = a64.branch_target(word, vaddr)
        if target is None or a64.classify(word) not in ("B", "BL"):
            return text
        name = self.name(target)
        return f"{text} ({name})" if name else text

    def name(self, vaddr: int) -> str:
        """Name a link-time address: symbol+offset of the file or of another owner's text, otherwise its address."""
        where = self._binary.symbols.locate(vaddr)
        if where.section is not None and where.symbol is not None:
            return at_offset(where.symbol, where.symbol_offset)
        runs = vaddr + self._slide & (1 << 64) - 1
        if self._state is not None and (owner := self._state.code_owner(runs)):
            named = ((s.vaddr, s.name) for s in self._state.symbols if s.owner == owner and s.vaddr <= runs)
            place, name = max(named, default=(0, ""))
            return f"{at_offset(name, runs - place)} of {owner}" if name else f"{runs:#x} of {owner}"
        return f"{runs:#x} in memory, outside of {self._binary.path.name}"


_TWICE: Final = -1
_BREAKPOINTS: Final = "breakpoints"


class TextJudge:
    """The judge of a file's text, which is without breakpoints; ``lifted`` has these, by link-time address."""

    def __init__(
        self, text: LiveText, lifted: dict[int, Breakpoint], describer: Describer, not_known: str = ""
    ) -> None:
        """Take ``text``; ``not_known`` is the reason why no word may be called wrong."""
        self._text = text
        self._sections = tuple(text.live.values())
        self._lifted = lifted
        self._insn = describer.insn
        self._not_known = not_known
        # Words of which only the breakpoint on them is known.
        covered = [vaddr for vaddr, point in lifted.items() if point.original is None]
        self._covered: U64 = np.array(sorted(covered), np.uint64)
        unstable = sorted({vaddr for section in self._sections for vaddr in section.unstable})
        self._unstable: U64 = np.array(unstable, np.uint64)

    def judge(self, claims: Sequence[Claims]) -> Audited:
        """Judge all words that memory has: wrong ones, ascending, and counts."""
        # Neighbours of one mechanism may be in two pages, of which memory has one.
        claims = [part if (in_text := self._text.in_text(part.vaddrs)).all() else part.only(in_text) for part in claims]
        owners = [self._owners(section, claims) for section in self._sections]
        words = [word for part in claims for word in self._wrong(part)]
        words += self._breakpoints()
        for section, owner in zip(self._sections, owners, strict=True):
            words += self._unexplained(section, owner, claims)
        words = [without_verdict(word, self._not_known) for word in words] if self._not_known else words
        for section, owner in zip(self._sections, owners, strict=True):
            words += self._unstable_words(section, owner, claims)
        free = [word for word in words if not word.mechanism]
        counts = self._counts(claims)
        lacking = [(section.section.name, int((~section.present).sum())) for section in self._sections]
        owned = [OwnedWords(part.mechanism, part.vaddrs, self._text.linked(part.vaddrs), part.live) for part in claims]
        covered: U64 = np.array(sorted(self._lifted), np.uint64)
        breakpoints: U32 = np.array([self._lifted[vaddr].brk for vaddr in covered.tolist()], np.uint32)
        owned.append(OwnedWords(_BREAKPOINTS, covered, self._text.linked(covered), breakpoints))
        words.sort(key=lambda word: word.vaddr)
        return Audited(
            words=tuple(words),
            mechanisms=tuple(counts),
            text=sum(int(section.present.sum()) for section in self._sections),
            unlooked=tuple((name, count) for name, count in lacking if count),
            owned=tuple(owned),
            unstable=sum(word.kind == "unstable" for word in free),
            missing=sum(section.missing for section in self._sections),
            unknown=sum(word.words for word in free if word.kind == "unknown"),
            agreements=tuple(part.agreement for part in claims if part.agreement is not None and part.right.all()),
            notes=tuple(part.note for part in claims if part.note),
        )

    def _owners(self, section: LiveSection, claims: Sequence[Claims]) -> I64:
        """Return the number of the claim that owns each word, plus one; 0 for none, ``_TWICE`` for two."""
        owner = np.zeros(len(section.words), np.int64)
        for number, part in enumerate(claims, 1):
            offset = part.vaddrs - np.uint64(section.section.addr)
            at = (offset[offset < np.uint64(4 * len(owner))] >> np.uint64(2)).astype(np.int64)
            owner[at] = np.where(owner[at] == 0, number, _TWICE)
        return owner

    def _are_stable(self, vaddrs: U64) -> Bool:
        """Return which words can be judged: they do not change, and no breakpoint hides them."""
        return ~among(vaddrs, self._unstable) & ~among(vaddrs, self._covered)

    def _wrong(self, part: Claims) -> Iterator[LiveWord]:
        wrong = np.flatnonzero(~part.right)
        wrong = wrong[self._are_stable(part.vaddrs[wrong])]
        malformed, unknown = (np.broadcast_to(flag, part.vaddrs.shape) for flag in (part.malformed, part.unknown))
        for k, linked in zip(wrong.tolist(), self._text.linked(part.vaddrs[wrong]).tolist(), strict=True):
            vaddr, live, expected = int(part.vaddrs[k]), int(part.live[k]), int(part.expected[k])
            shown = [
                f"{word:#010x}" if part.kind == "data" else self._insn(word, vaddr) for word in (live, linked, expected)
            ]
            message = f"holds {shown[0]}, linked {shown[1]}; expected {shown[2]}: {part.reason(k)}"
            kind: LiveKind = part.kind if malformed[k] and part.kind != "data" else "word"
            kind = "unknown" if unknown[k] else kind
            yield LiveWord(
                kind=kind, vaddr=vaddr, found=(live,), expected=(expected,), message=message, mechanism=part.mechanism
            )

    def _breakpoints(self) -> Iterator[LiveWord]:
        """Yield wrong copies that kprobes execute instead of the words that they cover."""
        for vaddr, point in self._lifted.items():
            if point.is_wrong and point.original is not None and point.copy is not None:
                message = (
                    f"a kprobe covers {self._insn(point.original, vaddr)}, but the copy that is executed instead is "
                    f"{self._insn(point.copy, vaddr)}"
                )
                yield LiveWord(
                    kind="word",
                    vaddr=vaddr,
                    found=(point.copy,),
                    expected=(point.original,),
                    message=message,
                    mechanism=_BREAKPOINTS,
                )

    def _unexplained(self, section: LiveSection, owner: I64, claims: Sequence[Claims]) -> Iterator[LiveWord]:
        """Yield words that no mechanism owns, or two, and that are not as linked; neighbours are one finding."""
        yield from self._wiped(section)
        odd = np.flatnonzero((section.words != section.linked) & section.present & (owner <= 0) & ~section.zeros)
        vaddrs = np.uint64(section.section.addr) + odd.astype(np.uint64) * np.uint64(4)
        odd = odd[self._are_stable(vaddrs)]
        for run in runs_of(odd):
            first = int(run[0])
            vaddr, live, was = section.section.addr + 4 * first, int(section.words[first]), int(section.linked[first])
            more = f" ({len(run):,} words from here on)" if len(run) > 1 else ""
            why = _owned_by_several(vaddr, claims) if owner[first] == _TWICE else _nearest(owner, first, claims)
            note = "a breakpoint that is in no table; " if a64.classify(live) == "BRK" else ""
            message = f"holds {self._insn(live, vaddr)}, linked {self._insn(was, vaddr)}{more}: {note}{why}"
            yield LiveWord(
                kind="unexplained", vaddr=vaddr, found=(live,), expected=(was,), message=message, words=len(run)
            )

    def _wiped(self, section: LiveSection) -> Iterator[LiveWord]:
        """Yield pages of zeros; neighbours are one finding. No mechanism claims a word of them."""
        for first, end in spans_of(section.zeros):
            vaddr, was = section.section.addr + 4 * first, int(section.linked[first])
            message = (
                f"holds zeros, linked {self._insn(was, vaddr)} ({end - first:,} words from here on): whole pages were "
                "wiped, or could not be read"
            )
            yield LiveWord(
                kind="unexplained", vaddr=vaddr, found=(0,), expected=(was,), message=message, words=end - first
            )

    def _unstable_words(self, section: LiveSection, owner: I64, claims: Sequence[Claims]) -> Iterator[LiveWord]:
        for vaddr in section.unstable:
            at = (vaddr - section.section.addr) // 4
            live, part = int(section.words[at]), claims[int(owner[at]) - 1] if owner[at] > 0 else None
            is_data = part is not None and part.kind == "data"
            shown = f"{live:#010x}" if is_data else self._insn(live, vaddr)
            message = f"held {shown} when last read, and still changed after several readings"
            mechanism = "" if part is None else part.mechanism
            linked = int(section.linked[at])
            yield LiveWord(
                kind="unstable", vaddr=vaddr, found=(live,), expected=(linked,), message=message, mechanism=mechanism
            )

    def _counts(self, claims: Sequence[Claims]) -> list[MechanismCount]:
        """Count words: a row for each mechanism, breakpoints last. A word is undecided in one row only."""
        rows: dict[str, MechanismCount] = {}
        for part in claims:
            right, stable = part.right, self._are_stable(part.vaddrs)
            wrong = ~right & stable
            unknown = wrong if self._not_known else wrong & part.unknown
            unsure, unstable = part.unsure & right, part.unstable & right
            row = MechanismCount(
                mechanism=part.mechanism,
                words=len(part.vaddrs),
                changed=int((part.live != self._text.linked(part.vaddrs)).sum()),
                wrong=int((wrong & ~unknown).sum()),
                unsure=int((unsure | unstable | ~stable | unknown).sum()),
                unstable=int((unstable | among(part.vaddrs, self._unstable)).sum()),
                unknown=int(unknown.sum()),
                agreed=int((right & stable).sum()) if part.agreement is not None else 0,
            )
            old = rows.get(part.mechanism)
            rows[part.mechanism] = row if old is None else old.plus(row)
        counted = among(self._covered, self._unstable)
        for part in claims:
            counted |= among(self._covered, part.vaddrs)
        count, of_copies = len(self._lifted), sum(point.is_wrong for point in self._lifted.values())
        open_copies = of_copies if self._not_known else 0
        breakpoints = MechanismCount(
            mechanism=_BREAKPOINTS,
            words=count,
            changed=count,
            wrong=of_copies - open_copies,
            unsure=int((~counted).sum()) + open_copies,
            unknown=open_copies,
        )
        return [*rows.values(), breakpoints]


def without_verdict(word: LiveWord, not_known: str) -> LiveWord:
    """Return a word that does not fit as an unknown one, with the reason."""
    if word.kind == "unknown":
        return word
    return replace(word, kind="unknown", message=f"{word.message}; {not_known}")


def _owned_by_several(vaddr: int, claims: Sequence[Claims]) -> str:
    owners = list(dict.fromkeys(part.mechanism for part in claims if (part.vaddrs == np.uint64(vaddr)).any()))
    pair = f"two entries of the {owners[0]}" if len(owners) == 1 else f"the {' and the '.join(owners)}"
    return f"{pair} own it, and only one of them can have written it"


def _nearest(owner: I64, at: int, claims: Sequence[Claims]) -> str:
    """Name the mechanism whose word is next to it, and so fails to explain it."""
    for distance in range(1, 1024):
        for other in (at - distance, at + distance):
            if 0 <= other < len(owner) and owner[other] > 0:
                where = "before" if other < at else "after"
                mechanism = claims[int(owner[other]) - 1].mechanism
                return f"no mechanism owns it; {4 * distance} bytes {where} it is a word of the {mechanism}"
    return "no mechanism owns it, nor any word near it"
