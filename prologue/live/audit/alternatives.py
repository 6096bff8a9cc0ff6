"""Alternatives: the original, or the whole replacement, or what a callback made, as ``applied_alternatives`` says.

arch/arm64/kernel/alternative.c (5.10-7.3): branches of a replacement that leave it, and its ADRPs, get new distances.
``__apply_alternatives`` notes in a bitmap which capabilities' entries it has gone through. Callbacks before 6.1 belong
to no capability; ``all_alternatives_applied`` says when these were called.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import a64
from prologue.insn.decode import ADRP, B_OR_BC_COND, B_OR_BL, CB, TB, Pattern, adr_immediate, matches, signed
from prologue.kernel.tables import PATCHES_NOPS, Ranges, alternative_entries
from prologue.live.audit.callbacks import callback_name, forms
from prologue.live.audit.claims import Claims, Scene

_APPLIED, _ALL_APPLIED = "applied_alternatives", "all_alternatives_applied"
_BYTES: Final = 16  # of the bitmap, if its symbol has no size

# Branches whose distance the kernel corrects: pattern, lowest bit and width of the distance in instructions
# ("aarch64_insn_is_branch_imm", arch/arm64/include/asm/insn.h, 6.12-7.2; 6.1 lets BC.cond be). It knows no CBGT.
_CORRECTED: Final[tuple[tuple[Pattern, int, int], ...]] = (
    (B_OR_BL, 0, 26), (B_OR_BC_COND, 5, 19), (CB, 5, 19), (TB, 5, 14),
)  # fmt: skip


def claim_alternatives(scene: Scene) -> Claims:
    """Claim every word of every original that memory has."""
    return _Table(scene).claims()


class _Table:
    """The entries of one file, and their words in text that memory has: entry, place in it, address."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._entries = alternative_entries(scene.binary)
        self._applied = self._read_applied()
        self._names: dict[int, tuple[str, ...]] = {}
        entry, step = _words_of(self._entries.original)
        vaddrs = self._entries.original.start[entry] + step.astype(np.uint64) * np.uint64(4)
        text_rows = np.flatnonzero(scene.binary.text.in_text(vaddrs))
        self._entry, self._step, self._vaddrs = entry[text_rows], step[text_rows], vaddrs[text_rows]

    def _read_applied(self) -> Bool | None:
        """Read whether each entry was applied; None if memory does not say."""
        variables = self._scene.variables
        place = variables.place(_APPLIED)
        data = None if place is None else variables.read(place, variables.size(_APPLIED) or _BYTES)
        if data is None:
            return None
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.bool_)
        capability = self._entries.capability
        applied = bits[np.minimum(capability, len(bits) - 1)] & (capability < len(bits))
        every = variables.number(_ALL_APPLIED, 4)
        return np.where(self._entries.of_all, bool(bits.any() if every is None else every), applied)

    def claims(self) -> Claims:
        """Claim all words of the table."""
        entry, vaddrs = self._entry, self._vaddrs
        live, linked = self._scene.binary.text.words(vaddrs), self._scene.linked(vaddrs)
        replaced = self._replacements(linked)
        if self._applied is None:
            whole = np.ones(len(self._entries.is_callback), np.bool_)
            whole[entry[live != replaced]] = False
            expected, unsure = np.where(whole[entry], live, linked), np.ones(len(entry), np.bool_)
        else:
            expected, unsure = np.where(self._applied[entry], replaced, linked), np.zeros(len(entry), np.bool_)
        unknown = self._add_callbacks(live, linked, expected, unsure)
        return Claims("alternatives", vaddrs, live, expected, reason=self._reason, unsure=unsure, unknown=unknown)

    def _replacements(self, linked: U32) -> U32:
        """Return each word as its entry makes it; of callbacks the original, except of the one that writes NOPs."""
        entries, entry = self._entries, self._entry
        step = self._step.astype(np.uint64) * np.uint64(4)
        words = moved_code(self._scene, entries.replacement, entry, step, self._vaddrs)
        callback = entries.is_callback[entry]
        words[callback] = linked[callback]
        for start in set(entries.replacement.start[entries.is_callback].tolist()):
            if callback_name(self._names_of(start)) == PATCHES_NOPS:
                words[callback & (entries.replacement.start[entry] == start)] = a64.NOP
        return words

    def _add_callbacks(self, live: U32, linked: U32, expected: U32, unsure: Bool) -> Bool:
        """Put words that the other callbacks may have written into ``expected``; return those of unknown callbacks.

        Words of which memory lacks a neighbour become ``unsure``: only all together have the form.
        """
        entries = self._entries
        unknown = np.zeros(len(live), np.bool_)
        called = entries.is_callback if self._applied is None else entries.is_callback & self._applied
        chosen = np.flatnonzero(called[self._entry])
        starts = np.flatnonzero(np.diff(self._entry[chosen], prepend=-1))
        for group in np.split(chosen, starts[1:]) if len(chosen) else ():
            name = callback_name(self._names_of(int(entries.replacement.start[self._entry[group[0]]])))
            unknown[group] = not name
            if name in ("", PATCHES_NOPS):
                continue
            if len(group) < int(entries.original.size[self._entry[group[0]]]) // 4:
                expected[group], unsure[group] = live[group], True
                continue
            may = forms(name, tuple(linked[group].tolist()), self._scene.variables)
            words = live[group].tolist()
            if any(form.fits(words) for form in may):
                expected[group] = live[group]
            else:
                expected[group] = may[0].values
        return unknown

    def _names_of(self, start: int) -> tuple[str, ...]:
        if start not in self._names:
            self._names[start] = self._scene.callback_names(start)
        return self._names[start]

    def _reason(self, k: int) -> str:
        number = int(self._entry[k])
        capability = int(self._entries.capability[number])
        owner = f"capability {capability}"
        if self._entries.is_callback[number]:
            names = self._names_of(int(self._entries.replacement.start[number]))
            name = callback_name(names)
            owner = f"the callback {name or (names or ('?',))[0]}{'' if name else ', which prologue does not know'}"
        if self._applied is None:
            return f"an alternative of {owner}, not known from memory whether applied"
        return f"an alternative of {owner}, {'applied' if self._applied[number] else 'not applied'}"


def _words_of(ranges: Ranges) -> tuple[I64, I64]:
    """Return the entry of each word of the runs, and its place in the run."""
    count = ranges.size // 4
    entry: I64 = np.repeat(np.arange(len(count)), count)
    return entry, np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count)


def moved_code(scene: Scene, code: Ranges, entry: I64, step: U64, vaddrs: U64) -> U32:
    """Return the words ``step`` bytes from the start of ``code`` as they are once copied to ``vaddrs``; shape (n,).

    "get_alt_insn": a branch that does not leave the replacement (its end counts as inside), keeps its distance.
    """
    places = code.start[entry] + step
    words = scene.linked(places)
    shift = (places - vaddrs).view(np.int64)
    for pattern, low, width in _CORRECTED:
        hit = np.flatnonzero(matches(words, pattern))
        distance = signed(words[hit], low, width) * 4
        target = places[hit] + distance.view(np.uint64)
        inside = target - code.start[entry[hit]] <= code.size[entry[hit]].view(np.uint64)
        words[hit] = _with_field(words[hit], np.where(inside, distance, distance + shift[hit]) >> 2, low, width)
    hit = np.flatnonzero(matches(words, ADRP))
    page = ~np.uint64(0xFFF)
    target = (places[hit] & page) + (adr_immediate(words[hit]) << 12).view(np.uint64)
    distance = (target - (vaddrs[hit] & page)).view(np.int64) >> 12
    words[hit] = _with_field(_with_field(words[hit], distance >> 2, 5, 19), distance & 3, 29, 2)
    return words


def _with_field(words: U32, values: npt.NDArray[np.int64], low: int, width: int) -> U32:
    mask = (1 << width) - 1
    return words & np.uint32(~(mask << low) & 0xFFFFFFFF) | ((values & mask) << low).astype(np.uint32)
