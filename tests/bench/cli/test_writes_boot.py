"""``prologue writes boot`` refuses what it cannot record, in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.tool import Tool


def refused(tool: Tool, *arguments: object) -> str:
    said = tool("writes", "boot", *arguments, status=2).err
    assert said.count("\n") == 1, said
    return said


def test_what_cannot_be_recorded(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    for named in (out, os.devnull):
        assert "no symbol " in refused(tool, vmlinux, "-o", named)
    assert not Path(f"{os.devnull}.log").exists()
    assert "cannot be" in refused(tool, vmlinux, "-o", out, "--image", tmp_path / "absent")
    (tmp_path / "other").write_bytes(b"no Image" * 100)
    assert "other: the kernel does not begin with" in refused(tool, vmlinux, "-o", out, "--image", tmp_path / "other")
    assert "is also an input" in refused(tool, vmlinux, "-o", vmlinux)
    assert not out.exists()


@pytest.mark.parametrize("command", ["writes boot", "trace record"])
def test_more_cpus_than_the_plugins_have_room_for(command: str, tool: Tool) -> None:
    printed = tool(*command.split(), "vmlinux", "-o", "out", "--cpus", "65", status=2)
    assert "argument --cpus: not a number from 1 to 64: '65'" in printed.err


def test_the_image_of_another_kernel(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    image = tmp_path / "Image"
    write_flat(ElfImage(mini(Spec(layout="4,2"))), image)
    said = refused(tool, mini(Spec(layout="2")), "-o", tmp_path / "out", "--image", image)
    assert "another build-id" in said or "no symbol" in said
