"""PL404: the boot file was not made from this vmlinux."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, among, sorted_unique
from prologue.elf.flat import flat_sections
from prologue.elf.image import U8, differing_bytes
from prologue.elf.sections import Section
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted

_EACH: Final = 16  # sites that differ in the same way are named one by one up to this number


def check(subject: Subject) -> Iterator[Hit]:
    """Check every byte of the flat Image, except those that signing changes: sites by their words, the rest by section.

    Bytes between and after the sections must be zeros (objcopy fills gaps with them, and zboot pads the end).
    """
    kernel = subject.kernel
    if subject.image is None:
        return
    from prologue.elf.payload import flat_image, header_mutable_ranges, unsigned_extent  # loads every decompressor

    flat = flat_image(subject.image)
    extent, mutable = unsigned_extent(flat, subject.image), header_mutable_ranges(flat, subject.image)
    end, last = 0, 0
    for offset, section in flat_sections(kernel.image):
        yield from _stray(subject, section.addr, flat[end:offset], end)
        end, last = offset + section.size, section.addr
        if offset + section.size > extent:
            yield Hit(section.addr, f"{subject.image} ends at {extent:#x}, before the end of {section.name}")
            continue
        theirs = np.frombuffer(flat, np.uint8, section.size, offset)
        differing = differing_bytes(kernel.image.view(section, np.uint8), theirs)
        for start, stop in mutable:
            differing = differing[(differing + offset < start) | (differing + offset >= stop)]
        if len(differing):
            yield from _hits(subject, section, differing, theirs)
    yield from _stray(subject, last, flat[end:extent], end)


def _stray(subject: Subject, vaddr: int, flat: bytes, offset: int) -> Iterator[Hit]:
    """Yield bytes of the Image that no section of the vmlinux has."""
    stray = np.flatnonzero(np.frombuffer(flat, np.uint8))
    if len(stray):
        where = offset + int(stray[0])
        yield Hit(vaddr, f"{subject.image} has {counted(len(stray), 'byte')} from {where:#x} on where vmlinux has none")


def _hits(subject: Subject, section: Section, differing: I64, theirs: U8) -> Iterator[Hit]:
    words = differing & ~3
    words = words[np.diff(words, prepend=-4) > 0]
    vaddrs = np.uint64(section.addr) + words.astype(np.uint64)
    at_site = among(vaddrs, np.concatenate([subject.sites.first, subject.sites.second]))
    site_words = theirs[words[at_site][:, None] + np.arange(4)].view("<u4").ravel()
    yield from _at_sites(subject, vaddrs[at_site], site_words, subject.kernel.text.words(vaddrs[at_site]))
    other = np.flatnonzero(~at_site)
    if len(other):
        where = int(vaddrs[other[0]])
        noun = "that is no site" if len(other) == 1 else "that are no sites"
        yield Hit(where, f"{subject.image} differs in {counted(len(other), 'word')} of {section.name} {noun}")


def _at_sites(subject: Subject, vaddrs: U64, words: U32, expected: U32) -> Iterator[Hit]:
    """Compare site by site; but a stale Image differs at every site in one way, and has one cause."""
    pairs = words.astype(np.uint64) | expected.astype(np.uint64) << np.uint64(32)
    for pair in sorted_unique(pairs).tolist():
        places = vaddrs[pairs == pair].tolist()
        theirs, ours = pair & 0xFFFFFFFF, pair >> 32
        text = f"{subject.image} holds {theirs:08x}, vmlinux {ours:08x}"
        if len(places) > _EACH:
            places, text = places[:1], f"{text}, here and at {counted(len(places) - 1, 'more word')} of sites"
        yield from (Hit(vaddr, text, (theirs,), (ours,)) for vaddr in places)


RULE = Rule(
    code="PL404",
    slug="image-stale",
    severity="fatal",
    inputs=("I",),
    what="A boot file (flat Image, compressed or not, or EFI zboot) that is not what objcopy makes of this vmlinux; "
    "what signing the file changes is left out.",
    why="The Image is what boots. If it was made before the vmlinux was processed, or from another build, "
    "verifying the vmlinux says nothing about the kernel that runs.",
    example="Image holds d503201f, vmlinux aa1e03e9 at vfs_read",
    fix="make the Image again, after the post-link step: `make Image`, or `prologue image VMLINUX -o IMAGE`",
    citation='kernel arch/arm64/boot/Makefile "OBJCOPYFLAGS_Image", drivers/firmware/efi/libstub/zboot-header.S (6.12)',
    check=check,
    words=(0xD503201F, 0xAA1E03E9),
)
