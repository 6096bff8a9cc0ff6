"""Whatever a file is, the answer is one clear line and exit code 2, and nothing is written."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.rules.fixture import forget
from tests.support.elf_edit import ElfEdit, edit, tiny_elf
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]
Change = Callable[[ElfEdit], None]


def expect_error(path: Path, message: str, tool: Tool, *commands: str) -> None:
    """Every command says the message in one line, exits with 2, and leaves the file as it was."""
    before = path.read_bytes() if path.is_file() else None
    for command in commands or ("scan", "patch", "verify", "image"):
        out = path.with_name("out")
        options = {"patch": ["-o", str(out)], "image": ["-o", str(out)]}.get(command, [])
        said = tool(command, path, *options, status=2).err
        assert message in said, command
        assert said.startswith("prologue: ")
        assert said.count("\n") == 1
        assert not out.exists()
    assert [p for p in path.parent.iterdir() if p.suffix == ".tmp"] == []
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, kernel\n" * 99, "a text file, not ELF"),
        (b"\x7fEL", "truncated"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 20, "truncated"),
        (b"\x00\x01\x02\x03" * 99, "not ELF"),
        (b"!<arch>\ndebian-binary   1700000000", "a Debian package: unpack it first (dpkg-deb -x)"),
        (b"\xed\xab\xee\xdb\3\0", "an RPM package: unpack it first (rpm2cpio)"),
    ],
)
def test_not_elf(tmp_path: Path, content: bytes, message: str, tool: Tool) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(content)
    expect_error(path, message, tool)


@pytest.mark.parametrize(
    ("magic", "name"),
    [(b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\0", "xz")],
    ids=["gzip", "zstd", "xz"],
)
def test_compressed_and_cut_off(tmp_path: Path, magic: bytes, name: str, tool: Tool) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(magic + b"\0" * 99)
    expect_error(path, "compressed data", tool, "scan", "patch", "verify")
    expect_error(path, f"a file compressed with {name}: unpack it first", tool, "image")


def header(offset: int, form: str, value: int) -> Change:
    return lambda elf: struct.pack_into(form, elf.data, offset, value)


def section_field(name: str, field: int, form: str, value: int) -> Change:
    """Set a field of a section header: 8 flags, 16 address, 24 offset, 32 size, 40 link, 56 entry size."""

    def change(elf: ElfEdit) -> None:
        index = next(k for k, s in enumerate(elf.elf.iter_sections()) if s.name == name)
        struct.pack_into(form, elf.data, elf.elf.header["e_shoff"] + 64 * index + field, value)

    return change


def rename(old: str, new: str) -> Change:
    return lambda elf: elf.rename_symbol(old, new)


def bounds(start: int, stop: int) -> Change:
    def change(elf: ElfEdit) -> None:
        low, high = elf.value("__start_mcount_loc"), elf.value("__stop_mcount_loc")
        elf.set_symbol("__start_mcount_loc", value=(high if start < 0 else low + start))
        elf.set_symbol("__stop_mcount_loc", value=(low if stop < 0 else high + stop))

    return change


HEADERS: list[tuple[str, Change, str]] = [
    ("class", header(4, "<B", 1), "32-bit"),
    ("bad class", header(4, "<B", 9), "damaged ELF header"),
    ("endianness", header(5, "<B", 2), "ELF"),
    ("big-endian", lambda elf: elf.data.__setitem__(slice(5, 20), b"\2\1" + bytes(9) + b"\0\3\0\xb7"), "big-endian"),
    ("machine", header(18, "<H", 62), "x86-64"),
    ("core", header(16, "<H", 4), "core file"),
    ("type", header(16, "<H", 77), "damaged ELF header"),
    ("no sections", header(40, "<Q", 0), "no section headers"),
    ("sections past the end", header(40, "<Q", 1 << 40), "section header table"),
    ("huge section count", header(60, "<H", 0xFEFF), "section header table"),
    ("section header size", header(58, "<H", 63), "section headers of 63 bytes"),
    ("segments past the end", header(32, "<Q", 1 << 40), "program header table"),
    ("huge segment count", header(56, "<H", 0xFF00), "program header table"),
    ("segment offset", header(64 + 8, "<Q", 0x1008), "disagree on where it is"),
    ("segment address", header(64 + 16, "<Q", 0xFFFF800007FFFFF8), "do not differ as their addresses do"),
    ("load address", header(64 + 24, "<Q", 0xFFFF800018000000), "do not differ as their addresses do"),
    ("section moved within its segment", section_field(".head.text", 24, "<Q", 0x1100), "disagree on where it is"),
    ("section outside of its segment", section_field(".head.text", 16, "<Q", 0xFFFF800008010000), "disagree on where"),
    ("name table index", header(62, "<H", 0x1000), "name table index"),
    ("section offset", section_field(".text", 24, "<Q", 1 << 50), "section .text"),
    ("section size", section_field(".text", 32, "<Q", 1 << 50), "section .text"),
    ("huge offset and size", section_field(".text", 24, "<Q", (1 << 64) - 8), "section .text"),
    ("overlap in the file", section_field(".rodata", 24, "<Q", 0x1000), "share"),
    ("overlap in memory", section_field(".rodata", 16, "<Q", 0xFFFF800008001000), "share"),
    ("address space", section_field(".rodata", 16, "<Q", (1 << 64) - 8), "ends after the last address"),
    ("unaligned text", section_field(".text", 16, "<Q", 0xFFFF800008001002), "aligned"),
    ("symbol offset", section_field(".symtab", 24, "<Q", 1 << 50), "section .symtab"),
    ("symbol size", section_field(".symtab", 56, "<Q", 16), "symbol table entries of 16 bytes"),
    ("string table", section_field(".symtab", 40, "<I", 999), "string table"),
    ("string table type", section_field(".symtab", 40, "<I", 1), "string table"),
    ("no symbols", section_field(".symtab", 4, "<I", 1), "no symbol table"),
]


@pytest.mark.parametrize(("change", "message"), [c[1:] for c in HEADERS], ids=[c[0] for c in HEADERS])
def test_damaged_headers(mini: Mini, change: Change, message: str, tool: Tool) -> None:
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        change(elf)
    expect_error(vmlinux, message, tool, "scan", "patch", "verify")


RECORDS: list[tuple[str, Spec, Change, str]] = [
    ("start missing", Spec(), rename("__start_mcount_loc", "x"), "the symbol __start_mcount_loc is gone"),
    ("stop missing", Spec(), rename("__stop_mcount_loc", "x"), "the symbol __stop_mcount_loc is gone"),
    ("swapped", Spec(), bounds(-1, -1), "is below"),
    ("unaligned", Spec(), bounds(4, 0), "aligned 8-byte records"),
    ("odd size", Spec(), bounds(0, -0 + 4), "aligned 8-byte records"),
    ("past its section", Spec(), bounds(0, 1 << 20), "does not lie in one section"),
    ("out of text", Spec(), lambda elf: elf.set_record(elf.slots()[0], 0x1000), "not text"),
    ("marker", Spec(), lambda elf: elf.set_quad(elf.value("__ftrace_prologue_marker"), 7), "marker with magic"),
    ("marker version", Spec(), lambda elf: elf.set_quad(elf.value("__ftrace_prologue_marker") + 8, 3), "version 3"),
    (
        "rela out of the kernel",
        Spec(),
        lambda elf: struct.pack_into("<Q", elf.data, elf.rela()[elf.slots()[0]], 0x1000),
        "outside of the kernel",
    ),
    (
        "rela across records",
        Spec(),
        lambda elf: struct.pack_into("<Q", elf.data, elf.rela()[elf.slots()[0]], elf.slots()[0] + 4),
        "overlaps two records",
    ),
    ("rela size", Spec(), section_field(".rela.dyn", 32, "<Q", 25), "24-byte RELA entries"),
    (
        "odd relr",
        Spec(form="relr"),
        lambda elf: struct.pack_into("<Q", elf.data, elf.elf.get_section_by_name(".relr.dyn")["sh_offset"], 3),
        "begins with a bitmap",
    ),
]


@pytest.mark.parametrize(("spec", "change", "message"), [c[1:] for c in RECORDS], ids=[c[0] for c in RECORDS])
def test_damaged_records(mini: Mini, spec: Spec, change: Change, message: str, tool: Tool) -> None:
    vmlinux = mini(spec)
    with edit(vmlinux) as elf:
        change(elf)
    expect_error(vmlinux, message, tool, "patch")


@pytest.mark.thorough
def test_truncated_anywhere(mini: Mini, tool: Tool) -> None:
    """At every boundary of a section, inside the headers, and at random places."""
    vmlinux = mini(Spec())
    whole = vmlinux.read_bytes()
    elf = ElfEdit(vmlinux).elf
    cuts = {1, 3, 4, 15, 16, 63, 64, 65, len(whole) - 1, elf.header["e_shoff"], elf.header["e_shoff"] + 63}
    for section in elf.iter_sections():
        cuts |= {section["sh_offset"], section["sh_offset"] + section["sh_size"], section["sh_offset"] + 1}
    cuts |= {random.Random(7).randrange(1, len(whole)) for _ in range(50)}  # noqa: S311 - not a secret
    for cut in sorted(c for c in cuts if 0 < c < len(whole)):
        vmlinux.write_bytes(whole[:cut])
        expect_error(vmlinux, "", tool, "patch", "scan")


@pytest.mark.thorough
def test_random_damage_never_crashes(mini: Mini, tool: Tool) -> None:
    """Flipped bytes in headers and tables end in a verdict or an error, never in a traceback."""
    vmlinux = mini(Spec(form="relr"))
    whole = vmlinux.read_bytes()
    elf = ElfEdit(vmlinux).elf
    seed = random.Random(11)  # noqa: S311 - not a secret
    tables = [(0, 64), (elf.header["e_shoff"], 64 * elf.num_sections())]
    tables += [
        (s["sh_offset"], s["sh_size"]) for s in elf.iter_sections() if s.name in (".symtab", ".relr.dyn", ".init.data")
    ]
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(seed.randint(1, 3)):
            start, size = seed.choice(tables)
            damaged[start + seed.randrange(size)] = seed.randrange(256)
        vmlinux.write_bytes(damaged)
        for command in (["scan"], ["verify"], ["patch", "--dry-run"]):
            assert tool(command[0], vmlinux, *command[1:], status=None).status in (0, 1, 2)


def test_init_function_that_is_not_whole_instructions(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(contract="stock"))
    with edit(vmlinux) as elf:
        elf.data[elf.symbol_offset("ftrace_init_nop") + 16] += 1  # st_size
    assert main(["scan", str(vmlinux)]) == 0
    assert "not a function that we know" in tool("patch", vmlinux, "--dry-run", "--contract", "stock", status=2).err


def test_stripped_kernel(tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(tiny_elf({".text": (0x10000, b"\x1f\x20\x03\xd5" * 8)}))
    expect_error(path, "no symbol table", tool, "scan", "patch", "verify")


@pytest.mark.parametrize(
    ("kind", "message"),
    [("directory", ""), ("fifo", "not a regular file"), ("absent", "No such file")],
)
def test_special_files(tmp_path: Path, kind: str, message: str, tool: Tool) -> None:
    path = tmp_path / "vmlinux"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    expect_error(path, message, tool, "patch", "verify", "image")
    if kind != "directory":
        expect_error(path, message, tool, "scan")


def test_image_is_named(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    image = vmlinux.with_name("Image")
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    expect_error(image, "flat arm64 Image", tool, "scan", "patch", "verify")


def test_kernel_without_ftrace_is_left_alone(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        for slot in elf.live_slots():
            forget(elf, elf.record(slot))
        for name in ("__start_mcount_loc", "__stop_mcount_loc", "ftrace_init"):
            elf.rename_symbol(name, "x")
    before = vmlinux.read_bytes()
    assert "nothing to do" in tool("patch", vmlinux, "--in-place").out
    assert main(["scan", str(vmlinux)]) == 0
    said = tool("verify", vmlinux).out
    assert "no dynamic ftrace, no sites to verify (no pairs at 46 function entries looked at)" in said
    assert vmlinux.read_bytes() == before


def test_unrecognised_init_is_refused_with_its_disassembly(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(contract="stock"))
    with edit(vmlinux) as elf:
        elf.rename_symbol("aarch64_insn_read", "something_else")
    before = vmlinux.read_bytes()
    said = tool("patch", vmlinux, "--in-place", "--contract", "stock", status=2).err
    assert "calls something_else" in said
    assert "ret" in said
    assert vmlinux.read_bytes() == before


def test_the_boot_modes_loop_is_refused(mini: Mini, tool: Tool) -> None:
    """It calls no ftrace_init_nop, and would be off at the first MOV that is there."""
    vmlinux = mini(Spec(contract="stock"))
    with edit(vmlinux) as elf:
        elf.rename_symbol("aarch64_insn_gen_branch_link", "arch_ftrace_make_records")
    before = vmlinux.read_bytes()
    said = tool("patch", vmlinux, "--in-place", "--contract", "stock", status=2).err
    assert "ftrace_init writes the MOVs in a loop of its own (arch_ftrace_make_records)" in said
    assert vmlinux.read_bytes() == before
    assert "stock: no marker; mode boot: ftrace_init writes the MOVs in one loop" in tool("scan", vmlinux).out
    assert main(["verify", str(vmlinux), "--no-config"]) == 0


def test_auto_names_both_ways_out(mini: Mini, tool: Tool) -> None:
    said = tool("patch", mini(Spec(contract="stock")), "--in-place", status=2).err
    assert "CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE" in said
    assert "--contract stock" in said


def test_stock_on_a_native_kernel_is_refused(mini: Mini, tool: Tool) -> None:
    assert "--contract native" in tool("patch", mini(Spec()), "--in-place", "--contract", "stock", status=2).err
