"""Where the offsets of kernel structs come from, and what a kernel of which nothing is known leaves undecided."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue.dwarf.struct_types import struct_types
from prologue.elf.image import ElfImage
from prologue.errors import UNDECIDED
from prologue.kernel.kernel import Kernel
from prologue.live.structs.layouts import Layouts, by_release, layouts_of
from tests.rules.fixture import AUDIT, as_running
from tests.support.btf import made_btf
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool, as_format

OPS = {"ftrace_ops": (472, [("func", "", 0), ("next", "", 8), ("direct_call", "", 464)])}


def with_btf(vmlinux: Path, content: bytes) -> Path:
    needs_tools("aarch64-linux-gnu-objcopy")
    note, out = vmlinux.with_name("btf"), vmlinux.with_name("vmlinux.btf")
    note.write_bytes(content)
    options = ["--add-section", f".BTF={note}", "--set-section-flags", ".BTF=readonly"]
    subprocess.run(["aarch64-linux-gnu-objcopy", *options, str(vmlinux), str(out)], check=True)
    return out


def test_btf_decides_where_there_is_some(vmlinux: Path) -> None:
    """A kernel with lockdep has other offsets than the table."""
    found = layouts_of(ElfImage(with_btf(vmlinux, made_btf(OPS))), (6, 12), realtime=False)
    assert found.source == "from BTF"
    assert (found.get("ftrace_ops"), found.get("ftrace_ops.direct_call")) == (472, 464)
    assert found.get("kprobe.addr") is None  # it has no kprobes


SOURCE = """
struct ftrace_ops { void *func; struct ftrace_ops *next; char lockdep[448]; void *direct_call; } ops;
struct hlist_node { struct hlist_node *next, **pprev; };
struct kprobe { struct hlist_node hlist; void *addr; struct { struct { void *insn; } api; } ainsn; } probe;
"""


def test_dwarf_decides_where_there_is_no_btf(tmp_path: Path) -> None:
    needs_tools("aarch64-linux-gnu-gcc")
    source, built = tmp_path / "types.c", tmp_path / "types.elf"
    source.write_text(SOURCE)
    command = ["aarch64-linux-gnu-gcc", "-g", "-nostdlib", "-static", "-Wl,-e,0", str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    found = layouts_of(ElfImage(built), (6, 12), realtime=False)
    assert found.source == "from DWARF"
    names = ("ftrace_ops", "ftrace_ops.next", "ftrace_ops.direct_call", "kprobe.addr", "kprobe.copy", "kprobe.list")
    assert [found.get(name) for name in names] == [472, 8, 464, 16, 24, None]
    subprocess.run(["aarch64-linux-gnu-strip", "-g", str(built)], check=True)
    assert layouts_of(ElfImage(built), (6, 12), realtime=False).source == "of the table for 6.1 to 6.12"


def test_structs_of_impossible_sizes(vmlinux: Path, tool: Tool) -> None:
    structs = {"ftrace_ops": (1 << 31, OPS["ftrace_ops"][1]), "dyn_ftrace": (4, [("ip", "", 0), ("flags", "", 8)])}
    damaged = with_btf(vmlinux, made_btf(structs))
    found = layouts_of(ElfImage(damaged), (6, 12), realtime=False)
    assert (found.get("ftrace_ops"), found.get("ftrace_ops.direct_call")) == (None, 464)
    source = as_running(vmlinux, {})[1]
    assert "struct offsets: from BTF" in tool(*AUDIT, damaged, source).out


@pytest.mark.parametrize("content", [b"", b"\x9f\xeb\1", made_btf({"other": (8, [("a", "", 0)])})])
def test_btf_that_does_not_say_leaves_it_to_the_table(vmlinux: Path, content: bytes) -> None:
    found = layouts_of(ElfImage(with_btf(vmlinux, content)), (6, 12), realtime=False)
    assert found.source == "of the table for 6.1 to 6.12"


@pytest.mark.parametrize(
    ("version", "source", "copy"),
    [
        ((5, 10), "of the table for 5.10", 96),
        ((6, 1), "of the table for 6.1 to 6.12", 88),
        ((7, 3), "of the table for 6.13 to 7.3", 96),
        ((5, 15), "not known: no BTF, no DWARF, and no table for 5.15", None),
        ((8, 0), "not known: no BTF, no DWARF, and no table for 8.0", None),
        (None, "not known: no BTF, no DWARF, and no table for this release", None),
    ],
)
def test_the_table(version: tuple[int, int] | None, source: str, copy: int | None) -> None:
    found = by_release(version, realtime=False)
    assert (found.source, found.get("kprobe.copy")) == (source, copy)


def test_a_realtime_kernels_mutex() -> None:
    assert by_release((6, 12), realtime=True).get("mutex.owner") == 24


@pytest.mark.thorough
def test_a_report_says_where_they_come_from(vmlinux: Path, tool: Tool) -> None:
    arguments = list(map(str, as_running(vmlinux, {})))
    assert "struct offsets: of the table for 6.1 to 6.12\n" in tool(*AUDIT, *arguments).out
    assert tool(*AUDIT, *arguments, "--json").json["struct_offsets"] == "of the table for 6.1 to 6.12"
    for kind in ("sarif", "junit"):
        assert "struct offsets: of the table for 6.1 to 6.12" in tool(*AUDIT, *arguments, *as_format(kind)).out


@pytest.mark.parametrize("breakpoint_", [False, True])
def test_an_unknown_release_accuses_nothing(vmlinux: Path, breakpoint_: bool, tool: Tool) -> None:
    """Its kprobes cannot be read: any BRK #4 may be one."""
    vmlinux.write_bytes(vmlinux.read_bytes().replace(b"version 6.12.0-mini", b"version 9.9.00-mini"))  # its banner
    changes = {Kernel(vmlinux).symbols.find("work_leaf").vaddr + 8: 0xD4200080} if breakpoint_ else {}  # type: ignore[union-attr]  # it is there
    arguments = list(map(str, as_running(vmlinux, changes)))
    source = Path(arguments[1])
    source.write_bytes(source.read_bytes().replace(b"OSRELEASE=6.1.0-mini", b"OSRELEASE=9.9.0-mini"))
    said = tool("live", "audit", *arguments, status=UNDECIDED).out
    assert "struct offsets: not known: no BTF, no DWARF, and no table for 9.9\n" in said
    assert "PL" not in said


@pytest.mark.kernel
@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie", "sid", "trixie-backports"])
def test_types_and_table_agree(suite: str) -> None:
    """BTF, DWARF and the table say the same of Debian's kernels."""
    vmlinux = needs_kernel(suite).vmlinux
    kernel = Kernel(vmlinux)
    btf, dwarf = (Layouts(name, types=types) for name, types in struct_types(kernel.image))
    table = by_release(kernel.version, realtime=kernel.is_realtime)
    assert "table" in table.source
    common = {name for name in table.table if not name.startswith("kgdb")}  # these kernels have no kgdb
    assert all(table.table[name] == btf.get(name) == dwarf.get(name) for name in common)
    for name in (
        "ftrace_ops",
        "ftrace_ops.direct_call",
        "ftrace_hash.buckets",
        "ftrace_func_entry.ip",
        "module.percpu",
    ):
        assert btf.get(name) == dwarf.get(name)
    for _, types in struct_types(kernel.image):  # what kernel/tables reads of the file's own tables
        assert (types.size("alt_instr"), types.size("jump_entry")) == (12, 16)
        places = ("alt_instr.orig_offset", "alt_instr.alt_offset", "alt_instr.orig_len", "alt_instr.alt_len")
        assert [types.offset(path) for path in places] == [0, 4, 10, 11]
        assert 8 in (types.offset("alt_instr.cpufeature"), types.offset("alt_instr.cpucap"))
        assert [types.offset(f"jump_entry.{name}") for name in ("code", "target", "key")] == [0, 4, 8]
