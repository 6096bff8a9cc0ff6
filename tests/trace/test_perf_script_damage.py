"""Damaged text of perf script: nothing is invented, and a gap is left."""

from __future__ import annotations

from itertools import pairwise

import pytest

from prologue.trace.ranges import GAP, Tally
from prologue.trace.readers import streams
from tests.trace.made import perf_line
from tests.trace.test_perf_script import A, read

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
def test_wherever_a_branch_is_damaged_nothing_is_invented_and_a_gap_is_left(comm: str, damage: str) -> None:
    lines = []
    for k in range(6):
        for cpu in (0, 1):
            ip, addr = A + 0x100 * k + 0x20 * cpu + 8, A + 0x100 * (k + 1) + 0x20 * cpu
            lines.append(perf_line(ip, addr, cpu=cpu, comm=comm))
    whole = read("".join(lines))
    assert len(whole) == 10
    bad = 5
    for at in range(len(lines[bad])):
        if damage == "lost" and at == 0:  # a whole line: no line shows it
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    1.000003:     branches", "   A1.000003:     branches"),
        ("1.000003:     branches:k:", "1.000003:     b:anches:k:"),
        (f"=> {A + 1024:16x}", f"=> {A + 1024:16x}".replace("80010400", "800 0400")),
        ("[001]     1.000003", "[00 ]     1.000003"),
        ("[001]     1.000003", "[ 01]     1.000003"),
        ("[001]     1.000003", "[01]     1.000003"),
        ("1.000003: ", "1. 00003: "),
        (f"branches:k:  {A + 776:16x} sym => {A + 1024:16x}", f" {A + 776:16x}"),
        ((LINE % (1, 3)).format(ip=A + 776, addr=A + 1024), " ilen: 4 insn: 1f 20 03 d5\n"),
    ],
)
def test_what_is_left_of_a_line_is_not_taken_for_another(old: str, new: str) -> None:
    assert old in WHOLE
    before, after = Tally(), Tally()
    good, damaged = read(WHOLE, before), read(WHOLE.replace(old, new, 1), after)
    assert not before.counts
    assert "lines that cannot be read: a gap on every CPU" in after.counts
    assert {row[:3] for row in damaged} < {row[:3] for row in good}
    assert sum(row[3] & GAP for row in damaged) >= sum(row[3] & GAP for row in good)


def test_a_damaged_line_is_a_gap_in_later_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = WHOLE.splitlines(keepends=True)
    text = "".join([*lines[:4], "Segmentation fault\n", *lines[4:]])
    whole = read(text)
    assert [row[0] for row in whole if row[3] & GAP] == [0, 1, 0, 1]
    monkeypatch.setattr(streams, "BLOCK", len(lines[0]))
    assert read(text) == whole
