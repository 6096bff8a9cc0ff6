"""What the loader makes of an ADRP in the last two words of a page, which Cortex-A53 may get wrong (erratum 843419).

``reloc_insn_adrp`` in arch/arm64/kernel/module.c, ``module_emit_veneer_for_adrp`` in module-plts.c (5.10-7.3).
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prologue.elf.image import ElfImage
from prologue.live.audit.audit_module import Plts, _linked
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_module import RunningModule
from tests.support.cores import NO_PADDR, vmcoreinfo
from tests.support.needs import needs_tools

AT, OUTSIDE = 0xFFFF800007000000, 0xFFFF800017003008
CALL, PLACE, PLT, DATA = AT + 0xFF4, AT + 0xFF8, AT + 0x1FF8, AT + 0x3000
HOLE, FIRST, SECOND = PLT, PLT + 12, PLT + 24  # entries: of the first two, the loader leaves out one so placed
SOURCE = """
	.text
	.rept	0x3fc
	nop
	.endr
	bl	outside
	adrp	x5, TARGET
	add	x5, x5, :lo12:TARGET
	ret
	.section .plt, "ax"
	.byte	0
	.data
	.quad	0
key:	.quad	0
"""
BR = 0xD61F0200


def words_of(directory: Path, live: Mapping[int, int], *, target: str) -> tuple[set[int], set[int]]:
    """Places of text that are not as the loader makes them, and places of PLT entries that are none."""
    needs_tools("aarch64-linux-gnu-gcc")
    source, ko, capture = directory / "late.S", directory / "late.ko", directory / "capture"
    source.write_text(SOURCE.replace("TARGET", target))
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(ko)], check=True)
    image = ElfImage(ko)
    loaded = LoadedModule("late", 0x4000, AT, {".text": AT + 4, ".plt": PLT, ".data": DATA})
    placed = PlacedModule(loaded, image, {"outside": OUTSIDE})
    text = placed.image.section(".text")
    assert text is not None
    memory = bytearray(0x4000)
    memory[4 : 4 + text.size] = placed.image.data(text)
    for place, word in live.items():
        struct.pack_into("<I", memory, place - AT, word)
    state = KernelState(release="", boot_id="", modules=(), symbols=(), kprobes=())
    write_capture(capture, "test", state, vmcoreinfo()[2], [Piece(AT, NO_PADDR, bytes(memory), ())])
    module = RunningModule(placed, open_memory(str(capture)), cast("Any", None))
    plts = Plts(module, cast("Any", SimpleNamespace(ftrace=SimpleNamespace(trampolines=frozenset()))))
    (section,) = [part for part in module.live_text.live.values() if part.section.name == ".text"]
    differ = (_linked(module, plts, section) != section.words).nonzero()[0].tolist()
    return {section.section.addr + 4 * k for k in differ}, {word.vaddr for word in plts.wrong}


def adr(register: int, distance: int) -> int:
    return 0x10000000 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | register


def adrp(register: int, place: int, target: int) -> int:
    return 0x80000000 | adr(register, (target >> 12) - (place >> 12))


def add(register: int, low: int) -> int:
    return 0x91000000 | low << 10 | register << 5 | register


def b(place: int, target: int) -> int:
    return 0x14000000 | (target - place) // 4 & 0x3FFFFFF


def entry(vaddr: int, register: int, target: int, leaves: int) -> dict[int, int]:
    return {vaddr: adrp(register, vaddr, target), vaddr + 4: add(register, target & 0xFFF), vaddr + 8: leaves}


PLAIN = {CALL: b(CALL, FIRST) | 1 << 31} | entry(FIRST, 16, OUTSIDE, BR)


@pytest.mark.parametrize(
    ("live", "right"),
    [
        (adrp(5, PLACE, DATA), True),
        (adr(5, DATA - PLACE), True),
        (adr(5, DATA + 8 - PLACE), False),
        (adr(6, DATA - PLACE), False),
        (b(PLACE, FIRST), False),
    ],
)
def test_one_in_reach_of_adr(tmp_path: Path, live: int, *, right: bool) -> None:
    assert words_of(tmp_path, PLAIN | {PLACE: live}, target="key") == (set() if right else {PLACE}, set())


PAGE_OF_IT = OUTSIDE & ~0xFFF


@pytest.mark.parametrize(
    ("veneer", "right"),
    [
        (entry(SECOND, 5, PAGE_OF_IT, b(SECOND + 8, PLACE + 4)), True),
        (entry(SECOND, 6, PAGE_OF_IT, b(SECOND + 8, PLACE + 4)), False),
        (entry(SECOND, 5, PAGE_OF_IT + 0x1000, b(SECOND + 8, PLACE + 4)), False),
        (entry(SECOND, 5, PAGE_OF_IT, b(SECOND + 8, PLACE + 8)), False),
    ],
)
def test_one_by_a_veneer(tmp_path: Path, veneer: dict[int, int], *, right: bool) -> None:
    wrong = (set(), set()) if right else ({PLACE}, {SECOND})
    assert words_of(tmp_path, PLAIN | veneer | {PLACE: b(PLACE, SECOND)}, target="outside") == wrong


def test_a_call_is_no_veneer(tmp_path: Path) -> None:
    assert words_of(tmp_path, PLAIN | {PLACE: b(PLACE, FIRST)}, target="outside") == ({PLACE}, set())


def test_an_entry_is_left_out_there_only(tmp_path: Path) -> None:
    """Zeros elsewhere end the table."""
    moved = {CALL: b(CALL, SECOND) | 1 << 31} | entry(SECOND, 16, OUTSIDE, BR)
    assert words_of(tmp_path, PLAIN, target="key") == (set(), set())
    assert words_of(tmp_path, moved, target="key") == ({CALL}, set())


def test_the_page_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    veneer = entry(FIRST, 5, PAGE_OF_IT, b(FIRST + 8, PLACE + 4))
    assert words_of(tmp_path, veneer | {PLACE: b(PLACE, FIRST)}, target="elsewhere") == (set(), set())
