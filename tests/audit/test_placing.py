"""Where a loaded module has its PLT entries."""

from __future__ import annotations

import subprocess

from prologue.audit.placing import Placer
from prologue.elf.image import ElfImage
from prologue.memory.state import LoadedModule
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
    placed = Placer(LoadedModule("mini", 0x100000, AT, places), image, {}).place()
    assert set(placed.plts) == {places[".plt"], places[".text.ftrace_trampoline"]}
