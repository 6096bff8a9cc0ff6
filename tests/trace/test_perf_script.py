"""Text of perf script: the one form that is read, and what is said of others."""

from __future__ import annotations

import gzip
import io

import pytest
import zstandard

from prologue.errors import InputError
from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers import streams
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.sources import open_trace
from prologue.trace.readers.streams import Peekable
from tests.trace.made import perf_line, perf_text, spans

A, B, C, D = 0xFFFF800080010000, 0xFFFF800080010100, 0xFFFF800080010200, 0xFFFF800080010300
STEPS: list[tuple[int, int]] = [(A + 8, B), (B + 12, C), (C, D), (D + 4, A)]
RANGES = [(0, B, B + 16, GAP), (0, C, C + 4, 0), (0, D, D + 8, 0)]


def read(text: str | bytes, account: Tally | None = None) -> list[tuple[int, int, int, int]]:
    data = text.encode() if isinstance(text, str) else text
    return spans(read_perf_script(Peekable(io.BytesIO(data), "perf.txt"), account or Tally()))


def test_the_lines_of_the_mail() -> None:
    assert read(perf_text(STEPS)) == RANGES


@pytest.mark.parametrize(
    "form",
    [
        "             cat       7/7       [000]     1.000001:   branches:  {ip:16x} => {addr:16x}",
        "             cat     7/7     [000]  branches:k:  {ip:16x} sym+0x8 ([k]) => {addr:16x} x (y)",
        "          my cat     7/7     [000] 123456.000001: branches:  {ip:16x} sym+0x8 ([kernel]) => {addr:16x} y (z)",
        "          a: b c     7/7     [000] 1.000001123: branches:  {ip:16x} sym+0x8 ([kernel]) => {addr:16x} y (z)",
        "kworker/u8:2-events_unbound 1234567/1234567 [000] 1.000001: branches:k:  {ip:16x} f (x) => {addr:16x} y (z)",
        "             cat     7/7     [000] 1.000001: branches:u:  {ip:16x} f(int, a<b>) (/x (deleted)) => {addr:16x}",
    ],
)
def test_the_form_with_other_widths_and_without_names_and_times(form: str) -> None:
    found = read("".join(form.format(ip=ip, addr=addr) + "\n" for ip, addr in STEPS))
    assert [row[1:] for row in found] == [row[1:] for row in RANGES]


SAMPLE = "             cat    77/77    [000]     1.000001:          1 "
OTHERS = {
    "words": "hello\n",
    "blank lines": "\n\n",
    "no targets": f"{SAMPLE}branches:k:  {A:16x} sym ([kernel.kallsyms])\n",
    "a period": f"{SAMPLE}branches:k:  {A:16x} sym ([kernel.kallsyms]) => {B:16x} sym (x)\n",
    "no CPU": f"             cat    77/77        1.000001: branches:k:  {A:16x} sym (x) => {B:16x} sym (x)\n",
    "a CPU that is not known": perf_line(A, B).replace("[000]", "[-01]"),
    "no task": f"[000]  {A:16x} => {B:16x}\n",
    "flags": f"             cat    77/77    [000]     1.000001: branches:k:   call  {A:16x} sym => {B:16x} sym\n",
    "instruction samples": f"{SAMPLE}instructions:k:  {A:16x} sym ([kernel.kallsyms])\n",
    "stacks": f"cat    77/77    [000]     1.000001: branches:k: \n\t{A:16x} sym\n => {B:16x} sym\n",
    "lines of source": perf_line(A, B) + "  read_write.c:123\n",
    "words of instructions": perf_line(A, B).replace("\n", " ilen: 4 insn: 1f 20 03 d5\n"),
}


@pytest.mark.parametrize("form", OTHERS)
@pytest.mark.parametrize("copies", [1, 40])
def test_another_form_is_refused_with_the_command_that_prints_this_one(form: str, copies: int) -> None:
    said = "perf script --itrace=b -F comm,pid,tid,cpu,time,event,ip,sym,symoff,addr,dso"
    with pytest.raises(InputError, match=f"is not what `{said}` prints: print it so, or name perf.data itself"):
        read(OTHERS[form] * copies)


def test_times_cpus_and_tasks() -> None:
    text = "".join(perf_line(ip, addr, cpu=3, time=12345 * 10**9 + 678000, pid=123) for ip, addr in STEPS)
    batch = next(iter(read_perf_script(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    assert set(batch.ranges["time"].tolist()) == {12345000678000}
    assert set(batch.ranges["cpu"].tolist()) == {3}
    assert batch.tasks[batch.ranges["task"][0]] == ("cat", 123, 123)
    assert batch.dsos[batch.ranges["dso"][0]] == "[kernel.kallsyms]"


def test_a_trace_on_is_a_gap() -> None:
    found = read(perf_text([*STEPS, (A + 4, 0), (0, C), (C + 8, A), (A, B)]))
    assert found == [*RANGES, (0, A, A + 8, 0), (0, C, C + 12, GAP), (0, A, A + 4, 0)]


def test_missing_samples_are_counted_and_leave_a_gap() -> None:
    account = Tally()
    found = read(
        perf_text([*STEPS, (B, C), (C + 4, A)]), account
    )  # from A on to B: too far; what comes next is not joined
    assert found[-1] == (0, C, C + 8, 0)
    found = read(perf_text([*STEPS, (A - 8, C), (C + 4, A)]), account)
    assert found[-1] == (0, C, C + 8, GAP)
    assert account.counts["ranges that end before they begin, or are too long: samples are missing"] == 1


def test_guest_rows_stay_the_guests_however_many_there_are() -> None:
    text = "".join(
        perf_line(ip, addr, cpu=cpu, dso="[guest.kernel.kallsyms]" if cpu else "[kernel.kallsyms]")
        for ip, addr in STEPS * 20
        for cpu in (0, 1)
    )
    for batch in read_perf_script(Peekable(io.BytesIO(text.encode()), "x"), Tally()):
        names = [batch.dsos[row] for row in batch.ranges["dso"]]
        assert names == ["[guest.kernel.kallsyms]" if cpu else "[kernel.kallsyms]" for cpu in batch.ranges["cpu"]]


def test_other_events_are_counted() -> None:
    account = Tally()
    other = "             cat    77/77    [000]     1.000001:     sched:sched_switch: prev_comm=a ==> next_comm=b\n"
    cycles = f"             cat    77/77    [000]     1.000001:     cycles:k:  {A:16x} sym ([kernel.kallsyms])\n"
    assert read(perf_text(STEPS[:2]) + other + cycles + perf_text(STEPS[2:]), account) == RANGES
    assert account.counts == {"other events: sched:sched_switch": 1, "other events: cycles:k": 1}


@pytest.mark.thorough
def test_blocks_may_end_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    text = perf_text(STEPS * 30)
    whole = read(text)
    for size in (1, 7, 150, 1000):
        monkeypatch.setattr(streams, "BLOCK", size)
        assert read(text) == whole


def test_compressed_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = perf_text(STEPS).encode()
    for name, content in (("a.gz", gzip.compress(data)), ("b.zst", zstandard.compress(data)), ("c", data)):
        path = tmp_path_factory.mktemp("trace") / name
        path.write_bytes(content)
        with open_trace(str(path)) as trace:
            assert spans(trace.batches) == RANGES
        if name != "c":
            path.write_bytes(content[: len(content) // 2])
            with pytest.raises(InputError, match="damaged or cut"), open_trace(str(path)) as trace:
                list(trace.batches)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line",
    [
        "branches:   a" + " " * 30_000 + "_" + " " * 30_000,
        "branches:k:   call" + " " * 60_000,
        "cat 1" + " " * 60_000,
        "  x+1 (" + "a" * 60_000,
        "x" * 1_000_000,
    ],
)
def test_long_lines_are_read_in_time_that_grows_with_them(line: str) -> None:
    """It was minutes: the time that a test may take is enough."""
    account = Tally()
    assert read(perf_text(STEPS) + line + "\n" + perf_text(STEPS), account)
    assert account.counts == {"lines that cannot be read: a gap on every CPU": 1}
