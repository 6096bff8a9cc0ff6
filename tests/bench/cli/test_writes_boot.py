"""``prologue writes boot`` refuses what it cannot record, in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from tests.mini_kernel.build import Spec
from tests.support.built import Mini


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(["writes", "boot", *map(str, arguments)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


def test_what_cannot_be_recorded(mini: Mini, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    for named in (out, os.devnull):
        assert "no symbol " in refused(capsys, vmlinux, "-o", named)
    assert not Path(f"{os.devnull}.log").exists()
    assert "cannot be" in refused(capsys, vmlinux, "-o", out, "--image", tmp_path / "absent")
    (tmp_path / "other").write_bytes(b"no Image" * 100)
    assert "other: the kernel does not begin with" in refused(capsys, vmlinux, "-o", out, "--image", tmp_path / "other")
    assert "is also an input" in refused(capsys, vmlinux, "-o", vmlinux)
    assert not out.exists()


@pytest.mark.parametrize("command", ["writes boot", "trace record"])
def test_more_cpus_than_the_plugins_have_room_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "vmlinux", "-o", "out", "--cpus", "65"])
    assert ended.value.code == 2
    assert "argument --cpus: not a number from 1 to 64: '65'" in capsys.readouterr().err


def test_the_image_of_another_kernel(mini: Mini, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "Image"
    write_flat(ElfImage(mini(Spec(layout="4,2"))), image)
    said = refused(capsys, mini(Spec(layout="2")), "-o", tmp_path / "out", "--image", image)
    assert "another build-id" in said or "no symbol" in said
