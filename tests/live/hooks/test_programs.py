"""BPF programs of a small kernel, with the places and the turns in which each is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prologue.cli.main import main
from tests.live.hooks.hooked import make, saved
from tests.support.elf_edit import ElfEdit


@pytest.fixture(scope="module", params=["7.2", "before 6.10"])
def vmlinux(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = () if request.param == "7.2" else ("-DFORMER",)
    return make(tmp_path_factory.mktemp("programs"), *options)


def hooks(vmlinux: Path, changes: dict[str, int | str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON of a kernel with these values; a name stands for an address."""
    elf = ElfEdit(vmlinux)
    named = {k: place(elf, value) if isinstance(value, str) else value for k, value in changes.items()}
    capsys.readouterr()
    main(["live", "hooks", str(vmlinux), str(saved(vmlinux, named)), "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def place(elf: ElfEdit, name: str) -> int:
    """The address of SYMBOL+OFFSET."""
    symbol, _, offset = name.partition("+")
    return elf.value(symbol) + int(offset or "0", 0)


def trampoline(vmlinux: Path) -> dict[str, int | str]:
    """The trampoline in its table, and the programs in ``prog_idr``."""
    table = "trampoline_table" if "trampoline_table" in ElfEdit(vmlinux).symbols else "trampoline_key_table"
    return {f"{table}+8": "trampoline+8", "prog_idr+16": "programs+2"}


def test_programs_of_a_trampoline_have_its_function(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, trampoline(vmlinux), capsys)
    said = {
        one["name"]: (one["functions"], one["details"]["attached"], one["flags"])
        for one in data["listeners"]
        if one["kind"] == "BPF program"
    }
    assert said == {
        "early": (["vfs_read"], "fentry", []),
        "late": (["vfs_read"], "fentry", []),
        "end": (["vfs_read"], "fexit", []),
    }
    assert data["not_known"] == []


def test_a_program_of_a_trampoline_that_is_not_listed(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, trampoline(vmlinux) | {"programs+8": 0}, capsys)
    flags = {one["name"]: one["flags"] for one in data["listeners"] if one["kind"] == "BPF program"}
    assert flags == {"early": ["NOT LISTED"], "late": [], "end": []}


def test_trampolines_of_which_the_table_is_not_known(
    vmlinux: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No program is said to be attached nowhere."""
    elf = ElfEdit(vmlinux)
    table = next(name for name in elf.symbols if name.startswith("trampoline_") and name.endswith("table"))
    elf.rename_symbol(table, "another")
    data = hooks(elf.save(tmp_path / "vmlinux"), {"prog_idr+16": "programs+2"}, capsys)
    (reason,) = data["not_known"]
    assert reason.startswith("BPF programs: this vmlinux has no table of trampolines named ")
