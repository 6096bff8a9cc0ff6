"""ADRPs of Debian's modules as a Cortex-A53 loads them (erratum 843419): overlay has some wherever pages begin."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prologue.insn import a64
from prologue.kernel.load import open_binary
from prologue.live.audit.audit_module import Plts, _linked
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_module import RunningModule
from tests.live.audit.test_late_adrps import adr, b, entry
from tests.support.cores import NO_PADDR, vmcoreinfo
from tests.support.needs import needs_kernel, needs_modules

pytestmark = pytest.mark.kernel

AT, PLT, DATA = 0xFFFF800007000000, 0xFFFF800007200000, 0xFFFF800007400000
ADR_REACH = 1 << 20


def placed_module(name: str) -> PlacedModule:
    """A module of bookworm: text, entries of the PLT behind it, and data out of reach of ADR."""
    (path,) = needs_modules(needs_kernel("bookworm")).rglob(f"{name}.ko*")
    image = open_binary(path, unsigned=True).image
    ends, places = {True: AT, False: DATA}, {}
    for section in image.sections:
        if section.allocated and section.size:
            is_text = section.executable
            places[section.name] = ends[is_text]
            ends[is_text] += -(-section.size // 64) * 64
    return PlacedModule(LoadedModule(name, DATA - AT, AT, places | {".plt": PLT}), image, {})


def as_loaded(placed: PlacedModule) -> dict[int, int]:
    """The words that ``reloc_insn_adrp`` makes of the late ADRPs: ADR, or B to an entry of the PLT that returns."""
    words, at = dict[int, int](), PLT
    for place, (register, known) in placed.late_adrps.items():
        page = DATA if known is None else known  # of the kernel's symbols, which are not here, all are far
        if abs(page - place) < ADR_REACH:
            words[place] = adr(register, page - place)
            continue
        words |= {place: b(place, at), **entry(at, register, page, b(at + 8, place + 4))}
        at += 12
    return words


def audited(placed: PlacedModule, words: dict[int, int], capture: Path) -> tuple[set[int], set[int]]:
    """Places of text that are not as the loader makes them, and places of PLT entries that are none."""
    memory = bytearray(PLT + 0x1000 - AT)
    for section in placed.image.text_sections:
        memory[section.addr - AT : section.addr - AT + section.size] = placed.image.data(section)
    for place, word in words.items():
        struct.pack_into("<I", memory, place - AT, word)
    state = KernelState(release="", boot_id="", modules=(), symbols=(), kprobes=())
    write_capture(capture, "test", state, vmcoreinfo()[2], [Piece(AT, NO_PADDR, bytes(memory))])
    module = RunningModule(placed, open_memory(str(capture)), cast("Any", None))
    plts = Plts(module, cast("Any", SimpleNamespace(ftrace=SimpleNamespace(trampolines=frozenset()))))
    differ = {
        section.section.addr + 4 * k
        for section in module.live_text.live.values()
        for k in (_linked(module, plts, section) != section.words).nonzero()[0].tolist()
    }
    return differ, {word.vaddr for word in plts.wrong}


@pytest.mark.parametrize(("name", "kinds"), [("overlay", {"B"}), ("xfs", {"ADR", "B"})])
def test_what_the_loader_makes_of_them(name: str, kinds: set[str], tmp_path: Path) -> None:
    """The words that it makes are right, and each of them is wrong with another bit."""
    placed = placed_module(name)
    words = as_loaded(placed)
    assert {a64.classify(words[place]) or "ADR" for place in placed.late_adrps} == kinds
    assert audited(placed, words, tmp_path / "loaded") == (set(), set())
    wrong = {place: word ^ 1 << 5 for place, word in words.items() if place in placed.late_adrps}
    assert set(placed.late_adrps) <= audited(placed, words | wrong, tmp_path / "wrong")[0]
