"""A capture of this machine's kernel, whose kcore and shell are made up: what goes in, and what stays out."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.live.memory import kcore
from prologue.live.memory.capture import Capture
from prologue.live.memory.ranges import UnmappedError
from prologue.live.memory.sources import open_memory
from tests.live.memory.made import (
    AREA,
    END,
    HEADS,
    HEAP,
    IMAGE,
    MODULES,
    OPS,
    PAGE,
    RECORDS,
    RECORDS_PAGE,
    SAID,
    SLIDE,
    ZERO,
    loads,
    page,
)
from tests.support.btf import made_btf
from tests.support.cores import NO_PADDR, core, vmcoreinfo
from tests.support.tool import Tool

BRK = struct.pack("<I", 0xD4202000)


def captured(source: Path) -> Capture:
    """What a capture of it has."""
    out = source.with_name("out")
    assert main(["live", "capture", str(source), "-o", str(out), "-q"]) == 0
    memory = open_memory(str(out))
    assert isinstance(memory, Capture)
    return memory


def test_what_a_capture_has(machine: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "out"
    data = tool("live", "capture", machine, "-o", out, "--json").json
    assert data["schema"] == "prologue.live-capture/1"
    assert (data["source"], data["slide"], data["modules"]) == (str(machine), hex(SLIDE), 2)
    assert (data["unstable"], data["memory"]) == ([], 9 * PAGE)
    assert out.stat().st_size == data["file_size"]
    memory = open_memory(str(out))
    assert memory.read(IMAGE + PAGE, 3 * PAGE) == page("A") + page("B") + page("r")
    assert memory.read(IMAGE + 5 * PAGE, PAGE) == page("z")
    # Before _stext, and where init was, may be others' memory, stacks among it.
    for vaddr in (IMAGE, IMAGE + 4 * PAGE):
        with pytest.raises(UnmappedError):
            memory.read(vaddr, 1)
    # What was the init text of another module is text now: memory that was free is used again.
    assert memory.read(MODULES, 3 * PAGE) == page("t") + page("u") + page("v")
    assert memory.read(MODULES + 4 * PAGE, PAGE) == page("d")
    assert memory.read(MODULES + 8 * PAGE, PAGE) == page("b")
    for at in (3, 5, 6, 7, 9):
        with pytest.raises(UnmappedError):
            memory.read(MODULES + at * PAGE, 1)
    assert [symbol.name for symbol in memory.state().symbols if symbol.owner == "bpf"] == ["bpf_prog_6deef7357e7b4530"]


@pytest.mark.parametrize("after", [ZERO, BRK * PAGE])
def test_a_long_bpf_program(machine: Path, after: bytes) -> None:
    """It is there as a whole, up to a page that is not mapped, or that has only what BPF fills its memory with."""
    long = page("b") * 40 + after[:PAGE] + page("o")
    area = AREA.replace(page("b"), long)
    image = page("h") + page("A") + page("B") + page("r") + page("i") + page("z")
    segments = [(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, area)]
    machine.write_bytes(core(segments, [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    memory = captured(machine)
    assert memory.read(MODULES + 8 * PAGE, 40 * PAGE) == page("b") * 40
    with pytest.raises(UnmappedError):
        memory.read(MODULES + 49 * PAGE, 4)


def test_structures_of_the_heap(traced: Path, tmp_path: Path, tool: Tool) -> None:
    """They are there, byte for byte, and nothing else of the heap is."""
    out = tmp_path / "out"
    assert tool("live", "capture", traced, "-o", out, "--json").json["structures"] is True
    memory, live = open_memory(str(out)), kcore.Kcore()
    for vaddr, size in ((OPS, 512), (RECORDS_PAGE, 20), (RECORDS, 48)):
        assert memory.read(vaddr, size) == live.read(vaddr, size)
        for outside in (vaddr - 1, vaddr + size):
            with pytest.raises(UnmappedError):
                memory.read(outside, 1)
    found = {start: size for start, _, size in loads(out) if start >> 32 == HEAP >> 32}
    assert found == {OPS: 512, RECORDS_PAGE: 20, RECORDS: 48}


def test_what_lies_beside_an_ops_may_change(traced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, count = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal count
        data, before = plain(self, offset, size), b"?" * 0xF8 + END.to_bytes(8, "little")
        count += before in data
        return data.replace(
            END.to_bytes(8, "little") + b"?" * 250, END.to_bytes(8, "little") + b"?" * 249 + bytes([count])
        )

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    memory = captured(traced)
    assert (memory.one_moment, count) == (True, 2)


def test_lists_that_lead_nowhere(traced: Path, tmp_path: Path, tool: Tool) -> None:
    """The rest is captured, and what is missing is said: also where kallsyms has no variables."""
    traced.write_bytes(
        traced.read_bytes().replace(RECORDS.to_bytes(8, "little"), (HEAP + 99 * PAGE).to_bytes(8, "little"))
    )
    printed = tool("live", "capture", traced, "-o", tmp_path / "out")
    assert "missing: some of ftrace's records and kprobes" in printed.out
    with pytest.raises(UnmappedError):
        open_memory(str(tmp_path / "out")).read(RECORDS, 48)


def test_without_addresses_of_variables(machine: Path, tmp_path: Path, tool: Tool) -> None:
    printed = tool("live", "capture", machine, "-o", tmp_path / "out")
    assert "this kernel's kallsyms does not say where they are; --vmlinux VMLINUX does" in printed.out


def test_data_belong_to_the_text(traced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that changes once: data and records are read again after that, and both of the last text are kept."""
    plain, text_readings = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal text_readings
        data = plain(self, offset, size)
        if data[:PAGE] == page("A"):
            text_readings += 1
            return b"new " + data[4:] if text_readings > 1 else data
        tag = bytes([min(text_readings, 2)]) * 8  # what is read carries the number of the text's last reading
        return data.replace(struct.pack("<QQ", IMAGE + PAGE, 0), struct.pack("<Q", IMAGE + PAGE) + tag)

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    memory = captured(traced)
    assert memory.read(IMAGE + PAGE, 4) == b"new "
    assert text_readings == 3
    assert memory.read(RECORDS + 8, 8) == b"\2" * 8


@pytest.mark.parametrize("what", ["a record", "where an ops sends its calls"])
def test_structures_that_change_while_the_text_does_not(
    traced: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a tracer was on for a moment: all is read once more; if that does not help, the capture says so."""
    begin, plain, step = struct.pack("<Q", IMAGE + PAGE), bytes(8), 1
    if what != "a record":  # its sites are as they were, and their text as well, if it was moved back meanwhile
        begin, plain, step = b"", (IMAGE + PAGE + 8).to_bytes(8, "little"), 4
        whole = traced.read_bytes()
        at = whole.index(END.to_bytes(8, "little") + b"?" * 8) + 0xC8
        traced.write_bytes(whole[:at] + plain + whole[at + 8 :])
    read, walks = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal walks
        data = read(self, offset, size)
        walks += begin + plain in data
        now = int.from_bytes(plain, "little") + step * min(walks, last)
        return data.replace(begin + plain, begin + now.to_bytes(8, "little"))

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    for last, settled in ((0, True), (2, True), (99, False)):
        walks = 0
        memory = captured(traced)
        assert (memory.one_moment, memory.unstable) == (settled, ())
        assert walks == (2 if last == 0 else 4)


def test_what_was_attached_before_the_text_was_read_has_its_name(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after the kernel was asked for its symbols: a call of code without a name would be an intruder's."""
    trampoline, asked = MODULES + 64 * PAGE, tmp_path / "asked"
    whole = traced.read_bytes()
    at = whole.index(END.to_bytes(8, "little") + b"?" * 8) + 0xC8
    traced.write_bytes(whole[:at] + trampoline.to_bytes(8, "little") + whole[at + 8 :])
    first = SAID.replace("==== sections", HEADS)
    later = first.replace("==== sections", f"{trampoline:x} t bpf_trampoline_1\t[bpf]\n==== sections")
    monkeypatch.setattr(kcore, "SCRIPT", f"if [ -e {asked} ]; then\n{later}\nelse\n>{asked}\n{first}\nfi\n")
    memory = captured(traced)
    assert memory.one_moment
    names = [symbol.name for symbol in memory.state().symbols]
    assert (names.count("bpf_trampoline_1"), names.count("bpf_prog_6deef7357e7b4530")) == (1, 1)


def test_kprobes_that_were_armed_before_the_text_was_read_are_listed(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without kprobe_table only the list of debugfs has them: a breakpoint of none would be an intruder's."""
    probes, asked = [f"{IMAGE + PAGE + at:x}  k  f+{at:#x}    " for at in (0, 8)], tmp_path / "asked"
    first, later = (SAID.replace("==== end", f"{line}\n==== end") for line in probes)
    monkeypatch.setattr(kcore, "SCRIPT", f"if [ -e {asked} ]; then\n{later}\nelse\n>{asked}\n{first}\nfi\n")
    assert list(captured(machine).state().kprobes) == probes


def test_a_kernel_whose_kallsyms_has_no_data(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 6.1's without KALLSYMS_ALL: init ends where its zeros do, and zeros after that are variables."""
    lines = [line for line in SAID.splitlines(keepends=True) if "__init_end" not in line and " B _end" not in line]
    monkeypatch.setattr(kcore, "SCRIPT", "".join(lines))
    image = page("h") + page("A") + page("B") + page("r") + ZERO + page("z") + ZERO
    segments = [(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA)]
    machine.write_bytes(core(segments, [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    memory = captured(machine)
    assert memory.read(IMAGE + 5 * PAGE, 2 * PAGE) == page("z") + ZERO
    with pytest.raises(UnmappedError):
        memory.read(IMAGE + 4 * PAGE, 1)


def test_text_that_changes_is_named_and_data_are_not(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Every reading finds another first word in the kernel's text, the module's, and the module's data."""
    plain, count = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal count
        count += 1
        data = bytearray(plain(self, offset, size))
        for at in (0, 4 * PAGE):  # the latter is the module's data, where that is read
            if size > at + PAGE and any(data[at : at + 4]):
                data[at : at + 4] = count.to_bytes(4, "little")
        return bytes(data)

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    said = tool("live", "capture", machine, "-o", tmp_path / "out").out.splitlines()
    assert "2 modules, " in said[0]
    assert "2 words of text still changed after several readings" in said[1]


def test_a_kernel_without_text_is_refused(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    out = tmp_path / "out"
    for wrong in (SAID.replace("_etext", "elsewhere"), SAID.replace(f"{IMAGE + 3 * PAGE:x}", f"{IMAGE + 9 * PAGE:x}")):
        monkeypatch.setattr(kcore, "SCRIPT", wrong)
        assert "no segment for the kernel's text" in tool("live", "capture", machine, "-o", out, status=2).err
    assert not out.exists()


def test_a_reboot_between_two_questions(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    machine.write_bytes(core([(IMAGE, 0x40200000, page("h") * 4)], [vmcoreinfo(SLIDE, IMAGE + 2 * PAGE)]))
    assert "it rebooted; try again" in tool("live", "capture", machine, "-o", tmp_path / "out", status=2).err


def test_outputs(machine: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    out.chmod(0o644)
    assert (tool("live", "capture", machine, "-o", out, "-q").out, out.stat().st_mode & 0o777) == ("", 0o600)
    out.unlink()
    out.symlink_to("elsewhere")
    assert "symbolic link" in tool("live", "capture", machine, "-o", out, status=2).err


def test_a_core_that_is_cut_off(machine: Path, tmp_path: Path) -> None:
    machine.write_bytes(machine.read_bytes()[: -4 * PAGE])
    with pytest.raises(InputError, match="bytes at 0x"):
        kcore.Kcore().read(MODULES, len(AREA))
    assert main(["live", "capture", str(machine), "-o", str(tmp_path / "out")]) in (0, 2)


def test_types_are_those_in_the_kernels_memory(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Without a vmlinux: this kernel has the next ops 64 bytes from the begin of one, where the table has it at 8."""
    btf = made_btf({"ftrace_ops": (128, [("func", "", 0), ("next", "", 64), ("direct_call", "", 120)])})
    begin = IMAGE + 3 * PAGE + 0x10
    places = f"{begin:x} R __start_BTF\n{begin + len(btf):x} R __stop_BTF\n==== sections"
    monkeypatch.setattr(kcore, "SCRIPT", SAID.replace("==== sections", HEADS).replace("==== sections", places))
    content = bytearray(traced.read_bytes())
    (vaddr, offset, _), *_, (heap, heap_at, _) = loads(traced)
    content[offset + begin - vaddr : offset + begin - vaddr + len(btf)] = btf
    at = heap_at + OPS - heap
    content[at : at + 128] = bytes(64) + END.to_bytes(8, "little") + bytes(56)
    traced.write_bytes(content)
    printed = tool("live", "capture", traced, "-o", tmp_path / "out", "--json")
    assert printed.json["struct_offsets"] == "from the kernel's BTF"
    memory = open_memory(str(tmp_path / "out"))
    assert memory.read(OPS + 64, 8) == END.to_bytes(8, "little")
