"""Where a loaded module has its PLT entries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from prologue.elf.image import ElfImage
from prologue.live.memory.state import LoadedModule
from prologue.live.system.module_placer import ModulePlacer
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
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
    placed = ModulePlacer(LoadedModule("mini", 0x100000, AT, places), image, {}).place()
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
    placed = ModulePlacer(LoadedModule("empty", 0x100000, AT, {".text": AT, **first}), image, {}).place()
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
