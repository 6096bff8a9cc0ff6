"""PL403: two files differ outside of what the plan writes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import I64, among
from prologue.insn import cmodx
from prologue.kernel.binary import Binary
from prologue.rules.base import Hit, Rule, Subject

_ROW = 16  # bytes of the hexdump


def check(subject: Subject) -> Iterator[Hit]:
    """Report every run of differing bytes that no site word, record, marker or init edit explains."""
    from prologue.plan.account import account

    after, before = subject.binary, subject.before
    if before is None:
        return
    accounting = account(before, after)
    if accounting.incomparable:
        fix = "compare with the file that this one was made from, of the same link"
        yield Hit(0, accounting.incomparable, fix=fix)
        return
    others = _reported_by_other_rules(before, after, subject.codes)
    strange = accounting.unexplained[~among(accounting.unexplained, others)]
    if not len(strange):
        return
    if before.state == "processed" and not len(account(after, before).unexplained):
        message = f"this file is the one from before: {before.path} has what processing writes, and this one has not"
        yield Hit(0, message, fix="exchange the two: `prologue verify PROCESSED --against BEFORE`")
        return
    for run in np.split(strange, np.flatnonzero(np.diff(strange) > 1) + 1):
        yield _hit(before, after, int(run[0]), len(run))


def _reported_by_other_rules(before: Binary, after: Binary, codes: frozenset[str]) -> I64:
    """Return the bytes that fatal rules which run report: PL308 live words, PL409 relocations.

    Except a second slot whose new word is on no list: PL308 does not report it.
    """
    from prologue.elf.dynrelocs import relocation_sections
    from prologue.kernel.live_words import changed
    from prologue.rules.pl409_relocations_changed import changed as changed_relocations

    parts = [np.zeros(0, np.int64)]
    if "PL308" in codes:
        unlisted = [c for c in changed(before, after) if not cmodx.judge(c.old, c.new, "new").allowed]
        vaddrs = [c.vaddr for c in unlisted if c.what != "second slot" or cmodx.listed(c.new, "new")]
        offsets = after.image.offsets(np.array(vaddrs, np.uint64))
        parts.append((offsets[:, None] + np.arange(4)).ravel())
    if "PL409" in codes and any(len(rows) for rows in changed_relocations(before, after)):
        tables = [s for kind in ("RELA", "RELR") for s in relocation_sections(after.image, kind)]
        parts += [s.offset + np.arange(s.size, dtype=np.int64) for s in tables]
    return np.concatenate(parts)


def _hit(before: Binary, after: Binary, offset: int, size: int) -> Hit:
    holding = (s for s in before.image.sections if s.has_bytes and s.offset <= offset < s.offset + s.size)
    section = next(holding, None)
    vaddr = section.addr + offset - section.offset if section and section.allocated else 0
    place = f"{section.name}+{offset - section.offset:#x}" if section else "outside of all sections"
    row = offset - offset % _ROW
    old, new = (binary.image.read(row, _ROW) for binary in (before, after))
    message = f"{size} byte{'s' if size != 1 else ''} at file offset {offset:#x} ({place}); "
    message += f"{row:#x}: {old.hex(' ')} became {new.hex(' ')}"
    if section and section.is_text:
        at = vaddr & ~3
        words = [int.from_bytes(binary.text.read_at(at, 4) or b"", "little") for binary in (before, after)]
        message += f" ({before.insn_text(words[0], at)} became {after.insn_text(words[1], at)})"
    after_value, expected = (int.from_bytes(binary.image.read(offset, 8), "little") for binary in (after, before))
    return Hit(vaddr, message, (after_value,), (expected,))


RULE = Rule(
    code="PL403",
    slug="edit-outside-plan",
    severity="fatal",
    inputs=("P",),
    what="Before and after differ in a byte that is no site word, record, marker or init edit, nor a relocation that "
    "processing takes out, or one of these words holds a value that processing does not write.",
    why="Processing writes exactly its plan. Any other difference is another build, another tool's edit, or damage.",
    example="4 bytes at file offset 0x2ba2c (.text+0x1a2c): fd 7b bf a9 became 00 00 00 00",
    fix="process the linked vmlinux again and compare; if the difference persists, look for another post-link step",
    citation='prologue help safety "Writing safely"',
    check=check,
    words=(0xA9BF7BFD, 0x00000000),
)
