"""A capture of this machine's kernel, whose kcore and shell are made up: what goes in, and what stays out."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any, cast

import pytest
from elftools.elf.elffile import ELFFile

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.memory import blocks, kcore
from prologue.memory.base import Range, UnmappedError
from prologue.memory.capture import Capture
from prologue.memory.kcore import RemoteKcore
from prologue.memory.reading import read_twice
from prologue.memory.sources import open_memory
from tests.memory.test_running import fake_ssh
from tests.support.cores import NO_PADDR, core, vmcoreinfo

PAGE = 4096
IMAGE = 0xFFFFCAF3C8800000
MODULES = IMAGE - 0x1000000
SLIDE = 0x4AF348800000
ZERO = bytes(PAGE)


def page(letter: str) -> bytes:
    return letter.encode() * PAGE


# From MODULES on: text of three pages, unmapped, data, unmapped, what is another's, unmapped, a BPF program.
AREA = page("t") + page("u") + page("v") + ZERO + page("d") + ZERO + page("x") + ZERO + page("b") + ZERO * 20
SAID = f"""cat <<'END'
==== release
6.12.107
==== boot_id
dac90a52
==== kptr_restrict
0
==== modules
loop {4 * PAGE} 0 - Live {MODULES:#x}
small 64 0 - Live {MODULES + 4 * PAGE + 2048:#x}
==== symbols
{IMAGE:x} T _text
{IMAGE + PAGE:x} T _stext
{IMAGE + 3 * PAGE:x} T _etext
{IMAGE + 4 * PAGE:x} T __init_begin
{IMAGE + 5 * PAGE:x} D __init_end
{IMAGE + 6 * PAGE:x} B _end
{MODULES + 8:x} t lo_open	[loop]
{MODULES + 8 * PAGE + 64:x} t bpf_prog_6deef7357e7b4530	[bpf]
==== sections
/sys/module/loop/sections/.text:{MODULES:#x}
/sys/module/loop/sections/.data:{MODULES + 4 * PAGE:#x}
/sys/module/small/sections/.init.text:{MODULES + PAGE:#x}
/sys/module/loop/sections/.init.text:{MODULES + 5 * PAGE:#x}
==== kprobes
==== end
END
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kcore: the image, and the area for modules."""
    path = tmp_path / "kcore"
    image = page("h") + page("A") + page("B") + page("r") + page("i") + page("z")
    path.write_bytes(core([(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA)], [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    monkeypatch.setattr(kcore, "KCORE", str(path))
    monkeypatch.setattr(kcore, "SCRIPT", SAID)
    monkeypatch.setattr("prologue.memory.sources.KCORE", str(path))
    return path


def test_what_a_capture_has(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["live", "capture", str(machine), "-o", str(out), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
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


# Where lists begin, in the page after init: its two words are ftrace_ops_list and ftrace_pages_start.
HEAP = 0xFFFF000003000000
OPS, RECORDS_PAGE, RECORDS, END = HEAP + 0x100, HEAP + 0x800, HEAP + PAGE, IMAGE + 5 * PAGE + 64
HEADS = f"""{IMAGE + 5 * PAGE:x} d ftrace_ops_list
{IMAGE + 5 * PAGE + 8:x} d ftrace_pages_start
{END:x} d ftrace_list_end
{IMAGE + 5 * PAGE + 0x200:x} b kprobe_table
==== sections"""


@pytest.fixture
def traced(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with an ops, a page of three records, and no kprobe."""
    monkeypatch.setattr(kcore, "SCRIPT", SAID.replace("==== sections", HEADS))
    heap = bytearray(page("?") * 2)
    heap[0x108:0x110] = END.to_bytes(8, "little")
    heap[0x800:0x818] = struct.pack("<QQQ", 0, RECORDS, 3)
    heap[PAGE : PAGE + 48] = struct.pack("<QQ", IMAGE + PAGE, 0) * 3
    image = page("h") + page("A") + page("B") + page("r") + page("i")
    image += struct.pack("<QQ", OPS, RECORDS_PAGE).ljust(PAGE, b"\0")
    segments = [(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA), (HEAP, 0x43000000, bytes(heap))]
    machine.write_bytes(core(segments, [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    return machine


def test_structures_of_the_heap(traced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are there, byte for byte, and nothing else of the heap is."""
    out = tmp_path / "out"
    assert main(["live", "capture", str(traced), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["structures"] is True
    memory, live = open_memory(str(out)), kcore.Kcore()
    for vaddr, size in ((OPS, 320), (RECORDS_PAGE, 20), (RECORDS, 48)):
        assert memory.read(vaddr, size) == live.read(vaddr, size)
        for outside in (vaddr - 1, vaddr + size):
            with pytest.raises(UnmappedError):
                memory.read(outside, 1)
    found = {start: size for start, _, size in loads(out) if start >> 32 == HEAP >> 32}
    assert found == {OPS: 320, RECORDS_PAGE: 20, RECORDS: 48}


def test_what_lies_beside_an_ops_may_change(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, count = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal count
        data, before = plain(self, offset, size), b"?" * 0xF8 + END.to_bytes(8, "little")
        count += before in data
        return data.replace(
            END.to_bytes(8, "little") + b"?" * 250, END.to_bytes(8, "little") + b"?" * 249 + bytes([count])
        )

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    assert main(["live", "capture", str(traced), "-o", str(tmp_path / "out"), "-q"]) == 0
    memory = open_memory(str(tmp_path / "out"))
    assert isinstance(memory, Capture)
    assert (memory.settled, count) == (True, 2)


def test_lists_that_lead_nowhere(traced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is captured, and what is missing is said: also where kallsyms has no variables."""
    traced.write_bytes(
        traced.read_bytes().replace(RECORDS.to_bytes(8, "little"), (HEAP + 99 * PAGE).to_bytes(8, "little"))
    )
    assert main(["live", "capture", str(traced), "-o", str(tmp_path / "out")]) == 0
    assert "not there: some of ftrace's records and kprobes" in capsys.readouterr().out
    with pytest.raises(UnmappedError):
        open_memory(str(tmp_path / "out")).read(RECORDS, 48)


def point_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the shell read that file in place of /proc/kcore."""
    for name in ("GET", "SUM"):
        monkeypatch.setattr(kcore, name, getattr(blocks, name).replace("/proc/kcore", str(path)))


def logged(path: Path, log: Path) -> str:
    """The same, and what is read is noted: block size, blocks to skip, blocks."""
    return blocks.GET.replace("/proc/kcore", str(path)).replace("get() {", f'get() {{ echo "$@" >>{log};')


def test_by_ssh(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that reads the same file: the same memory, in one login."""
    logins = tmp_path / "logins"
    fake_ssh(tmp_path, monkeypatch, f"open({str(logins)!r}, 'a').write('x'); subprocess.run('sh', check=True)")
    point_at(traced, monkeypatch)
    end = traced.stat().st_size
    traced.write_bytes(traced.read_bytes().ljust(-(-end // PAGE) * PAGE, b"\0"))  # dd reads whole pages
    assert main(["live", "capture", str(traced), "-o", str(tmp_path / "here"), "-q"]) == 0
    assert main(["live", "capture", "ssh:board", "-o", str(tmp_path / "there"), "-q"]) == 0
    assert logins.read_text() == "x"
    here, there = (open_memory(str(tmp_path / name)) for name in ("here", "there"))
    assert [(vaddr, size) for vaddr, _, size in loads(tmp_path / "there")] == [
        (vaddr, size) for vaddr, _, size in loads(tmp_path / "here")
    ]
    for vaddr, _, size in loads(tmp_path / "here"):
        assert there.read(vaddr, size) == here.read(vaddr, size)


def test_pieces_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks and in pages before and after them: every piece whole, and not a page more."""
    data, start = random.Random(1).randbytes(60 * PAGE), 0xFFFF800080000000  # noqa: S311 - not a secret
    path, log = tmp_path / "kcore", tmp_path / "log"
    path.write_bytes(core([(start, 0, data)], [vmcoreinfo()]).ljust(80 * PAGE, b"\0"))
    fake_ssh(tmp_path, monkeypatch, "subprocess.run('sh', check=True)")
    point_at(path, monkeypatch)
    monkeypatch.setattr(kcore, "GET", logged(path, log))
    memory = RemoteKcore("board")
    pieces = [
        Range(start + first, size) for first in range(0, 17 * PAGE, 4000) for size in (8, PAGE, 9 * PAGE, 170_000)
    ]
    log.unlink()
    found = memory.read_many(pieces)
    assert found == [data[piece.vaddr - start : piece.end - start] for piece in pieces]
    asked = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    places = [(memory.core.place_of(*piece), piece.size) for piece in pieces]
    pages = sum(-(-(place + size) // PAGE) - place // PAGE for place, size in places)
    assert sum(size * count for size, _, count in asked) == pages * PAGE
    assert {size for size, _, _ in asked} == {PAGE, 16 * PAGE}


@pytest.mark.parametrize("tools", ["md5sum", "sha1sum", "sha256sum", ""])
def test_a_second_reading_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: str) -> None:
    """Of what did not change only a checksum is sent, if the machine has a program for it."""
    size, start = 3 * (1 << 20) + 20, 0xFFFF800080000000
    data = bytearray(random.Random(2).randbytes(size))  # noqa: S311 - not a secret
    path, sent = tmp_path / "kcore", tmp_path / "sent"
    whole = core([(start, 0, bytes(data))], [vmcoreinfo()])
    place = whole.index(bytes(data[:64]))
    path.write_bytes(whole.ljust(4 << 20, b"\0"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dd", "head", "sh", *filter(None, [tools])):
        (programs / name).symlink_to(cast("str", shutil.which(name)))
    fake_ssh(tmp_path, monkeypatch, f"subprocess.run('sh', env={{'PATH': {str(programs)!r}}}, check=True)")
    point_at(path, monkeypatch)
    monkeypatch.setattr(kcore, "GET", logged(path, sent))
    memory = RemoteKcore("board")
    ranges = [Range(start, 5000), Range(start + 8, size - 8)]
    before = memory.read_many(ranges)
    for changes in ((), (0, 1 << 20, size - 1)):
        for at in changes:
            data[at] ^= 1
        path.write_bytes(whole.replace(whole[place : place + size], bytes(data)).ljust(4 << 20, b"\0"))
        sent.unlink()
        assert memory.read_again(ranges, before) == [(bytes(data[:5000]), False), (bytes(data[8:]), False)]
        count = sum(int(block) * int(blocks) for block, _, blocks in map(str.split, sent.read_text().splitlines()))
        assert (count < 10 * PAGE) == (bool(tools) and not changes)
        assert (count < size) == bool(tools)


def test_without_addresses_of_variables(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "capture", str(machine), "-o", str(tmp_path / "out")]) == 0
    assert "this kernel's kallsyms does not say where they are; --vmlinux VMLINUX does" in capsys.readouterr().out


def loads(path: Path) -> list[tuple[int, int, int]]:
    """Address, offset and size of each segment, as pyelftools reads them; offsets must fit the alignment."""
    with path.open("rb") as stream:
        found = [s.header for s in cast("Any", ELFFile(stream)).iter_segments() if s["p_type"] == "PT_LOAD"]
    assert all(h["p_vaddr"] % h["p_align"] == h["p_offset"] % h["p_align"] for h in found)
    return [(h["p_vaddr"], h["p_offset"], h["p_filesz"]) for h in found]


def test_data_belong_to_the_text(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert main(["live", "capture", str(traced), "-o", str(tmp_path / "out"), "-q"]) == 0
    memory = open_memory(str(tmp_path / "out"))
    assert memory.read(IMAGE + PAGE, 4) == b"new "
    assert text_readings == 3
    assert memory.read(RECORDS + 8, 8) == b"\2" * 8


def test_structures_that_change_while_the_text_does_not(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a tracer was on for a moment: all is read once more; if that does not help, the capture says so."""
    plain, walks = kcore.Kcore._pread, 0

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal walks
        data = plain(self, offset, size)
        records = struct.pack("<QQ", IMAGE + PAGE, 0)
        walks += records in data
        return data.replace(records, struct.pack("<QQ", IMAGE + PAGE, min(walks, last)))

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    for last, settled in ((0, True), (2, True), (99, False)):
        walks = 0
        assert main(["live", "capture", str(traced), "-o", str(tmp_path / "out"), "-q"]) == 0
        memory = open_memory(str(tmp_path / "out"))
        assert isinstance(memory, Capture)
        assert (memory.settled, memory.unstable) == (settled, ())
        assert walks == (2 if last == 0 else 4)


def test_an_ops_that_sends_its_calls_elsewhere(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sites are as they were, and their text as well, if it was moved back meanwhile."""
    plain, walks = kcore.Kcore._pread, 0
    sent = (IMAGE + PAGE + 8).to_bytes(8, "little")
    whole = traced.read_bytes()
    at = whole.index(END.to_bytes(8, "little") + b"?" * 8) + 0xC8
    traced.write_bytes(whole[:at] + sent + whole[at + 8 :])

    def changing(self: kcore.Kcore, offset: int, size: int) -> bytes:
        nonlocal walks
        data = plain(self, offset, size)
        walks += sent in data
        return data.replace(sent, (IMAGE + PAGE + 8 + 4 * min(walks, last)).to_bytes(8, "little"))

    monkeypatch.setattr(kcore.Kcore, "_pread", changing)
    for last, settled in ((0, True), (99, False)):  # noqa: B007 - changing looks at it
        walks = 0
        assert main(["live", "capture", str(traced), "-o", str(tmp_path / "out"), "-q"]) == 0
        memory = open_memory(str(tmp_path / "out"))
        assert isinstance(memory, Capture)
        assert memory.settled == settled


def test_a_kernel_whose_kallsyms_has_no_data(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 6.1's without KALLSYMS_ALL: init ends where its zeros do, and zeros after that are variables."""
    lines = [line for line in SAID.splitlines(keepends=True) if "__init_end" not in line and " B _end" not in line]
    monkeypatch.setattr(kcore, "SCRIPT", "".join(lines))
    image = page("h") + page("A") + page("B") + page("r") + ZERO + page("z") + ZERO
    segments = [(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA)]
    machine.write_bytes(core(segments, [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    out = tmp_path / "out"
    assert main(["live", "capture", str(machine), "-o", str(out), "-q"]) == 0
    memory = open_memory(str(out))
    assert memory.read(IMAGE + 5 * PAGE, 2 * PAGE) == page("z") + ZERO
    with pytest.raises(UnmappedError):
        memory.read(IMAGE + 4 * PAGE, 1)


def test_text_that_changes_is_named_and_data_are_not(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert main(["live", "capture", str(machine), "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "2 modules, " in said[0]
    assert "2 words of text still changed after several readings" in said[1]


def test_a_kernel_without_text_is_refused(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for wrong in (SAID.replace("_etext", "elsewhere"), SAID.replace(f"{IMAGE + 3 * PAGE:x}", f"{IMAGE + 9 * PAGE:x}")):
        monkeypatch.setattr(kcore, "SCRIPT", wrong)
        assert main(["live", "capture", str(machine), "-o", str(out)]) == 2
        assert "no segment for the kernel's text" in capsys.readouterr().err
    assert not out.exists()


def test_a_reboot_between_two_questions(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.write_bytes(core([(IMAGE, 0x40200000, page("h") * 4)], [vmcoreinfo(SLIDE, IMAGE + 2 * PAGE)]))
    assert main(["live", "capture", str(machine), "-o", str(tmp_path / "out")]) == 2
    assert "it rebooted; try again" in capsys.readouterr().err


def test_outputs(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    out.chmod(0o644)
    assert main(["live", "capture", str(machine), "-o", str(out), "-q"]) == 0
    assert (capsys.readouterr().out, out.stat().st_mode & 0o777) == ("", 0o600)
    out.unlink()
    out.symlink_to("elsewhere")
    assert main(["live", "capture", str(machine), "-o", str(out)]) == 2
    assert "symbolic link" in capsys.readouterr().err


def test_a_core_that_is_cut_off(machine: Path, tmp_path: Path) -> None:
    machine.write_bytes(machine.read_bytes()[: -4 * PAGE])
    with pytest.raises(InputError, match="bytes at 0x"):
        kcore.Kcore().read(MODULES, len(AREA))
    assert main(["live", "capture", str(machine), "-o", str(tmp_path / "out")]) in (0, 2)


def test_a_change_that_only_the_checksum_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was another a moment ago, and is as before when it is sent: the kernel is at work, so it is read again."""
    start, data = 0xFFFF800080000000, bytes(1 << 20)
    path, moment, asked = tmp_path / "kcore", tmp_path / "moment", tmp_path / "asked"
    whole = core([(start, 0, data)], [vmcoreinfo()]).ljust(2 << 20, b"\0")
    path.write_bytes(whole)
    moment.write_bytes(whole[: 1 << 19] + b"\1" + whole[(1 << 19) + 1 :])
    fake_ssh(tmp_path, monkeypatch, "subprocess.run('sh', check=True)")
    point_at(path, monkeypatch)
    chosen = f"echo >>{asked}; file={path}; [ -e {moment} ] && mv {moment} {moment}.1 && file={moment}.1\n"
    monkeypatch.setattr(kcore, "SUM", chosen + blocks.SUM.replace("/proc/kcore", '"$file"'))
    (found,) = read_twice(RemoteKcore("board"), [Range(start, 1 << 20)])
    assert (found.data, found.unstable) == (data, ())
    assert asked.read_text() == "\n\n"
