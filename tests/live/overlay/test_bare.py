"""A kernel without its vmlinux, of the data of perf record --kcore, as a file that other tools read."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.live.memory.perf import PerfData
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.system.bare_kernel import read_bare_kernel
from tests.support.cores import core
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL

MODULE, BPF = KERNEL.base - 0x100000, KERNEL.base - 0x80000
RET, NOP, BRK = 0xD65F03C0, 0xD503201F, 0xD4202000
ISLAND = KERNEL.base + 0x10000
LAST = KERNEL.base + 0x1000000


def kcore_dir(directory: Path, *, kallsyms: str | None = None, last: bytes = b"") -> Path:
    """The made kernel, with text among its data, a module, a BPF program, and names of what was freed.

    ``last`` is memory of a program that no other follows.
    """
    directory.mkdir()
    text = struct.pack(f"<{len(KERNEL.words)}I", *KERNEL.words)
    padded = text.ljust(0x1000, b"\0")
    module = struct.pack("<4I", NOP, RET, NOP, RET).ljust(0x1000, b"\0") + b"data".ljust(0x1000, b"\1")
    bpf = struct.pack("<2I", NOP, RET).ljust(0x1000, b"\0")
    island = struct.pack("<2I", NOP, RET)
    others = b"data" * 0x400  # between two BPF programs
    pieces = [(KERNEL.base, padded), (MODULE, module), (BPF, bpf), (BPF + 0x2000, others), (BPF + 0x4000, bpf),
              (ISLAND, island), (LAST, last)]  # fmt: skip
    (directory / "kcore").write_bytes(core([(vaddr, 0, data) for vaddr, data in pieces]))
    lines = [f"{vaddr:x} T {name}" for name, vaddr in KERNEL.places.items()]
    lines += [f"{KERNEL.base:x} T _stext", f"{KERNEL.base + 0x1000:x} D _etext", f"{ISLAND + 0x1000:x} B _end",
              f"{KERNEL.base + 0x2000:x} D init_task", f"{KERNEL.base + 0x11000:x} t start_kernel",
              f"{ISLAND:x} T __idmap_text_start", f"{ISLAND + 8:x} T __idmap_text_end",
              f"{MODULE:x} t first\t[brd]", f"{MODULE + 8:x} t second\t[brd]", f"{MODULE + 0x1000:x} d table\t[brd]",
              f"{BPF:x} t bpf_prog_1_f\t[bpf]", f"{BPF + 0x4000:x} t bpf_prog_2_g\t[bpf]"]  # fmt: skip
    lines += [f"{LAST:x} t bpf_prog_3_h\t[bpf]"] if last else []
    (directory / "kallsyms").write_text("\n".join(lines) + "\n" if kallsyms is None else kallsyms)
    (directory / "modules").write_text(f"brd 8192 0 - Live 0x{MODULE:x}\n")
    return directory


@pytest.fixture
def made(tmp_path: Path) -> Path:
    source = kcore_dir(tmp_path / "kcore_dir")
    out = tmp_path / "kernel.elf"
    assert main(["live", "overlay", "--without-vmlinux", str(source), "-o", str(out), "-q"]) == 0
    return out


def test_what_is_in_it(tmp_path: Path, tool: Tool) -> None:
    source = kcore_dir(tmp_path / "kcore_dir")
    out = tmp_path / "kernel.elf"
    said = tool("live", "overlay", "--without-vmlinux", source, "-o", out, "--json")
    sections = json.loads(said.out)["sections"]
    assert [(section["name"], section["words"]) for section in sections] == [
        ("[brd]", 4), ("[bpf]", 2), ("[bpf]", 2), (".text", 1024), (".rodata.text", 2),
    ]  # fmt: skip
    assert all(section["zeros"] == 0 for section in sections)
    assert said.err == ""
    assert out.stat().st_mode & 0o777 == 0o600


def test_objdump_and_nm(made: Path) -> None:
    needs_tools("aarch64-linux-gnu-objdump", "nm")
    command = ["aarch64-linux-gnu-objdump", "-d", str(made)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{KERNEL.at('vfs_read'):x} <vfs_read>:" in listing
    assert f"<read_zero>\n{KERNEL.at('vfs_read+0x14'):x}:" in listing.replace(" ", "").replace("\t", "")
    assert "<second>:" in listing
    assert "<bpf_prog_1_f>:" in listing
    names = subprocess.run(["nm", "-S", str(made)], capture_output=True, text=True, check=True).stdout
    assert f"{MODULE:016x} 0000000000000008 t first\n" in names
    assert f"{KERNEL.base + 0x2000:016x}" in names
    assert "start_kernel" not in names  # freed, and perhaps another owner's memory


def test_gdb(made: Path) -> None:
    needs_tools("gdb-multiarch")
    command = ["gdb-multiarch", "-nx", "-batch", "-ex", "disassemble read_zero", "-ex", f"info symbol {MODULE + 12:#x}",
               str(made)]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{KERNEL.at('read_zero+0x18'):#018x} <+24>:\tret" in said
    assert "second + 4 in section [brd]" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vmlinux", "kcore", "--without-vmlinux", "DIR"], "vmlinux is named, too"),
        (["--without-vmlinux", "DIR", "--at", "link"], "--at link needs the vmlinux"),
        (["--without-vmlinux", "DIR", "--modules", "."], "--modules needs the vmlinux"),
    ],
)
def test_what_only_a_vmlinux_answers(arguments: list[str], said: str, tmp_path: Path, tool: Tool) -> None:
    source = str(kcore_dir(tmp_path / "kcore_dir"))
    words = [source if word == "DIR" else word for word in arguments]
    assert said in tool("live", "overlay", *words, "-o", tmp_path / "out", status=2).err


@pytest.mark.parametrize(
    ("kallsyms", "said"),
    [
        (f"{KERNEL.base:x} T _stext\n", "where the kernel's text is (_stext, _etext)"),
        (f"{1 << 63:x} T _stext\n{(1 << 63) + 64:x} T _etext\n", "has none of the kernel's text"),
        ("0 T _stext\n", "kptr_restrict"),
    ],
)
def test_memory_without_symbols_is_one_line(kallsyms: str, said: str, tmp_path: Path, tool: Tool) -> None:
    source, out = kcore_dir(tmp_path / "kcore_dir", kallsyms=kallsyms), tmp_path / "out"
    error = tool("live", "overlay", "--without-vmlinux", source, "-o", out, status=2).err
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("command", [("overlay", "--without-vmlinux"), ("audit", "vmlinux"), ("hooks", "vmlinux")])
def test_the_output_is_no_input(command: tuple[str, str], tmp_path: Path, tool: Tool) -> None:
    """Of a directory as perf makes it, several files are read."""
    source = kcore_dir(tmp_path / "kcore_dir")
    before = (source / "kallsyms").read_bytes()
    for named in (source, tmp_path):
        assert "is also an input" in tool("live", *command, named, "-o", source / "kallsyms", status=2).err
    assert (source / "kallsyms").read_bytes() == before


def test_a_line_that_is_no_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than 64 bits: the line is none of kallsyms, as another that cannot be read."""
    source = kcore_dir(tmp_path / "kcore_dir")
    with (source / "kallsyms").open("a") as stream:
        stream.write(f"{1 << 64:x} T beyond\n")
    out = tmp_path / "kernel.elf"
    assert main(["live", "overlay", "--without-vmlinux", str(source), "-o", str(out), "-q"]) == 0, capsys.readouterr()


@pytest.mark.parametrize("name", [".symtab", ".strtab", ".init.data"])
def test_text_where_a_freed_section_was(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sections that another module had there while it was loaded neither end text nor own it."""
    memory = open_memory(str(kcore_dir(tmp_path / "kcore_dir")))
    state = memory.state()
    (brd,) = state.modules
    brd = brd._replace(sections={".text": MODULE, ".data": MODULE + 0x1000})
    before = LoadedModule("loop", 4096, BPF - 0x4000, {".text": BPF - 0x4000, name: MODULE + 8})
    monkeypatch.setattr(memory, "state", lambda: replace(state, modules=(before, brd)))
    (text,) = (text for text in read_bare_kernel(memory).texts if text.owner == "brd")
    assert struct.unpack("<4I", text.data) == (NOP, RET, NOP, RET)


def test_a_module_of_which_only_names_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /sys nothing says where its sections are, and a live kernel's names do not say what they name."""
    memory = PerfData(kcore_dir(tmp_path / "kcore_dir"))
    monkeypatch.setattr(memory, "kallsyms", re.sub(r" [td] (\S+\t)", r" ? \1", memory.kallsyms))
    kernel = read_bare_kernel(memory)
    (text,) = (text for text in kernel.texts if text.owner == "brd")
    assert text.data.startswith(struct.pack("<4I", NOP, RET, NOP, RET))
    assert not kernel.missing


@pytest.mark.parametrize("sections", [{}, {".plt": MODULE - 0x1000, ".text": MODULE, ".data": MODULE + 0x1000}])
@pytest.mark.parametrize("typed", [True, False])
def test_a_plt_without_entries(
    sections: dict[str, int], typed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is at the beginning, and may be pages of zeros, as that of xfs."""
    source = kcore_dir(tmp_path / "kcore_dir")
    names = (source / "kallsyms").read_text()
    names = names.replace("d table\t", "t after\t") if not sections and typed else names
    (source / "kallsyms").write_text(names)
    memory = PerfData(source)
    if not typed:
        monkeypatch.setattr(memory, "kallsyms", re.sub(r" [td] (\S+\t)", r" ? \1", memory.kallsyms))
    brd = LoadedModule("brd", 0x3000, MODULE - 0x1000, sections)
    state = replace(memory.state(), modules=(brd,))
    monkeypatch.setattr(memory, "state", lambda: state)
    kernel = read_bare_kernel(memory)
    (text,) = (text for text in kernel.texts if text.owner == "brd")
    assert text.vaddr == MODULE
    assert text.data.startswith(struct.pack("<4I", NOP, RET, NOP, RET))
    assert not kernel.missing


def test_a_page_of_zeros_among_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows it is the module's, too."""
    source = kcore_dir(tmp_path / "kcore_dir")
    with (source / "kallsyms").open("a") as stream:
        stream.write(f"{BPF + 0x2000:x} t far\t[loop]\n{BPF + 0x1000:x} t wiped\t[loop]\n{BPF:x} t near\t[loop]\n")
    memory = PerfData(source)
    monkeypatch.setattr(memory, "kallsyms", re.sub(r".*\[bpf\]\n", "", memory.kallsyms))
    loop = LoadedModule("loop", 0x3000, BPF, {".text": BPF})
    state = replace(memory.state(), modules=(*memory.state().modules, loop))
    monkeypatch.setattr(memory, "state", lambda: state)
    kernel = read_bare_kernel(memory)
    assert [(text.vaddr, text.data[:4]) for text in kernel.texts if text.owner == "loop"] == [
        (BPF, struct.pack("<I", NOP)), (BPF + 0x2000, b"data"),
    ]  # fmt: skip
    assert kernel.missing == {"[loop]": 0x2000 - 8}


@pytest.mark.parametrize(
    ("names", "lacking"),
    [
        ({"third": MODULE + 0x20}, {"[brd]": 0x24 - 4 * 4}),
        ({"third": MODULE + 0x20, "bpf_prog_4_i": LAST}, {"[brd]": 0x24 - 4 * 4, "[bpf]": 4}),
    ],
)
def test_names_of_text_that_memory_lacks(
    names: dict[str, int], lacking: dict[str, int], tmp_path: Path, tool: Tool
) -> None:
    source = kcore_dir(tmp_path / "kcore_dir")
    with (source / "kallsyms").open("a") as stream:
        stream.writelines(f"{vaddr:x} t {name}\t[{name[:3] if 'bpf' in name else 'brd'}]\n"
                          for name, vaddr in names.items())  # fmt: skip
    command = ["live", "overlay", "--without-vmlinux", str(source), "-o", str(tmp_path / "out"), "--json"]
    said = tool(*command)
    assert json.loads(said.out)["missing"] == {name: size // 4 for name, size in lacking.items()}
    assert all(
        f"{size // 4} word" in said.err and f" or more of {name}: not in" in said.err for name, size in lacking.items()
    )


@pytest.mark.parametrize(("words", "fill", "lacking"), [(40_000, 0, 0), (600_000, 0, 4), (40_000, BRK, 0)])
def test_a_long_program_that_no_other_follows(words: int, fill: int, lacking: int, tmp_path: Path) -> None:
    program = struct.pack(f"<{words}I", *[NOP] * words)
    source = kcore_dir(tmp_path / "kcore_dir", last=program + struct.pack("<I", fill) * 600_000)
    kernel = read_bare_kernel(open_memory(str(source)))
    (text,) = (text for text in kernel.texts if text.vaddr == LAST)
    assert text.data.startswith(program[: 1 << 21])
    assert kernel.missing == ({"[bpf]": lacking} if lacking else {})


def test_memory_without_a_list_of_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """As a dump: what is left out is named."""
    source = kcore_dir(tmp_path / "kcore_dir")

    def fail(self: PerfData) -> KernelState:
        raise InputError("has no list of modules", path=self.name)

    monkeypatch.setattr(PerfData, "state", fail)
    command = ["live", "overlay", "--without-vmlinux", str(source), "-o", str(tmp_path / "out"), "--json"]
    said = tool(*command)
    assert json.loads(said.out)["unlisted"] == "has no list of modules"
    assert "text of modules and of BPF programs is not in" in said.err
