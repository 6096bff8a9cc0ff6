"""Elements of OpenCSD become ranges: gaps, contexts, errors, and numbers that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.trace.coresight import elements as ocsd
from prologue.trace.coresight.elements import ElementKind
from prologue.trace.ranges import (
    EXCEPTION,
    GAP,
    LOST,
    NO_VMID,
    OTHER_WORLD,
    RETURN,
    Tally,
    TracedTask,
    TraceRanges,
    count_instructions,
)
from prologue.trace.readers.sources import open_trace
from tests.trace.elements import ON, ElementTrace, Message, context, element, error, range_

A = 0xFFFF800080010000
DAMAGE = "ranges that cannot be: a gap"


def read(messages: list[Message], *, process_in_vmid: bool = False) -> tuple[TraceRanges, list[TracedTask], Tally]:
    """The ranges, the tasks that they name, and what was counted."""
    with ElementTrace(messages, process_in_vmid=process_in_vmid).in_place(), open_trace("x") as trace:
        batches = list(trace.batches)
        return np.concatenate([batch.ranges for batch in batches]), batches[-1].tasks, trace.account


def flags(messages: list[Message]) -> list[tuple[int, int]]:
    """CPU and flags of each range."""
    rows: list[tuple[int, int]] = read(messages)[0][["cpu", "flags"]].tolist()
    return rows


@pytest.mark.parametrize(
    ("kind", "fields", "between"),
    [
        ("TRACE_ON", {}, GAP),
        ("TRACE_ON", {"value": ocsd.OVERFLOW}, GAP | LOST),
        ("NO_SYNC", {}, GAP | LOST),
        ("ADDR_NACC", {"start": A}, GAP | LOST),
        ("I_RANGE_NOPATH", {"start": A}, GAP | LOST),
        ("ADDR_UNKNOWN", {}, GAP | LOST),
        ("EO_TRACE", {}, GAP | LOST),
        ("EXCEPTION", {}, EXCEPTION),
        ("EXCEPTION_RET", {}, RETURN),
        ("CYCLE_COUNT", {"cycles": 2}, 0),
        ("MEMTRANS", {"value": 1}, 0),
        ("MEMTRANS", {"value": ocsd.ROLLED_BACK}, GAP),
    ],
)
def test_what_stands_between_two_ranges(kind: str, fields: dict[str, int], between: int) -> None:
    messages = [*range_(A, 3), *element(ElementKind[kind], **fields), *range_(A + 64, 1)]
    assert flags(messages)[-1] == (16, between)


def test_trace_ids_are_sequences_of_their_own() -> None:
    other = element(ElementKind.TRACE_ON, 18)
    messages = [*range_(A, 1), *other, *range_(A, 1, 18), *other, *range_(A, 1), *range_(A, 1, 18)]
    assert flags(messages) == [(16, GAP), (18, GAP), (16, 0), (18, GAP)]


def test_no_ranges_are_bad_input() -> None:
    with pytest.raises(InputError, match="no instruction ranges"):
        read(ON)


@pytest.mark.parametrize("ticks", [0, 1234, (1 << 64) - 1])
def test_timestamps_of_a_snapshot_are_taken_as_ns(ticks: int) -> None:
    ranges, *_ = read([*ON, *element(ElementKind.TIMESTAMP, timestamp=ticks), *range_(A, 3)])
    assert ranges["time"].tolist() == [ticks]


@pytest.mark.parametrize(
    ("isa", "count", "size"),
    [(ocsd.A64, 3, 12), (ocsd.A32, 3, 12), (ocsd.T32, 5, 14), (ocsd.T32, 3, 12), (ocsd.T32, 6, 12)],
)
def test_instructions_are_counted_as_the_element_counts_them(isa: int, count: int, size: int) -> None:
    right, wrong = (range_(0x10000, number, isa=isa, size=size) for number in (count, 1))
    ranges, _, account = read([*ON, *wrong, *right])
    assert count_instructions(ranges).tolist() == [count]
    assert account.counts[DAMAGE] == 1


@pytest.mark.parametrize(
    ("start", "count", "size"), [(A + 2, 2, 8), (A, (1 << 20) // 4, 0), (0, 1, -4 & ((1 << 64) - 1)), (A, 3, 8)]
)
def test_a_range_that_cannot_be_is_a_gap(start: int, count: int, size: int) -> None:
    ranges, _, account = read([*ON, *range_(A, 2), *range_(start, count, size=size), *range_(A, 2)])
    assert ranges[["start", "flags"]].tolist() == [(A, GAP), (A, GAP)]
    assert account.counts[DAMAGE] == 1


@pytest.mark.parametrize(
    ("vmid", "process", "in_vmid", "expected"),
    [
        (7, 0x4D2, False, (7, 0x4D2)),
        (None, 0x4D2, False, (NO_VMID, 0x4D2)),
        (7, None, False, (7, -1)),
        (0x4D2, 7, True, (0x4D2, 0x4D2)),  # VHE: CONTEXTIDR_EL2; CONTEXTIDR_EL1 is a guest's
        (None, 7, True, (NO_VMID, 7)),
        (0x80000007, 7, False, (NO_VMID, 7)),  # has no place in a range
        (None, 0, False, (NO_VMID, -1)),  # a register that nobody writes
    ],
)
def test_vmid_and_process(vmid: int | None, process: int | None, in_vmid: bool, expected: tuple[int, int]) -> None:
    messages = [*context(2, vmid=vmid, process=process), *range_(A, 1)]
    ranges, tasks, _ = read(messages, process_in_vmid=in_vmid)
    assert (ranges["vmid"][0], tasks[ranges["task"][0]].pid, ranges["level"][0]) == (*expected, 2)


def test_other_worlds_are_marked() -> None:
    secure = context(1, security=0)
    assert flags([*secure, *range_(A, 1), *context(1), *range_(A, 1)]) == [(16, GAP | OTHER_WORLD), (16, 0)]


def test_an_error_is_a_gap_of_its_source_and_counted_once() -> None:
    begin = [*ON, *element(ElementKind.TRACE_ON, 18), *context(2, vmid=7), *range_(A, 1), *range_(A, 1, 18)]
    bad = [*error("OCSD_ERR_BAD_DECODE_PKT", "Unknown packet type."), *element(ElementKind.NO_SYNC)]
    ranges, _, account = read([*begin, *bad, *range_(A + 64, 1, 18), *range_(A + 64, 1)])
    assert ranges[["cpu", "flags"]].tolist() == [(16, GAP), (18, GAP), (18, 0), (16, GAP | LOST)]
    assert account.counts == {
        "places where tracing began (trace on)": 2,
        "errors of the decoder on trace ID 0x10: OCSD_ERR_BAD_DECODE_PKT, Unknown packet type.": 1,
    }
    assert not account.bad_images


def test_after_an_error_that_names_no_source_nothing_is_known_of_any_cpu() -> None:
    begin = [*ON, *context(2, vmid=7), *range_(A, 1)]
    bad = error("OCSD_ERR_DFMTR_BAD_FHSYNC", "Bad HSYNC in frame.", source="")
    ranges, _, account = read([*begin, *bad, *range_(A + 64, 1)])
    assert ranges[["flags", "level", "vmid"]].tolist() == [(GAP, 2, 7), (GAP, 255, NO_VMID)]
    assert account.counts["errors of the decoder: OCSD_ERR_DFMTR_BAD_FHSYNC, Bad HSYNC in frame."] == 1
