"""Two memories of one boot: what changed, whether it might, and that what is wrong stays wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import UNDECIDED
from prologue.insn import a64
from tests.live.audit.made_kernel import captured
from tests.live.hooks.hooked import make, saved
from tests.rules.fixture import AUDIT, B_LABEL_TARGET
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.tool import Tool, as_format

BRK = 0xD4200080


def call(elf: ElfEdit, vaddr: int, target: str) -> int:
    return a64.encode_b(vaddr, elf.value(target), link=True)


def test_what_changed_and_that_it_might(vmlinux: Path, tool: Tool) -> None:
    elf = ElfEdit(vmlinux)
    names = ("work_leaf", "work_add", "work_sub")
    seconds = [elf.value(name) + 4 for name in names]
    probe = elf.value("work_empty")
    changes = {vaddr: call(elf, vaddr, "ftrace_caller") for vaddr in seconds} | {probe: BRK}
    first = captured(vmlinux, name="first")
    second = captured(vmlinux, changes, name="second", kprobes=(f"{probe:016x}  k  work_empty+0x0    ",))
    data = tool(*AUDIT, vmlinux, first, second, "--json").json
    assert data["transitions"] == [
        {"mechanism": "second slots", "old": "NOP", "new": "BL", "words": 3, "verdict": "allowed", "allowed": True},
        {"mechanism": "breakpoints", "old": "MOV X9, X30", "new": "BRK", "words": 1,
         "verdict": "allowed, under stop_machine", "allowed": True},
    ]  # fmt: skip
    assert f"nothing changed since {first}" in tool(*AUDIT, vmlinux, first, first).out


def test_quiet_leaves_json_whole(vmlinux: Path, tool: Tool) -> None:
    command = [*AUDIT, str(vmlinux), str(captured(vmlinux, name="first")), "-q"]
    assert tool(*command).out == ""
    assert tool(*command, "--json").json["passed"]


def test_a_name_of_memory_is_printed_on_one_line(vmlinux: Path, tool: Tool) -> None:
    label = ElfEdit(vmlinux).value("label_user")
    odd, turned = captured(vmlinux, name="odd\n\x1b[31m"), captured(vmlinux, {label: B_LABEL_TARGET}, name="turned")
    for later in (odd, turned):
        said = tool(*AUDIT, vmlinux, odd, later, status=None).out
        assert rf"since {odd.parent}/odd\n\x1b[31m" in said
        assert "\x1b" not in said


@pytest.mark.parametrize("which", [0, 1])
def test_an_intruder_is_wrong_although_a_call_is_allowed(vmlinux: Path, which: int, tool: Tool) -> None:
    """In the second memory or in the first: NOP -> BL is on the list, but not to there."""
    elf = ElfEdit(vmlinux)
    second = elf.value("work_leaf") + 4
    bad = captured(vmlinux, {second: call(elf, second, "work_add")}, name="bad")
    good = captured(vmlinux, name="good")
    data = tool(*AUDIT, vmlinux, *((good, bad) if which else (bad, good)), "--json", status=1).json
    (finding,) = data["findings"]
    assert (finding["code"], finding["symbol"]) == ("PL502", "work_leaf")
    assert finding["message"].startswith(f"in {bad}: ") == (which == 0)
    (transition,) = data["transitions"]
    assert transition["verdict"] == ("wrong, see above" if which else "allowed")


def test_a_turned_jump_label_is_wrong(vmlinux: Path, tool: Tool) -> None:
    label = ElfEdit(vmlinux).value("label_user")
    first, second = captured(vmlinux, name="first"), captured(vmlinux, {label: B_LABEL_TARGET}, name="second")
    data = tool(*AUDIT, vmlinux, first, second, "--json", status=1).json
    assert [transition["verdict"] for transition in data["transitions"]] == ["wrong, see above"]


def test_a_first_slot_that_was_written_late_was_not_allowed(vmlinux: Path, tool: Tool) -> None:
    leaf = ElfEdit(vmlinux).value("work_leaf")
    first, second = captured(vmlinux, {leaf: NOP}, name="first"), captured(vmlinux, name="second")
    data = tool(*AUDIT, vmlinux, first, second, "--json", status=1).json  # the first is wrong
    (transition,) = data["transitions"]
    assert transition == {
        "mechanism": "first slots", "old": "NOP", "new": "MOV X9, X30", "words": 1, "verdict": "NOT ALLOWED live",
        "allowed": False,
    }  # fmt: skip
    assert main([*AUDIT, str(vmlinux), str(first), str(second), "--ignore", "PL501", "-q"]) == 1  # by itself, too


def test_two_boots_are_not_compared(vmlinux: Path, tool: Tool) -> None:
    first, second = captured(vmlinux, name="first"), captured(vmlinux, name="second", boot="two")
    said = tool(*AUDIT, vmlinux, first, second, status=2).err
    assert "is of another boot than" in said
    assert said.count("\n") == 1


@pytest.mark.thorough
def test_a_report_names_the_source_that_did_not_decide(vmlinux: Path, tool: Tool) -> None:
    """The first had words that were being changed; of both nothing says which second slots are traced."""
    place = ElfEdit(vmlinux).value("work_leaf") + 12
    first, second = captured(vmlinux, name="first", unstable=(place,)), captured(vmlinux, name="second")
    said = {}
    for allowed in (True, False):
        command = [word for word in AUDIT if allowed or word != "--allow-undecided"]
        for kind in ("junit", "sarif"):
            said[kind] = tool(*command, vmlinux, first, second, *as_format(kind), status=UNDECIDED).out
            assert f"words of {first}" in said[kind].replace("%20", " ")
            assert (f"words of {second}" in said[kind].replace("%20", " ")) != allowed
        changing = [line for line in said["junit"].splitlines() if "<error " in line and "being changed" in line]
        assert len(changing) == 1


def test_dumps_of_two_boots_at_one_address(tmp_path: Path, tool: Tool) -> None:
    """As with nokaslr: memory itself says of which boot it is."""
    vmlinux = make(tmp_path)
    first = saved(vmlinux).rename(tmp_path / "first")
    assert main([*AUDIT, str(vmlinux), str(first), str(saved(vmlinux))]) != 2
    assert "is of another boot than" in tool(*AUDIT, vmlinux, first, saved(vmlinux, {"sysctl_bootid": 1}), status=2).err
