"""perf.data with CoreSight: one command from the file to what ran. perf itself decodes the same files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.live.system.programs import decoder_text, linked_program
from prologue.trace.coresight import process
from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from prologue.trace.readers.sources import open_trace
from tests.support.cores import core
from tests.support.cs_etm import CsTrace, record, sample, write
from tests.support.cs_recording import expected, stamped, stream, trace, walk, with_process
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL, Run, spans

pytestmark = pytest.mark.usefixtures("opencsd")
FORMS: list[dict[str, Any]] = [
    {}, {"version": 0}, {"version": 2, "hardware_ids": True}, {"raw": True}, {"parts": 3}, {"index_count": False},
    {"raw": True, "hardware_ids": True, "version": 2, "timed": 1},
]  # fmt: skip


@pytest.fixture
def vmlinux(tmp_path: Path) -> Path:
    return KERNEL.write(tmp_path / "vmlinux")


def ranges(path: Path, vmlinux: Path) -> list[tuple[int, int, int, int]]:
    """CPU, start, end and flags of every range."""
    with open_trace(str(path)) as opened:
        assert opened.decoded is not None
        opened.decoded.follow(decoder_text(linked_program(vmlinux, 0), None))
        return spans(opened.batches)


def joined(found: Sequence[tuple[int, int, int, int]], cpu: int) -> list[tuple[int, int]]:
    return [(start, end) for own, start, end, _ in found if own == cpu]


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
def test_what_ran(form: dict[str, Any], pipe: bool, tmp_path: Path, vmlinux: Path) -> None:
    found = ranges(write(tmp_path / "perf.data", trace(20, **form), pipe=pipe), vmlinux)
    for cpu in (0, 1):
        own = joined(found, cpu)
        if form.get("parts", 1) == 1:
            assert own == expected(20)
        else:  # a record that begins in the middle has no synchronisation, and what it lacks is a gap
            assert own == expected(20)[: len(own)]


def perf_steps(path: Path, vmlinux: Path) -> list[tuple[int, int, int]]:
    """CPU, branch and target as perf prints them."""
    command = ["perf", "script", "-i", str(path), "--itrace=b", "-F", "cpu,ip,addr", "-k", str(vmlinux)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.replace("=>", "").split() for line in said.splitlines()]
    return [(int(cpu.strip("[]")), int(ip, 16), int(addr, 16)) for cpu, ip, addr in lines]


@pytest.mark.parametrize("form", [{}, {"parts": 2}], ids=str)
def test_perf_decodes_the_same(form: dict[str, Any], tmp_path: Path, vmlinux: Path) -> None:
    needs_tools("perf")
    path = write(tmp_path / "perf.data", trace(50, **form))
    said, found = perf_steps(path, vmlinux), ranges(path, vmlinux)
    for cpu in (0, 1):
        own = joined(found, cpu)
        taken = [(end - 4, start) for (_, end), (start, _) in pairwise(own) if start != end]
        perfs = [(ip, addr) for one, ip, addr in said if one == cpu and ip and addr]
        assert perfs == taken[: len(perfs)]
        assert len(taken) - len(perfs) <= 1  # perf leaves out what follows the last branch of a recording


@pytest.mark.thorough
def test_check_and_disasm_are_one_command(run: Run) -> None:
    made = trace(20, comms={77: "cat"})
    assert run("check", made).out == "238 steps, none impossible\n"
    out = run("disasm", made, "--format", "jsonl").out
    assert json.loads(out.splitlines()[0])["kind"] == "coresight"
    assert len(out.splitlines()) == 1 + 2 * 20 * 6


SLIDE = 0x7F0000


def linked(path: Path, changed: dict[str, int] | None = None) -> Path:
    """The vmlinux of the made kernel, linked ``SLIDE`` bytes below where it ran, with perf's symbols."""
    kernel = copy(KERNEL)
    kernel.base = KERNEL.base - SLIDE
    kernel.places = {name: vaddr - SLIDE for name, vaddr in KERNEL.places.items()}
    kernel.places |= {"_text": kernel.base, "_stext": kernel.base}
    kernel.sizes = {**KERNEL.sizes, "_text": 0, "_stext": 0}
    return kernel.write(path, changed)


def with_kcore(directory: Path, made: CsTrace) -> Path:
    """What perf record --kcore leaves."""
    inner = directory / "perf.data" / "kcore_dir"
    inner.mkdir(parents=True)
    text = struct.pack(f"<{len(KERNEL.words)}I", *KERNEL.words)
    (inner / "kcore").write_bytes(core([(KERNEL.base, 0, text)]))
    (inner / "kallsyms").write_text(f"{KERNEL.base:016x} T _stext\n{KERNEL.base:016x} T _text\n")
    (inner / "modules").write_text("")
    write(directory / "perf.data" / "data", made)
    return directory / "perf.data"


def test_kaslr_is_known_from_the_map_of_the_kernel(tmp_path: Path, tool: Tool) -> None:
    path = write(tmp_path / "perf.data", trace(5))
    out, err, _ = tool("trace", "check", path, "--vmlinux", linked(tmp_path / "vmlinux"))
    assert out == "58 steps, none impossible\n", err
    assert "record with perf record --kcore" in err


@pytest.mark.thorough
def test_kcore_is_what_is_decoded_with(tmp_path: Path, tool: Tool) -> None:
    path, vmlinux = with_kcore(tmp_path, trace(5)), linked(tmp_path / "vmlinux")
    out, err, _ = tool("trace", "check", path, "--vmlinux", vmlinux)
    said = "decoded with the file, no instruction would be another\n58 steps, none impossible\n"
    assert out == said, err
    assert "--kcore" not in err


@pytest.mark.thorough
@pytest.mark.parametrize("raw", [False, True])
def test_the_file_that_did_not_run_is_named(raw: bool, tmp_path: Path, tool: Tool) -> None:
    """Its BL is a NOP: each step of a decoder that follows it is possible, and nothing of it is true."""
    path = with_kcore(tmp_path, trace(20, raw=raw))
    stale = linked(tmp_path / "stale", {"vfs_read+0x10": 0xD503201F, "vfs_read": 0xAA1E03E9})
    lines = tool("trace", "check", path, "--vmlinux", stale, status=1).out.splitlines()
    place = f"vfs_read+0x10 ({KERNEL.at('vfs_read+0x10'):#x})"
    assert lines[0].startswith(f"file diverges at {place}: it has nop, bl read_zero ran")
    assert "(2 times the first after a synchronisation, cpus 0, 1)" in lines[0]
    assert lines[1].startswith("decoded with the file, ")
    assert lines[-1] == "238 steps, none impossible"
    data = tool("trace", "check", path, "--vmlinux", stale, "--json", status=1).json["divergence"]
    assert [(word["symbol"], word["cpus"]) for word in data["words"]] == [("vfs_read", [0, 1])]
    assert all(0 < one["missed"] <= one["instructions"] == 300 for one in data["cpus"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"magic": 0x3030303030303030}, "an ETMv3 or PTM"),
        ({"magic": 0x7070}, "is of an unknown kind"),
        ({"version": 3}, "trace units in version 3"),
        ({"cpus": [2, 3]}, "has no"),
    ],
    ids=str,
)
def test_what_cannot_be_decoded_is_one_line(run: Run, changed: dict[str, Any], said: str) -> None:
    assert said in run("check", trace(5, **changed), status=2).err


def test_wrong_trace_ids_invent_nothing(tmp_path: Path, vmlinux: Path) -> None:
    """Frames of ID 0x10, and a description that has another one."""
    right = write(tmp_path / "right", trace(5))
    data = right.read_bytes()
    wrong = tmp_path / "wrong"
    wrong.write_bytes(
        data.replace(
            (0x10).to_bytes(8, "little") + (0x28000EA1).to_bytes(8, "little"),
            (0x40).to_bytes(8, "little") + (0x28000EA1).to_bytes(8, "little"),
        )
    )
    found = ranges(wrong, vmlinux)
    assert joined(found, 0) == []
    assert joined(found, 1) == expected(5)


def test_truncated_recordings_and_losses_are_said(run: Run) -> None:
    lost = record(2, 0, (1).to_bytes(8, "little") + (7).to_bytes(8, "little") + sample(0, 0, 0))
    away = record(11, 0, bytes(8) + (99999).to_bytes(8, "little") + bytes(8) + sample(0, 1, 5))
    err = run("check", trace(5, flags=1, extra=[lost, away]), status=None).err
    assert "2 recordings cut short, as perf says (the buffer was full): a gap" in err
    assert "7 records that perf lost" in err
    assert "1 recording whose bytes are not in the file: a gap" in err


def test_virtual_machines_are_refused(run: Run) -> None:
    assert "perf script" in run("check", trace(5), "--guest-vmlinux", run.vmlinux, status=2).err


def test_no_trace_in_it(tmp_path: Path) -> None:
    data = write(tmp_path / "a", CsTrace(streams={0: stream(1)}, text=(KERNEL.base, 4))).read_bytes()
    (tmp_path / "b").write_bytes(data.replace((70).to_bytes(4, "little"), (68).to_bytes(4, "little"), 1))
    with pytest.raises(InputError, match="record one with perf record -e cs_etm//"), open_trace(str(tmp_path / "b")):
        pass


VHE = {"configr": 1 << 7 | 1 << 15, "idr2": 0x1088}
CONTEXT = {"configr": 1 << 6}


@pytest.mark.thorough
@pytest.mark.parametrize("vhe", [False, True])
def test_tasks_and_their_filters(run: Run, vhe: bool) -> None:
    made = trace(10, comms={77: "cat", 78: "dd"}, **(VHE if vhe else CONTEXT))
    made.streams = {cpu: with_process(stream(10), 77 + cpu, vhe=vhe) for cpu in (0, 1)}
    out = run("disasm", made, "--format", "jsonl").out
    rows = [json.loads(line) for line in out.splitlines()[1:]]
    assert {(row["cpu"], row["comm"], row["tid"], row["level"]) for row in rows} == {
        (0, "cat", 77, 1 + vhe), (1, "dd", 78, 1 + vhe),
    }  # fmt: skip
    for option in (("--pid", "78"), ("--comm", "dd")):
        out = run("disasm", made, "--format", "jsonl", *option).out
        assert {json.loads(line)["cpu"] for line in out.splitlines()[1:]} == {1}
    out, err, _ = run("disasm", made, "--format", "jsonl", "--comm", "sh")
    assert len(out.splitlines()) == 1
    assert "--comm sh: the trace has no such task (it has cat 77, dd 78)" in err
    assert "--pid 5: the trace has no such task" in run("disasm", made, "--pid", "5").err


def test_times_are_those_of_perf(run: Run) -> None:
    """A timestamp packet of 1000 ticks; perf's clock began at 500 and counts 2 ns for each."""
    conversion = record(79, 0, struct.pack("<QQQ", 1, 4, 500))
    made = trace(3, configr=1 << 11, extra=[conversion], raw=True, timed=1)
    made.streams = {0: stamped(stream(3))}
    out, err, _ = run("disasm", made, "--format", "jsonl")
    assert {json.loads(line)["time"] for line in out.splitlines()[1:]} == {2500}
    assert "not perf's clock" not in err


def test_another_kernel_is_refused(tmp_path: Path, tool: Tool) -> None:
    vmlinux = KERNEL.write(tmp_path / "vmlinux", build_id=bytes(range(20)))
    for number, code in ((bytes(range(20)), 0), (bytes(20), 2)):
        path = write(tmp_path / "perf.data", trace(5, build_id=number.hex()))
        err = tool("trace", "check", path, "--vmlinux", vmlinux, status=code).err
        assert ("was recorded of another kernel" in err) == (code == 2)


@pytest.mark.parametrize("name", ["data", "kcore_dir/kcore"])
def test_an_output_does_not_replace_the_trace(name: str, tmp_path: Path, tool: Tool) -> None:
    path, vmlinux = with_kcore(tmp_path, trace(5)), linked(tmp_path / "vmlinux")
    before = (path / name).read_bytes()
    err = tool("trace", "disasm", path, "--vmlinux", vmlinux, "-o", path / name, status=2).err
    assert (path / name).read_bytes() == before, err


def test_ticks_of_an_unknown_clock(run: Run) -> None:
    made = trace(3, configr=1 << 11, raw=True)
    made.streams = {0: stamped(stream(3))}
    out, err, _ = run("disasm", made, "--format", "jsonl")
    assert {json.loads(line)["time"] for line in out.splitlines()[1:]} == {0}, err


@pytest.mark.thorough
def test_what_the_file_s_decoder_did_not_finish_accuses_nothing(
    tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = with_kcore(tmp_path, trace(20, raw=True))
    stale = linked(tmp_path / "stale", {"vfs_read+0x10": 0xD503201F})
    whole = process._Child._decode

    def crash(self: Any, part: process.TracePart, base: int) -> str:
        if self._job.indexed and part == self._job.parts[0]:
            os.kill(os.getpid(), signal.SIGABRT)
        return whole(self, part, base)

    monkeypatch.setattr(process._Child, "_decode", crash)
    data = tool("trace", "check", path, "--vmlinux", stale, "--json", status=1).json["divergence"]
    assert (data["not_compared"], [one["cpu"] for one in data["cpus"]]) == (1, [1])


def test_a_compressed_file_is_one_line(tmp_path: Path, vmlinux: Path, tool: Tool) -> None:
    path = tmp_path / "perf.data.gz"
    path.write_bytes(gzip.compress(write(tmp_path / "perf.data", trace(5)).read_bytes()))
    err = tool("trace", "check", path, "--vmlinux", vmlinux, status=2).err
    assert "name the file itself" in err, err


@pytest.mark.thorough
def test_without_a_vmlinux(tmp_path: Path, tool: Tool) -> None:
    """Text and names are those of kcore_dir: the same instructions as with the file, and no lines of the source."""
    path, vmlinux = with_kcore(tmp_path, trace(5)), linked(tmp_path / "vmlinux")
    lines = [f"{vaddr:x} T {name}" for name, vaddr in KERNEL.places.items()]
    lines += [f"{KERNEL.base:x} T _stext", f"{KERNEL.base + 4 * len(KERNEL.words):x} D _etext"]
    (path / "kcore_dir" / "kallsyms").write_text("\n".join(lines) + "\n")
    listed = ("trace", "disasm", path, "--format", "jsonl")
    bare, whole = tool(*listed), tool(*listed, "--vmlinux", vmlinux)
    assert bare.out == whole.out.replace(str(vmlinux), str(path / "kcore_dir" / "kcore")), bare.err
    out, err, _ = tool("trace", "check", path)
    assert out == "58 steps, none impossible\n", err
    assert "no vmlinux was given, so none was compared with what ran" in err
    assert "vfs_read" in tool("trace", "stats", path).out
    for option in (["--slide", "0"], ["--modules", "."]):
        assert f"{option[0]} needs --vmlinux" in tool("trace", "check", path, *option, status=2).err
    assert "--format srcline needs --vmlinux" in tool("trace", "disasm", path, "-S", status=2).err
    assert "name the kernel: --vmlinux VMLINUX" in tool("trace", "check", path / "data", status=2).err


def test_what_ran_in_processes_is_counted_by_name(run: Run) -> None:
    """Nothing of their text is invented, and nothing dropped in silence."""
    base, data = 0x400000, stream(5)
    user = walk(5, level=0)
    user["start"] += np.uint64(base - KERNEL.base & (1 << 64) - 1)
    text = ProgramText([(base, np.array(KERNEL.words, np.uint32))])
    own = with_process(bytes(encode(user, text, (0,), bare_unit(0, vmids=False)).data), 77)
    made = trace(5, comms={77: "cat"}, **CONTEXT)
    made.streams = {0: data + own}
    out, err, _ = run("check", made)
    assert out == "29 steps, none impossible\n", err
    assert "10 places where the decoder had no memory" in err
    assert "10 of these in processes: cat" in err
