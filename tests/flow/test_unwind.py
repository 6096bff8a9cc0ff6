"""The words that unwind tables take for PACIASP and AUTIASP: as pyelftools reads them, and as the code has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from prologue.flow.unwind import pac_words
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from tests.mini_kernel.build import HERE, run_command
from tests.support.needs import needs_mini_kernel_tools

COMPILERS = {"gcc": ["aarch64-linux-gnu-gcc"], "clang": ["clang", "--target=aarch64-linux-gnu"]}
FLAGS = ["-O2", "-ffreestanding", "-fPIC", "-mbranch-protection=pac-ret", "-fasynchronous-unwind-tables", f"-I{HERE}"]
FLAGS += ['-DMINI_LAYOUT="2"', '-DMINI_FORM="rela"', "-DMINI_BTI=0", "-DMINI_LINK_ADDR=0"]


@pytest.fixture(params=COMPILERS)
def compiled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Code with PACIASP and AUTIASP, and its unwind table, not linked."""
    needs_mini_kernel_tools()
    objects = []
    for source in ("work.c", "insn.c"):
        objects.append(str(tmp_path / f"{source}.o"))
        command = [*COMPILERS[request.param], *FLAGS, "-fpatchable-function-entry=2"]
        run_command([*command, "-c", str(HERE / source), "-o", objects[-1]])
    out = tmp_path / f"{request.param}.o"
    run_command(["aarch64-linux-gnu-ld", "-r", "-o", str(out), *objects])
    return out


def theirs(path: Path) -> set[int]:
    """What pyelftools makes of a linked file's table."""
    found = set()
    with path.open("rb") as stream:
        for entry in cast("Any", ELFFile(stream)).get_dwarf_info().EH_CFI_entries():
            if not isinstance(entry, FDE):
                continue
            function = cast("Any", entry)
            place = function["initial_location"]
            for step in function.instructions:
                if step.opcode >> 6 == 1 or step.opcode in (0x02, 0x03, 0x04):
                    place += step.args[0] * function.cie["code_alignment_factor"]
                elif step.opcode == 0x2D:
                    found.add(place - 4)
    return found


def in_code(kernel: Kernel, word: int) -> set[int]:
    """Where an instruction is."""
    found: set[int] = set()
    for section in kernel.text.text_sections:
        hits = np.flatnonzero(kernel.image.view(section, "<u4") == word)
        found |= {section.addr + 4 * k for k in hits.tolist()}
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("linker", ["ld.lld", "aarch64-linux-gnu-ld"])
def test_a_linked_table(compiled: Path, linker: str) -> None:
    linked = compiled.with_name("linked")
    run_command([linker, "-shared", "--unresolved-symbols=ignore-all", "-o", str(linked), str(compiled)])
    kernel = Kernel(linked)
    ours = pac_words(kernel)
    assert ours.tolist() == sorted(theirs(linked))
    named = in_code(kernel, a64.PACIASP)
    if compiled.stem == "gcc":  # Clang 14 does not say where LR is authenticated
        named |= in_code(kernel, a64.AUTIASP)
    assert len(named) >= 4
    assert named <= set(ours.tolist())


def test_a_module_s_table(compiled: Path) -> None:
    """It is filled in by relocations."""
    ko = compiled.with_name("one.ko")
    rename = ["--rename-section", ".eh_frame=.init.eh_frame", "--rename-section", ".rela.eh_frame=.rela.init.eh_frame"]
    run_command(["aarch64-linux-gnu-objcopy", *rename, str(compiled), str(ko)])
    module = open_binary(ko)
    words = module.image.words(pac_words(module))
    assert (words == a64.PACIASP).sum() >= 4
    assert set(words.tolist()) <= {a64.PACIASP, a64.AUTIASP}
    assert len(pac_words(open_binary(compiled))) == 0  # the kernel looks at no other section of a module
