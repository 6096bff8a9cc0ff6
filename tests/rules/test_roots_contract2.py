"""Version 2 of the marker: damage of one word has one root cause."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from tests.mini_kernel.build import Form, Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool

Change = Callable[[ElfEdit], None]


def marker(offset: int, change: int) -> Change:
    def flip(elf: ElfEdit) -> None:
        at = elf.value("__ftrace_prologue_marker") + offset
        elf.set_quad(at, elf.quad(at) ^ change)

    return flip


def offset(index: int, change: int) -> Change:
    def flip(elf: ElfEdit) -> None:
        at = elf.value("__start_mcount_loc") + 4 * index
        elf.set_word(at, elf.word(at) ^ change)

    return flip


def word(distance: int, value: int) -> Change:
    return lambda elf: elf.set_word(elf.value("work_leaf") + distance, value)


def leftover(elf: ElfEdit) -> None:
    """Let an entry of RELA write offsets."""
    entry = min(elf.rela()[place] for place in elf.rela() if place)
    struct.pack_into("<Q", elf.data, entry, elf.value("__start_mcount_loc") + 16)


def relr_before_table(elf: ElfEdit) -> None:
    """Let the last word of RELR relocate 8 bytes of which the last 4 are the first offset."""
    section = elf.elf.get_section_by_name(".relr.dyn")
    elf.set_quad(section["sh_addr"] + section["sh_size"] - 8, elf.value("__start_mcount_loc") - 4)


def marker_tail(encoding: int, first: int, count: int) -> Change:
    def write(elf: ElfEdit) -> None:
        at = elf.value("__ftrace_prologue_marker") + 24
        elf.set_quad(at, encoding | first << 32)
        elf.set_quad(at + 8, count)

    return write


DAMAGE: dict[str, tuple[str, Form, Change]] = {
    "flag cleared": ("PL402", "rela", marker(8, 1 << 32)),
    "flag cleared, RELR": ("PL402", "relr", marker(8, 1 << 32)),
    "one site more": ("PL402", "rela", marker(16, 16 ^ 15)),
    "one site less": ("PL402", "relr", marker(16, 14 ^ 15)),
    "no site": ("PL402", "relr", marker(16, 15)),
    "unknown flag": ("PL402", "rela", marker(8, 1 << 40)),
    "reserved": ("PL402", "static", marker(32, 1 << 32)),
    "encoding": ("PL115", "rela", marker(24, 8)),
    "encoding, nothing to undo": ("PL115", "static", marker(24, 9)),
    "RELA where there is none": ("PL115", "static", marker(24, 1)),
    "RELR where there is none": ("PL115", "rela", marker_tail(3, 0, 0)),
    "first of nothing": ("PL115", "relr", marker_tail(3, 1, 0)),
    # Zeros alone are what scripts/sorttable leaves there.
    "static, and relocates itself": ("PL115", "relr", marker_tail(0, 0, 1)),
    "relocated from before the table": ("PL113", "relr", relr_before_table),
    "first slot": ("PL202", "rela", word(0, a64.NOP)),
    "second slot": ("PL201", "rela", word(4, 0x94000010)),
    "offset in a body": ("PL201", "relr", offset(3, 8)),
    "offset in no text": ("PL105", "rela", offset(3, 1 << 24)),
    "relocated": ("PL113", "rela", leftover),
    "half written": ("PL202", "rela", marker(8, (1 << 32) | 1 << 63)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", DAMAGE)
def test_one_damage_has_one_root(mini: Mini, name: str, tool: Tool) -> None:
    code, form, change = DAMAGE[name]
    vmlinux = process(mini(Spec(marker=2, form=form)))
    with edit(vmlinux) as elf:
        change(elf)
    before = vmlinux.read_bytes()
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert {finding["code"] for finding in found if not finding["follows_from"]} == {code}, found
    assert main(["patch", str(vmlinux), "--in-place"]) == 2
    assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 2
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("name", ["flag set", "flag set, and a count", "MOV in all sites"])
def test_an_unprocessed_kernel_with_a_wrong_marker(mini: Mini, name: str, tool: Tool) -> None:
    vmlinux = mini(Spec(marker=2, form="relr"))
    with edit(vmlinux) as elf:
        if name == "MOV in all sites":
            for slot in elf.live_slots():
                elf.set_word(elf.record(slot), a64.MOV_X9_X30)
        else:
            marker(8, 1 << 32)(elf)
            marker(16, 15 if "count" in name else 0)(elf)
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert "PL402" in {finding["code"] for finding in found}
    assert main(["patch", str(vmlinux), "--in-place"]) == 2


@pytest.mark.parametrize("plain", [False, True], ids=["offsets", "sorted records"])
@pytest.mark.parametrize("is_processed", [False, True])
def test_a_flag_alone_has_one_root(mini: Mini, tool: Tool, *, is_processed: bool, plain: bool) -> None:
    """The marker's other fields, and the words at the sites, say that the flag is wrong."""
    vmlinux = mini(Spec(marker=2, form="rela", plain=plain))
    elf = ElfEdit(process(vmlinux) if is_processed else vmlinux)
    marker(8, 1 << 32)(elf)
    elf.save(vmlinux)
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert {finding["code"] for finding in found if not finding["follows_from"]} == {"PL402"}, found
    assert main(["patch", str(vmlinux), "--in-place"]) == 2


def test_relr_across_two_records(mini: Mini, tool: Tool) -> None:
    """RELR addresses need not be multiples of 8."""
    with edit(vmlinux := mini(Spec(marker=2, form="relr", plain=True))) as elf:
        relr_before_table(elf)
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert {finding["code"] for finding in found if not finding["follows_from"]} == {"PL102"}
    assert main(["patch", str(vmlinux), "--in-place"]) == 2


def test_version_1_in_the_place_of_version_2(mini: Mini, tool: Tool) -> None:
    """Undone as version 1, the file would keep the numbers of version 2."""
    with edit(vmlinux := process(mini(Spec(marker=2, form="rela", plain=True)))) as elf:
        marker(8, 1 ^ 2)(elf)
    before = vmlinux.read_bytes()
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert {finding["code"] for finding in found} == {"PL402"}
    assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 2
    assert vmlinux.read_bytes() == before


def test_patch_names_the_rule_of_an_unprocessed_kernel(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(marker=2))
    with edit(vmlinux) as elf:
        elf.set_record(elf.slots()[3], elf.value("__start_mcount_loc"))
    assert "PL105 record-outside-text" in tool("patch", vmlinux, "--in-place", status=2).err
