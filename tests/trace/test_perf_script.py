"""Text of perf script: every form of its lines, and every way in which it may be damaged."""

from __future__ import annotations

import gzip
import io
import time

import pytest
import zstandard

from prologue.errors import InputError
from prologue.trace.ranges import GAP, SAMPLE, Tally
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


def test_one_line_that_is_read_alone() -> None:
    account = Tally()
    assert read(f"             cat    77/77    [000]  {1:16x}", account) == []
    assert account.lines() == ["1 sample at no instruction's address"]


@pytest.mark.parametrize(
    "form",
    [
        " {ip:16x} => {addr:16x}",
        "[000]     1.000001: branches:  {ip:16x} => {addr:16x}",
        "[000]  {ip:16x} sym => {addr:16x} other",
        "    7/7     [000]     1.000001:          1 branches:k:  {ip:16x} sym+0x8 => {addr:16x} x",
        "    7/7     [000]     1.000001123: branches:k:   call                 {ip:16x} f (vmlinux) => {addr:16x} x",
        "          my cat     7/7     [000] 123456.000001: branches:  {ip:16x} sym+0x8 ([kernel]) => {addr:16x} y (z)",
        "          a: b c     7/7     [000] 123456.000001: branches:  {ip:16x} sym+0x8 ([kernel]) => {addr:16x} y (z)",
        "             cat     7 [000] branches:u:  {ip:16x} f(int, a<b>) (/x (deleted)) => {addr:16x} [unknown]",
    ],
)
def test_other_sets_of_fields(form: str) -> None:
    found = read("".join(form.format(ip=ip, addr=addr) + "\n" for ip, addr in STEPS))
    assert [row[1:] for row in found] == [row[1:] for row in RANGES]


def test_times_cpus_and_tasks() -> None:
    text = "".join(perf_line(ip, addr, cpu=3, time=12345 * 10**9 + 678000, pid=123) for ip, addr in STEPS)
    batch = next(iter(read_perf_script(Peekable(io.BytesIO(text.encode()), "x"), Tally())))
    assert set(batch.ranges["time"].tolist()) == {12345000678000}
    assert set(batch.ranges["cpu"].tolist()) == {3}
    assert batch.tasks[batch.ranges["task"][0]] == ("cat", 123, 123)
    assert batch.dsos[batch.ranges["dso"][0]] == "[kernel.kallsyms]"


def test_two_cpus_interleaved_are_two_sequences() -> None:
    both = [perf_line(ip + cpu * 4096, addr + cpu * 4096, cpu=cpu) for ip, addr in STEPS for cpu in (0, 1)]
    found = read("".join(both))
    for cpu in (0, 1):
        mine = [(start - cpu * 4096, end - cpu * 4096, flags) for own, start, end, flags in found if own == cpu]
        assert mine == [row[1:] for row in RANGES]


def test_a_trace_on_is_a_gap() -> None:
    found = read(perf_text([*STEPS, (A + 4, 0), (0, C), (C + 8, A), (A, B)]))
    assert found == [*RANGES, (0, A, A + 8, 0), (0, C, C + 12, GAP), (0, A, A + 4, 0)]


@pytest.mark.parametrize("cpu", ["[000] ", ""])
def test_losses_that_perf_says_are_gaps_on_every_cpu(cpu: str) -> None:
    lost = f"             cat    77/77    {cpu}    1.000003: PERF_RECORD_LOST lost 12\n"
    found = read(perf_text(STEPS) + lost + perf_text(STEPS))
    assert [row[3] & GAP for row in found] == [1, 0, 0, 1, 0, 0]


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


@pytest.mark.parametrize("copies", [1, 20])
def test_where_in_a_file_an_address_is_does_not_make_it_another_program(copies: int) -> None:
    """The field dsoff; perf leaves the offset out where symbols came from kallsyms."""
    dsos = ("vmlinux+{:#x}", "[kernel.kallsyms]", "[guest.kernel.kallsyms.7]+{:#x}", "nf_tables.ko+0x10")
    text = "".join(
        perf_line(ip, addr, cpu=cpu, dso=dso.format(ip & 0xFFFFF))
        for ip, addr in STEPS * copies
        for cpu, dso in enumerate(dsos)
    )
    account = Tally()
    (batch,) = read_perf_script(Peekable(io.BytesIO(text.encode()), "x"), account)
    names = [(cpu, batch.dsos[row]) for cpu, row in zip(batch.ranges["cpu"], batch.ranges["dso"], strict=True)]
    assert names[:4] == list(enumerate(dso.removesuffix("+{:#x}").removesuffix("+0x10") for dso in dsos))
    assert names == names[:4] * (len(names) // 4)
    assert len(names) >= 12 * copies
    assert sorted(batch.dsos) == sorted({"", *(name for _, name in names)})


def test_instruction_samples_have_no_neighbours_and_stacks_do_not_matter() -> None:
    head = "             cat    77/77    [000]     1.000001:          4 instructions:k: "
    plain = read(f"{head} {A:16x} sym+0x4 ([kernel.kallsyms])\n{head} {A + 4:16x} sym ([kernel.kallsyms])\n")
    stacks = f"{head}\n\t{A:16x} sym+0x4 ([kernel.kallsyms])\n\t{D:16x} caller ([kernel.kallsyms])\n\n"
    stacks += f"{head}\n\t{A + 4:16x} sym ([kernel.kallsyms])\n\n"
    assert plain == read(stacks) == [(0, A, A + 4, SAMPLE), (0, A + 4, A + 8, SAMPLE)]


def test_branches_with_stacks() -> None:
    head = "             cat    77/77    [000]     1.000001:          1 branches:k: \n"
    text = "".join(
        f"{head}\t{ip:16x} sym+0x4 ([kernel.kallsyms])\n\t{D:16x} caller (vmlinux)\n => {addr:16x} other (x)\n"
        for ip, addr in STEPS
    )
    assert read(text) == RANGES


HEADS = ["   77 [000] ", "             cat    77/77    [000]     1.000001:   call                 ", "   77 "]


@pytest.mark.parametrize("head", HEADS)
def test_stacks_without_the_names_of_events(head: str) -> None:
    """A sample is a branch if a target follows; what comes after the stack is no part of it."""
    after = " 0xffff800080010838/0x0/-/-/-/0/  0xffff8000800107f8(/x y)/0xffff800080010838/P/-/-/0/ \n"
    branches = "".join(
        f"{head}\n\t{ip:16x} sym\n\t{D:16x} caller\n => {addr:16x} other ilen: 4 insn: 08 00\n" for ip, addr in STEPS
    )
    samples = "".join(f"{head}              0  68100142 |OP LOAD|LVL L1 hit|SNP None|BLK  N/A           33\n"
                      f"\t{ip:16x} sym\n\t{D:16x} caller\n{after}" for ip in (A, B))  # fmt: skip
    account = Tally()
    assert [row[1:] for row in read(branches, account)] == [row[1:] for row in RANGES]
    assert [row[1:] for row in read(samples + head + "\n", account)] == [(A, A + 4, SAMPLE), (B, B + 4, SAMPLE)]
    assert [line for line in account.lines() if "without CPU" not in line] == []
    account = Tally()  # with targets, one that has none is a branch whose target was lost
    assert [row[3] & GAP for row in read(branches + samples + branches, account)] == [1, 0, 0, 1, 0, 0]
    assert account.counts["lines that are none of perf script's: a gap on every CPU"] == 2


@pytest.mark.parametrize(
    "said",
    [
        "                0        68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A {ip:16x} f",
        "                0              33 {ip:16x} f",
        "                0              33               7 {ip:16x} f",
        " {ip:16x} f  0xffff800080010838/0x0/-/-/-/0/ ",
        " {ip:16x} f    123456789abc 4K 64K",
    ],
)
def test_what_samples_say_besides(said: str) -> None:
    account = Tally()
    text = "".join(f"[000] instructions:HG: {said.format(ip=ip)}\n" for ip in (A, B))
    assert read(text, account) == [(0, A, A + 4, SAMPLE), (0, B, B + 4, SAMPLE)]
    assert account.lines() == []


def test_other_events_are_counted() -> None:
    account = Tally()
    other = "             cat    77/77    [000]     1.000001:     sched:sched_switch: prev_comm=a ==> next_comm=b\n"
    cycles = f"             cat    77/77    [000]     1.000001:          1 cycles:k:  {A:16x} sym ([kernel.kallsyms])\n"
    assert read(perf_text(STEPS[:2]) + other + cycles + perf_text(STEPS[2:]), account) == RANGES
    assert account.counts == {"other events: sched:sched_switch": 1, "other events: cycles:k": 1}


def test_a_branch_without_its_target_says_what_to_do() -> None:
    line = f"             cat    77/77    [000]     1.000001:          1 branches:k:  {A:16x} sym ([kernel.kallsyms])\n"
    with pytest.raises(InputError, match="add addr to -F"):
        read(line * 3)


@pytest.mark.parametrize("text", ["hello\n", "\n\n", "Idx:1\n"])
def test_text_without_branches_is_bad_input(text: str) -> None:
    with pytest.raises(InputError, match="no branches"):
        read(text)


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


@pytest.mark.parametrize("name", ["tid", "pid and tid", "comm and tid"])
def test_without_cpu_each_thread_is_a_sequence(name: str) -> None:
    forms = {"tid": "{0:5d} ", "pid and tid": "{0:5d}/{0:<5d} ", "comm and tid": "             cat {0:5d} "}
    lines = [
        forms[name].format(77 + k % 2) + f"    branches:k:  {ip:16x} => {addr:16x}\n"
        for k, (ip, addr) in enumerate(STEPS + STEPS)
    ]
    mine = [line for k, line in enumerate(lines) if k % 2 == 0]
    alone = [row[1:3] for row in read("".join(mine))]
    both = [row[1:3] for row in read("".join(lines))]
    assert set(alone) < set(both)
    assert len(both) == len(alone) + len(read("".join(lines[1::2])))


def test_a_thread_may_change_its_name_and_idle_tasks_are_many() -> None:
    form = "{comm:>16s} {tid:5d}/{tid:<5d}     1.000001: branches:k:  {ip:16x} => {addr:16x}\n"
    text = "".join(
        form.format(comm=("cat", "dog")[k % 2], tid=77, ip=ip, addr=addr) for k, (ip, addr) in enumerate(STEPS)
    )
    assert [row[1:3] for row in read(text)] == [row[1:3] for row in RANGES]
    account = Tally()
    assert read(text.replace("   77/77   ", "    0/0    "), account) == []
    assert account.counts == {"branches of idle tasks that do not say their CPU": 4}


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
    begun = time.process_time()
    account = Tally()
    assert read(perf_text(STEPS) + line + "\n" + perf_text(STEPS), account)
    assert account.counts == {"lines that are none of perf script's: a gap on every CPU": 1}
    assert time.process_time() - begun < 5  # it was minutes


HEADER = (
    "# ========\n# captured on    : Thu Nov 12 10:00:00 2026\n# header version : 1\n# hostname : board\n"
    "# cmdline : /usr/bin/perf record -e cs_etm/@tmc_etr0/k -- sh -c trace error\n"
    "# event : name = cs_etm//, , id = { 12 }, type = 8, size = 128, config = 0x4000\n"
    "# time of first sample : 12.345678\n# ========\n#\n"
)


def test_a_header_is_no_damage() -> None:
    account = Tally()
    assert read(HEADER + perf_text(STEPS), account) == RANGES
    assert account.counts == {}


def test_after_a_second_header_another_run_begins() -> None:
    account = Tally()
    assert read(HEADER + perf_text(STEPS) + HEADER + perf_text(STEPS), account) == RANGES * 2
    assert account.counts == {"other headers: a gap on every CPU": 1}


def test_a_header_in_a_later_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 100)
    account = Tally()
    assert read(HEADER + perf_text(STEPS) + HEADER + perf_text(STEPS), account) == RANGES * 2
    assert account.counts == {"other headers: a gap on every CPU": 1}


def test_a_task_may_be_called_like_a_comment() -> None:
    assert read(perf_text(STEPS, comm="# not one")) == RANGES
    lines = "".join(f"# me     7 [000] 1.000001: branches:  {ip:16x} => {addr:16x}\n" for ip, addr in STEPS)
    assert read(lines) == RANGES
