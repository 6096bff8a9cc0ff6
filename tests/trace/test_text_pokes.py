"""Text that changes while CoreSight traces it: perf.data has the pokes, and the decoder follows them."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from prologue.trace.cli import inputs
from prologue.trace.coresight.code import ChangingText, TextChanges
from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from prologue.trace.ranges import GAP
from prologue.trace.readers.recording import RECORD
from tests.support.cs_etm import CsTrace, record, sample
from tests.support.cs_recording import READ, expected, stamped, stream
from tests.trace.made import KERNEL, Run

PLACE, NOP = READ + 16, 0xD503201F
WITHOUT = ((READ, 4), (READ + 16, 3), (READ + 32, 2))
ROUNDS = 5
pytestmark = pytest.mark.usefixtures("opencsd")


def without_the_call() -> bytes:
    words = list(KERNEL.words)
    words[(PLACE - KERNEL.base) // 4] = NOP
    records = np.zeros(ROUNDS * len(WITHOUT), RECORD)
    records["start"], records["count"] = np.tile(np.array(WITHOUT, np.uint64), (ROUNDS, 1)).T
    records["level"], records["vmid"] = 1, -1
    records["flags"][:1] = GAP
    return bytes(
        encode(records, ProgramText([(KERNEL.base, np.array(words, np.uint32))]), (1,), bare_unit(0, vmids=False)).data
    )


def poke(time: int, old: int, new: int) -> bytes:
    body = struct.pack("<QHHII4x", PLACE, 4, 4, old, new)  # records are multiples of eight bytes
    return record(20, 1, body + sample(0, time, 0))


def traced(*, timed_by: int | None = 1) -> CsTrace:
    """Two CPUs that call read_zero at 2500 ns, not at 4500, and call it again at 6500: ns are 2 * ticks + 500."""
    conversion = record(79, 0, struct.pack("<QQQ", 1, 4, 500))
    data = stamped(stream(ROUNDS), 1000) + stamped(without_the_call(), 2000) + stamped(stream(ROUNDS), 3000)
    call = KERNEL.words[(PLACE - KERNEL.base) // 4]
    pokes = [poke(5500, NOP, call), poke(3500, call, NOP)]  # perf does not write in the order of time
    return CsTrace(streams={0: data, 1: data}, text=(KERNEL.base, 4 * len(KERNEL.words)), raw=True,
                   configr=1 << 11, extra=[conversion, *pokes], timed=timed_by)  # fmt: skip


def listed(out: str, cpu: int) -> list[tuple[int, int]]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()[1:]]
    return [(int(row["start"], 16), int(row["end"], 16)) for row in rows if row["cpu"] == cpu]


def test_the_decoder_follows_the_text_of_the_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced()
    monkeypatch.setattr(inputs, "_SKEW", 0)
    said = run("disasm", trace, "--format", "jsonl")
    without = [(start, start + 4 * count) for start, count in WITHOUT] * ROUNDS
    for cpu in (0, 1):
        assert listed(said.out, cpu) == expected(ROUNDS) + without + expected(ROUNDS)
    assert "2 words of text written while tracing (text pokes): followed" in said.err
    assert "none impossible" in run("check", trace).out
    call = f"{KERNEL.words[(PLACE - KERNEL.base) // 4]:08x}"
    for cpu in (0, 1):
        rows = [json.loads(line) for line in said.out.splitlines()[1:]]
        here = [row["instructions"][0]["word"] for row in rows if row["cpu"] == cpu and int(row["start"], 16) == PLACE]
        assert here == [call] * ROUNDS + [f"{NOP:08x}"] * ROUNDS + [call] * ROUNDS


def test_without_times_nothing_is_followed_and_that_is_said(run: Run) -> None:
    printed = run("check", traced(timed_by=None), status=None)
    said = "2 changes of text while tracing (text pokes), which the decoder did not follow: the trace has no times"
    assert said in printed.err


def test_forward_and_back() -> None:
    changes = TextChanges(
        times=np.array([10, 20, 30], np.uint64),
        vaddrs=np.array([100, 104, 100], np.uint64),
        old=np.array([1, 5, 2], np.uint32),
        new=np.array([2, 6, 3], np.uint32),
        clock=lambda ticks: ticks,
    )
    other = np.array([9], "<u4")
    pieces: list[tuple[int, Any]] = [(100, np.array([7, 7, 8], "<u4")), (200, other)]
    text = ChangingText(changes, pieces)
    seen = [pieces[0][1].tolist()]
    for time in (10, 25, 30, 99, 12, 0, 9):
        text.move_to(time)
        seen.append(pieces[0][1].tolist())
    states = [[1, 5, 8], [2, 5, 8], [2, 6, 8], [3, 6, 8], [3, 6, 8], [2, 5, 8], [2, 5, 8], [1, 5, 8]]
    assert seen == states  # a time of 0 is none
    assert pieces[1][1] is other
