"""``trace stats --times``: the time between two timestamps, divided among what ran between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.trace.coresight.elements import ElementKind
from prologue.trace.path.kernel_images import HostImage, open_kernels
from prologue.trace.path.known import KnownRanges
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.sources import open_trace
from prologue.trace.views.times import FunctionTimes
from tests.trace.elements import ON, RET, ElementTrace, Message, context, element, range_
from tests.trace.made import KERNEL, Run, recording


def functions(run: Run, content: bytes | ElementTrace, *options: str) -> dict[str, dict[str, Any]]:
    (image,) = run("stats", content, "--times", "--json", *options).json["images"]
    return {one["name"]: one for one in image["functions"]}


def rows(*ranges: tuple[str, int, int]) -> list[dict[str, int]]:
    return [{"start": KERNEL.at(place), "count": count, "time": time} for place, count, time in ranges]


CALL = (("vfs_read", 5, 1000), ("read_zero", 5, 1000), ("read_zero+24", 1, 1600), ("vfs_read+20", 2, 1900))


def test_time_is_divided_by_instructions(run: Run) -> None:
    use = functions(run, recording(rows(*CALL)))
    # 600 ns for five instructions of each, then 300 of the return; after the last timestamp nothing is known.
    assert (use["vfs_read"]["ns"], use["read_zero"]["ns"]) == (300, 600)
    assert [use["vfs_read"][name] for name in ("first_ns", "last_ns")] == [1000, 1900]
    assert [use["read_zero"][name] for name in ("first_ns", "last_ns")] == [1000, 1600]


def test_a_page_has_the_times(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    options = ("--format", "html", "-o", out)
    run("stats", recording(rows(*CALL)), *options, "--times")
    text = out.read_text()
    assert '<th scope="col" class="number">last s</th>' in text
    cells = {"us": "0.600", "first s": "0.000001000", "last s": "0.000001600"}
    assert "".join(f'<td class="number" data-head="{head}">{cell}</td>' for head, cell in cells.items()) in text
    run("stats", recording(rows(*CALL)), *options)
    assert "last s" not in out.read_text()


def test_no_time_over_a_gap_and_none_that_goes_back(run: Run) -> None:
    made = rows(*CALL[:2])
    lost = [*made, {"flags": 17}, *rows(*CALL[2:])]
    assert functions(run, recording(lost))["vfs_read"]["ns"] == 0
    assert functions(run, recording(lost))["read_zero"]["ns"] == 300
    late = [*made, {"flags": 17}, *rows(("vfs_read", 5, 1000), ("read_zero", 5, 5000), ("read_zero+24", 1, 5100))]
    use = functions(run, recording(late))
    assert (use["vfs_read"]["ns"], use["read_zero"]["ns"]) == (0, 100)  # the clock was not read before 5000
    back = [*made, *rows(("read_zero+24", 1, 900), ("vfs_read+20", 2, 950))]
    assert functions(run, recording(back))["read_zero"]["ns"] == 50


def test_what_is_left_out_takes_its_time(run: Run) -> None:
    use = functions(run, recording(rows(*CALL)), "--symbols", "read_zero")
    assert {name: one["ns"] for name, one in use.items()} == {"read_zero": 600}


@pytest.mark.parametrize("header", [RecordingHeader(), RecordingHeader(clocked=False)])
def test_a_trace_without_times(run: Run, header: RecordingHeader) -> None:
    made = [{**row, "time": row["time"] if not header.clocked else 0} for row in rows(*CALL)]
    said = run("stats", recording(made, header), "--times")
    assert "--times: the trace has no times" in said.err
    assert "first s" not in said.out


def test_the_columns(run: Run) -> None:
    head, row = run("stats", recording(rows(*CALL)), "--times", "--top", "1").out.splitlines()[1:]
    assert head.split() == ["instructions", "%", "entries", "us", "first", "s", "last", "s", "function"]
    assert row.split() == ["7", "53.85", "1", "0.300", "0.000001000", "0.000001900", "vfs_read"]


def test_a_range_without_a_time_is_of_no_time(run: Run) -> None:
    made = rows(("vfs_read", 5, 0), *CALL[1:])
    use = functions(run, recording(made), "--time", ",0.0000016")
    assert {name: one["instructions"] for name, one in use.items()} == {"read_zero": 6}


COUNTED = (
    (40, "vfs_read", 1), (0, "vfs_read+4", 4),  # 0: not known
    (None, "read_zero", 4), (600, "read_zero+16", 3), (50, "vfs_read+20", 2), (40, "vfs_read+28", 1),
)  # fmt: skip


def counted(*ranges: tuple[int | None, str, int]) -> list[Message]:
    """Ranges, each after a count of cycles or none."""
    messages = list[Message]()
    for cycles, place, count in ranges:
        messages += [] if cycles is None else element(ElementKind.CYCLE_COUNT, cycles=cycles)
        messages += range_(KERNEL.at(place), count, last=RET)
    return messages


def test_cycles(run: Run) -> None:
    use = functions(run, ElementTrace(ON + context(1) + counted(*COUNTED)))
    # 600 for four instructions of each, 50 before the return and 40 after it.
    assert {name: one["cycles"] for name, one in use.items()} == {"vfs_read": 340, "read_zero": 350}
    assert "ns" not in use["vfs_read"]


def test_the_first_count_is_of_all_batches_before_it(tmp_path: Path) -> None:
    trace, vmlinux = tmp_path / "trace", KERNEL.write(tmp_path / "vmlinux")
    trace.write_bytes(recording(rows(*CALL)))
    with open_trace(str(trace)) as opened:
        known = KnownRanges(open_kernels(opened, HostImage(vmlinux=vmlinux), ()))
        (batch,) = opened.batches
        batch.ranges["cycles"][2] = 40
        times = FunctionTimes(known)
        for part in (batch._replace(ranges=batch.ranges[:2]), batch._replace(ranges=batch.ranges[2:])):
            times.add(part, known.numbers(part), np.ones(len(part.ranges), np.bool_))
        uses = times.by_function([0])
    assert {place: use.cycles for place, use in uses.items() if use.cycles} == {
        KERNEL.at("vfs_read"): 20, KERNEL.at("read_zero"): 20,
    }  # fmt: skip


def test_no_cycles_over_a_gap(run: Run) -> None:
    lost = counted(*COUNTED[:4]) + ON + counted((None, "vfs_read+32", 1), *COUNTED[4:])
    use = functions(run, ElementTrace(ON + context(1) + lost))
    assert {name: one["cycles"] for name, one in use.items()} == {"vfs_read": 390, "read_zero": 300}
