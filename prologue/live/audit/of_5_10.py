"""Words that only 5.10 writes into its text: EL2's vectors against Spectre, and the flag of KPTI.

``__copy_hyp_vect_bpi`` (arch/arm64/kernel/proton-pack.c) copies a template to the start of each of 16 vectors, of those
with or without VHE: it fills one slot after the other, and ``arm64_el2_vector_last_slot`` is the last, -1 if there is
none. 6.1 writes none of them.

The flag is 1 when linked, 0 once boot has made the kernel's page tables not global: ``idmap_kpti_install_ng_mappings``
(arch/arm64/mm/proc.S) does that on CPUs that need it, unless the tables were made so (KASLR). 6.1 has it in data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, Bool
from prologue.live.audit.claims import Claims, Scene, words_from

_LAST_SLOT: Final = "arm64_el2_vector_last_slot"
_VECTORS: Final = ("__bp_harden_hyp_vecs", "__kvm_nvhe___bp_harden_hyp_vecs")
_TEMPLATES: Final = (
    "__smccc_workaround_1_smc", "__smccc_workaround_3_smc", "__spectre_bhb_loop_k8", "__spectre_bhb_loop_k24",
    "__spectre_bhb_loop_k32", "__spectre_bhb_clearbhb",
)  # fmt: skip
_SLOTS, _SLOT, _VECTOR = 4, 0x800, 0x80


def claim_spectre_vectors(scene: Scene) -> Iterator[Claims]:
    """Claim the first words of every vector: in a slot, all are the file's, or all are of one template."""
    if scene.variables.place(_LAST_SLOT) is None:
        return
    last, templates = scene.variables.number(_LAST_SLOT, 4), _templates(scene)
    used = range(_SLOTS) if last is None else range((last + 1) % (1 << 32))
    length = max(map(len, templates), default=0)
    for symbol in filter(None, map(scene.binary.symbols.find, _VECTORS)):
        for slot in range(_SLOTS):
            starts = np.uint64(symbol.vaddr + slot * _SLOT) + np.arange(0, _SLOT, _VECTOR).astype(np.uint64)
            vaddrs = words_from(starts, length)
            place = np.tile(np.arange(length), len(starts))
            in_text = scene.binary.text.in_text(vaddrs)
            vaddrs, place = vaddrs[in_text], place[in_text]
            live, linked = scene.binary.text.words(vaddrs), scene.linked(vaddrs)
            forms = [linked]
            for words in templates if slot in used else ():
                inside = place < len(words)
                forms.append(np.where(inside, words[np.where(inside, place, 0)], linked))
            expected: U32 = max(forms, key=lambda form: int((form == live).sum()))
            unsure: Bool = (live != linked) & (last is None)
            yield Claims("spectre vectors", vaddrs, live, expected, reason=_reason, unsure=unsure)


def _reason(_: int) -> str:
    return f"a vector of EL2: as linked or, up to the slot in {_LAST_SLOT}, a template against Spectre"


def _templates(scene: Scene) -> list[U32]:
    symbols = filter(None, map(scene.kernel.symbols.find, _TEMPLATES))
    read = (scene.kernel.image.read_at(symbol.vaddr, symbol.size & ~3) for symbol in symbols)
    return [np.frombuffer(data, "<u4").astype(np.uint32) for data in read if data]


KPTI_FLAG: Final = "KPTI flag"
"""Name of the mechanism."""


def claim_kpti_flag(scene: Scene) -> Iterator[Claims]:
    """Claim the flag, if it is in text: it is as linked, or 0."""
    symbol = scene.binary.symbols.find("__idmap_kpti_flag")
    vaddrs = np.array([] if symbol is None else [symbol.vaddr], np.uint64)
    vaddrs = vaddrs[scene.binary.text.in_text(vaddrs)]
    if len(vaddrs):
        live, linked = scene.binary.text.words(vaddrs), scene.linked(vaddrs)
        expected, reason = np.where(live == 0, live, linked), "a flag of boot's, which is as linked or 0"
        yield Claims(KPTI_FLAG, vaddrs, live, expected, reason=lambda _: reason, kind="data")
