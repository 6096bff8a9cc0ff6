"""``prologue trace check``: a right image is clean, a stale one is named word by word, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.insn.a64 import encode_b
from prologue.trace.ranges import EXCEPTION, GAP
from tests.support.assembler import assemble
from tests.support.tool import Tool
from tests.trace.elements import ON, ElementTrace, context, range_
from tests.trace.made import KERNEL, MadeKernel, Run, perf_line, perf_text, recording

NOP = 0xD503201F
# From read_zero's return to the end of vfs_read, through an exception and back, and to user space.
STEPS: list[tuple[str | int, str | int]] = [
    ("read_zero+0x18", "vfs_read"), ("vfs_read+0x10", "read_zero"), ("read_zero+0x10", "read_zero+0x18"),
    ("read_zero+0x18", "vfs_read+0x14"), ("vfs_read+0x18", "vfs_read+0x20"), ("vfs_read+0x24", "vfs_read"),
    ("vfs_read+0x0", "vectors+0x280"), ("vectors+0x284", "vfs_read+0x4"), ("vfs_read+0xc", "vfs_read+0x1c"),
    ("vfs_read+0x24", 0x400000), (0x400010, "vectors+0x400"), ("vectors+0x404", "read_zero+0x18"),
]  # fmt: skip


def check(run: Run, content: str | bytes, changed: dict[str, int]) -> list[str]:
    """Stale words by place, of a trace and an image that has other words than what ran."""
    printed = run("check", content, "--json", changed=changed, status=None)
    stale = printed.json["stale"]
    assert printed.status == (1 if stale else 0)
    return [f"{one['symbol']}+{one['symbol_offset']:#x}: {one['message']}" for one in stale]


def test_the_right_image_is_clean(run: Run) -> None:
    assert check(run, perf_text(STEPS * 3), {}) == []


def test_the_first_time_of_a_word_is_one_that_is_known(run: Run) -> None:
    """CPU 2 executed it before the first timestamp of its trace: nobody knows when."""
    rows = [
        {"start": KERNEL.at(place), "count": count, "cpu": cpu, "level": 1, "time": 1000 * time}
        for cpu, (time, onward) in enumerate(((3000, 0), (2000, 4), (0, 8), (5000, 12)))
        for place, count in (("vfs_read", 5), (f"read_zero+{onward}", 1))
    ]
    printed = run("check", recording(rows), changed={"vfs_read+0x10": NOP}, status=1)
    assert "(4 times, first on cpu 1 at 0.002000000)" in printed.out


STALE = {
    "a branch where the CPU had a NOP": (
        {"read_zero+0x8": encode_b(KERNEL.at("read_zero+0x8"), KERNEL.at("read_zero+0x18"))},
        ["read_zero+0x8: b read_zero+0x18 was not taken"],
    ),
    "two branches in one range": (
        {
            "vfs_read+0x0": encode_b(KERNEL.at("vfs_read"), KERNEL.at("vfs_read+0x18")),
            "vfs_read+0x4": encode_b(KERNEL.at("vfs_read+0x4"), KERNEL.at("read_zero")),
        },
        ["vfs_read+0x0: b vfs_read+0x18 was not taken"],
    ),
    "a NOP where the CPU had a call": (
        {"vfs_read+0x10": NOP},
        ["vfs_read+0x10: nop is not a branch, but execution went on at read_zero"],
    ),
    "a branch that is always taken": (
        {"vfs_read+0x8": assemble("b.al #8")},
        ["vfs_read+0x8: b.al vfs_read+0x10 was not taken"],
    ),
    "another target": (
        {"vfs_read+0x18": encode_b(KERNEL.at("vfs_read+0x18"), KERNEL.at("vfs_read+0x24"))},
        ["vfs_read+0x18: b vfs_read+0x24 is not what ran: execution went on at vfs_read+0x20"],
    ),
    "a conditional branch that went elsewhere": (
        {"read_zero+0x10": assemble("b.eq #4")},
        ["read_zero+0x10: b.eq read_zero+0x14 is not what ran: execution went on at read_zero+0x18"],
    ),
    "a breakpoint": ({"vfs_read+0x8": 0xD4200080}, ["vfs_read+0x8: brk #4 did not trap"]),
    "freed memory": ({"vfs_read+0x14": 0}, ["vfs_read+0x14: udf #0 did not trap"]),
    "a return": ({"read_zero+0x4": 0xD65F03C0}, ["read_zero+0x4: ret was not taken"]),
}  # fmt: skip


@pytest.mark.parametrize("what", STALE)
def test_a_stale_image_is_named_word_by_word(run: Run, what: str) -> None:
    changed, said = STALE[what]
    assert check(run, perf_text(STEPS * 2), changed) == said


def test_words_that_leave_no_mark_are_not_named(run: Run) -> None:
    changed = {"vfs_read+0x4": 0xAA1E03E9, "read_zero+0x14": assemble("mov x0, #2")}
    assert check(run, perf_text(STEPS), changed) == []


def test_nothing_is_judged_over_a_gap(run: Run) -> None:
    around: list[tuple[str | int, str | int]] = [("vfs_read+0x10", 0), (0, "vfs_read+0x14"), *STEPS[4:]]
    assert check(run, perf_text([*STEPS[:1], *around]), {}) == []
    damaged = perf_text(STEPS[:2]) + "line that is none\n" + perf_text(STEPS[5:])
    assert check(run, damaged, {}) == []


def test_cpus_are_sequences_of_their_own(run: Run) -> None:
    steps = [[KERNEL.at(p) if isinstance(p, str) else p for p in step] for step in STEPS]
    lines = [perf_line(*step, cpu=cpu) for cpu in (0, 1) for step in steps]
    mixed = [line for pair in zip(lines[: len(STEPS)], lines[len(STEPS) :], strict=True) for line in pair]
    assert check(run, "".join(mixed), {}) == []
    one = perf_text([*STEPS[:4], *STEPS[5:]])  # as one sequence with a step left out, it is impossible
    assert check(run, one, {}) != []


@pytest.mark.parametrize(("flags", "stale"), [(EXCEPTION, 0), (GAP, 0), (0, 1)])
def test_what_a_recording_marks(run: Run, flags: int, stale: int) -> None:
    """An exception whose vectors are in no image (a trampoline's) is one only if the recording says so."""
    rows = [
        {"start": KERNEL.at("vfs_read"), "count": 1},
        {"start": KERNEL.at("vfs_read+0x4"), "count": 2},
        {"start": 0xFFFFFDFFFF5F0000, "count": 2, "flags": flags},
    ]
    assert len(check(run, recording(rows), {})) == stale


def test_ranges_that_end_without_a_branch(run: Run) -> None:
    rows = [{"start": KERNEL.at("vfs_read"), "count": 2}, {"start": KERNEL.at("vfs_read+0x8"), "count": 3}]
    assert check(run, recording(rows), {}) == []
    changed = {"vfs_read+0x4": encode_b(KERNEL.at("vfs_read+0x4"), KERNEL.at("vfs_read+0x10"))}
    assert check(run, recording(rows), changed) == ["vfs_read+0x4: b vfs_read+0x10 was not taken"]


def test_a_kernel_that_is_somewhere_else_decides_nothing_and_is_not_clean(run: Run) -> None:
    said = run("check", perf_text(STEPS), "--slide", "0x400000", status=5)
    assert said.out == ""
    assert "no step could be judged" in said.err
    assert "ranges are not in" in said.err


WORLDS = {
    "user programs": (context(0), 0x10000, "2 ranges of user programs or firmware; no kernel of the normal world ran"),
    "Secure": (
        context(1, security=0),
        KERNEL.at("vfs_read"),
        "2 ranges of Secure, Realm or Root state; no kernel of the normal",
    ),
    "hypervisor": (
        context(2),
        0x10000,
        "2 ranges of a hypervisor (EL2, below kernel addresses); no kernel of the normal",
    ),
    "elsewhere": (
        context(1),
        KERNEL.at("vfs_read") + 0x100000,
        "2 ranges outside of the image: is this the kernel that",
    ),
    "gaps": (context(1), KERNEL.at("vfs_read"), "no two ranges of the image follow each other without a gap"),
}


@pytest.mark.parametrize("which", WORLDS)
def test_what_ran_is_said_where_no_step_could_be_judged(run: Run, which: str) -> None:
    where, start, message = WORLDS[which]
    begin = ON + where
    ran = begin + range_(start, 3) + (begin if which == "gaps" else []) + range_(start + 12, 2)
    assert f"no step could be judged: {message}" in run("check", ElementTrace(ran), status=5).err


def test_samples_between_branches_are_no_steps(run: Run) -> None:
    sample = perf_line(KERNEL.at("read_zero+0x14"), 0, event="instructions:k").partition(" => ")[0] + "\n"
    lines = perf_text(STEPS * 2).splitlines(keepends=True)
    text = "".join(line + sample for line in lines)
    assert check(run, text, {}) == []
    mixed = run("stats", text, "--json").json
    assert {**run("stats", perf_text(STEPS * 2), "--json").json, "not_used": mixed["not_used"]} == mixed


def test_a_function_with_a_name_like_a_vector_table_is_none(tmp_path: Path, tool: Tool) -> None:
    """Else a step to its start would count as an exception, and hide a stale word."""
    kernel = MadeKernel({"caller": ["bl pci_free_irq_vectors", "ret"], "pci_free_irq_vectors": ["ret"]})
    steps: list[tuple[str | int, str | int]] = [("caller+0x4", "caller"), ("caller", "pci_free_irq_vectors")]
    text = perf_text([*steps, ("pci_free_irq_vectors", "caller+0x4"), ("caller+0x4", "caller")], kernel)
    printed = Run(tmp_path, tool, kernel)("check", text, changed={"caller": NOP}, status=1)
    assert "nop is not a branch, but execution went on at pci_free_irq_vectors" in printed.out


def test_the_lines_that_are_printed(run: Run) -> None:
    lines = run("check", perf_text(STEPS), changed={"vfs_read+0x10": NOP}, status=1).out.splitlines()
    place = KERNEL.at("vfs_read+0x10")
    assert lines == [
        f"image stale at vfs_read+0x10 ({place:#x}): nop is not a branch, but execution went on at read_zero "
        "(once, first on cpu 0 at 1.000002000)",
        "1 word of the image cannot be what ran",
    ]
