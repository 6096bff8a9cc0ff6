"""The class of each instruction that a trace's reader asks for, and where direct branches go."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.insn.rows import flows
from prologue.trace.path import branching
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
        (0xD69F0BFF, branching.ERET, None),  # eretaa
        (0xD6FF03E0, branching.ERET, None),  # texit
        ("b.al #8", branching.B, 8),
        ("cbz xzr, #8", branching.B, 8),
        ("tbz wzr, #3, #8", branching.B, 8),
        ("cbnz xzr, #8", branching.CONDITIONAL, 8),
        ("isb", branching.PLAIN, None),
        ("dcps1", branching.PLAIN, None),
        ("msr daifset, #2", branching.PLAIN, None),
        (0x55FFFFFF, branching.UNKNOWN, None),
        (0xD7E00000, branching.UNKNOWN, None),
        ("svc #0", branching.CALLS_UP, None),
        ("brk #0x800", branching.TRAP, None),
        ("hlt #0", branching.TRAP, None),
        (0x00000001, branching.UNDEFINED, None),
    ],
)
def test_classes_and_targets(instruction: str | int, kind: int, target: int | None) -> None:
    words = np.array([instruction if isinstance(instruction, int) else assemble(instruction)], np.uint32)
    assert flows(words).tolist() == [kind]
    assert flows(np.tile(words, (2, 3))).tolist() == [[kind] * 3] * 2
    if target is not None:
        assert branching.targets(words, np.array([BASE], np.uint64)).tolist() == [BASE + target]


def test_words_of_a_text_that_never_go_on() -> None:
    lines: list[str | int] = [
        "nop",
        "b #4",
        "ret",
        0,
        0x10000,
        "b.al #8",
        "b.eq #8",
        "svc #0",
        0x55FFFFFF,
        "b #-4",
        "eret",
    ]
    words = np.array([line if isinstance(line, int) else assemble(line) for line in lines], np.uint32)
    assert branching.find_never_goes_on(words, BASE).tolist() == [2, 3, 5, 9, 10]
