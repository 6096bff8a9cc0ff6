"""Damaged text of perf script: nothing is invented, and a gap is left."""

from __future__ import annotations

from itertools import pairwise

import pytest

from prologue.trace.ranges import GAP, Tally
from tests.trace.made import perf_line
from tests.trace.test_perf_script import STEPS, A, B, D, read


@pytest.mark.parametrize("damage", ["cut", "glued", "noise"])
def test_a_damaged_line_is_a_gap_on_every_cpu_and_invents_nothing(damage: str) -> None:
    lines = [perf_line(ip, addr, cpu=cpu) for ip, addr in STEPS * 3 for cpu in (0, 1)]
    whole = set(read("".join(lines)))
    middle = len(lines) // 2
    if damage == "cut":
        lines[middle] = lines[middle][:80] + "\n"
    elif damage == "glued":
        lines[middle] = lines[middle][:100]
    else:
        lines[middle] = "Segmentation fault \x00\xff\n"
    account = Tally()
    found = read("".join(lines).encode("latin-1"), account)
    assert sum(count for what, count in account.counts.items() if "every CPU" in what) == 1
    assert {row[:3] for row in found} <= {row[:3] for row in whole}
    assert sorted(row[0] for row in found if row[3] & GAP) == [0, 0, 1, 1]


@pytest.mark.parametrize("damage", [f" {B + 12:16x} sym\n", f"{B + 12:16x}\n", " 4K\n", "    123456789abc\n"])
def test_what_is_left_of_a_stack_is_not_what_comes_after_one(damage: str) -> None:
    head = "             cat    77/77    [000]     1.000001:          1 branches:k: \n"
    text = [f"{head}\t{ip:16x} sym\n\t{D:16x} caller\n => {addr:16x} other\n" for ip, addr in STEPS]
    text[1] = text[1].replace(f"\t{B + 12:16x} sym\n", damage)
    assert [row[3] & GAP for row in read("".join(text))] == [1]


def stacked(ip: int, addr: int, comm: str, cpu: int) -> str:
    head = f"{comm} {77:7}/{77:<7} [{cpu:03}] {1:5}.000001: {'branches:k':>14}: \n"
    return f"{head}\t{ip:16x} sym+0x4 ([kernel.kallsyms])\n\t{D:16x} caller (vmlinux)\n => {addr:16x} other (x)\n"


DAMAGES = {
    "put in": lambda text, at: text[:at] + "." + text[at:],
    "replaced": lambda text, at: text[:at] + "." + text[at + 1 :],
    "cut": lambda text, at: text[:at] + text[text.index("\n", at) :],
    "lost": lambda text, at: text[:at] + text[text.index("\n", at) + 1 :],
    "begun late": lambda text, at: text[at:],
}


@pytest.mark.thorough
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("comm", ["cat", "dd", "my cat 3"])
@pytest.mark.parametrize("form", ["line", "stack"])
def test_wherever_a_branch_is_damaged_nothing_is_invented_and_a_gap_is_left(form: str, comm: str, damage: str) -> None:
    lines = []
    for k in range(6):
        for cpu in (0, 1):
            ip, addr = A + 0x100 * k + 0x20 * cpu + 8, A + 0x100 * (k + 1) + 0x20 * cpu
            lines.append(perf_line(ip, addr, cpu=cpu, comm=comm) if form == "line" else stacked(ip, addr, comm, cpu))
    whole = read("".join(lines))
    assert len(whole) == 10
    bad = 5
    starts = {0, *(k + 1 for k, letter in enumerate(lines[bad]) if letter == "\n")}
    for at in range(len(lines[bad])):
        if damage == "lost" and at in starts:  # a whole line: no line shows it
            continue
        damaged = [*lines[:bad], DAMAGES[damage](lines[bad], at), *lines[bad + 1 :]]
        found = read("".join(damaged))
        for cpu in (0, 1):
            mine = [row[:3] for row in whole if row[0] == cpu]
            places = [(mine.index(row[:3]), row[3]) for row in found if row[0] == cpu]
            for (before, _), (place, flags) in pairwise(places):
                assert place == before + 1 or (place > before and flags & GAP), damaged[bad]


LINE = "             cat    77/77    [%03d]     1.00000%d:     branches:k:  {ip:16x} sym => {addr:16x} sym\n"


WHOLE = "".join((LINE % (k % 2, k)).format(ip=A + 256 * k + 8, addr=A + 256 * k + 256) for k in range(8))


NO_EVENT = "".join(f"[{k % 2:03d}]  {A + 256 * k + 8:16x} => {A + 256 * k + 256:16x}\n" for k in range(8))


STACKED = WHOLE.replace("             cat    77/77    ", "cat      77/77      ")


SOURCE = WHOLE.replace("\n", "\n  file.c:123\n")


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WHOLE, "    1.000003:     branches", "   A1.000003:     branches"),
        (WHOLE, "1.000003:     branches:k:", "1.000003:     b:anches:k:"),
        (WHOLE, f"=> {A + 1024:16x}", f"=> {A + 1024:16x}".replace("80010400", "800 0400")),
        (WHOLE, "[001]     1.000003", "[00 ]     1.000003"),
        (WHOLE, "[001]     1.000003", "[ 01]     1.000003"),
        (WHOLE, "[001]     1.000003", "[01]     1.000003"),
        (NO_EVENT, f"[001]  {A + 776:16x} => {A + 1024:16x}\n", "[001] "),
        (WHOLE, "1.000003: ", "1. 00003: "),
        (WHOLE, f"branches:k:  {A + 776:16x} sym => {A + 1024:16x}", f" {A + 776:16x}"),
        (NO_EVENT, f"{A + 776:16x} => {A + 1024:16x}", f"{A + 776:16x} "),
        (NO_EVENT, f"{A + 776:16x} => {A + 1024:16x}", f" {A + 776:x}"[:-1]),
        (STACKED, f"000003:     branches:k:  {A + 776:16x} sym => {A + 1024:16x} sym\n", ""),
        (SOURCE, (LINE % (1, 3)).format(ip=A + 776, addr=A + 1024), ""),
        (WHOLE, (LINE % (1, 3)).format(ip=A + 776, addr=A + 1024), " ilen: 4 insn: 1f 20 03 d5\n"),
    ],
)
def test_what_is_left_of_a_line_is_not_taken_for_another(text: str, old: str, new: str) -> None:
    assert old in text
    before, after = Tally(), Tally()
    good, damaged = read(text, before), read(text.replace(old, new, 1), after)
    assert not before.counts
    assert "lines that are none of perf script's: a gap on every CPU" in after.counts
    assert {row[:3] for row in damaged} < {row[:3] for row in good}
    assert sum(row[3] & GAP for row in damaged) >= sum(row[3] & GAP for row in good)
