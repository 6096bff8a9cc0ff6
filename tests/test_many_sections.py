"""A section for each function: as many as no 16-bit number counts, in time that grows with them and no faster."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.needs import needs_tools
from tests.support.tool import Tool

# As-compiled pieces of a module whose linker merged nothing, except the records.
_HEAD = (
    '.section .modinfo,"a"\n.asciz "vermagic=6.12.0 SMP aarch64"\n.section .text.ftrace_trampoline,"ax"\n.byte 0\n'
    '.section .init.text.ftrace_trampoline,"ax"\n.byte 0\n'
)
_FUNCTION = (
    '.section {section}.f{k},"ax"\n.p2align 3\n.globl f{k}\n.type f{k},%function\n'
    "f{k}: nop\nnop\nret\n.size f{k},.-f{k}\n"
    '.section __patchable_function_entries,"aw"\n.xword f{k}\n'
)


def assembled(path: Path, count: int, section: str = ".text") -> Path:
    needs_tools("aarch64-linux-gnu-as")
    text = _HEAD + "".join(_FUNCTION.format(k=k, section=section) for k in range(count))
    subprocess.run(["aarch64-linux-gnu-as", "-o", path], input=text, text=True, check=True)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("section", [".text", ".init.text"])
def test_every_command_takes_time_linear_in_sections(tmp_path: Path, section: str, tool: Tool) -> None:
    ko = assembled(tmp_path / "many.ko", 4000, section)
    # A loop over sections within one over sections takes more than a minute: the bound is far from either.
    start = time.process_time()
    (scanned,) = tool("scan", ko, "--json").json["files"]
    assert scanned["sites"] == 4000
    assert scanned["anomalies"] == []
    assert main(["scan", str(ko)]) == 0
    assert main(["verify", str(ko), "--quiet"]) == 0
    assert main(["patch", str(ko), "--in-place", "--contract", "native"]) == 0
    assert main(["verify", str(ko), "--quiet"]) == 0
    assert time.process_time() - start < 25


def test_a_scan_names_few_sections(tmp_path: Path, tool: Tool) -> None:
    said = tool("scan", assembled(tmp_path / "many.ko", 20)).out
    (line,) = [line for line in said.splitlines() if line.startswith("sites")]
    assert line.endswith("1 in .text.f7, 12 in 12 other sections)")


@pytest.mark.extended
def test_section_numbers_of_more_than_16_bits(tmp_path: Path, tool: Tool) -> None:
    (scanned,) = tool("scan", assembled(tmp_path / "many.ko", 66_000), "--json").json["files"]
    assert scanned["sites"] == 66_000
