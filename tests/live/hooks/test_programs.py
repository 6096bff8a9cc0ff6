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


def test_programs_are_called_in_the_order_of_the_list(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was attached last comes first, whatever its number; those of the end come when the function returns."""
    data = hooks(vmlinux, trampoline(vmlinux), capsys)
    names = [one["name"] for one in data["listeners"]]
    (read,) = (one for one in data["functions"] if one["function"] == "vfs_read")
    assert [(names[called["listener"]] or called["kind"], called["offset"]) for called in read["called"]] == [
        ("ftrace_ops", 4), ("early", 0), ("late", 0), ("end", None), ("kretprobe", None),
    ]  # fmt: skip


BOTH: dict[str, int | str] = {
    "event+8": "attached",
    "returns_event+8": "attached",
    "kprobe_table+8": "returns_probe+24",
    "prog_idr+16": "attached_program",
}


def test_a_program_on_a_kprobe_and_a_kretprobe(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of perf's programs may be on several events: each place has its own way."""
    data = hooks(vmlinux, BOTH, capsys)
    said = [(one["details"]["attached"], one["functions"]) for one in data["listeners"] if one["kind"] == "BPF program"]
    assert said == [("kprobe", ["vfs_write+0x8"]), ("kretprobe", ["replaced"])]
    called = {one["function"]: [(each["kind"], each["offset"]) for each in one["called"]] for one in data["functions"]}
    assert called["vfs_write"] == [("kprobe", 4), ("kprobe", 8), ("BPF program", 8)]
    assert called["replaced"] == [("livepatch", 0), ("kretprobe", None), ("BPF program", None)]
    main(["live", "hooks", str(vmlinux), str(vmlinux.with_name("core"))])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("BPF program") and " vfs_write+0x8 " in line for line in lines)
    assert [line.partition("BPF")[0] for line in lines if "BPF program attached" in line] == ["+0x8: ", "on return: "]


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
