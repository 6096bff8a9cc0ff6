"""The flag of KPTI among the text of 5.10: 1 when linked, 0 once boot has made the kernel's page tables not global.

``idmap_kpti_install_ng_mappings`` (arch/arm64/mm/proc.S) does that on CPUs that need it, unless the tables were made so
(KASLR). 6.1 has the flag in data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.live.audit.claims import Claims
from prologue.live.audit.scene import Scene

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
