"""PL108 in a module: what its kernel does with zero records, or that this is not known."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.rules.records import set_release
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

_SOURCE = (
    '.section .modinfo,"a"\n.asciz "name=half"\n.section .text.ftrace_trampoline,"ax"\n.byte 0\n'
    '.section .text.f,"ax"\n.globl f\n.type f,%function\nf: nop\nnop\nret\n.size f, .-f\n'
    '.section __patchable_function_entries,"aw"\n.xword f, 0\n'
)


@pytest.mark.parametrize(("release", "severity"), [("6.1.0", "fatal"), (None, "info"), ("6.15.0", None)])
def test_the_kernel_that_was_given_decides(
    mini: Mini, tmp_path: Path, release: str | None, severity: str | None, tool: Tool
) -> None:
    needs_tools("aarch64-linux-gnu-as")
    vmlinux, ko = mini(Spec(contract="stock")), tmp_path / "half.ko"
    with edit(vmlinux) as elf:
        elf.rename_symbol("ftrace_call_adjust", "inlined")
        if release is not None:
            set_release(elf, release)
    if release is None:
        vmlinux.write_bytes(vmlinux.read_bytes().replace(b"Linux version ", b"Another texts "))
    subprocess.run(["aarch64-linux-gnu-as", "-o", ko], input=_SOURCE, text=True, check=True)
    document = tool("verify", ko, "--vmlinux", vmlinux, "--json", status=1 if severity == "fatal" else 0).json
    findings = [f for f in document["findings"] if f["code"] == "PL108"]
    assert [finding["severity"] for finding in findings] == ([] if severity is None else [severity])
    assert all(("not known whether" in finding["message"]) == (severity == "info") for finding in findings)
    assert all(str(vmlinux) in finding["message"] for finding in findings)
