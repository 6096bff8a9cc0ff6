"""Traces of a host and of its guests, merged by time: each range from its own image, in the order in which it ran."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.trace.path import merging
from prologue.trace.path.merging import GuestTrace, merge, open_traces, timed
from prologue.trace.ranges import NO_TASK, Batch, Tally, TracedTask, new_ranges
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.sources import Trace
from tests.trace.made import KERNEL, MadeKernel, perf_line, recording

NOP = 0xD503201F
# The same addresses as KERNEL's functions, other code.
GUEST = MadeKernel({"vectors": ["nop"] * 512, "guest_idle": ["add x0, x0, #1", "b @"]})
OTHER = MadeKernel({"vectors": ["nop"] * 512, "other_idle": ["add x0, x0, #2", "b @"]})


def host_text(times: list[int]) -> str:
    lines = [perf_line(KERNEL.at("read_zero+0x18"), KERNEL.at("vfs_read"), time=times[0] - 1000)]
    for time in times:
        lines.append(perf_line(KERNEL.at("vfs_read+0x10"), KERNEL.at("read_zero"), time=time))
        lines.append(perf_line(KERNEL.at("read_zero+0x18"), KERNEL.at("vfs_read"), time=time + 1000))
    return "".join(lines)


def guest_text(kernel: MadeKernel, name: str, times: list[int]) -> str:
    place = kernel.at(name)
    return "".join(perf_line(place + 4, place, time=time, comm="swapper", pid=0) for time in times)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    KERNEL.write(tmp_path / "vmlinux")
    GUEST.write(tmp_path / "guest")
    OTHER.write(tmp_path / "other")
    second = 10**9
    (tmp_path / "host.txt").write_text(host_text([second, 4 * second]))
    (tmp_path / "guest.txt").write_text(guest_text(GUEST, "guest_idle", [2 * second, 3 * second, 5 * second]))
    with gzip.open(tmp_path / "other.txt.gz", "wt") as stream:  # its clock is 0.5 s behind
        stream.write(guest_text(OTHER, "other_idle", [2 * second, 3 * second, 3 * second + 1000]))
    return tmp_path


def options(made: Path) -> list[str]:
    return [
        str(made / "host.txt"), "--vmlinux", str(made / "vmlinux"),
        "--guest-vmlinux", f"{made / 'guest'}@7", "--guest-trace", f"{made / 'guest.txt'}@7",
        "--guest-vmlinux", f"{made / 'other'}@8", "--guest-trace", f"{made / 'other.txt.gz'}@8+500000000",
    ]  # fmt: skip


def disasm(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert main(["trace", "disasm", *args, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()[1:]]


def test_each_range_from_its_image_in_the_order_of_time(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = disasm(capsys, *options(made))
    said = [(row["time"] // 10**8, row.get("vmid"), row["symbol"]) for row in rows]
    assert said == [
        (10, None, "vfs_read"), (10, None, "read_zero"), (30, 7, "guest_idle"), (35, 8, "other_idle"),
        (35, 8, "other_idle"), (40, None, "vfs_read"), (40, None, "read_zero"), (50, 7, "guest_idle"),
    ]  # fmt: skip
    assert [row["instructions"][0]["text"] for row in rows if row.get("vmid")] == [
        "add x0, x0, #1", "add x0, x0, #2", "add x0, x0, #2", "add x0, x0, #1",
    ]  # fmt: skip


def test_every_image_is_judged_by_its_own_trace(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", *options(made)]) == 0
    assert "none impossible" in capsys.readouterr().out
    OTHER.write(made / "other", {"other_idle+0x4": NOP})
    assert main(["trace", "check", *options(made)]) == 1
    out = capsys.readouterr().out
    assert "image stale at other_idle+0x4" in out
    assert out.count("image stale") == 1


def test_the_wrong_guest_does_not_fit(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GUEST.write(made / "guest", {"guest_idle": 0x14000002})  # as if another kernel had run there
    assert main(["trace", "check", *options(made)]) == 1
    assert "image stale at guest_idle" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["", "@7"])
def test_a_recording_says_where_the_guest_ran(made: Path, capsys: pytest.CaptureFixture[str], number: str) -> None:
    place = GUEST.at("guest_idle") + 0x200000
    rows = [{"start": place, "count": 2, "level": 1, "time": 2 * 10**9 + k} for k in range(3)]
    rows += [{"start": 0x400000, "count": 2, "level": 0, "time": 3 * 10**9}]
    (made / "guest.txt").write_bytes(recording(rows, RecordingHeader(slide=0x200000)))
    args = [*options(made)[:3], "--guest-vmlinux", f"{made / 'guest'}{number}", *options(made)[5:7]]
    said = disasm(capsys, *args)
    assert [row["symbol"] for row in said if row.get("vmid") == 7 and "symbol" in row] == ["guest_idle"] * 3
    assert [row["start"] for row in said if row.get("level") == 0] == ["0x400000"]


@pytest.mark.parametrize("number", ["", "@7"])
def test_a_guests_guest_is_of_no_image(made: Path, capsys: pytest.CaptureFixture[str], number: str) -> None:
    """The guest is a host itself; what runs in its guest, at the same addresses, is not the guest's own."""
    place, trace = GUEST.at("guest_idle"), made / "guest.txt"
    options = [str(made / "host.txt"), "--vmlinux", str(made / "vmlinux"), "--guest-trace", f"{trace}@7"]
    options += ["--guest-vmlinux", f"{made / 'guest'}{number}"]
    rows = [{"start": place, "count": 2, "level": level, "vmid": vmid, "time": 2 * 10**9 + level}
            for level, vmid in ((1, 3), (2, -1))]  # fmt: skip
    trace.write_bytes(recording(rows, RecordingHeader(slide=0)))
    assert [row.get("symbol") for row in disasm(capsys, *options) if row.get("vmid") == 7] == [None, "guest_idle"]
    own = guest_text(GUEST, "guest_idle", [2 * 10**9, 2 * 10**9 + 1000])
    trace.write_text(own + own.replace("[kernel.kallsyms]", "[guest.kernel.kallsyms]"))
    assert [row.get("symbol") for row in disasm(capsys, *options) if row.get("vmid") == 7] == [
        "guest_idle", None, None,
    ]  # fmt: skip


def test_what_a_guests_kernel_made_is_the_guests(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (made / "guest.txt").read_text().replace("[kernel.kallsyms]", "bpf_prog_6deef7357e7b4530")
    (made / "guest.txt").write_text(text)
    said = disasm(capsys, *options(made))
    assert [row["symbol"] for row in said if row.get("vmid") == 7] == ["guest_idle"] * 2


@pytest.mark.parametrize("number", ["", "@7"])
def test_a_guests_recording_is_of_one_build(made: Path, capsys: pytest.CaptureFixture[str], number: str) -> None:
    own, guest = bytes(range(20)), made / "guest.txt"
    GUEST.write(made / "guest", build_id=own)
    args = [*options(made)[:3], "--guest-vmlinux", f"{made / 'guest'}{number}", "--guest-trace", f"{guest}@7"]
    rows = [{"start": GUEST.at("guest_idle"), "count": 2, "level": 1, "time": 2 * 10**9 + k} for k in range(3)]
    for build_id, status in ((own, 0), (b"", 0), (own[::-1], 2)):
        guest.write_bytes(recording(rows, RecordingHeader(build_id=build_id)))
        assert main(["trace", "disasm", *args]) == status
        said = f"{guest}: was recorded of another kernel: build-id {build_id.hex()}, {made / 'guest'} has {own.hex()}"
        assert (said in capsys.readouterr().err) == (status == 2)


def test_a_guest_whose_kernel_is_not_given_is_not_guessed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = options(made)[:3] + options(made)[5:]
    assert main(["trace", "disasm", *args, "--format", "jsonl"]) == 0
    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()[1:]]
    assert {row.get("symbol") for row in rows if row.get("vmid") == 7} == {None}
    assert "2 ranges may be of host or guest" in said.err


def test_a_module_of_a_guest_with_another_guests_number(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (made / "guest.txt").read_text().replace("[kernel.kallsyms]", "[zram8]")
    (made / "guest.txt").write_text(text)
    said = disasm(capsys, *options(made))
    assert [row["symbol"] for row in said if row.get("vmid") == 7] == ["guest_idle"] * 2


LARGE = [f"trace@{1 << 31}", "trace@99999999999", f"trace@{'1' * 5000}"]


@pytest.mark.parametrize(
    "text", ["trace", "trace@", "trace@x", "@5", "trace@5+", "trace@5+x", "trace@\u00b2", "trace@\u0665", *LARGE]
)
def test_what_is_no_guest_trace(made: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    args = [str(made / "host.txt"), "--vmlinux", str(made / "vmlinux"), "--guest-trace", text]
    assert main(["trace", "disasm", *args]) == 2
    assert "--guest-trace" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "guests"), [("-", ["-@7"]), ("host.txt", ["-@7", "-@8+5"])])
def test_standard_input_is_one_trace(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str, guests: list[str]
) -> None:
    monkeypatch.chdir(made)
    with (made / "guest.txt").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        args = ["trace", "disasm", host, "--vmlinux", "vmlinux", *(f"--guest-trace={guest}" for guest in guests)]
        assert main(args) == 2
        assert capsys.readouterr().err == ("prologue: - is named for more than one trace: standard input has one\n")
        assert main(["trace", "disasm", "host.txt", "--vmlinux", "vmlinux", "--guest-trace=-@7"]) == 0


@pytest.mark.parametrize("which", ["host.txt", "guest.txt"])
def test_what_has_no_times_is_not_merged(made: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    """Where its ranges are among the others' would be a guess."""
    text = (made / which).read_text()
    (made / which).write_text(re.sub(r" +\d+\.\d{6}: ", "", text))
    assert (made / which).read_text() != text
    assert main(["trace", "disasm", *options(made)]) == 2
    assert f"{made / which}: cannot be merged with others by time: it has no times" in capsys.readouterr().err


def test_times_may_begin_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenCSD's do, at the first timestamp: what is before it has its place in its own trace."""
    monkeypatch.setattr(merging, "_UNTIMED", 3)

    def batches(times: list[int]) -> Iterator[Batch]:
        for k, time in enumerate(times):
            ranges = new_ranges(1)
            ranges["time"], ranges["start"] = time, k
            yield Batch(ranges, [NO_TASK], [""])

    def read(times: list[int]) -> list[int]:
        both = [timed(Trace(name="x", kind="opencsd", batches=batches(some), account=Tally())) for some in ([4], times)]
        whole = np.concatenate([batch.ranges for batch in merge(both[0], [(both[1], GuestTrace("", 7, 0))])])
        return list(whole["start"][whole["vmid"] == 7])

    assert read([0, 0, 0, 5]) == [0, 1, 2, 3]
    with pytest.raises(InputError, match="its first 4 ranges have no times"):
        read([0, 0, 0, 0, 5])
    with pytest.raises(InputError, match="it has no times"):
        read([0, 0])


@pytest.mark.parametrize("clocked", [(True, True), (True, False), (False, True)])
def test_times_of_joined_recordings_are_ns_if_those_of_each_are(made: Path, clocked: tuple[bool, bool]) -> None:
    names = []
    for k, own in enumerate(clocked):
        (path := made / f"{k}.rec").write_bytes(
            recording([{"start": KERNEL.base, "count": 1}], RecordingHeader(clocked=own))
        )
        names.append(str(path))
    with open_traces(names, [], None, needs_times=False) as trace:
        assert trace.header is not None
        assert trace.header.clocked == all(clocked)


def test_a_recording_without_a_clock_is_not_merged(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"start": GUEST.at("guest_idle"), "count": 2, "time": 1000}]
    (made / "guest.txt").write_bytes(recording(rows, RecordingHeader(clocked=False)))
    assert main(["trace", "disasm", *options(made)]) == 2
    assert "its times are instructions" in capsys.readouterr().err


def test_ranges_before_the_first_time_are_counted(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As OpenCSD's before the first timestamp: they come first."""
    rows = [{"start": GUEST.at("guest_idle"), "count": 2, "time": time, "level": 1} for time in (0, 0, 2 * 10**9)]
    (made / "guest.txt").write_bytes(recording(rows))
    assert main(["trace", "disasm", *options(made)]) == 0
    assert "2 ranges without a time, among those of other traces" in capsys.readouterr().err


def test_all_ranges_come_each_cpus_in_its_order() -> None:
    """Whatever the sizes of batches, and if a CPU's ranges come late, as those of a recording do."""
    random = np.random.default_rng(4)

    def batches(size: int) -> list[Batch]:
        parts, tasks = [], [NO_TASK]
        for k in range(6):
            ranges = new_ranges(size)
            ranges["cpu"], ranges["time"] = k % 2, np.sort(random.integers(1, 1000, size))
            ranges["start"] = np.arange(k * size, (k + 1) * size)
            tasks.append(TracedTask("", k, k))
            ranges["task"] = k + 1
            parts.append(Batch(ranges, tasks, [""]))
        return parts

    every = [batches(50), batches(7), batches(90)]
    guests = [(iter(every[1]), GuestTrace("", 1, 0)), (iter(every[2]), GuestTrace("", 2, -100))]
    done = list(merge(iter(every[0]), guests))
    ranges = np.concatenate([batch.ranges for batch in done])
    for source, size in enumerate((50, 7, 90)):
        mine = ranges[ranges["source"] == source]
        assert mine["start"].tolist() == list(range(6 * size))
        pids = [done[-1].tasks[row].pid for row in mine["task"].tolist()]
        assert pids == sorted(pids)
    assert ranges["time"][ranges["source"] == 2].min() >= 1
