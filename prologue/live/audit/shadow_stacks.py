"""Dynamic shadow call stacks: if CPUs have no pointer authentication, pushes and pops replace PACIASP and AUTIASP.

arch/arm64/kernel/pi/patch-scs.c (6.12, 7.2): at the places that ``.eh_frame`` names, all or none; the key
``dynamic_scs_enabled`` says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.flow.unwind import pac_words
from prologue.insn import a64
from prologue.live.audit.claims import Claims, Scene

_ENABLED: Final = "dynamic_scs_enabled"
_POP: Final = 0xF85F8E5E  # LDR X30, [X18, #-8]!
_REPLACED: Final = ((a64.PACIASP, a64.SCS_PUSH), (a64.AUTIASP, _POP))


def claim_shadow_stacks(scene: Scene) -> Iterator[Claims]:
    """Claim every PACIASP and AUTIASP that the unwind tables name, in kernels that can replace them."""
    if scene.variables.place(_ENABLED) is None:
        return
    vaddrs = pac_words(scene.binary)
    vaddrs = vaddrs[scene.binary.text.in_text(vaddrs)]
    linked = scene.linked(vaddrs)
    replaced = linked.copy()
    for old, new in _REPLACED:
        replaced[linked == np.uint32(old)] = new
    vaddrs, linked, replaced = (values[replaced != linked] for values in (vaddrs, linked, replaced))
    live = scene.binary.text.words(vaddrs)
    enabled = scene.variables.number(_ENABLED, 4)
    if enabled is None:
        formed = (live == linked) | (live == replaced)
        expected, reason = np.where(formed, live, linked), "memory does not say whether shadow call stacks are used"
    else:
        expected = replaced if enabled else linked
        reason = f"shadow call stacks are {'' if enabled else 'not '}used"
    yield Claims("shadow call stacks", vaddrs, live, expected, reason=lambda _: reason, unsure=enabled is None)
