"""Every export has the instructions that ``trace stats`` counts, by function, and no other."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from prologue.cli.main import main
from prologue.trace.coresight.elements import T32
from prologue.trace.readers import recording as recording_reader
from prologue.trace.views.stacks import fold
from tests.support.cs_recording import ROUND
from tests.support.needs import needs_module
from tests.support.tool import Tool
from tests.trace.elements import ON, ElementTrace, context, range_
from tests.trace.exports.exporting import TRACES, Traced, by_function, function_counts, traced
from tests.trace.made import BASE, KERNEL, recording

__all__ = ["traced"]  # a fixture
Capture = pytest.CaptureFixture[str]


def test_folded(traced: Traced, tool: Tool) -> None:
    counts: Counter[str] = Counter()
    tasks = set()
    for line in traced.export("folded").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        tasks.add(stack.split(";")[0])
        counts[stack.split(";")[-1]] += int(count)
    assert counts == function_counts(traced.stats(tool))
    assert tasks in ({"cat 77"}, {"task 70", "task 71", "task 72"})


def read_perfetto(path: Path) -> Any:
    """The packets, by the classes of Perfetto's own package."""
    needs_module("perfetto")
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace.packet


def test_perfetto(traced: Traced, tool: Tool) -> None:
    names, tracks, parents = dict[int, str](), dict[int, str](), dict[int, int]()
    stacks: defaultdict[int, list[str]] = defaultdict(list)
    last, counts = Counter[int](), Counter[str]()
    for packet in read_perfetto(traced.export("perfetto")):
        names.update({entry.iid: entry.name for entry in packet.interned_data.event_names})
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid], parents[track.uuid] = track.name, track.parent_uuid
        if packet.HasField("track_event"):
            event = packet.track_event
            assert packet.timestamp >= last[event.track_uuid]
            last[event.track_uuid] = packet.timestamp
            if event.type == event.TYPE_SLICE_BEGIN:
                stacks[event.track_uuid].append(names[event.name_iid])
            else:
                counts[stacks[event.track_uuid].pop()] += event.debug_annotations[0].uint_value
    assert counts == function_counts(traced.stats(tool))
    assert set(stacks) <= set(tracks)
    assert not any(stacks.values())
    assert {tracks[parents[uuid]] for uuid in stacks} <= {"CPU 0", "CPU 1"}


def autofdo(path: Path) -> list[list[tuple[int, int, int]]]:
    """Ranges and branches with counts."""
    lines = iter(path.read_text().splitlines())
    ranges = [next(lines) for _ in range(int(next(lines)))]
    assert next(lines) == "0"
    branches = [next(lines) for _ in range(int(next(lines)))]
    assert not list(lines)
    return [
        [(int(a, 16), int(b, 16), int(c)) for a, b, c in (re.split("->?|:", line) for line in part)]
        for part in (ranges, branches)
    ]


def test_profiles_of_branches(traced: Traced, tool: Tool) -> None:
    want = function_counts(traced.stats(tool))
    del want["[user]"]
    runs, branches = autofdo(traced.export("autofdo"))  # the made kernel has no segments to be relative to
    assert by_function(runs) == want
    assert {target for _, target, _ in branches} <= {first for first, _, _ in runs}
    # Branches are what the program does: no interrupt, and no return from one.
    vectors = range(KERNEL.at("vectors"), KERNEL.at("vfs_read"))
    assert branches
    assert not [one for one in branches if one[0] in vectors or one[1] in vectors]
    for first, last, _ in runs:  # a run ends at a branch, at an interrupt, or at a gap
        assert BASE <= first <= last


def test_the_axis_is_said_where_there_is_no_time(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace"
    for name, said in (("a recording", False), ("a recording without times", True)):
        trace.write_bytes(TRACES[name])
        Traced(trace, KERNEL.write(tmp_path / "vmlinux")).export("perfetto")
        assert ("the trace has no times: 1 ns of the time line is 1 instruction" in capsys.readouterr().err) == said


def test_times_are_those_of_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(TRACES["a recording"])
    traced = Traced(trace, KERNEL.write(tmp_path / "vmlinux"))
    times = [packet.timestamp for packet in read_perfetto(traced.export("perfetto")) if packet.HasField("track_event")]
    assert (min(times), max(times)) == (5_000_000_000, 5_000_039_060)


def test_what_ran_before_the_first_time_begins_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU whose first batch has no times, among others that have some."""
    monkeypatch.setattr(recording_reader, "BATCH", len(ROUND) * 2)
    times = [
        (cpu, time) for k in range(4) for cpu, time in ((0, 5_000_000_000 + k), (1, 5_000_000_000 + k if k > 1 else 0))
    ]
    rows = [
        {"start": start, "count": count, "cpu": cpu, "task": 70 + cpu, "level": 1, "time": time}
        for cpu, time in times for start, count in ROUND
    ]  # fmt: skip
    (trace := tmp_path / "trace").write_bytes(recording(rows))
    traced = Traced(trace, KERNEL.write(tmp_path / "vmlinux"))
    packets = [
        packet.timestamp for packet in read_perfetto(traced.export("perfetto")) if packet.HasField("track_event")
    ]
    assert (min(packets), max(packets)) == (5_000_000_000, 5_000_000_003)


def test_filters_choose_what_is_exported(tmp_path: Path, tool: Tool) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(TRACES["a recording"])
    traced = Traced(trace, KERNEL.write(tmp_path / "vmlinux"))
    for options in (("--cpu", 1), ("--pid", 71), ("--symbols", "read_zero"), ("--time", "5.00001,5.00002")):
        want = function_counts(traced.stats(tool, *options))
        assert want
        assert by_function(autofdo(traced.export("autofdo", *options))[0]) == want
        folded = traced.export("folded", *options).read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in folded) == want.total()


def test_a_run_ends_where_the_image_does(tmp_path: Path, capsys: Capture) -> None:
    """What goes on into code that is in no image is left out, not what came before it."""
    trace, end = tmp_path / "trace", BASE + 4 * len(KERNEL.words)
    trace.write_bytes(recording([{"start": end - 4, "count": 1}, {"start": end, "count": 4}]))
    traced = Traced(trace, KERNEL.write(tmp_path / "vmlinux"))
    assert autofdo(traced.export("autofdo"))[0] == [(end - 4, end - 4, 1)]
    assert "4 instructions not of" in capsys.readouterr().err


def test_instructions_of_t32_that_are_left_out(tmp_path: Path, tool: Tool, capsys: Capture) -> None:
    """They are counted as ``stats`` counts them: some have two bytes."""
    ran = range_(0x10000, 4, isa=T32, size=10) + range_(0x10020, 3, isa=T32, size=6)
    traced = Traced(tmp_path / "trace", KERNEL.write(tmp_path / "vmlinux"))
    with ElementTrace(ON + context(0) + ran).in_place():
        assert traced.stats(tool)["instructions"] == 7
        assert autofdo(traced.export("autofdo")) == [[], []]
    assert "7 instructions not of" in capsys.readouterr().err


def test_a_file_of_addresses_needs_the_vmlinux(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "trace").write_bytes(TRACES["a recording"])
    for format_ in ("autofdo", "lcov"):
        out = tmp_path / "out"
        printed = tool("trace", "export", tmp_path / "trace", "--format", format_, "-o", out, status=2)
        assert f"--format {format_} needs --vmlinux" in printed.err
        assert not out.exists()


def test_names_with_the_marks_of_folded_stacks() -> None:
    assert fold(["cat 7", "a;b\nc"]) == "cat 7;a:b c"


def test_a_trace_s_name_need_not_be_text(tmp_path: Path) -> None:
    needs_module("perfetto")
    trace, out = Path(os.fsdecode(bytes(tmp_path / "run") + b"\xff")), tmp_path / "out"
    trace.write_bytes(TRACES["a recording"])
    options = ["--vmlinux", str(KERNEL.write(tmp_path / "vmlinux")), "--format", "perfetto", "-o", str(out)]
    assert main(["trace", "export", str(trace), *options]) == 0
    names = [packet.track_descriptor.name for packet in read_perfetto(out) if packet.HasField("track_descriptor")]
    assert r"run\udcff" in names[0]


CALLED = (("vfs_read", 5), ("read_zero", 5), ("read_zero+24", 1), ("vfs_read+20", 2), ("vfs_read+32", 2))


def test_no_branch_over_what_a_filter_left_out(tmp_path: Path) -> None:
    """The call's own next instruction is not where it went."""
    trace = tmp_path / "trace"
    trace.write_bytes(recording([{"start": KERNEL.at(at), "count": count, "level": 1} for at, count in CALLED]))
    traced = Traced(trace, KERNEL.write(tmp_path / "vmlinux"))
    _, branches = autofdo(traced.export("autofdo", "--symbols", "vfs_read"))
    assert branches == [(KERNEL.at("vfs_read+24"), KERNEL.at("vfs_read+32"), 1)]
