"""Which symbol a module gets of several with one name, as the loader finds it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.live.audit.audit_modules import _with_percpu, symbols_of_others
from prologue.live.memory.state import LoadedModule
from prologue.live.system.running_system import ModuleFile
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TEXT
from tests.support.needs import needs_tools

AT = 0xFFFF800007000000
EXPORT = """
	.section __ksymtab, "a"
NAME	.long	wanted - ., name - ., 0
	.section __ksymtab_strings, "aMS", %progbits, 1
name:	.asciz	"wanted"
"""
SYMBOLS = """
	.text
	.globl	_start, wanted
_start:	nop
wanted:	ret
"""


@pytest.mark.parametrize(
    ("kernel", "modules", "expected"),
    [
        (True, (True,), TEXT + 4),
        (False, (True,), AT + 4),
        (False, (True, False), AT + 4),
        (False, (False, True), AT + 0x1004),
        (False, (False,), TEXT + 4),
    ],
)
def test_an_export_before_other_symbols(kernel: bool, modules: tuple[bool, ...], expected: int, tmp_path: Path) -> None:
    needs_tools("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")
    table = EXPORT.replace("NAME", "__start___ksymtab:") + "\t.section __ksymtab\n__stop___ksymtab:\n"
    made, out = assembled(tmp_path / "kernel", table if kernel else ""), tmp_path / "vmlinux"
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-o", str(out), str(made)])
    files = []
    for number, exports in enumerate(modules):
        ko = assembled(tmp_path / f"module{number}", EXPORT.replace("NAME", "__ksymtab_wanted:") if exports else "")
        loaded = LoadedModule(ko.stem, 0x1000, AT, {".text": AT + 0x1000 * number})
        files.append(ModuleFile(loaded, ElfImage(ko), same_build=True))
    assert symbols_of_others(Kernel(out), 0, files, {"wanted"}) == {"wanted": expected}


def test_data_of_each_cpu(tmp_path: Path) -> None:
    """As xt_recseq of x_tables, to which ip_tables refers: only the module's struct says where they are."""
    needs_tools("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")
    made, out = assembled(tmp_path / "kernel", ""), tmp_path / "vmlinux"
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-o", str(out), str(made)])
    ko = assembled(tmp_path / "module", '\t.section .data..percpu, "aw"\n\t.globl seq\n\t.quad 0\nseq:\t.quad 0\n')
    loaded = LoadedModule("module", 0x1000, AT, {".text": AT, ".gnu.linkonce.this_module": AT + 0x2000})
    variables = SimpleNamespace(layouts={"module.percpu": 0x40}, quad={AT + 0x2040: TEXT + 0x10000}.get)
    facts = cast("Any", SimpleNamespace(variables=variables))
    file = _with_percpu(ModuleFile(loaded, ElfImage(ko), same_build=True), facts)
    assert symbols_of_others(Kernel(out), 0, [file], {"seq"}) == {"seq": TEXT + 0x10008}


def assembled(base: Path, more: str) -> Path:
    source, made = base.with_suffix(".S"), base.with_suffix(".o")
    source.write_text(SYMBOLS + more)
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(made)], check=True)
    return made
