"""A recording becomes an ETMv4 trace, and OpenCSD reads from it what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.trace.etm.snapshot import write_snapshot
from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from prologue.trace.etm.waypoints import RangeCode, Waypoint, describe
from prologue.trace.ranges import EXCEPTION, GAP
from prologue.trace.readers.recording import RECORD, RecordingHeader
from prologue.trace.readers.sources import open_trace
from tests.mini_kernel.build import Spec
from tests.support.assembler import assemble
from tests.support.built import Mini
from tests.support.needs import needs_common_tools, needs_tools
from tests.support.opencsd import decode, merged
from tests.support.processes import room_for
from tests.support.tool import Tool
from tests.trace.made import recording as made_recording

BASE = 0xFFFF800080000000
VECTOR = BASE + 0x800  # an interrupt's place: 0x80 in its group


def words(*lines: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array([assemble(line) for line in lines], np.uint32)


CODE = words("nop", "cbz x0, #8", "isb", "b #8", "nop", "bl #12", "nop", "ret", "nop", "ret")
HANDLER = words("nop", "eret")
PROGRAM = [(BASE, CODE), (VECTOR + 0x80, HANDLER)]
IRQ = VECTOR + 0x80
# start, count, flags, level, vmid
PATH = [
    (BASE, 4, GAP, 1, -1),  # the CBZ is not taken, an ISB, a B
    (BASE + 20, 1, 0, 1, -1),  # BL
    (BASE + 32, 2, 0, 1, -1),  # RET
    (BASE + 24, 1, 0, 1, -1),  # interrupted
    (IRQ, 2, EXCEPTION, 1, -1),
    (BASE + 28, 1, 4, 1, -1),  # RET, and before its target runs an interrupt
    (BASE, 0, EXCEPTION, 1, -1),
    (IRQ, 2, EXCEPTION, 1, -1),
    (BASE, 2, 4, 1, -1),  # the CBZ is taken
    (BASE + 12, 1, 0, 1, -1),  # B, and before its target runs an interrupt
    (BASE + 20, 0, EXCEPTION, 1, -1),
    (IRQ, 2, EXCEPTION, 2, -1),  # at EL2, which returns to a guest
    (BASE, 4, 4, 1, 0x1234),
    (0x1000, 7, 0, 0, 0x1234),  # EL0 is not traced
    (BASE + 24, 1, EXCEPTION, 1, 0x1234),
]


def recorded(path: list[tuple[int, int, int, int, int]]) -> np.ndarray[Any, np.dtype[Any]]:
    records = np.zeros(len(path), RECORD)
    for name, column in zip(("start", "count", "flags", "level", "vmid"), zip(*path, strict=True), strict=True):
        records[name] = column
    return records


def test_waypoints() -> None:
    assert describe(BASE, CODE[:4]) == RangeCode((False, True), Waypoint.DIRECT, BASE + 20)
    assert describe(BASE, CODE[:2]) == RangeCode((), Waypoint.CONDITIONAL, BASE + 12)
    assert describe(BASE, CODE[:1]).last == Waypoint.NONE
    assert describe(BASE, words("tbnz x3, #40, #-16")).target == BASE - 16
    # keystone knows neither: cbgt x9, x8, #64, cbeq w9, #5, #-64 (FEAT_CMPBR) and retaasppc #-64 (FEAT_PAuth_LR).
    for word, target in ((0xF4080209, BASE + 64), (0x75C2BE09, BASE - 64)):
        assert describe(BASE, np.array([word], np.uint32)) == RangeCode((), Waypoint.CONDITIONAL, target)
    assert describe(BASE, np.array([0x5500021F], np.uint32)).last == Waypoint.INDIRECT
    to_next = describe(BASE, words("b #4", "blr x3"))
    assert (to_next.inside, to_next.last) == ((True,), Waypoint.INDIRECT)
    for line in ("eret", "br x1", "ret x5"):
        assert describe(BASE, words(line)).last == Waypoint.INDIRECT
    for line in ("svc #0", "dsb sy", "msr daifset, #2", "brk #4"):
        assert describe(BASE, words(line)).last == Waypoint.NONE


def test_opencsd_reads_every_kind_of_step(tmp_path: Path) -> None:
    needs_tools("trc_pkt_lister")
    text = ProgramText(PROGRAM)
    stream = write_snapshot(recorded(PATH), text, tmp_path / "snapshot", levels=(1, 2))[0]
    ranges = decode(tmp_path / "snapshot", "buffer0", tmp_path / "log")
    kept = [(start, count) for start, count, _, level, _ in PATH if count and level]
    assert list(zip(stream.starts, stream.counts, strict=True)) == kept
    assert np.array_equal(ranges, merged(*zip(*kept, strict=True)))
    assert (stream.filtered, stream.unknown) == (7, 0)
    said = (tmp_path / "log").read_text()
    assert said.count("OCSD_GEN_TRC_ELEM_EXCEPTION") == 4  # three interrupts, and where the window ends
    assert "EL2N" in said
    assert "VMID=0x1234" in said


@pytest.mark.usefixtures("opencsd")
def test_branches_with_pointer_authentication_are_followed(tmp_path: Path) -> None:
    """Decoders take them for plain instructions if they are told that the core is older than Armv8.3."""
    nop = assemble("nop")
    # keystone knows none: retaa, braa x2, x3, eretaa (FEAT_PAuth).
    text = ProgramText([(BASE, np.array([nop, 0xD65F0BFF, nop, 0xD71F0843, nop, 0xD69F0BFF], np.uint32))])
    path = [(BASE + 8, 2, GAP, 1, -1), (BASE, 2, 0, 1, -1), (BASE + 16, 2, 0, 1, -1), (BASE, 1, 4, 1, -1)]
    write_snapshot(recorded(path), text, tmp_path / "snapshot", levels=(1, 2))
    with open_trace(str(tmp_path / "snapshot")) as trace:
        ranges = np.concatenate([batch.ranges for batch in trace.batches])
    assert list(zip(ranges["start"], (ranges["end"] - ranges["start"]) // 4, strict=True)) == [row[:2] for row in path]
    needs_tools("trc_pkt_lister")
    starts, counts, *_ = zip(*path, strict=True)
    assert np.array_equal(decode(tmp_path / "snapshot", "buffer0", tmp_path / "log"), merged(starts, counts))


@pytest.mark.usefixtures("opencsd")
def test_what_is_of_no_guest_has_no_guest_s_vmid(tmp_path: Path) -> None:
    """A trace unit's packets leave out what stays as it was."""
    host, guest, hypervisor = ((BASE, 4, GAP, *context) for context in ((1, -1), (1, 5), (2, -1)))
    path = [host, guest, hypervisor, guest, host]
    write_snapshot(recorded(path), ProgramText(PROGRAM), tmp_path / "snapshot", levels=(1, 2))
    with open_trace(str(tmp_path / "snapshot")) as trace:
        ranges = np.concatenate([batch.ranges for batch in trace.batches])
    at = ranges["start"] == BASE
    assert ranges[["level", "vmid"]][at].tolist() == [(1, 0), (1, 5), (2, 0), (1, 5), (1, 0)]
    assert not ranges["task"].any()


@pytest.mark.usefixtures("opencsd")
@pytest.mark.parametrize(("configr", "tid"), [(0x80, -1), (0x8080, 7)])
def test_a_vmid_is_a_process_if_the_trace_unit_was_told_so(configr: int, tid: int, tmp_path: Path) -> None:
    """TRCCONFIGR.VMIDOPT: CONTEXTIDR_EL2, otherwise VTTBR_EL2, which at EL2 is that of the last guest."""
    write_snapshot(recorded([(BASE, 4, GAP, 2, 7)]), ProgramText(PROGRAM), tmp_path / "snapshot", levels=(1, 2))
    settings = tmp_path / "snapshot" / "etm0.ini"
    settings.write_text(settings.read_text().replace("TRCCONFIGR(0x004)=0x80", f"TRCCONFIGR(0x004)={configr:#x}"))
    with open_trace(str(tmp_path / "snapshot")) as trace:
        assert {batch.tasks[row].tid for batch in trace.batches for row in batch.ranges["task"].tolist()} == {tid}


def test_without_text_nothing_is_said(tmp_path: Path) -> None:
    stream = encode(recorded(PATH), ProgramText(PROGRAM[1:]), (1, 2), bare_unit(0, vmids=True))
    assert stream.starts == [IRQ] * 3
    assert stream.unknown == sum(count for start, count, _, level, _ in PATH if level and start != IRQ)


@pytest.mark.thorough
def test_a_recording_of_nothing_is_none(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """What was there before stays."""
    needs_common_tools("qemu-system-aarch64")
    out, truth = tmp_path / "out", tmp_path / "truth"
    out.write_text("older")
    command = ("trace", "record", mini(Spec()), "-o", out, "--save-truth", truth, "--boot", "--ram", 64)
    printed = tool(*command, "--until", "work_loop", "--function", "work_loop", status=2)
    assert "nothing was recorded: work_loop was not called in the window" in printed.err
    assert out.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["out", "vmlinux"]


@pytest.mark.parametrize("options", [[], ["--perf"]])
def test_a_full_disk_leaves_nothing(mini: Mini, tmp_path: Path, tool: Tool, options: list[str]) -> None:
    vmlinux, recording, out = mini(Spec()), tmp_path / "recording", tmp_path / "out"
    recording.write_bytes(made_recording([{"cpu": 0, "level": 1, "start": BASE, "count": 3}], RecordingHeader(slide=0)))
    with room_for(16):
        printed = tool("trace", "etm", recording, "--vmlinux", vmlinux, "-o", out, *options, status=2)
    assert printed.err == f"prologue: {out}: cannot be written: File too large; nothing was left behind\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith((".", "out"))) == []


def test_bad_input(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, recording, out = mini(Spec()), tmp_path / "recording", tmp_path / "out"
    command = ["trace", "etm", str(recording), "--vmlinux", str(vmlinux), "-o", str(out)]
    for content, said in (
        (None, "No such file"),
        (b"", "is not a recording"),
        (RecordingHeader().pack(), "has no slide: it ends before the kernel relocates itself"),
        (RecordingHeader(slide=0, build_id=b"\1" * 20).pack(), "is another kernel: its build-id is unknown"),
        (
            made_recording([{"start": BASE, "count": 3, "level": 255}], RecordingHeader(slide=0)),
            "says no exception levels",
        ),
    ):
        if content is not None:
            recording.write_bytes(content)
        error = tool(*command, status=2).err
        assert said in error
        assert error.count("\n") == 1
        assert not out.exists()
    ran = {"cpu": 0, "level": 1, "start": BASE, "count": 3}
    recording.write_bytes(made_recording([ran], RecordingHeader(slide=0)))
    error = tool(*command, "--level", "0", "--level", "3", status=2).err
    assert "--level: nothing of EL0, EL3 was recorded, but of EL1: name one of these" in error
    assert not out.exists()
    recording.write_bytes(RecordingHeader(slide=0).pack())
    assert main(command) == 0
    assert "is already there" in tool(*command, status=2).err


@pytest.mark.parametrize(
    "path",
    [
        [(BASE, 3, GAP, 1, -1), (BASE, 1, 0, 1, -1), (BASE + 20, 1, 0, 1, -1)],  # a jump without a branch
        [(BASE + 32, 2, GAP, 1, -1), (IRQ, 2, EXCEPTION, 1, -1)],  # after a RET, which went nobody knows where
    ],
)
def test_what_the_records_do_not_say_is_a_gap(path: list[tuple[int, int, int, int, int]], tmp_path: Path) -> None:
    needs_tools("trc_pkt_lister")
    write_snapshot(recorded(path), ProgramText(PROGRAM), tmp_path / "snapshot", levels=(1,))
    decode(tmp_path / "snapshot", "buffer0", tmp_path / "log")
    said = (tmp_path / "log").read_text()
    assert said.count("OCSD_GEN_TRC_ELEM_TRACE_ON") == 2


def test_an_exception_out_of_the_levels_that_are_traced(tmp_path: Path) -> None:
    """The note says where it returns, and so whether the branch before it was taken."""
    needs_tools("trc_pkt_lister")
    path = [
        (BASE, 2, GAP, 1, -1),
        (BASE + 12, 0, EXCEPTION, 1, -1),
        (IRQ, 2, EXCEPTION, 2, -1),
        (BASE + 12, 1, 4, 1, -1),
    ]
    write_snapshot(recorded(path), ProgramText(PROGRAM), tmp_path / "snapshot", levels=(1,))
    decode(tmp_path / "snapshot", "buffer0", tmp_path / "log")
    ranges = [line for line in (tmp_path / "log").read_text().splitlines() if f"0x{BASE:x}:[0x{BASE + 8:x}]" in line]
    assert len(ranges) == 1
    assert " E BR " in ranges[0]
