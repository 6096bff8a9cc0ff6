"""PL403: two files differ where no plan of ours writes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.elf.image import I64, ElfImage, Section
from prologue.errors import RefusedError
from prologue.plan.build import build_plan
from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.kernel import Kernel

_CHUNK = 16 << 20  # bytes compared at once: bounds memory


def check(subject: Subject) -> Iterator[Hit]:
    """Every run of differing bytes that no site word, record, marker or init edit explains."""
    after, before = subject.kernel, subject.before
    if before is None:
        return
    if after.image.size != before.image.size:
        message = f"the files have different sizes: {before.image.size} and {after.image.size} bytes"
        yield Hit(0, message)
        return
    differing = _differing(before.image, after.image)
    strange = np.setdiff1d(differing, _planned_bytes(before, after), assume_unique=True)
    if not len(strange):
        return
    for run in np.split(strange, np.flatnonzero(np.diff(strange) > 1) + 1):
        yield _hit(before, after, int(run[0]), len(run))


def _differing(before: ElfImage, after: ElfImage) -> I64:
    """Ascending file offsets of all bytes that differ."""
    parts = []
    for start in range(0, before.size, _CHUNK):
        old, new = before.read(start, _CHUNK), after.read(start, _CHUNK)
        if old != new:
            parts.append(np.flatnonzero(np.frombuffer(old, "u1") != np.frombuffer(new, "u1")) + start)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _planned_bytes(before: Kernel, after: Kernel) -> I64:
    """Ascending file offsets of all bytes of words that ``after`` holds as processing ``before`` writes them."""
    if before.sites is None:
        return np.zeros(0, np.int64)
    try:
        plan = build_plan(before, before.contract)
    except RefusedError:  # an unrecognised init stub: then nothing there may differ
        return np.zeros(0, np.int64)
    parts = []
    for stage in plan.stages:
        now = after.image.words_at(stage.offsets, stage.width)
        done = stage.offsets[(now == stage.new) | (now == stage.old)]
        parts.append((done[:, None] + np.arange(stage.width)).ravel())
    return np.unique(np.concatenate(parts))


def _section_of(image: ElfImage, offset: int) -> Section | None:
    return next((s for s in image.sections if s.has_bytes and s.offset <= offset < s.offset + s.size), None)


def _hit(before: Kernel, after: Kernel, offset: int, size: int) -> Hit:
    old, new = (kernel.image.read(offset, min(size, 16)) for kernel in (before, after))
    more = " ..." if size > 16 else ""
    section = _section_of(before.image, offset)
    vaddr = section.addr + offset - section.offset if section and section.allocated else 0
    place = f"{section.name}+{offset - section.offset:#x}" if section else "outside of all sections"
    message = f"{size} bytes at file offset {offset:#x} ({place}): {old.hex(' ')}{more} became {new.hex(' ')}{more}"
    return Hit(vaddr, message, (int.from_bytes(new[:8], "little"),), (int.from_bytes(old[:8], "little"),))


RULE = Rule(
    code="PL403",
    slug="edit-outside-plan",
    severity="fatal",
    inputs=("P",),
    what="Before and after differ in a byte that is no site word, record, marker or init edit, or in one of these "
    "words to something that processing does not write.",
    why="Processing writes exactly its plan. Any other difference is another build, a foreign tool, or damage.",
    example="4 bytes at .text+0x1a2c: fd 7b bf a9 became 00 00 00 00",
    fix="process the same vmlinux as linked again and compare; if it persists, look for another post-link step",
    citation="docs/safety.md (ours)",
    check=check,
)
