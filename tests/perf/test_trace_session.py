"""perf.data with CoreSight: where its bytes are, and of which trace units."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from prologue.errors import InputError
from prologue.perf.container import open_perf_data
from prologue.perf.coresight import TimeConversion, TraceProtocol, read_hardware_id, read_time_conversion, read_units
from prologue.perf.session import TaskNames, read_session
from prologue.trace.ranges import Tally
from prologue.trace.readers.decoding import open_perf_trace
from tests.support.cs_etm import ETE, CsTrace, record, sample, write
from tests.support.needs import needs_opencsd

DATA = bytes(range(240)) * 4


def made(**how: Any) -> CsTrace:
    return CsTrace(streams={0: DATA, 3: DATA}, text=(0xFFFF800080000000, 4096), **how)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_units_of_every_version(version: int, tmp_path: Path) -> None:
    found = read_session(write(tmp_path / "perf.data", made(version=version, configr=0xC1)))
    assert [(unit.cpu, unit.trace_id, unit.configr, unit.protocol) for unit in found.units] == [
        (0, 0x10, 0xC1, TraceProtocol.ETM4), (3, 0x16, 0xC1, TraceProtocol.ETM4),
    ]  # fmt: skip
    assert [unit.idr2 for unit in found.units] == [0x888, 0x888]
    assert found.kernel_symbols == {"_text": 0xFFFF800080000000}


def test_ete_and_the_clock_of_its_timestamps(tmp_path: Path) -> None:
    found = read_session(write(tmp_path / "perf.data", made(magic=ETE, timed=1, raw=True)))
    assert {(unit.protocol, unit.devarch, unit.kernel_time) for unit in found.units} == {
        (TraceProtocol.ETE, 0x47705A13, True)
    }
    assert [fragment.raw for fragment in found.fragments] == [True, True]


@pytest.mark.parametrize("pipe", [False, True])
def test_fragments_are_the_bytes_of_aux_records(pipe: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "perf.data", made(raw=True, parts=3), pipe=pipe)
    found, content = read_session(path), path.read_bytes()
    for cpu in (0, 3):
        own = [part for part in found.fragments if part.cpu == cpu]
        assert b"".join(content[part.at : part.at + part.size] for part in own) == DATA
    assert [part.time for part in found.fragments] == sorted(part.time for part in found.fragments)
    assert found.counts["bytes of trace that no AUX record names"] == 0


def test_a_snapshot_of_a_ring_buffer(tmp_path: Path) -> None:
    """AUX flag overwrite: the offset is where the buffer ends, and the size may be more than it has."""
    aux = record(11, 0, struct.pack("<QQQ", len(DATA), 1 << 20, 2 | 0x100) + sample(0, 5, 7))
    head = record(71, 0, struct.pack("<QQQIiiI", 0, 0, 1, 7, -1, 7, 0))
    path = write(tmp_path / "perf.data", made(raw=True, extra=[aux]), pipe=True)
    data = head[:8] + struct.pack("<Q", len(DATA)) + head[16:] + DATA
    path.write_bytes(path.read_bytes() + data)
    (found,) = [part for part in read_session(path).fragments if part.cpu == 7]
    assert path.read_bytes()[found.at : found.at + found.size] == DATA


def test_what_is_no_coresight_trace() -> None:
    with pytest.raises(ValueError, match="AUX data of Arm SPE: only CoreSight traces are read"):
        read_units(struct.pack("<IIQQQ", 4, 0, 1, 1, 0))
    with pytest.raises(ValueError, match="is cut off"):
        read_units(struct.pack("<IIQQQ", 3, 0, 1, 1, 0))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (
            [record(70, 0, struct.pack("<IIQQQ", 4, 0, 1, 1, 0))],
            "has AUX data of Arm SPE: only CoreSight traces are read",
        ),
        ([], "has no trace of an AUX buffer: record one with perf record -e cs_etm//k"),
    ],
    ids=["SPE", "samples only, or stripped by perf inject"],
)
def test_a_whole_file_of_another_kind_is_not_called_damaged(records: list[bytes], said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "perf.data", made(), pipe=True)
    attribute = path.read_bytes()[: 16 + 8 + 128 + 8]
    path.write_bytes(
        attribute + b"".join(records) + record(3, 0, struct.pack("<ii8s", 1, 1, b"init") + sample(1, 5, 0))
    )
    with pytest.raises(InputError) as raised:
        read_session(path)
    assert raised.value.message == said


def test_bytes_of_trace_that_no_record_names(tmp_path: Path) -> None:
    needs_opencsd()
    path = write(tmp_path / "perf.data", made(), pipe=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<IHH", 11, 0, 64), struct.pack("<IHH", 4711, 0, 64)))
    found = read_session(path)
    assert (found.fragments, found.unnamed_bytes > 2 * len(DATA)) == ((), True)
    with pytest.raises(InputError, match=rf"no AUX record says what its {found.unnamed_bytes:,} bytes of trace are"):
        open_perf_trace(path, Tally())


def test_trace_ids_of_records() -> None:
    assert read_hardware_id(struct.pack("<Q", 0x12)) == (0x12, None)
    assert read_hardware_id(struct.pack("<Q", 1 << 56 | 0x77 << 8 | 0x12)) == (0x12, 0x77)
    with pytest.raises(ValueError, match="version 1"):
        read_hardware_id(struct.pack("<Q", 1 << 60))


def test_times() -> None:
    assert TimeConversion(shift=10, multiplier=10240, zero=7).time(5000) == 50007
    assert TimeConversion(shift=10, multiplier=10240, zero=7).time(0) == 0
    short = TimeConversion(shift=0, multiplier=1, zero=0, cycles=0x1_0000_0000, mask=0xFFFFFFFF)
    assert short.time(5) == 0x1_0000_0005
    assert read_time_conversion(struct.pack("<QQQQQBB6x", 1, 2, 3, 4, 5, 0, 0)) is None
    assert read_time_conversion(struct.pack("<QQQ", 1, 2, 3)) == TimeConversion(shift=1, multiplier=2, zero=3)
    with pytest.raises(ValueError, match="damaged"):
        read_time_conversion(struct.pack("<QQQ", 64, 2, 3))


def test_names_change_and_are_inherited() -> None:
    tasks = TaskNames()
    tasks.named(5, 5, "sh", 10)
    tasks.forked(6, 6, 5, 20)
    tasks.named(6, 6, "cat", 30)
    tasks.sort()
    assert [tasks.name(6, time) for time in (5, 25, 31, 0)] == ["sh", "sh", "cat", "cat"]
    assert (tasks.name(9, 1), tasks.pid(9), tasks.pid(6), tasks.name(0, 1)) == ("", -1, 6, "swapper")


def test_before_a_program_was_executed_its_name_is_nobody_s() -> None:
    tasks = TaskNames()
    tasks.named(5, 5, "cat", 10, executed=True)
    tasks.named(6, 6, "sh", 0)
    tasks.named(6, 6, "dd", 10, executed=True)
    tasks.sort()
    assert [tasks.name(5, time) for time in (9, 10, 0)] == ["", "cat", "cat"]
    assert [tasks.name(6, time) for time in (9, 10, 0)] == ["sh", "dd", "dd"]


def test_names_of_new_threads_whatever_buffer_perf_read_first() -> None:
    tasks = TaskNames()
    tasks.named(1, 1, "bash", 0)
    tasks.forked(2, 2, 1, 200)
    tasks.forked(3, 3, 2, 250)
    tasks.forked(4, 4, 1, 0)
    tasks.named(1, 1, "make", 100, executed=True)
    tasks.named(4, 4, "cc", 0)
    tasks.sort()
    assert [tasks.name(tid, 300) for tid in (1, 2, 3, 4)] == ["make", "make", "make", "cc"]


@pytest.mark.parametrize("pipe", [False, True])
def test_the_kernel_s_map_with_its_build_id(pipe: bool, tmp_path: Path) -> None:
    """MMAP2 of perf record --buildid-mmap, which then writes no list of build-ids."""
    identity = bytes([20, 0, 0, 0]) + bytes(range(1, 21))
    name = b"[kernel.kallsyms]_stext".ljust(24, b"\0")
    body = struct.pack("<iiQQQ24sII", -1, 0, 0x1000, 0x1000, 0xFFFF800080010000, identity, 0, 0) + name
    of_kernel = record(10, 1 | 1 << 14, body + sample(0, 0, 0))
    of_guest = record(10, 4 | 1 << 14, body + sample(0, 0, 0))
    path = write(tmp_path / "perf.data", made(extra=[of_guest, of_kernel]), pipe=pipe)
    found = read_session(path)
    assert found.kernel_symbols["_stext"] == 0xFFFF800080010000
    assert found.build_id == bytes(range(1, 21)).hex()
    assert found.spaces.at(-1, 0x1000) is None


def test_build_ids_of_a_pipe_are_records(tmp_path: Path) -> None:
    body = struct.pack("<i24s", -1, bytes(range(1, 21))) + b"[kernel.kallsyms]".ljust(24, b"\0")
    path = write(tmp_path / "perf.data", made(extra=[record(67, 1, body)]), pipe=True)
    assert read_session(path).build_id == bytes(range(1, 21)).hex()


@pytest.mark.parametrize("size", [0, 4, 27])
def test_a_build_id_that_is_cut_off_is_damage(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "perf.data", made(extra=[record(67, 0x8001, bytes(size))]), pipe=True)
    with pytest.raises(InputError, match=f"a build-id of {size} bytes"):
        read_session(path)


def test_cpus_are_all_that_are_present(tmp_path: Path) -> None:
    feature = record(80, 0, struct.pack("<QII", 7, 8, 6))  # 8 present, 6 of them online
    with open_perf_data(write(tmp_path / "perf.data", made(extra=[feature]), pipe=True)) as file:
        assert list(file.records())
        assert file.cpus == 8


def test_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2" + struct.pack("<Q", 16))
    with pytest.raises(InputError, match="-e cs_etm//"):
        read_session(path)
