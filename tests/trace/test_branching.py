"""The class of each instruction that a trace's reader asks for, and where direct branches go."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.trace import branching
from tests.support.assembler import assemble

BASE = 0xFFFF800080000000


@pytest.mark.parametrize(
    ("instruction", "kind", "target"),
    [
        ("nop", branching.PLAIN, None),
        ("b #-8", branching.B, -8),
        ("bl #8", branching.BL, 8),
        ("b.ne #-4", branching.CONDITIONAL, -4),
        ("cbnz x3, #12", branching.CONDITIONAL, 12),
        ("tbz w3, #3, #-12", branching.CONDITIONAL, -12),
        (0x54000050, branching.CONDITIONAL, 8),  # bc.eq #8
        (0xF4080209, branching.CONDITIONAL, 64),  # cbgt x9, x8, #64
        (0x75C2BE09, branching.CONDITIONAL, -64),  # cbeq w9, #5, #-64
        ("br x3", branching.INDIRECT, None),
        ("blr x3", branching.CALL, None),
        ("ret", branching.RET, None),
        (0xD65F0BFF, branching.RET, None),  # retaa
        (0x5500021F, branching.RET, None),  # retaasppc #-64
        ("eret", branching.ERET, None),
        ("svc #0", branching.CALLS_UP, None),
        ("brk #0x800", branching.TRAP, None),
        ("hlt #0", branching.TRAP, None),
        (0x00000001, branching.UNDEFINED, None),
    ],
)
def test_classes_and_targets(instruction: str | int, kind: int, target: int | None) -> None:
    words = np.array([instruction if isinstance(instruction, int) else assemble(instruction)], np.uint32)
    assert branching.classes(words).tolist() == [kind]
    assert branching.classes(np.tile(words, (2, 3))).tolist() == [[kind] * 3] * 2
    if target is not None:
        assert branching.targets(words, np.array([BASE], np.uint64)).tolist() == [BASE + target]
