"""What is said of a word that no mechanism owns: which mechanism's word is next to it, and on which side."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit

BRK_0 = 0xD4200000


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return process(mini(Spec(form="relr", labels=True)))


@pytest.mark.parametrize(
    ("symbol", "offset", "where"),
    [
        ("work_leaf", 8, "4 bytes before it is a word of the second slots"),
        ("label_user", -4, "4 bytes after it is a word of the jump labels"),
    ],
)
def test_where_the_nearest_mechanism_is(
    vmlinux: Path, symbol: str, offset: int, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vaddr = ElfEdit(vmlinux).value(symbol) + offset
    capsys.readouterr()
    assert main([*AUDIT, *map(str, as_running(vmlinux, {vaddr: BRK_0}))]) == 1
    said = capsys.readouterr().out
    assert "PL503" in said
    assert f"no mechanism owns it; {where}" in said
