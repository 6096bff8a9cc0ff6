"""Text that is written while it is traced: each range has the words of its time, near a write those of the flow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prologue.insn.a64 import encode_b
from prologue.live.pokes.recording import Flag, Loss, Recording, Trailer
from prologue.trace.cli import inputs
from prologue.trace.coresight.elements import ElementKind
from prologue.trace.path import instants
from tests.live.pokes.made import ORIGIN, rows_of, write_recording
from tests.support.tool import Tool
from tests.trace.elements import ON, ElementTrace, context, element, range_
from tests.trace.made import KERNEL, MadeKernel, Run, perf_line, perf_text, recording

NOP, MOV = 0xD503201F, 0xAA1E03E9
PLACE = KERNEL.at("read_zero+0x8")
BRANCH = encode_b(PLACE, KERNEL.at("read_zero+0x18"))
MS = 10**6


def call(branch: str) -> list[tuple[str, str]]:
    """One call of vfs_read; ``branch`` is the one that leads to the end of read_zero."""
    return [
        ("vfs_read+0x10", "read_zero"), (branch, "read_zero+0x18"), ("read_zero+0x18", "vfs_read+0x14"),
        ("vfs_read+0x18", "vfs_read+0x20"), ("vfs_read+0x24", "vfs_read"),
    ]  # fmt: skip


THROUGH, OVER = call("read_zero+0x10"), call("read_zero+0x8")


def text_of(calls: Iterable[tuple[int, list[tuple[str, str]]]]) -> str:
    """Calls, each with the time (ns) of its first branch; one microsecond between branches."""
    lines = [("read_zero+0x18", "vfs_read", 1)]
    lines += [(*step, time + 1000 * k) for time, steps in calls for k, step in enumerate(steps)]
    return "".join(perf_line(KERNEL.at(ip), KERNEL.at(addr), time=time) for ip, addr, time in lines)


def write(time: int, new: int, old: int, place: int = PLACE, **more: int) -> dict[str, Any]:
    return {"time": time, "address": place, "old": old, "new": new, **more}


def writes_file(tmp_path: Path, *writes: dict[str, Any], **origin: Any) -> Path:
    said = replace(ORIGIN, **{"clock": "ns", "build_id": "", **origin})
    return write_recording(tmp_path / "writes", Recording("", said, Trailer(slide=0), rows_of(*writes)))


CHANGES = [(1000 * MS, THROUGH), (3000 * MS, OVER), (5000 * MS, THROUGH)]


@pytest.mark.parametrize("image", [NOP, BRANCH, 0])
def test_each_call_has_the_words_of_its_time(run: Run, tmp_path: Path, image: int) -> None:
    """Whatever the image has at that place: the writes say all that stood there."""
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP), write(4000 * MS, NOP, BRANCH))
    changed = {"read_zero+0x8": image}
    out = run("disasm", text_of(CHANGES), "--writes", writes, changed=changed).out
    words = [line.split()[1] for line in out.splitlines() if line.startswith(f"\t{PLACE:16x}:")]
    assert words == [f"{word:08x}" for word in (NOP, BRANCH, NOP)]
    out, err, _ = run("check", text_of(CHANGES), "--writes", writes, changed=changed)
    assert out == "14 steps, none impossible\n"
    assert "near a write" not in err


@pytest.mark.parametrize("image", [NOP, BRANCH])
def test_without_the_writes_no_image_is_right(run: Run, image: int) -> None:
    out = run("check", text_of(CHANGES), changed={"read_zero+0x8": image}, status=1).out
    assert out.count("image stale at read_zero+0x8") == 1


def test_a_word_that_never_stood_there_is_named(run: Run, tmp_path: Path) -> None:
    writes = writes_file(tmp_path, write(2000 * MS, MOV, NOP))
    out, err, _ = run("check", text_of(CHANGES[:2]), "--writes", writes, status=1)
    assert "mov x9, x30 is not a branch, but execution went on at read_zero+0x18" in out
    assert "near a write" not in err


def test_near_a_write_the_flow_decides(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks differ: a branch was taken before it was written, and not taken after that."""
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP))
    trace = text_of([(1998 * MS, OVER), (2002 * MS, THROUGH), (2500 * MS, OVER)])
    out, err, _ = run("disasm", trace, "--writes", writes)
    words = [line.split()[1] for line in out.splitlines() if line.startswith(f"\t{PLACE:16x}:")]
    assert words == [f"{word:08x}" for word in (BRANCH, NOP, BRANCH)]
    assert "2 ranges near a write to their words: the flow says which word ran" in err
    run("check", trace, "--writes", writes)
    monkeypatch.setattr(inputs, "_SKEW", 0)
    # Only what lies between two times of the trace is in doubt now: the call that begins before the write.
    assert "read_zero+0x8" in run("check", trace, "--writes", writes, status=1).out


def test_where_the_flow_says_nothing_the_time_does(run: Run, tmp_path: Path) -> None:
    place = KERNEL.at("read_zero+0x4")
    writes = writes_file(tmp_path, write(2000 * MS, MOV, NOP, place))
    trace = text_of([(1998 * MS, THROUGH), (2002 * MS, THROUGH)])
    out, err, _ = run("disasm", trace, "--writes", writes)
    words = [line.split()[1] for line in out.splitlines() if line.startswith(f"\t{place:16x}:")]
    assert words == [f"{word:08x}" for word in (NOP, MOV)]
    assert "2 ranges near a write to their words, and several of these may have run" in err


@pytest.mark.parametrize("most", [1 << 19, 0])
def test_after_the_last_time_any_write_may_have_been(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The clock is read once, long before the write; also where no range is held back until it is read again."""
    monkeypatch.setattr(instants, "_MOST", most)
    writes = writes_file(tmp_path, write(1500 * MS, BRANCH, NOP))
    trace = "".join(perf_line(KERNEL.at(ip), KERNEL.at(addr), time=1000 * MS) for ip, addr in [*THROUGH, *OVER])
    out, err, _ = run("check", trace, "--writes", writes)
    assert out == "8 steps, none impossible\n"
    assert "2 ranges near a write to their words: the flow says which word ran" in err


def test_before_the_first_time_any_write_may_have_been(run: Run, tmp_path: Path) -> None:
    """The first range of a CPU ended at its time, and began at a time that nothing says: here before the write."""
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP))
    times = [1000 * MS, 3000 * MS, 3000 * MS + 1000]
    steps = [(*step, time) for step, time in zip(THROUGH, times, strict=False)]
    trace = "".join(perf_line(KERNEL.at(ip), KERNEL.at(addr), time=time) for ip, addr, time in steps)
    out, err, _ = run("check", trace, "--writes", writes)
    assert out == "1 step, none impossible\n"
    assert "1 range near a write to its words: the flow says which word ran" in err


def test_of_two_words_one_may_be_old_and_one_new(run: Run, tmp_path: Path) -> None:
    """No instant had a NOP at both places; a CPU that fetched the first before the writes ran through both."""
    first = KERNEL.at("read_zero+0x4")
    away = encode_b(first, KERNEL.at("read_zero+0x18"))
    writes = writes_file(tmp_path, write(2000 * MS, away, NOP, first), write(2001 * MS, NOP, BRANCH))
    trace = text_of([(1000 * MS, OVER), (2000 * MS + 500_000, THROUGH), (3000 * MS, call("read_zero+0x4"))])
    out, err, _ = run("check", trace, "--writes", writes)
    assert out == "14 steps, none impossible\n"
    assert "1 range near writes to its words: the flow says that old and new ones ran together" in err
    out = run("disasm", trace, "--writes", writes).out
    words = [line.split()[:2] for line in out.splitlines() if line.startswith((f"\t{first:16x}:", f"\t{PLACE:16x}:"))]
    ran = [(first, NOP), (PLACE, BRANCH), (first, NOP), (PLACE, NOP), (first, away)]
    assert words == [[f"{place:x}:", f"{word:08x}"] for place, word in ran]
    # Words that never stood there explain nothing.
    writes = writes_file(tmp_path, write(2000 * MS, away, away, first), write(2001 * MS, NOP, BRANCH))
    out, err, _ = run("check", trace, "--writes", writes, status=1)
    assert "of which none fits the flow" in err


def test_what_a_recording_of_writes_lacks_is_said(run: Run, tmp_path: Path) -> None:
    trace = text_of(CHANGES[:2])
    rows = rows_of(write(2000 * MS, BRANCH, NOP))
    lost = (Loss("writes", 1234), Loss("perf's records", None))
    ending = Trailer(slide=0, complete=False, lost=lost)
    said = replace(ORIGIN, clock="ns", build_id="")
    lacking = write_recording(tmp_path / "lacking", Recording("", said, ending, rows))
    out, err, _ = run("check", trace, "--writes", lacking)
    assert out == "9 steps, none impossible\n"
    assert "note: 1,234 writes: lost by the recording of writes\n" in err
    assert "note: 1 loss of an unknown size in the recording of writes: perf's records\n" in err
    assert "1 recording of writes that has no end: its recorder was killed, later writes are missing\n" in err
    whole = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP))
    err = run("check", trace, "--writes", whole).err
    assert "lost" not in err
    assert "no end" not in err


@pytest.mark.parametrize(("flags", "said"), [(0, 1), (Flag.OLD_UNKNOWN, 0), (Flag.UNREACHABLE, 0)])
def test_a_missing_write_is_said(run: Run, tmp_path: Path, flags: int, said: int) -> None:
    """From NOP to B twice: between, something wrote the NOP again."""
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP), write(4000 * MS, BRANCH, NOP, flags=flags))
    err = run("check", text_of(CHANGES[:1]), "--writes", writes).err
    words = "1 write whose old word is not what the write before it left: one between is missing"
    assert err.count(words) == said


def test_writes_of_another_time_are_said(run: Run, tmp_path: Path) -> None:
    day = 86_400_000
    for begin, said in ((0, False), (day, True)):
        writes = writes_file(tmp_path, write((begin + 2000) * MS, BRANCH, NOP))
        err = run("check", text_of(CHANGES), "--writes", writes, status=None).err
        words = "1 write, not within the trace's times: these are 1.000 to 5.000 s, its is 86402.000 to 86402.000 s"
        assert (words in err) is said
        assert ("within the trace's times" in err) is said


def test_a_word_of_which_only_the_image_knows(run: Run, tmp_path: Path) -> None:
    writes = writes_file(tmp_path, write(4000 * MS, NOP, 0, flags=Flag.OLD_UNKNOWN))
    trace = text_of([(3000 * MS, OVER), (5000 * MS, THROUGH)])
    run("check", trace, "--writes", writes, changed={"read_zero+0x8": BRANCH})
    run("check", trace, "--writes", writes, status=1)


def test_stacks_follow_what_ran(run: Run, tmp_path: Path) -> None:
    """A call that is written: BL for some time, where the image has a NOP."""
    place = KERNEL.at("vfs_read+0x10")
    with_call, image = KERNEL.words[(place - KERNEL.base) // 4], {"vfs_read+0x10": NOP}
    writes = writes_file(tmp_path, write(500 * MS, with_call, NOP, place))
    trace = text_of(CHANGES[:1])
    said = {}
    for name, options in {"with": ("--writes", writes), "without": ()}.items():
        out = run("disasm", trace, "--from", "vfs_read", *options, changed=image).out
        said[name] = [line.partition(" cpu 0 ")[2] for line in out.splitlines()]
    assert said["with"] == ["vfs_read", "  read_zero"]
    assert said["without"] != said["with"]


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "counts instructions": ({}, {"clock": "instructions"}, "", "record both in one run (trace record --save-writes)"),
    "is of other text": ({"place": 0xFFFF800090000000}, {}, "", "has no write to text of"),
    "is of another boot": ({}, {}, "--slide 0x10000", "another boot?"),
    "is of another architecture": ({}, {"machine": "x86_64"}, "", "its machine is x86_64"),
}


@pytest.mark.parametrize("what", BAD)
def test_writes_that_do_not_belong(run: Run, tmp_path: Path, what: str) -> None:
    row, origin, options, said = BAD[what]
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP, **row), **origin)
    err = run("check", text_of(CHANGES), "--writes", writes, *options.split(), status=2).err
    assert f"{writes}: " in err
    assert said in err


def test_a_trace_without_times(run: Run, tmp_path: Path) -> None:
    trace = "".join(line[:35] + line[49:] for line in perf_text(THROUGH).splitlines(keepends=True))
    writes = writes_file(tmp_path, write(2000 * MS, BRANCH, NOP))
    err = run("check", trace, "--writes", writes, status=2).err
    assert "needs times in the trace" in err


def test_times_that_begin_late(run: Run, tmp_path: Path) -> None:
    """OpenCSD's first timestamp comes after the first ranges: these ran before it, by any word of until then."""
    ranges = [("read_zero", 5), ("read_zero+0x18", 1), ("vfs_read+0x14", 2), ("vfs_read+0x20", 2)]
    first, second, third, fourth = (range_(KERNEL.at(place), count) for place, count in ranges)
    stamp = element(ElementKind.TIMESTAMP, timestamp=2000 * MS)
    trace = ElementTrace(ON + context(1, vmid=0) + first + second + stamp + third + fourth)
    writes = writes_file(tmp_path, write(3000 * MS, BRANCH, NOP))
    out, err, _ = run("check", trace, "--writes", writes)
    assert out == "3 steps, none impossible\n"
    assert "1 write, not within the trace's times: these are 2.000 to 2.000 s" in err


def test_stacks_where_a_written_branch_ends_a_range_of_two_symbols(tmp_path: Path, tool: Tool) -> None:
    """As in ftrace_caller, whose ftrace_call is a symbol of its own and the place of a BL."""
    kernel = MadeKernel(
        {
            "caller": ["nop", "bl ftrace_caller", "nop", "ret"],
            "ftrace_caller": ["nop", "nop", "nop", "nop"],
            "ftrace_call": ["nop", "nop", "ret"],
            "tracer": ["nop", "ret"],
        }
    )
    place = kernel.at("ftrace_call")
    bl = encode_b(place, kernel.at("tracer")) | 1 << 31
    writes = writes_file(tmp_path, write(2000 * MS, bl, NOP, place))
    spans = [("caller", 2), ("ftrace_caller", 5), ("tracer", 2), ("ftrace_call+4", 2), ("caller+8", 2)]
    trace = recording({"start": kernel.at(at), "count": n, "level": 1, "time": 4000 * MS} for at, n in spans)
    assert Run(tmp_path, tool, kernel).folded(trace, "--writes", writes) == {
        "caller": 4, "caller;ftrace_caller": 4, "caller;ftrace_call": 3, "caller;ftrace_call;tracer": 2
    }  # fmt: skip
