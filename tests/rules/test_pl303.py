"""PL303 on fields that hold the distance to what they point at; no relocation tells of them in a vmlinux."""

from __future__ import annotations

import struct

import pytest

from tests.mini_kernel.build import Spec
from tests.rules.fixture import judged
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit

# Bounds of a table, a symbol of the mini kernel that is long enough to get each name, and bytes of an entry.
TABLES = [
    ("__start___ksymtab", "__stop___ksymtab", 12),
    ("__initcall_start", "__initcall_end", 4),
    ("__con_initcall_start", "__con_initcall_end", 4),
    ("__start___tracepoints_ptrs", "__stop___tracepoints_ptrs", 4),
    ("__start_static_call_sites", "__stop_static_call_sites", 8),
]
LONG = ("aarch64_insn_patch_text_nosync", "aarch64_insn_write_literal_u64")


def make_table(elf: ElfEdit, start: str, stop: str, size: int) -> int:
    """As many entries as there is room for where work_table was; returns the address of the last one."""
    place = elf.value("work_table")
    count = 16 // size
    for name, old, value in zip((start, stop), LONG, (place, place + count * size), strict=True):
        elf.set_symbol(old, value=value)
        elf.rename_symbol(old, name)
    return place + (count - 1) * size


@pytest.mark.parametrize(("start", "stop", "size"), TABLES)
@pytest.mark.parametrize(("slot", "fires"), [(4, True), (0, False)])
def test_tables(mini: Mini, start: str, stop: str, size: int, slot: int, *, fires: bool) -> None:
    with edit(mini(Spec())) as elf:
        field = make_table(elf, start, stop, size)
        struct.pack_into("<i", elf.data, elf.offset(field), elf.value("work_leaf") + slot - field)
    findings = judged(elf.path, "PL303")
    assert [finding.where.vaddr for finding in findings] == ([field] if fires else [])


@pytest.mark.parametrize("later", [0, 4])
@pytest.mark.parametrize(("distance", "fires"), [(4, True), (8, False)])
def test_a_static_link(mini: Mini, distance: int, later: int, *, fires: bool) -> None:
    """No relocation says which words of data are pointers, wherever the section begins."""
    with edit(mini(Spec(form="static"))) as elf:
        place = elf.value("work_table")
        number, section = next(
            (k, s) for k, s in enumerate(elf.elf.iter_sections()) if 0 <= place - s["sh_addr"] < s["sh_size"]
        )
        assert place > section["sh_addr"]
        header = elf.elf["e_shoff"] + 64 * number + 16  # sh_addr, sh_offset, sh_size
        fields = (section["sh_addr"] + later, section["sh_offset"] + later, section["sh_size"] - later)
        struct.pack_into("<3Q", elf.data, header, *fields)
        elf.set_quad(place, elf.quad(place) + distance)
    found = judged(elf.path, "PL303")
    assert [finding.where.vaddr for finding in found] == [place] * fires
