"""PL406 compares the sections of both files one by one: several may have one name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.needs import needs_tools
from tests.support.tool import Tool

_SOURCE = (
    '.section .modinfo,"a"\n.asciz "vermagic=6.12.0 SMP aarch64"\n'
    '.section .note.gnu.build-id,"a",%note\n.word 4, 4, 3\n.asciz "GNU"\n.word 0x12345678\n'
    '.section .text.same,"ax",%progbits,unique,1\n.globl f\n.type f,%function\nf: nop\nret\n.size f, .-f\n'
    '.section .text.same,"ax",%progbits,unique,2\n.globl g\n.type g,%function\ng: nop\nnop\nret\n.size g, .-g\n'
)


def compared(tmp_path: Path, after: str, tool: Tool) -> list[str]:
    needs_tools("aarch64-linux-gnu-as")
    for name, source in (("before.ko", _SOURCE), ("after.ko", after)):
        subprocess.run(["aarch64-linux-gnu-as", "-o", tmp_path / name], input=source, text=True, check=True)
    arguments = [str(tmp_path / "after.ko"), "--against", str(tmp_path / "before.ko"), "--select", "PL406", "--json"]
    return [finding["code"] for finding in tool("verify", *arguments).json["findings"]]


def test_sections_of_one_name_that_are_the_same(tmp_path: Path, tool: Tool) -> None:
    assert compared(tmp_path, _SOURCE, tool) == []


@pytest.mark.parametrize(("old", "new"), [("f: nop", "f: isb"), ("g: nop", "g: isb"), ("nop\nnop\n", "nop\n")])
def test_sections_of_one_name_of_which_one_differs(tmp_path: Path, old: str, new: str, tool: Tool) -> None:
    assert compared(tmp_path, _SOURCE.replace(old, new, 1), tool) == ["PL406"]
