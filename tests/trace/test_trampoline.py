"""The entry trampoline of KPTI, which runs at an address that no symbol has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.live.system.programs import linked_program
from tests.trace.made import MadeKernel

RUNS = 0xFFFFFFFFFF5F4000
SLIDE = 0x2000_0000
ADRP_X29 = 0x9000001D  # of its own page, which everything here is on
ALIAS = ["movn {0}, #0, lsl #32", "movk {0}, #0xff5f, lsl #16", "movk {0}, #{1}"]
# As linked for 6.4 and later, and for 6.1, which takes the distance from two addresses.
LATE = [*(line.format("x29", 0x4800) for line in ALIAS), "msr vbar_el1, x30", "ldr x30, [sp, #240]", "br x29"]
EARLY = [*(line.format("x30", 0x4000) for line in ALIAS), "nop", "add x29, x29, #0x800", "add x30, x30, x29", "nop",
         "add x29, x29, #0", "sub x30, x30, x29", "br x30"]  # fmt: skip


def kernel(leave: list[str], name: str = "tramp_exit") -> MadeKernel:
    table = ["nop", "ret", *["nop"] * 30] * 16
    return MadeKernel({"__entry_tramp_text_start": [], "tramp_vectors": table, name: ["msr tpidrro_el0, x30", "eret"],
                       "__entry_tramp_text_end": [], "ret_to_user": leave, "vfs_read": ["nop", "ret"]})  # fmt: skip


def written(path: Path, leave: list[str], name: str = "tramp_exit", adrp: tuple[int, ...] = ()) -> Path:
    return kernel(leave, name).write(path, {f"ret_to_user+{at:#x}": ADRP_X29 for at in adrp})


@pytest.mark.parametrize("slide", [0, SLIDE])
@pytest.mark.parametrize(
    ("leave", "name", "adrp"), [(LATE, "tramp_exit", ()), (EARLY, "tramp_exit_native", (0xC, 0x18))]
)
def test_it_is_found(tmp_path: Path, leave: list[str], name: str, adrp: tuple[int, ...], slide: int) -> None:
    program = linked_program(written(tmp_path / "vmlinux", leave, name, adrp), slide)
    made = kernel(leave, name)
    assert program.place(RUNS + 0x804) == (name, 4)
    words, there = program.words_at(np.arange(RUNS, RUNS + 0x820, 4, dtype=np.uint64))
    assert words[:514].tolist() == made.words[:514]
    assert np.flatnonzero(~there).tolist() == list(range(516, 520))  # nothing of it after its end, though code is
    assert RUNS + 0x400 in program.vectors.tolist()
    assert made.at("tramp_vectors+0x400") + slide in program.vectors.tolist()
    assert program.place(made.at("vfs_read") + slide) == ("vfs_read", 0)
    assert program.own_address(RUNS + 0x804) == made.at(name) + 4 + slide
    for same in (made.at("vfs_read") + slide, 0x1000):
        assert program.own_address(same) == same
    assert program.mapped_twice() == [(made.base + slide, made.base + slide + 0x810, RUNS - made.base - slide)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "leave",
    [
        ["nop", "ret"],
        [*LATE[:2], *LATE[3:]],  # no page
        [*LATE[:3], "ldr x29, [sp]", "br x29"],  # whatever was loaded
        [*LATE[:3], "br x28"],
        ["movk x29, #0x4800", "br x29"],
        [*["nop"] * 5000, *LATE],  # a size that it cannot have
    ],
)
def test_what_the_code_does_not_say_is_not_guessed(tmp_path: Path, leave: list[str]) -> None:
    program = linked_program(written(tmp_path / "vmlinux", leave), 0)
    assert len(program.pieces) == 1
    assert program.mapped_twice() == []
