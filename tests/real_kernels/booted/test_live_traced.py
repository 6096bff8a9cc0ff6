"""Debian's kernels while all of their functions are traced, with one kprobe; what changes or hides then is found."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from prologue.arrays import U32, U64
from prologue.cli.main import main
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.insn.cmodx import word_name
from prologue.kernel.kernel import Kernel
from prologue.live.hooks.inventory import take_inventory
from prologue.live.hooks.probe_hooks import kprobe_structs
from prologue.live.hooks.run import audit, judge
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.live.system.running_system import RunningSystem, module_files
from tests.real_kernels.booted.conftest import MODULES, audited, counted
from tests.support import qmp
from tests.support.compare import addresses
from tests.support.live_guest import HOST, TRACING, Guest
from tests.support.needs import needs_kernel, needs_tools
from tests.support.planted import ChangedMemory, Planter, audit_text
from tests.support.texts import disassembled, texts
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]


@dataclass(frozen=True, slots=True)
class Traced:
    """A guest whose functions are all traced, with one kprobe: its capture, dumps before and then, and the overlay."""

    guest: Guest
    before: Path
    captured: Path
    dumped: Path
    out: Path


@pytest.fixture(scope="module")
def traced(guest: Guest) -> Traced:
    """It stays so for the tests that follow."""
    before = guest.dump().rename(guest.directory / "before.dump")
    guest.shell(f"echo function >{TRACING}/current_tracer; echo p:place vfs_read+0x10 >{TRACING}/kprobe_events;"
                f"echo 1 >{TRACING}/events/kprobes/enable; echo 0 >{TRACING}/tracing_on")  # fmt: skip
    captured = guest.capture("traced")
    out = guest.overlay(captured, "traced.live", "--modules", str(guest.modules))
    return Traced(guest, before, captured, guest.dump(), out)


def test_a_traced_kernel(traced: Traced) -> None:
    vmlinux = traced.out / "vmlinux"
    kernel, live = Kernel(traced.guest.vmlinux), Kernel(vmlinux)
    assert kernel.sites is not None
    address, text = texts(vmlinux)[".text"]
    sites = (kernel.sites.second >= address) & (kernel.sites.second < address + len(text))
    first, second = live.image.words(kernel.sites.first[sites]), live.image.words(kernel.sites.second[sites])
    assert (first == a64.MOV_X9_X30).mean() > 0.999
    assert (second >> 26 == 0b100101).mean() > 0.99  # BL, where ftrace may
    start = kernel.symbols.require("vfs_read")
    for program in ("aarch64-linux-gnu-objdump", "llvm-objdump"):
        said = disassembled(program, vmlinux, start.vaddr, "-l")
        assert "mov\tx9, x30" in said
        assert "<ftrace_caller>" in said
        assert "brk\t#0x4" in said
        assert "read_write.c:" in said


def test_every_word_of_a_traced_kernel_is_explained(traced: Traced, tool: Tool) -> None:
    for source in (traced.captured, traced.dumped):
        data = audited(traced.guest, source, tool)
        words, changed, unsure = counted(data, "second slots")
        assert words == changed > 36_000
        assert unsure == 0
        assert counted(data, "breakpoints") == (1, 1, 0)


def kind(word: int) -> str:
    """The class that a comparison of two sources names."""
    name = word_name(word)
    return (a64.classify(word) or "another") if name == f"{word:08x}" else name


def test_two_dumps_say_what_changed_in_between(traced: Traced, tool: Tool) -> None:
    """Each word that is another one in memory, and no more, by the kinds of both; literals are data."""
    kernel = Kernel(traced.guest.vmlinux)
    assert kernel.sites is not None
    text = kernel.image.section(".text")
    assert text is not None
    old, new = (words_there(dump, text.addr, text.size) for dump in (traced.before, traced.dumped))
    index, has_literals = np.flatnonzero(old != new), kernel.sites.layout == "4,2"
    if has_literals:
        pairs = np.uint64(text.addr) + np.uint64(8) * (index // 2).astype(np.uint64)
        index = index[~np.isin(pairs, kernel.sites.entry - np.uint64(8))]
    changed = Counter(zip(map(kind, old[index].tolist()), map(kind, new[index].tolist()), strict=True))
    data = tool("live", "audit", traced.guest.vmlinux, traced.before, traced.dumped, "--json").json
    assert [row for row in data["transitions"] if not row["allowed"]] == []
    named: Counter[tuple[str, str]] = Counter()
    for row in data["transitions"]:
        named[row["old"], row["new"]] += row["words"]
    assert (named.pop(("data", "data"), 0) > 0) == has_literals
    assert named == changed
    assert named["NOP", "BL"] > 36_000
    assert named["another", "BRK"] == 1


def words_there(dump: Path, vaddr: int, size: int) -> U32:
    """Words of memory, at the address where the kernel was linked."""
    memory = open_memory(str(dump))
    assert memory.info.slide is not None
    return np.frombuffer(memory.read(vaddr + memory.info.slide & (1 << 64) - 1, size), "<u4")


@pytest.mark.parametrize("seed", [1, 2])
def test_changes_of_running_text_are_found(traced: Traced, seed: int) -> None:
    """Fifty at once, over all mechanisms: each is reported at its place, and nothing else is."""
    memory = open_memory(str(traced.dumped))
    kernel = RunningKernel(open_running(traced.guest.vmlinux, memory), memory)
    changes = {vaddr: word for _, vaddr, word in Planter(kernel, seed).changes(50)}
    changed = {vaddr + kernel.slide & (1 << 64) - 1: word for vaddr, word in changes.items()}
    found = audit_text(RunningSystem(traced.guest.vmlinux, ChangedMemory(memory, changed))).findings
    assert {finding.where for finding in found} == set(kernel.symbols.locate_all(list(changes)))


def test_changes_of_a_module_are_found(traced: Traced) -> None:
    memory = open_memory(str(traced.captured))
    (loop,) = [module for module in memory.state().modules if module.name == "loop"]
    start, chance = loop.sections[".text"], random.Random(1)  # noqa: S311 - not a secret
    size = len(texts(traced.guest.modules / "loop.ko")[".text"][1])
    places = {start + 32 * k for k in chance.sample(range(size // 32), 20)}
    changes = {place: int.from_bytes(memory.read(place, 4), "little") ^ 1 << chance.randrange(32) for place in places}
    done = audit_text(
        RunningSystem(traced.guest.vmlinux, ChangedMemory(memory, changes), module_files(traced.guest.modules))
    )
    assert {finding.where.vaddr for finding in done.findings} == places
    assert {Path(finding.path).name for finding in done.findings} == {"loop.ko"}


def test_what_hides_is_found(traced: Traced) -> None:
    """As public rootkits hide: a module off the list, a handler in its text, a system call that leads there."""
    memory = open_memory(str(traced.dumped))
    kernel = RunningKernel(open_running(traced.guest.vmlinux, memory), memory)
    inventory = take_inventory(kernel)
    judged = judge(inventory)
    assert (judged.suspects, [gap for gap in judged.not_known if gap.is_open]) == ((), [])
    objects = inventory.objects
    (brd,) = [module for module in inventory.owners.modules if module.name == "brd"]
    ((probe, _),) = kprobe_structs(objects)
    node, code = brd.place + objects.offset("module.list"), brd.text[0].start
    after, before = objects.number(node), objects.number(node + 8)
    calls = objects.place("sys_call_table") + 8 * 104
    changes = {
        before: after, after + 8: before, probe + objects.offset("kprobe.pre_handler"): code, calls: code,
    }  # fmt: skip
    words = {place + 4 * k: value >> 32 * k & 0xFFFFFFFF for place, value in changes.items() for k in (0, 1)}
    done = audit(RunningSystem(traced.guest.vmlinux, ChangedMemory(memory, words)))
    found = {(finding.code, finding.where.symbol) for finding in done.findings}
    assert {("PL509", "vfs_read"), ("PL512", "sys_call_table")} < found
    assert {code for code, _ in found} == {"PL509", "PL510", "PL511", "PL512"}


def test_other_tools_open_a_capture(traced: Traced) -> None:
    import drgn

    runs, links = Kernel(traced.guest.vmlinux), open_memory(str(traced.captured))
    start = runs.symbols.require("vfs_read")
    assert links.info.slide is not None
    at = start.vaddr + links.info.slide
    assert "brk\t#0x4" in disassembled("aarch64-linux-gnu-objdump", traced.captured, at)
    program = drgn.Program()
    program.set_core_dump(str(traced.captured))
    address, text = texts(traced.out / "vmlinux")[".text"]
    assert program.read(address + links.info.slide, len(text)) == text


def test_run_time_addresses(traced: Traced) -> None:
    """Without subtracting anything: symbols as kallsyms has them, disassemblers and gdb with source lines."""
    guest, slide = traced.guest, open_memory(str(traced.captured)).info.slide
    assert slide is not None
    out = guest.overlay(traced.captured, "runtime.live", "--at", "runtime")
    linked = traced.out / "vmlinux"
    if guest.linked:
        assert slide == 0
        assert out.read_bytes() == linked.read_bytes()
        return
    assert slide
    address, text = texts(linked)[".text"]
    assert texts(out)[".text"] == (address + slide, text)
    kallsyms = [line.split() for line in guest.shell("cat /proc/kallsyms").splitlines() if "[" not in line]
    running = {(int(vaddr, 16), name) for vaddr, _, name in kallsyms}
    moved = Symbols(ElfImage(out))
    named = {(int(vaddr), moved.name_of(row)) for row, vaddr in enumerate(moved.values.tolist())}
    assert len(running) > 100_000
    assert running <= named
    start = moved.require("vfs_read")
    for program in ("aarch64-linux-gnu-objdump", "llvm-objdump"):
        said = disassembled(program, out, start.vaddr, "-l")
        assert "<ftrace_caller>" in said
        assert "brk\t#0x4" in said
        assert "read_write.c:" in said
    needs_tools("gdb-multiarch")
    asked = [f"info line *{start.vaddr:#x}", f"info symbol {start.vaddr + 16:#x}", "info address jiffies_64"]
    command = ["gdb-multiarch", "-nx", "-batch", *(word for text in asked for word in ("-ex", text)), str(out)]
    line, symbol, data = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "read_write.c" in line
    assert f"starts at address {start.vaddr:#x} <vfs_read>" in line
    assert symbol.startswith("vfs_read + 16")
    assert f"{moved.require('jiffies_64').vaddr:#x}" in data
    import lief

    assert lief.parse(str(out)) is not None


def test_modules(traced: Traced) -> None:
    """Every word of their text is what QEMU finds through the page tables, and what drgn finds in a dump."""
    guest = traced.guest
    loaded = set(guest.shell("cut -d' ' -f1 /proc/modules").split())
    assert loaded >= set(MODULES)
    assert {path.stem for path in traced.out.glob("*.ko")} == loaded
    for name in sorted(loaded):
        for section, (vaddr, data) in texts(traced.out / f"{name}.ko").items():
            if not section.startswith(".init"):
                seen = qmp.memory(guest.monitor, vaddr, len(data), guest.directory / "memory")
                assert data == seen, (name, section)
    dumped = guest.overlay(traced.dumped, "dumped.live", "--modules", str(guest.modules))
    assert {p.name: p.read_bytes() for p in dumped.iterdir()} == {p.name: p.read_bytes() for p in traced.out.iterdir()}
    command = ["aarch64-linux-gnu-objdump", "-d", "-j", ".text", str(traced.out / "loop.ko")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.count("mov\tx9, x30") > 20


def text_but(gone: tuple[str, ...], images: Sequence[ElfImage]) -> tuple[U64, U32]:
    """Return addresses and words of text, ascending, but those of sections whose names begin so."""
    sections = [(image, s) for image in images for s in image.text_sections if not s.name.startswith(gone)]
    words = [image.view(section, "<u4") for image, section in sections]
    starts = [section.addr + 4 * np.arange(section.size // 4, dtype=np.uint64) for _, section in sections]
    vaddrs, rows = np.unique(np.concatenate(starts), return_index=True)
    return vaddrs, np.concatenate(words)[rows]


def test_a_kernel_without_its_vmlinux(traced: Traced) -> None:
    """Text of the kernel and of its modules is what the overlays of their files have, word by word, name by name."""
    guest = traced.guest
    whole = ElfImage(guest.overlay(traced.dumped, "runtime.live", "--at", "runtime"))
    images = [whole, *(ElfImage(path) for path in traced.out.glob("*.ko"))]
    known = np.concatenate([Symbols(image).values for image in images])
    sources: list[Path | str] = [traced.captured, traced.dumped, *((HOST,) if guest.linked else ())]
    for source in sources:
        out = guest.directory / "bare.elf"
        assert main(["live", "overlay", "--without-vmlinux", str(source), guest.ssh, "-o", str(out), "-q"]) == 0
        bare = ElfImage(out)
        owners = {section.name.strip("[]") for section in bare.text_sections if section.name.startswith("[")}
        has_modules = source != traced.dumped  # without DWARF a dump does not say where they are
        assert owners >= set(MODULES) or not has_modules
        gone = (".head.text", ".init")  # where init text was, another module may be by now
        found, words = text_but(gone, [bare])
        expected, right = text_but(gone, images)
        _, mine, theirs = np.intersect1d(found, expected, assume_unique=True, return_indices=True)
        assert addresses(found[mine][words[mine] != right[theirs]]) == [], source
        stays = [text_but((*gone, ".exit", ".rodata.text"), [whole]), text_but(gone, images[1:])]
        for expected, right in stays if has_modules else stays[:1]:
            filler = (right == 0) | (right == a64.NOP)  # between functions
            assert addresses(expected[~filler & ~np.isin(expected, found)]) == [], source
        symbols = Symbols(bare)
        starts = symbols.function_starts
        starts = starts[whole.in_text(starts)]
        assert addresses(starts[~np.isin(starts, known)]) == []
    for program in ("aarch64-linux-gnu-objdump", "llvm-objdump"):
        said = disassembled(program, out, symbols.require("vfs_read").vaddr, "-d")
        assert "mov\tx9, x30" in said
        assert "<ftrace_caller>" in said


def test_another_kernel_is_refused(traced: Traced, tool: Tool) -> None:
    guest = traced.guest
    other = needs_kernel("trixie" if guest.linked else "bookworm")
    out = guest.directory / "wrong"
    for source in (HOST, traced.captured, traced.dumped):
        assert "(PL505)" in tool("live", "audit", other.vmlinux, source, guest.ssh, status=2).err
        said = tool("live", "overlay", other.vmlinux, source, guest.ssh, "-o", out, status=2).err
        assert "is another kernel: its build-id is" in said
        assert said.count("\n") == 1
        assert not out.exists()
