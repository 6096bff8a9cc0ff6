"""Modules: processed, given back, in every form that they are stored in; and what must be refused."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.compressed import compress, decompress
from prologue.elf.identify import Compression
from prologue.elf.image import ElfImage
from prologue.elf.relocs import R_BRANCHES
from prologue.insn import a64
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.patching.reread.module import reread_module
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec, all_modules
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool

Mini = Callable[[Spec | ModuleSpec], Path]
FUNCTIONS = {"module_leaf", "module_middle", "module_local", "module_caller", "init_module", "cleanup_module"}
STORED: tuple[tuple[str, Compression], ...] = ((".gz", "gzip"), (".xz", "xz"), (".zst", "zstd"))


def patch(*arguments: object) -> int:
    return main(["patch", *map(str, arguments)])


def module(path: Path) -> Module:
    opened = open_binary(path)
    assert isinstance(opened, Module)
    return opened


@pytest.mark.parametrize("spec", all_modules(), ids=str)
def test_processing_writes_the_first_slots_and_nothing_else(mini: Mini, spec: ModuleSpec) -> None:
    ko = mini(spec)
    before = ko.read_bytes()
    sites = module(ko).sites
    assert sites is not None
    assert sites.layout == spec.layout
    named = {module(ko).symbols.locate(int(vaddr)).symbol for vaddr in sites.entry}
    assert named == FUNCTIONS
    assert bool(sites.bti.any()) == spec.bti
    places = reread_module(before, ko, processed=False)

    assert patch(ko, "--in-place", "--contract", "native", "--reread") == 0
    after = ko.read_bytes()
    assert reread_module(after, ko, processed=True) == places
    old, new = np.frombuffer(before, "<u4", len(before) // 4), np.frombuffer(after, "<u4", len(after) // 4)
    changed = np.flatnonzero(old != new)
    assert len(changed) == len(places) == len(FUNCTIONS)
    assert set(old[changed].tolist()) == {a64.NOP}
    assert set(new[changed].tolist()) == {a64.MOV_X9_X30}
    ignored = [] if spec.linked else ["--ignore", "PL307"]  # what only the link script makes
    assert main(["verify", str(ko), *ignored]) == 0

    assert patch(ko, "--in-place", "--contract", "native") == 0
    assert ko.read_bytes() == after
    assert patch(ko, "--in-place", "--reverse") == 0
    assert ko.read_bytes() == before


@pytest.mark.parametrize(("suffix", "kind"), STORED)
def test_compressed_modules_are_read_and_written_back(mini: Mini, suffix: str, kind: Compression) -> None:
    ko = mini(ModuleSpec())
    stored = ko.with_name(f"mini.ko{suffix}")
    stored.write_bytes(compress(ko.read_bytes(), kind))
    original = ko.read_bytes()
    assert main(["scan", str(stored)]) == 0
    assert patch(stored, "--in-place", "--contract", "stock") == 0
    assert patch(ko, "--in-place", "--contract", "stock") == 0
    assert decompress(stored.read_bytes(), stored) == ko.read_bytes()
    assert main(["verify", str(stored)]) == 0
    whole = stored.stat().st_mtime_ns, stored.stat().st_ino
    assert patch(stored, "--in-place", "--contract", "stock") == 0
    assert (stored.stat().st_mtime_ns, stored.stat().st_ino) == whole  # a second run does not touch the file
    copy = ko.with_name(f"copy.ko{suffix}")
    assert patch(stored, "-o", copy, "--reverse") == 0
    assert decompress(copy.read_bytes(), copy) == original


def test_the_first_vermagic_is_that_of_the_loader(mini: Mini, tmp_path: Path) -> None:
    """``MODULE_INFO(vermagic, ...)`` in a source comes before that of the build."""
    ko, modinfo = mini(ModuleSpec()), tmp_path / "modinfo"
    modinfo.write_bytes(b"vermagic=6.12.0 SMP\0license=GPL\0vermagic=6.1.0 SMP\0")
    subprocess.run(["aarch64-linux-gnu-objcopy", "--update-section", f".modinfo={modinfo}", ko], check=True)
    assert module(ko).release == "6.12.0"


def test_a_module_does_not_say_its_contract(mini: Mini, tool: Tool) -> None:
    error = tool("patch", mini(ModuleSpec()), "--in-place", status=2).err
    assert "--vmlinux" in error
    assert "--contract native" in error


def test_what_is_wrong_with_a_kernel_is_not_said_of_its_module(mini: Mini, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    absent = ko.with_name("absent")
    said = tool("patch", ko, "--in-place", "--vmlinux", absent, status=2).err
    assert said == f"prologue: {absent}: cannot be opened: No such file or directory\n"


@pytest.mark.parametrize("contract", ["native", "stock"])
def test_the_kernel_says_what_its_modules_need(mini: Mini, contract: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux = Path(shutil.copy(mini(Spec(contract=contract)), tmp_path / "kernel"))  # type: ignore[arg-type]
    ko = mini(ModuleSpec())
    if contract == "stock":
        assert "is not processed" in tool("patch", ko, "--in-place", "--vmlinux", vmlinux, status=2).err
        early = ko.with_name("early.ko")
        assert patch(ko, "-o", early, "--contract", "stock") == 0
        assert "demands NOPs, but all 6 sites hold the MOV" in tool("verify", early, "--vmlinux", vmlinux, status=1).out
        assert patch(vmlinux, "--in-place", "--contract", "stock") == 0
        assert "LR would be lost" in tool("verify", ko, "--vmlinux", vmlinux, status=1).out
    else:
        assert main(["verify", str(ko), "--vmlinux", str(vmlinux)]) == 0
    assert patch(ko, "--in-place", "--vmlinux", vmlinux) == 0
    assert main(["verify", str(ko), "--vmlinux", str(vmlinux)]) == 0
    other = mini(ModuleSpec(layout="4,2"))
    for command in (["patch", "--in-place"], ["verify", "--release"]):  # the wrong kernel can prove nothing
        assert "layout 4,2" in tool(command[0], other, *command[1:], "--vmlinux", vmlinux, status=2).err


def test_a_kernel_that_may_not_accept_the_mov(mini: Mini, tool: Tool) -> None:
    """As one with the boot mode, whose ftrace_init_nop is another than those that are known."""
    with edit(mini(Spec(contract="stock"))) as elf:
        elf.set_word(elf.value("ftrace_init_nop") + 8, 0xD61F0000)  # br x0
    ko = mini(ModuleSpec())
    assert patch(ko, "--in-place", "--contract", "stock") == 0
    said = tool("verify", ko, "--vmlinux", elf.path).out
    assert "PL202 sites-partly-patched (warn): 1" in said
    assert "it is not known whether ftrace_init_nop of" in said


SECTIONS = """
    .section ".text.{first}","ax",@progbits,unique,1
    .globl one
    .type one, %function
one: nop; nop; add x0, x0, #1; ret
    .size one, .-one
    .section .text.{second},"ax",@progbits,unique,2
    .globl two
    .type two, %function
    add x0, x0, #1
two: nop; nop; ret
    .size two, .-two
    .section __patchable_function_entries,"aw",@progbits
    .p2align 3
    .quad one
    .reloc ., {none}
    .quad 0
    .quad two
"""


@pytest.mark.parametrize("none", ["R_AARCH64_NONE", "256"])
@pytest.mark.parametrize(("first", "second"), [("alike", "alike"), ("größe", "other")])
def test_both_readers_see_sections_by_number_and_no_record_where_nothing_is_relocated(
    tmp_path: Path, first: str, second: str, none: str, tool: Tool
) -> None:
    """Compilers may give many sections one name, and identifiers of C need not be ASCII.

    R_AARCH64_NONE is 0 and 256; a record of a discarded function may have either.
    """
    source, ko = tmp_path / "module.S", tmp_path / "module.ko"
    source.write_text(SECTIONS.format(first=first, second=second, none="R_AARCH64_NONE"))
    subprocess.run(["clang", "--target=aarch64-linux-gnu", "-c", source, "-o", ko], check=True)
    if none == "256":
        table = ElfImage(ko).section(".rela__patchable_function_entries")
        assert table is not None
        content = bytearray(ko.read_bytes())
        assert content[table.offset + 32 : table.offset + 40] == bytes(8)
        content[table.offset + 33] = 1
        ko.write_bytes(content)
    said = tool("patch", ko, "-o", tmp_path / "out.ko", "--contract", "native").out
    assert "processed: 2 sites, 2 words written" in said


def test_a_module_has_no_flat_image(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    assert "module" in tool("image", mini(ModuleSpec()), "-o", tmp_path / "Image", status=2).err
    assert not (tmp_path / "Image").exists()


def test_a_torn_record_is_an_error(mini: Mini, tool: Tool) -> None:
    """A table that ends within a record, with a relocation there."""
    ko = mini(ModuleSpec())
    with edit(ko) as elf:
        size = elf.elf.get_section_by_name("__patchable_function_entries")["sh_size"]
        elf.set_header("__patchable_function_entries", 32, size - 4)
    assert "has 44 bytes, which are not whole 8-byte records" in tool("verify", ko, status=2).err


def test_text_is_aligned_as_its_section_promises(mini: Mini, tool: Tool) -> None:
    """GCC aligns cold functions to 4 bytes, and their section: the loader may put its literals anywhere."""
    ko = mini(ModuleSpec(layout="4,2"))
    assert main(["verify", str(ko)]) == 0
    with edit(ko) as elf:
        elf.set_header(".text", 48, 4)
    found = {(f["code"], f["section"]) for f in tool("verify", ko, "--json", status=1).json["findings"]}
    assert found == {("PL204", ".text")}


@pytest.mark.thorough
def test_a_directory_of_modules(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    tree = tmp_path / "modules" / "kernel"
    tree.mkdir(parents=True)
    ko = mini(ModuleSpec())
    for k in range(20):
        shutil.copy(ko, tree / f"m{k}.ko")
    (tree / "m3.ko").write_bytes(compress(ko.read_bytes(), "xz"))  # a wrong name is no obstacle
    broken = tree / "broken.ko"
    broken.write_bytes(ko.read_bytes()[:300])
    said = tool("patch", tree.parent, "--in-place", "--contract", "native", "--jobs", "2", status=2)
    assert "20 of 21 files, 120 sites, 120 words written; 1 FAILED" in said.out
    assert str(broken) in said.err
    said = tool("patch", tree.parent, "--in-place", status=2)
    assert said.err.count("does not say what its kernel expects") == 4  # three of twenty, and how many more
    assert "and 17 more files" in said.err
    said = tool("verify", tree.parent, "--json", status=2)
    assert json.loads(said.out)["counts"] == {"fatal": 0, "error": 0, "warn": 0, "info": 0}
    broken.unlink()
    assert main(["verify", str(tree.parent)]) == 0
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no modules" in tool("verify", empty, status=2).err


def test_a_module_that_is_named_twice_counts_once(mini: Mini, tool: Tool) -> None:
    """Two processes would get in each other's way."""
    ko = mini(ModuleSpec())
    shutil.copy(ko, ko.with_name("other.ko"))
    said = tool("patch", ko.parent, ko, ko.with_name("other.ko"), "--in-place", "--contract", "native").out
    assert said == "2 of 2 files, 12 sites, 12 words written\n"


def test_findings_in_modules_have_no_addresses(mini: Mini, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    first = module(ko)
    assert first.sites is not None
    offset = int(first.image.offsets(first.sites.second)[0])
    with ko.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\0\0\0\0")
    (finding,) = tool("verify", ko, "--json", status=1).json["findings"]
    assert finding["vaddr"] is None
    assert (finding["code"], finding["section"]) == ("PL201", ".text")
    assert "(.text+0x0)" in tool("verify", ko, status=1).out


@pytest.mark.parametrize(("distance", "code"), [(-4, "PL106"), (1 << 20, "PL105")])
def test_records_that_lead_elsewhere_have_no_addresses_either(mini: Mini, distance: int, code: str, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    records = module(ko).records
    assert records is not None
    if code == "PL106":  # to one word before where the next one leads
        distance += int(records.values[1] - records.values[0])
    with edit(ko) as elf:
        (addend,) = struct.unpack_from("<q", elf.data, int(records.homes[0]))
        struct.pack_into("<q", elf.data, int(records.homes[0]), addend + distance)
    said = tool("verify", ko, "--json", status=1).out
    assert code in said
    assert not re.search(r"0x[0-9a-f]{7}\b", said)


def test_branches_in_modules_go_to_offsets(mini: Mini, tool: Tool) -> None:
    """Where X9 is read, where a byte changed: in the middle of messages, too."""
    ko = mini(ModuleSpec())
    before, first = shutil.copy(ko, ko.with_name("before.ko")), module(ko)
    assert first.sites is not None
    with ko.open("r+b") as stream:
        stream.seek(int(first.image.offsets(first.sites.second)[0]) + 4)
        stream.write((0xB4000049).to_bytes(4, "little"))  # cbz x9, .+8, after a pair at .text+0x0
    said = tool("verify", ko, "--against", before, status=1).out
    assert "cbz x9, #0x10 at module_leaf+0x8" in said
    assert "became cbz x9, #0x10)" in said


def test_a_relocation_after_the_last_whole_word(mini: Mini, tool: Tool) -> None:
    """A damaged section ends in the middle of a call that a relocation names."""
    ko = mini(ModuleSpec())
    calls = module(ko).relocations
    places, _, defined = calls.branches
    (text,) = (s for s in module(ko).text.text_sections if s.name == ".text")
    last = max(vaddr for vaddr in places[defined].tolist() if vaddr in text)
    with edit(ko) as elf:
        elf.set_header(".text", 32, last - text.addr + 2)  # sh_size
    assert tool("verify", ko, "--select", "PL302,PL304", status=None).status in (0, 1, 2)  # 3: an internal error


def test_relocations_of_no_symbol_table_are_refused_in_one_line(mini: Mini, tool: Tool) -> None:
    """The loader does not look at sh_link, and LIEF does: it reads records without symbols then."""
    ko = mini(ModuleSpec())
    elf = ElfEdit(ko)
    elf.set_header(".rela__patchable_function_entries", 40, 1)
    before = bytes(elf.save(ko).read_bytes())
    error = tool("patch", ko, "-o", ko.with_name("out.ko"), "--contract", "native", status=2).err
    assert error.startswith(f"prologue: {ko}: ")
    assert "a record's relocation names no symbol" in error
    assert ko.read_bytes() == before
    assert not ko.with_name("out.ko").exists()


def test_branches_are_shown_with_the_symbols_that_they_go_to(mini: Mini) -> None:
    """Their bytes have no offset before the loader writes one."""
    opened = module(mini(ModuleSpec(linked=False)))
    relocations = opened.relocations
    index = relocations.of_types(R_BRANCHES)
    texts = {opened.insn_text(0x94000000, int(place)) for place in relocations.places[index]}
    assert "bl module_leaf" in texts
    assert not [text for text in texts if "0x" in text]


def test_a_stripped_module_needs_the_module(mini: Mini, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    subprocess.run(["aarch64-linux-gnu-strip", ko], check=True)
    assert "This needs the unstripped module" in tool("verify", ko, status=2).err
