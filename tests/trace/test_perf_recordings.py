"""Recordings (AUX records) of perf.data: nothing of one is known in the next, and its tasks have their names."""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.live.system.programs import decoder_text, linked_program
from prologue.trace.ranges import Tally
from prologue.trace.readers.decoding import open_perf_trace
from tests.support.cs_etm import CsTrace, record, sample, write
from tests.support.cs_recording import ROUND, stamped, stream, trace, with_process
from tests.trace.made import KERNEL, Run

pytestmark = pytest.mark.usefixtures("opencsd")

CONVERSION: Final = record(79, 0, struct.pack("<QQQ", 1, 4, 500))  # perf's clock began at 500 and counts 2 ns a tick
CONTEXTS, TIMES = 1 << 6, 1 << 11  # of TRCCONFIGR
_FILLING: Final = b"\x70"  # a packet that says nothing


def made(*recordings: bytes, configr: int = TIMES, extra: tuple[bytes, ...] = (), **how: Any) -> CsTrace:
    """Raw recordings of CPU 0, all of one size."""
    size = -(-max(map(len, recordings)) // 16) * 16
    own = [CONVERSION, *extra]
    built = trace(3, configr=configr, raw=True, timed=1, parts=len(recordings), extra=own, **how)
    built.streams = {0: b"".join(data.ljust(size, _FILLING) for data in recordings)}
    return built


def ranges(run: Run, content: CsTrace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("disasm", content, "--format", "jsonl").out.splitlines()[1:]]


def test_a_recording_does_not_begin_at_the_last_time_of_the_one_before(run: Run) -> None:
    """What ran before its first timestamp has no time."""
    rows, count = ranges(run, made(stamped(stream(3)), stream(3))), len(ROUND) * 3
    assert [row.get("time", 0) for row in rows] == [2500] * count + [0] * count


@pytest.mark.parametrize(
    "before", [[], [stamped(stream(3), 900)]], ids=["the first recording", "another one before it"]
)
def test_a_context_has_the_name_of_its_time(run: Run, before: list[bytes]) -> None:
    """A trace unit writes the context first, then the time; by the end of the file the task is another program."""
    executed = struct.pack("<ii", 77, 77) + b"dd".ljust(8, b"\0") + sample(77, 3000, 0)
    recordings = [*before, stamped(with_process(stream(3), 77)), stamped(with_process(stream(3), 77), 2000)]
    content = made(*recordings, configr=TIMES | CONTEXTS, extra=(record(3, 1 << 13, executed),), comms={77: "sh"})
    rows = ranges(run, content)
    assert {(row["time"], row["comm"]) for row in rows if row.get("comm")} == {(2500, "sh"), (4500, "dd")}


@pytest.mark.parametrize("vhe", [False, True])
def test_the_idle_task_is_process_0(run: Run, vhe: bool) -> None:
    """As perf has it; a trace without context IDs names no task."""
    idle = with_process(stream(3), 0, vhe=vhe)
    configr = 1 << 7 | 1 << 15 if vhe else CONTEXTS
    rows = ranges(run, made(idle, configr=configr, idr2=0x1088 if vhe else 0x888))
    assert {(row["comm"], row["pid"], row["tid"]) for row in rows} == {("swapper", 0, 0)}
    assert {row.get("comm") for row in ranges(run, made(stream(3)))} == {None}


def test_a_cpu_that_did_not_trace_has_no_trace_id(run: Run, tmp_path: Path) -> None:
    """perf 6.2-6.11 marks the ID that it made up with bit 31, later ones do not mark it."""
    for unused in (1 << 31 | 0x10, 0x10):
        content = trace(3, cpus=[1, 0], hardware_ids=True)
        content.streams = {0: stream(3)}
        described = struct.pack("<QQ", 0x7F, 0x28000EA1)
        data = write(tmp_path / "perf.data", content).read_bytes()
        data = data.replace(described, struct.pack("<QQ", unused, 0x28000EA1), 1)
        out, err, _ = run("disasm", data, "--format", "jsonl")
        assert {json.loads(line)["cpu"] for line in out.splitlines()[1:]} == {0}
        assert "whose trace ID another one has" not in err


def test_times_without_their_conversion_are_said(run: Run) -> None:
    for conversion, said in (((), True), ((CONVERSION,), False)):
        content = trace(3, configr=TIMES, raw=True, timed=1, extra=conversion)
        content.streams = {0: stamped(stream(3))}
        assert ("times are left out" in run("check", content).err) == said


def test_several_buffers_have_the_same_names(tmp_path: Path) -> None:
    """As the buffers of a snapshot: a row of the tasks is the same task in each."""
    vmlinux, opened = KERNEL.write(tmp_path / "vmlinux"), []
    for task in (77, 78):
        path = write(
            tmp_path / f"{task}", made(with_process(stream(3), task), configr=CONTEXTS, comms={task: f"t{task}"})
        )
        decoded = open_perf_trace(path, Tally())
        opened.append(decoded)
    both = replace(opened[0], jobs=opened[0].jobs + opened[1].jobs)
    both.follow(decoder_text(linked_program(vmlinux, 0), None))
    batches = list(both.batches())
    names = [batches[-1].tasks[row].comm for batch in batches for row in batch.ranges["task"].tolist()]
    assert Counter(names) == {"t77": 3 * len(ROUND), "t78": 3 * len(ROUND)}


def test_trace_of_a_unit_that_is_not_described_is_said(run: Run) -> None:
    """CPU 1 came online after perf wrote which trace units there are."""
    content = trace(3, cpus=[0], ids={0: 0x10, 1: 0x12})
    content.streams[0] *= 2
    size = len(content.streams[1])
    rows = ranges(run, content)
    assert {row["cpu"] for row in rows} == {0}
    out, err, _ = run("check", content)
    assert "1 recording with bytes of a trace ID that no decoder here takes (0x12): left out\n" in err
    assert out.endswith(f"none impossible; {size} of {3 * size} bytes of trace (33.33%) were not decoded\n")
    assert "no decoder" not in run("check", trace(3)).err
