"""What becomes of an instruction under a probe, by its mnemonic: keystone assembles, an assembler that is not ours."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.probe.instructions import (
    NEW_EXCLUSIVE,
    OLD_EXCLUSIVE,
    REFUSED,
    SIMULATED,
    STEPPED,
    Decoding,
    exclusives,
    outcomes,
    why_refused,
)
from tests.support.assembler import assemble

OLDEST = Decoding(exclusive=OLD_EXCLUSIVE, simulates_nop=False, knows_mops=False)
NEWEST = Decoding()


def outcome(word: int, decoding: Decoding = NEWEST) -> int:
    return int(outcomes(np.array([word], np.uint32), decoding)[0])


@pytest.mark.parametrize(
    "text",
    [
        "mov x9, x30", "add x0, x1, #1", "ldr x0, [x1, #8]", "ldp x29, x30, [sp], #16", "str x30, [x18], #8",
        "ldar w0, [x1]", "stlr w0, [x1]", "mrs x0, nzcv", "mrs x0, tpidr_el1",
        "dmb ish", "dsb sy", "isb", "clrex", "dc civac, x0", "hint #34", "hint #36", "hint #25", "hint #7",
        "fadd d0, d1, d2", "movz x0, #1, lsl #16",
    ],
)  # fmt: skip
def test_stepped(text: str) -> None:
    assert outcome(assemble(text)) == outcome(assemble(text), OLDEST) == STEPPED


@pytest.mark.parametrize(
    "text",
    [
        "b #16", "bl #16", "b.eq #8", "cbz x3, #8", "cbnz w3, #8", "tbz x3, #33, #8", "tbnz w3, #3, #8", "ret",
        "ret x10", "br x3", "blr x3", "adr x0, #16", "adrp x0, #0x4000", "ldr x0, #16", "ldr w0, #16", "ldrsw x0, #16",
    ],
)  # fmt: skip
def test_simulated(text: str) -> None:
    assert outcome(assemble(text)) == outcome(assemble(text), OLDEST) == SIMULATED


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("brk #0x800", "exception-generating"), ("svc #0", "exception-generating"), ("hvc #0", "exception-generating"),
        ("smc #0", "exception-generating"), ("hlt #0", "exception-generating"), ("eret", "exception return"),
        ("msr tpidr_el1, x0", "system register"), ("msr daifset, #2", "PSTATE"), ("mrs x0, daif", "DAIF"),
        ("yield", "hint"), ("wfi", "hint"), ("hint #29", "hint"), ("hint #20", "hint"), ("hint #16", "hint"),
        ("ldxr w0, [x1]", "exclusive"), ("stlxr w2, x0, [x1]", "exclusive"), ("prfm pldl1keep, #16", "literal"),
    ],
)  # fmt: skip
def test_refused(text: str, why: str) -> None:
    word = assemble(text)
    assert outcome(word) == outcome(word, OLDEST) == REFUSED
    assert why in why_refused(word)


@pytest.mark.parametrize("word", [0xB8200041, 0x88A07C41], ids=["LDADD", "CAS"])
def test_atomics_are_stepped(word: int) -> None:
    assert outcome(word) == outcome(word, OLDEST) == STEPPED


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (0xD69F0BFF, "exception return"),  # ERETAA
        (0xD65F0BFF, "pointer authentication"),  # RETAA
        (0xD61F0C7F, "pointer authentication"),  # BRABZ X3
        (0xD63F087F, "pointer authentication"),  # BLRAAZ X3
    ],
)
def test_refused_words(word: int, why: str) -> None:
    assert outcome(word) == REFUSED
    assert why in why_refused(word)


def test_kernels_differ() -> None:
    nop, bc_eq, cpyfp, ldar, stlr = 0xD503201F, 0x54000050, 0x19010440, 0x88DFFC20, 0x889FFC20
    assert (outcome(nop), outcome(nop, OLDEST)) == (SIMULATED, STEPPED)
    assert (outcome(bc_eq), outcome(bc_eq, OLDEST)) == (SIMULATED, STEPPED)
    assert (outcome(cpyfp), outcome(cpyfp, OLDEST)) == (REFUSED, STEPPED)
    assert "memory copy" in why_refused(cpyfp)
    words = np.array([assemble("ldxr w0, [x1]"), assemble("stxr w2, x0, [x1]"), ldar, stlr], np.uint32)
    assert [part.tolist() for part in exclusives(words, NEWEST)] == [
        [True, False, False, False],
        [False, True, False, False],
    ]
    assert [part.tolist() for part in exclusives(words, OLDEST)] == [
        [True, False, True, False],
        [False, True, False, True],
    ]
    assert NEWEST.exclusive == NEW_EXCLUSIVE
