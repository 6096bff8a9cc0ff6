"""``live audit`` of a small kernel whose lists cannot be read: it says so, accuses nothing, and does not pass."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from elftools.elf.elffile import ELFFile

from prologue.errors import UNDECIDED, InputError
from prologue.live.hooks import readonly, run
from prologue.live.hooks.inventory import Inventory, take_inventory
from prologue.live.memory.core import NO_PADDR, CoreFile, PlainCore, open_core
from prologue.live.structs.objects import NotReadError
from prologue.live.system.running_kernel import RunningKernel
from tests.live.hooks.hooked import saved
from tests.support.cores import core, vmcoreinfo
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool

_OF_HOOKS: Final = ("PL509", "PL510", "PL511", "PL512")
_NOWHERE: Final = 0xFFFF_8000_0000_0000
FOREIGN: Final = {"prog_idr+16": "filter_program", "orphan_vm+8": "allocated_here+4"}
_MODULE: Final = {"list": 72, "base": 88}  # offsets in struct module (hooked.c)


class Audited(NamedTuple):
    """Codes of findings about what is attached, what was not looked at, and whether that passes."""

    codes: list[str]
    notes: str
    status: int
    lists: int


def audited(vmlinux: Path, core: Path, tool: Tool) -> Audited:
    printed = tool("live", "audit", vmlinux, core, "--allow-undecided", "--json", status=None)
    data = printed.json
    codes = [finding["code"] for finding in data["findings"] if finding["code"] in _OF_HOOKS]
    return Audited(codes, "\n".join(data["not_looked_at"]), printed.status, data["undecided"]["lists"])


@pytest.mark.thorough
def test_records_of_modules_are_not_accused_without_the_list_of_modules(vmlinux: Path, tool: Tool) -> None:
    outside = 0xFFFF_8000_7000_0000
    record = {"record_of_read": outside + 4, f"loaded+{_MODULE['base']}": outside}
    assert audited(vmlinux, saved(vmlinux, record, ()), tool).codes == []
    found = audited(vmlinux, saved(vmlinux, record | {"modules": _NOWHERE}, ()), tool)
    assert (found.codes, found.lists) == ([], 1)
    assert "hidden modules: the list of modules cannot be read" in found.notes
    assert "owners of callbacks: not all owners of code are known" in found.notes


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({f"loaded+{_MODULE['base']}": 0xFFFF_FFFF_FFFF_F000}, "whose memory would be 0xfffffffffffff000-"),
        ({f"loaded+{_MODULE['list']}": _NOWHERE | 1}, "modules: a damaged list"),
        ({"swapper_pg_dir+2048": 0, "swapper_pg_dir+8": 2}, "do not let the kernel execute its own text"),
    ],
)
def test_damage_is_said(vmlinux: Path, changes: dict[str, int], note: str, tool: Tool) -> None:
    found = audited(vmlinux, saved(vmlinux, changes), tool)
    assert (found.codes, found.status) == ([], UNDECIDED)
    assert found.lists >= 1
    assert note in found.notes


def test_text_that_memory_lacks_is_the_kernels_all_the_same(vmlinux: Path, tool: Tool) -> None:
    """A page of zeros is a finding; that a callback is there is none."""
    core = saved(vmlinux, {"hook": "apart", "apart": 0, "apart+8": 0})
    assert "PL509" not in audited(vmlinux, core, tool).codes
    (call,) = tool("live", "hooks", vmlinux, core, "--json", status=None).json["listeners"][0]["calls"]
    assert (call["symbol"], call["owner"]) == ("apart", "kernel")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("damage", "target", "note"),
    [
        ({"filter+24": 1 << 60}, "wanted", "is 1,152,921,504,606,846,976: damaged memory"),
        ({}, "probe+8", "kprobes: a damaged list: it has more than 1 entries"),
    ],
)
def test_a_circle_ends(vmlinux: Path, damage: dict[str, int], target: str, note: str, tool: Tool) -> None:
    found = audited(vmlinux, saved(vmlinux, {**damage, target: target}), tool)
    assert (found.codes, found.status) == ([], UNDECIDED)
    assert found.lists >= 1
    assert note in found.notes


@pytest.mark.parametrize(
    ("allocator", "codes"),
    [("bpf_jit_alloc_exec", []), ("bpf_jit_binary_alloc", []), ("allocated_here", ["PL509", "PL511"])],
)
def test_programs_that_kallsyms_lacks_are_in_memory_of_bpf(
    vmlinux: Path, allocator: str, codes: list[str], tool: Tool
) -> None:
    """Those of users without CAP_BPF; 5.10 names the function that called the allocator."""
    changes = {"prog_idr+16": "filter_program", "orphan_vm+8": f"{allocator}+4"}
    core = saved(vmlinux, changes, ("module_text", "orphan_text"))
    assert audited(vmlinux, core, tool).codes == codes


def test_an_end_of_text_that_memory_lacks_hides_no_other_page(vmlinux: Path, tool: Tool) -> None:
    path = saved(vmlinux, FOREIGN, ("module_text", "orphan_text"))
    text = ElfEdit(vmlinux).elf.get_section_by_name(".text")
    end = text["sh_addr"] + text["sh_size"]
    with path.open("rb") as stream:
        memory = next(ELFFile(stream).iter_segments("PT_LOAD"))
        start, data = memory["p_vaddr"], memory.data()
    after = (end + 4095) & ~4095
    pieces = [(start, NO_PADDR, data[: end - start]), (after, NO_PADDR, data[after - start :])]
    path.write_bytes(core(pieces, [vmcoreinfo(0)]))
    found = audited(vmlinux, path, tool)
    assert (found.codes, found.lists) == (["PL509", "PL511"], 1)
    assert "executable memory" in found.notes


def test_memory_that_cannot_be_read_is_no_error_of_the_audit(
    vmlinux: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that was read is judged all the same: a block of the dump is damaged where a list is."""
    place, read = ElfEdit(vmlinux).value("table_1"), CoreFile.read

    def damaged(core: CoreFile, vaddr: int, size: int) -> bytes:
        if vaddr <= place < vaddr + size:
            raise InputError("damaged dump: a block", path=core.name)
        return read(core, vaddr, size)

    core = saved(vmlinux)
    monkeypatch.setattr(CoreFile, "read", damaged)
    found = audited(vmlinux, core, tool)
    assert (found.codes, found.status, found.lists) == ([], UNDECIDED, 1)
    assert "damaged dump: a block" in found.notes


@pytest.mark.thorough
def test_a_second_reading_that_sees_less_acquits_nobody(
    vmlinux: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running kernel is read twice: a callback without an owner is seen, and then the list of modules cannot be."""
    seen = saved(vmlinux, FOREIGN).rename(vmlinux.with_name("seen"))
    assert audited(vmlinux, seen, tool).codes == ["PL509"]
    less = saved(vmlinux, {**FOREIGN, "modules": _NOWHERE})
    cores = cycle(map(open_core, (seen, less)))

    def read_next(kernel: RunningKernel) -> Inventory:
        assert isinstance(kernel.memory, PlainCore)
        kernel.memory.core = next(cores)
        return take_inventory(kernel)

    monkeypatch.setattr(PlainCore, "live", True)
    monkeypatch.setattr(run, "take_inventory", read_next)
    found = audited(vmlinux, seen, tool)
    assert (found.codes, found.status, found.lists) == ([], UNDECIDED, 1)
    assert "hidden modules: the list of modules cannot be read" in found.notes


def test_memory_that_was_init_text_is_not_the_kernels(vmlinux: Path, tool: Tool) -> None:
    """A page that boot gave away may be anybody's, at another address."""
    elf, linear = ElfEdit(vmlinux), 0xFFFF_0000_0000_0000
    entry = f"table_3+{8 * (elf.value('orphan_text') >> 12 & 511)}"
    pages = ("module_text", "orphan_text")
    for name, codes in (("once", ["PL511"]), ("vfs_read", [])):
        core = saved(vmlinux, {entry: (elf.value(name) & ~4095) - linear | 3}, pages)
        assert audited(vmlinux, core, tool).codes == codes


def test_read_only_data_that_memory_lacks_are_said_beside_what_no_relocation_says(
    vmlinux: Path, tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static link has no relocations: what is not known of it does not hide that memory is not whole."""

    def lacking(*_: object) -> None:
        raise NotReadError("memory has no 24 bytes there")

    monkeypatch.setattr(readonly, "_words", lacking)
    found = audited(vmlinux, saved(vmlinux), tool)
    assert (found.status, found.lists) == (UNDECIDED, 1)
    assert "memory has no 24 bytes there" in found.notes
    assert "no relocation says which data" in found.notes
