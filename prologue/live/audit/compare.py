"""Two looks at one boot: the words that changed between them, and whether each change is safe while others execute."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among
from prologue.errors import InputError
from prologue.insn import a64, cmodx
from prologue.insn.table import CLASSES
from prologue.live.audit.audited import Audited
from prologue.live.audit.of_5_10 import KPTI_FLAG
from prologue.live.audit.outcome import NOT_ALLOWED, Audit, RunningBinary, Transition

_DATA: Final = ("CALL_OPS literals", "relocated literals", "nVHE addresses", KPTI_FLAG)
_FAULTS: Final = {1: "wrong, see above", 2: "not decided, see above"}
# Words that have names of their own, besides the classes of insn/a64.
_NAMED: Final = {a64.MOV_X9_X30: "MOV X9, X30", a64.PACIASP: "PACIASP", a64.AUTIASP: "AUTIASP"}
_OTHER: Final = "another"
_NO_MECHANISM: Final = "no mechanism"


def transitions_of(old: Audit, new: Audit) -> tuple[tuple[Transition, ...], tuple[str, ...]]:
    """Return the changes between two looks at one boot, and notes on what cannot be compared.

    Raises:
        InputError: they are of two boots.

    """
    if old.slide != new.slide or (old.boot_id and new.boot_id and old.boot_id != new.boot_id):
        raise InputError(f"is of another boot than {old.source}: they cannot be compared", path=new.source)
    counts: dict[Transition, int] = {}
    notes = []
    before = {file.name: file.binary for file in old.files}
    for file in new.files:
        name, binary, earlier = file.name, file.binary, before.pop(file.name, None)
        places = [[s.addr for s in each.image.text_sections] if each else [] for each in (earlier, binary)]
        if earlier is None or binary is None or places[0] != places[1]:
            notes.append(f"{name}: loaded between the two, so that nothing of it can be compared")
            continue
        for transition in _changes(earlier, binary, file.audited):
            key = replace(transition, words=0)
            counts[key] = counts.get(key, 0) + transition.words
    notes += [f"{name}: unloaded between the two, so that nothing of it can be compared" for name in before]
    return tuple(replace(key, words=words) for key, words in counts.items()), tuple(notes)


def _changes(before: RunningBinary, after: RunningBinary, audited: Audited) -> list[Transition]:
    """Return the transitions of a file, one for each mechanism, pair of classes, and verdict."""
    vaddrs, old, new = _different(before, after)
    if not len(vaddrs):
        return []
    covered = sorted({*before.live_text.lifted, *after.live_text.lifted})
    wrong, unknown = _words_at(audited, unknown=False), _words_at(audited, unknown=True)
    owner, mechanisms = _owners(vaddrs, audited, np.array(covered, np.uint64))
    judged = np.where(among(vaddrs, wrong), 1, np.where(among(vaddrs, unknown), 2, 0))
    codes = np.stack([owner, _class_of(old), _class_of(new), judged], axis=1)
    rows, first, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    result = []
    for (number, _, _, fault), at, count in zip(rows.tolist(), first.tolist(), counts.tolist(), strict=True):
        mechanism, pair = mechanisms[number], (int(old[at]), int(new[at]))
        names = ["data"] * 2
        if mechanism not in _DATA:
            names = [_NAMED.get(word) or a64.classify(word) or _OTHER for word in pair]
        verdict = _FAULTS.get(fault) or _verdict(mechanism, *pair)
        result.append(Transition(mechanism=mechanism, old=names[0], new=names[1], words=count, verdict=verdict))
    return result


def _words_at(audited: Audited, *, unknown: bool) -> U64:
    words = [word for word in audited.words if (word.kind == "unknown") == unknown]
    return np.array(sorted(word.vaddr + 4 * k for word in words for k in range(word.words)), np.uint64)


def _different(before: RunningBinary, after: RunningBinary) -> tuple[U64, U32, U32]:
    """Return words that both have and that differ, with breakpoints. Pages of zeros are findings, no transitions."""
    parts: list[tuple[U64, U32, U32]] = []
    for index, section in after.live_text.live.items():
        other = before.live_text.live[index]
        words = [_with_breakpoints(binary, index) for binary in (before, after)]
        comparable = section.present & other.present & ~section.zeros & ~other.zeros
        at = np.flatnonzero((words[0] != words[1]) & comparable)
        parts.append(
            (np.uint64(section.section.addr) + at.astype(np.uint64) * np.uint64(4), words[0][at], words[1][at])
        )
    vaddrs, old, new = (np.concatenate(column) for column in zip(*parts, strict=True))
    return vaddrs, old, new


def _with_breakpoints(binary: RunningBinary, index: int) -> U32:
    section = binary.live_text.live[index]
    words = section.words.copy()
    for vaddr, word in binary.live_text.lifted.items():
        at = (vaddr - section.section.addr) // 4
        if 0 <= at < len(words):
            words[at] = word
    return words


def _owners(vaddrs: U64, audited: Audited, covered: U64) -> tuple[I64, list[str]]:
    """Return the number of each word's mechanism, and the names of the mechanisms."""
    mechanisms = [_NO_MECHANISM]
    owner = np.zeros(len(vaddrs), np.int64)
    for name, words in (*((owned.mechanism, owned.vaddrs) for owned in audited.owned), ("breakpoints", covered)):
        if name not in mechanisms:
            mechanisms.append(name)
        owner[among(vaddrs, words)] = mechanisms.index(name)
    return owner, mechanisms


def _class_of(words: U32) -> I64:
    """Return a number for the class of each word; 0 for words without a class."""
    classes = np.zeros(len(words), np.int64)
    patterns = [*CLASSES.values(), *((0xFFFFFFFF, word) for word in _NAMED)]
    for number, (mask, value) in enumerate(patterns, 1):
        hit: Bool = words & np.uint32(mask) == np.uint32(value)
        classes[hit] = number
    return classes


def _verdict(mechanism: str, old: int, new: int) -> str:
    if mechanism in _DATA:
        return "data, not executed"
    if cmodx.judge(old, new).allowed:
        return "allowed"
    if mechanism == "breakpoints":  # aarch64_insn_patch_text (arch/arm64/kernel/patching.c, 6.1-7.2)
        return "allowed, under stop_machine"
    return "allowed by newer issues only" if cmodx.judge(old, new, "new").allowed else NOT_ALLOWED
