"""Recordings, whole and damaged."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.trace.ranges import EXCEPTION, GAP, HIGHEST_CPU, LONGEST, LOST, Tally
from prologue.trace.readers import recording as reader
from prologue.trace.readers.recording import RecordingHeader, read_header, read_records
from prologue.trace.readers.sources import open_trace
from tests.support.tool import Tool
from tests.trace.made import KERNEL, recording, spans

A = 0xFFFF800080010000


def read(data: bytes, account: Tally | None = None) -> list[tuple[int, int, int, int]]:
    stream = io.BytesIO(data)
    read_header(stream, "x")
    return spans(read_records(stream, account or Tally()))


def test_ranges_of_two_cpus() -> None:
    rows = [{"start": A, "count": 4}, {"start": A, "count": 1, "cpu": 1}, {"start": A + 64, "count": 2}]
    assert read(recording(rows)) == [(0, A, A + 16, GAP), (1, A, A + 4, GAP), (0, A + 64, A + 72, 0)]


def test_what_a_header_says() -> None:
    header = RecordingHeader(start_time=17, clocked=False, cpus=2, build_id=bytes(range(20)), slide=-4096)
    assert read_header(io.BytesIO(header.pack()), "x") == header
    assert len(header.pack()) == 64
    assert read_header(io.BytesIO(RecordingHeader().pack()), "x") == RecordingHeader()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PROTRACE", "header is missing or cut off"),
        (b"P" * 64, "header is missing"),
        (b"PROTRACE\2" + bytes(55), "version 2"),
    ],
)
def test_other_files_are_bad_input(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_header(io.BytesIO(data), "x")


def test_a_recording_after_another_is_bad_input() -> None:
    """``cat A B``: the kernel of the second one may be elsewhere."""
    one = recording([{"start": A, "count": 1}] * 3)
    stream = io.BytesIO(one + one)
    read_header(stream, "x")
    batches = read_records(stream, Tally(), name="x")
    assert len(next(batches).ranges) == 3
    with pytest.raises(InputError, match=f"^x: holds another recording from byte {len(one)} on"):
        next(batches)


def test_a_note_of_loss_is_a_gap_on_its_cpu() -> None:
    rows = [{"start": A, "count": 1, "cpu": cpu} for cpu in (0, 1)]
    found = read(recording([*rows, {"count": 0, "cpu": 1, "flags": GAP | LOST}, *rows]))
    assert [row[3] & GAP for row in found] == [1, 1, 0, 1]


@pytest.mark.parametrize(
    "hole", [{"count": 0}, {"count": 0, "cpu": 1}, {"start": A, "count": 1, "cpu": 2, "flags": GAP}]
)
def test_a_hole_or_a_cpu_that_is_not_there_is_a_gap_on_every_cpu(hole: dict[str, int]) -> None:
    rows = [{"start": A, "count": 1, "cpu": cpu} for cpu in (0, 1)]
    stream, account = io.BytesIO(recording([*rows, hole, *rows])), Tally()
    read_header(stream, "x")
    assert [row[3] & GAP for row in spans(read_records(stream, account, 2))] == [1, 1, 1, 1]
    assert account.counts == {"records that make no sense: a gap on every CPU": 1}


def test_a_note_of_an_exception_to_come_is_none() -> None:
    rows = [{"start": A, "count": 1}]
    account = Tally()
    assert [
        row[3] for row in read(recording([*rows, {"count": 0, "start": A, "flags": EXCEPTION}, *rows]), account)
    ] == [1, 0]
    assert not account.counts


def test_records_that_make_no_sense_are_gaps_on_every_cpu() -> None:
    rows = [{"start": A, "count": 1, "cpu": cpu} for cpu in (0, 1)]
    one = {"start": A, "count": 1}
    wrongs = [{"start": A + 2, "count": 1}, {"start": A, "count": 1 << 30}, {"start": (1 << 64) - 4, "count": 2}]
    for wrong in (*wrongs, {**one, "level": 4}, {**one, "level": 254}, {**one, "vmid": -2}, {**one, "cpu": 4096}):
        account = Tally()
        found = read(recording([*rows, wrong, *rows, *rows]), account)
        assert [row[3] & GAP for row in found] == [1, 1, 1, 1, 0, 0]
        assert list(account.counts.values()) == [1]


def test_a_cut_recording_reads_up_to_its_last_whole_record() -> None:
    account = Tally()
    data = recording([{"start": A, "count": 1}, {"start": A + 4, "count": 1}])
    assert read(data[:-7], account) == [(0, A, A + 4, GAP)]
    assert account.counts == {"record cut at the end": 1}


def test_gaps_after_a_record_that_makes_no_sense_do_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"start": A + 4 * k, "count": 1, "cpu": k % 3} for k in range(60)]
    rows[7] = {"count": 0, "cpu": 1, "flags": GAP | LOST}
    rows[20] = rows[47] = {"start": A + 2, "count": 1}
    whole = read(recording(rows))
    for size in (1, 2, 5, 10, 22, 50):
        monkeypatch.setattr(reader, "BATCH", size)
        assert read(recording(rows)) == whole


@pytest.mark.parametrize("size", [1, 31, 32, 3200, 5000])
def test_random_bytes_are_ranges_that_can_be_or_are_counted(size: int) -> None:
    chance, account = random.Random(5), Tally()  # noqa: S311 - the same bytes every time
    found = read(RecordingHeader().pack() + chance.randbytes(size), account)
    assert account.counts.pop("record cut at the end", 0) == (size % 32 > 0)
    assert len(found) + account.counts.total() == size // 32
    for cpu, start, end, _ in found:
        assert 0 <= cpu <= HIGHEST_CPU
        assert start % 4 == 0 < end - start <= LONGEST


def test_open_trace_tells_kinds_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "a.ptrace"
    path.write_bytes(recording([{"start": A, "count": 1}], RecordingHeader(slide=64)))
    with open_trace(str(path)) as trace:
        assert trace.kind == "recording"
        assert trace.header is not None
        assert trace.header.slide == 64
    listed = (
        "is text of OpenCSD's trc_pkt_lister, which is not read: give what it was made from, the snapshot directory"
    )
    for content, said in (
        (b"PERFILE2 and more", "damaged perf.data"),
        (b"\x7fELF\0\0", "is not a trace"),
        (b"Trace Packet Lister: CS Decode library testing\n", listed),
        (b"Idx:9; ID:10; OCSD_GEN_TRC_ELEM_TRACE_ON( [begin or filter])\n", listed),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=said), open_trace(str(path)):
            pass


def test_a_recording_is_of_one_build(tmp_path: Path, tool: Tool) -> None:
    trace, own = tmp_path / "trace", bytes(range(20))
    vmlinux = str(KERNEL.write(tmp_path / "vmlinux", build_id=own))
    rows = [{"start": KERNEL.at("vfs_read"), "count": 2}, {"start": KERNEL.at("vfs_read+0x8"), "count": 3}]
    for build_id, status in ((own, 0), (b"", 0), (bytes(20), 0), (own[::-1], 2)):
        trace.write_bytes(recording(rows, RecordingHeader(build_id=build_id)))
        for action in ("disasm", "check", "stats"):
            printed = tool("trace", action, trace, "--vmlinux", vmlinux, status=status)
            said = f"was recorded of another kernel: build-id {build_id.hex()}, {vmlinux} has {own.hex()}"
            assert (said in printed.err) == (status == 2)


@pytest.mark.parametrize("size", [8, 16, 32])
def test_build_ids_of_other_sizes(tmp_path: Path, tool: Tool, size: int) -> None:
    """``ld --build-id=md5`` and ``uuid`` make 16 bytes, ``0x`` as many as there are; a header has the first 20."""
    trace, own = tmp_path / "trace", bytes(range(1, size + 1))
    vmlinux = str(KERNEL.write(tmp_path / "vmlinux", build_id=own))
    ran = (("vfs_read", 2), ("vfs_read+0x8", 3))
    rows = [{"start": KERNEL.at(place), "count": count, "level": 1} for place, count in ran]
    for build_id, status in ((own, 0), (own[:-1] + b"x" if size < 20 else own[::-1], 2)):
        trace.write_bytes(recording(rows, RecordingHeader(build_id=build_id[:20], slide=0)))
        for action in (("disasm",), ("etm", "-o", tmp_path / f"etm{status}")):
            printed = tool("trace", *action, trace, "--vmlinux", vmlinux, status=status)
            assert ("another kernel" in printed.err) == (status == 2)
