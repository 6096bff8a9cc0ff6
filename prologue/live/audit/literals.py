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
from prologue.live.audit.claims import Claims, Scene, halves, words_from

_HYP: Final = ".hyp.reloc"


def claim_literals(scene: Scene) -> tuple[Claims, Claims]:
    """Claim literals that were relocated, and those of nVHE among them, which were changed once more."""
    places, linked = _relocated(scene)
    runs = scene.runs_at(linked)
    hyp = among(places, _hyp_places(scene))
    reason = f"its link-time address and the slide {scene.slide:#x}"
    relocated = _claim(scene, "relocated literals", places[~hyp], runs[~hyp], reason)
    return relocated, _claim(
        scene, "nVHE addresses", places[hyp], _at_el2(scene, runs[hyp]), "an address as EL2 has it"
    )


def _claim(scene: Scene, mechanism: str, places: U64, values: U64 | None, reason: str) -> Claims:
    """Claim both words of each address; without ``values``, whatever they are."""
    vaddrs = words_from(places, 2)
    live = scene.binary.text.words(vaddrs)
    expected = live if values is None else halves(values)
    return Claims(mechanism, vaddrs, live, expected, reason=lambda _: reason, kind="data", unsure=values is None)


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
    in_text = scene.binary.text.in_text(place) & scene.binary.text.in_text(place + np.uint64(4))
    return place[in_text], value[in_text]


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
