"""Addresses in text: literals that KASLR relocates, and those that nVHE needs in its own layout.

RELA and RELR: the link-time value plus the slide (arch/arm64/kernel/pi/relocate.c, 6.12; head.S, 6.1: RELATIVE entries
only). ``.hyp.reloc`` (arch/arm64/kvm/va_layout.c, "kvm_apply_hyp_relocations", 6.1-7.2): if the kernel does not run
at EL2, the linear address in the layout of EL2.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import U64, among
from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, rela_in, relr_in
from prologue.live.audit.claims import ClaimFlags, Claims, Compared, claim
from prologue.live.audit.scene import Scene

_HYP: Final = ".hyp.reloc"


def claim_literals(scene: Scene) -> tuple[Claims, Claims]:
    """Claim literals that were relocated, and those of nVHE among them, which were changed once more."""
    places, linked = _relocated(scene)
    runs = scene.runs_at(linked)
    hyp = among(places, _hyp_places(scene))
    reason = f"its link-time address and the slide {scene.slide:#x}"
    words = _compared(scene, places[~hyp], runs[~hyp])
    relocated = claim("relocated literals", "data", words, lambda _: reason)
    at_el2 = _at_el2(scene, runs[hyp])
    words = _compared(scene, places[hyp], _live(scene, places[hyp]) if at_el2 is None else at_el2)
    flags = ClaimFlags(unsure=np.full(len(words.vaddrs), at_el2 is None))
    return relocated, claim("nVHE addresses", "data", words, lambda _: "an address as EL2 has it", flags)


def _compared(scene: Scene, places: U64, expected: U64) -> Compared:
    """Compare both halves of each address."""
    vaddrs = np.repeat(places, 2) + np.tile(np.array([0, 4], np.uint64), len(places))
    return Compared(vaddrs, scene.binary.text.words(vaddrs), expected.astype("<u8").view("<u4").astype(np.uint32))


def _live(scene: Scene, places: U64) -> U64:
    halves = scene.binary.text.words_around(places, (0, 1))
    return halves[0].astype(np.uint64) | halves[1].astype(np.uint64) << np.uint64(32)


def _relocated(scene: Scene) -> tuple[U64, U64]:
    """Return places in text that memory has, and their link-time values."""
    image = scene.binary.image
    places, values = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for section in image.text_sections:
        rela = rela_in(image, section.addr, section.addr + section.size)
        relative = rela.types == R_AARCH64_RELATIVE
        relr = relr_in(image, section.addr, section.addr + section.size)
        places += [rela.targets[relative], relr]
        values += [rela.addends[relative], image.words_at(image.offsets(relr), 8)]
    place, value = np.concatenate(places), np.concatenate(values)
    there = scene.binary.text.in_text(place) & scene.binary.text.in_text(place + np.uint64(4))
    return place[there], value[there]


def _hyp_places(scene: Scene) -> U64:
    """Read the s32 entries, each relative to itself."""
    section = scene.binary.image.section(_HYP)
    if section is None or not section.has_bytes:
        return np.zeros(0, np.uint64)
    fields = np.uint64(section.addr) + np.arange(section.size // 4, dtype=np.uint64) * np.uint64(4)
    return scene.binary.relative32(fields)


def _at_el2(scene: Scene, runs: U64) -> U64 | None:
    """Return the addresses in the layout of EL2; the same if the kernel runs at EL2, None if memory does not say."""
    names = ("kimage_voffset", "memstart_addr", "va_mask", "tag_val")
    values = [scene.variables.number(name) for name in names]
    low = scene.variables.number("tag_lsb", 1)
    if low is None or any(value is None for value in values):
        return None
    voffset, start, mask, tag = (value or 0 for value in values)
    if not mask:  # the layout was never computed
        return runs
    # The linear address less PAGE_OFFSET: bits above the mask do not matter.
    linear = runs - np.uint64(voffset) - np.uint64(start)
    return linear & np.uint64(mask) | np.uint64(tag << low & (1 << 64) - 1)
