"""A module at the places that its loader gave it: its PLT entries, empty sections, and what refers to other files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np

from prologue.elf.image import ElfImage
from prologue.kernel.tables import jump_label_keys, jump_labels
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.running_module import RunningModule
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, vmcoreinfo
from tests.support.needs import needs_tools

AT = 0xFFFF800007000000


def test_entries_of_init_text_are_free_again(mini: Mini) -> None:
    """Their memory may be another module's text by now. LLD makes these sections executable, GNU ld does not."""
    needs_tools("aarch64-linux-gnu-objcopy")
    ko = mini(ModuleSpec())
    flags = [
        f"--set-section-flags={name}=alloc,load,code,readonly" for name in (".init.plt", ".init.text.ftrace_trampoline")
    ]
    subprocess.run(["aarch64-linux-gnu-objcopy", *flags, str(ko)], check=True)
    image = ElfImage(ko)
    assert {".init.plt", ".init.text.ftrace_trampoline"} <= {section.name for section in image.text_sections}
    places = {section.name: AT + 0x1000 * k for k, section in enumerate(image.sections) if section.allocated}
    placed = PlacedModule(LoadedModule("mini", 0x100000, AT, places), image, {})
    assert set(placed.plts) == {places[".plt"], places[".text.ftrace_trampoline"]}


EMPTY = """
	.text
	adrp	x0, key
	add	x0, x0, :lo12:key
	ret
	.section "__patchable_function_entries", "aw"
	.quad	0, 0, 0
	.bss
	.balign	16
key:
	.data
	.word	1
"""


def test_a_section_without_a_byte_is_after_the_one_before(tmp_path: Path) -> None:
    """The loader gives it an address, and sysfs leaves it out: such as a lock_class_key without lockdep."""
    needs_tools("aarch64-linux-gnu-gcc")
    source, ko = tmp_path / "empty.S", tmp_path / "empty.ko"
    source.write_text(EMPTY)
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(ko)], check=True)
    image = ElfImage(ko)
    records, text = image.section("__patchable_function_entries"), image.section(".text")
    assert records is not None
    assert text is not None
    writable = [s for s in image.sections if s.allocated and s.size and s is not text]
    first = {s.name: AT + 0x5000 + 0x100 * k for k, s in enumerate(writable)}
    placed = PlacedModule(LoadedModule("empty", 0x100000, AT, {".text": AT, **first}), image, {})
    assert set(placed.unknown) == placed.laid_out == {AT, AT + 4}
    bss = image.section(".bss")
    assert bss is not None
    before = [s for s in writable if s.index < bss.index]
    place = -(-(first[before[-1].name] + before[-1].size) // 16) * 16 if before else first[writable[0].name]
    words = placed.image.words(np.array([AT, AT + 4], np.uint64)).tolist()
    assert words == [
        0x90000000 | (place - AT >> 12 & 3) << 29 | (place - AT >> 14) << 5,
        0x91000000 | (place & 0xFFF) << 10,
    ]


KEYS = """
	.text
label:	nop
	ret
	.section "__jump_table", "aw"
	.long	label - ., label + 4 - .
	.quad	elsewhere - .
	.long	label - ., label + 4 - .
	.quad	own - .
	.data
	.quad	elsewhere
own:	.quad	0
"""


def test_a_key_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    """What its field leads to is not known: it is not the field itself."""
    needs_tools("aarch64-linux-gnu-gcc")
    source, ko, capture = tmp_path / "keys.S", tmp_path / "keys.ko", tmp_path / "capture"
    source.write_text(KEYS)
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(ko)], check=True)
    places = {".text": AT, "__jump_table": AT + 0x1000, ".data": AT + 0x2000}
    state = KernelState(release="", boot_id="", modules=(), symbols=(), kprobes=())
    text = ElfImage(ko).section(".text")
    assert text is not None
    data = ko.read_bytes()[text.offset : text.offset + text.size].ljust(0x1000, b"\0")
    write_capture(capture, "test", state, vmcoreinfo()[2], [Piece(AT, NO_PADDR, data, ())])
    placed = PlacedModule(LoadedModule("keys", 0x3000, AT, places), ElfImage(ko), {})
    module = RunningModule(placed, open_memory(str(capture)), cast("Any", None))
    labels = jump_labels(module)
    assert labels.code.tolist() == [AT, AT]
    assert jump_label_keys(module, labels.entries)[0].tolist() == [0, AT + 0x2008]
    assert module.absolute64(np.array([AT + 0x2000], np.uint64)).tolist() == [0]
