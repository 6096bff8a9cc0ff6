"""EL2's vectors against Spectre: 5.10 copies a template to the start of each of 16 vectors; 6.1 writes none of them.

``__copy_hyp_vect_bpi`` in arch/arm64/kernel/proton-pack.c fills one slot after the other, of the vectors with or
without VHE; ``arm64_el2_vector_last_slot`` is the last, -1 if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, Bool
from prologue.live.audit.claims import Claims, words_from
from prologue.live.audit.scene import Scene

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
            there = scene.binary.text.in_text(vaddrs)
            vaddrs, place = vaddrs[there], place[there]
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
