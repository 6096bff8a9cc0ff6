"""What follows from an impossible step is no finding; what did not run is not counted; what a decoder did not know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.insn.a64 import encode_b
from prologue.perf.coresight import TraceProtocol
from prologue.trace.path.impossible import FirstImpossible
from prologue.trace.path.steps import Sequences
from prologue.trace.ranges import GAP, NO_TASK, Batch, new_ranges
from tests.support.assembler import assemble
from tests.support.tool import Tool
from tests.trace.elements import ON, ElementTrace, Message, range_
from tests.trace.made import MadeKernel, perf_text, recording
from tests.trace.made import Run as MadeRun

NOP = 0xD503201F
RETAASPPC, RETABSPPCR, BC_EQ, CBGT, TEXIT, RETAA, ERETAA = (
    0x5500021F, 0xD65F0FE3, 0x54000050, 0xF4080209, 0xD6FF03E0, 0xD65F0BFF, 0xD69F0BFF,
)  # fmt: skip
# Two callers, and what they call.
KERNEL = MadeKernel(
    {
        "vectors": ["nop", "eret", *["nop"] * 30] * 16,
        "first": ["nop", "bl callee", "nop", "nop", "nop", "ret"],
        "second": ["nop", "bl callee", "nop", "nop", "nop", "ret"],
        "callee": ["nop", "nop", "ret"],
    }
)
CALLS: list[tuple[str | int, str | int]] = [
    ("callee+0x8", "first"), ("first+0x4", "callee"), ("callee+0x8", "first+0x8"), ("first+0x14", "second"),
    ("second+0x4", "callee"), ("callee+0x8", "second+0x8"), ("second+0x14", "first"), ("first+0x4", "callee"),
]  # fmt: skip
LOSS = "             cat    77/77    [000]     1.000003: PERF_RECORD_LOST lost 12\n"
STALE = {"first+0x4": NOP, "second+0x4": NOP}
THROUGH = ON + [
    message
    for place, count in (("first", 2), ("callee", 3), ("first+0x8", 4))
    for message in range_(KERNEL.at(place), count)
]


def at(place: str, count: int) -> list[Message]:
    return range_(KERNEL.at(place), count)


def decoded(version: str, messages: list[Message], protocol: TraceProtocol = TraceProtocol.ETE) -> ElementTrace:
    """The same by a version of OpenCSD."""
    major, minor, patch = map(int, version.split("."))
    return ElementTrace(messages, (major, minor, patch), protocol)


class Run:
    """The commands of ``prologue trace`` on one trace and one image."""

    def __init__(
        self, directory: Path, tool: Tool, trace: str | bytes | ElementTrace, changed: dict[str, int],
        kernel: MadeKernel = KERNEL,
    ) -> None:  # fmt: skip
        self._run, self._trace, self._changed = MadeRun(directory, tool, kernel), trace, changed

    def __call__(self, command: str, *options: object, code: int | None = 0) -> tuple[str, str]:
        printed = self._run(command, self._trace, *options, changed=self._changed, status=code)
        return printed.out, printed.err

    def check(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self("check", "--json", code=None)[0])
        return data

    def places(self, kind: str) -> list[str]:
        return [f"{word['symbol']}+{word['symbol_offset']:#x}" for word in self.check()[kind]]

    def stats(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self("stats", "--json")[0])
        return data


# the first and what follows


def test_what_follows_from_an_impossible_step_is_counted(tmp_path: Path, tool: Tool) -> None:
    run = Run(tmp_path, tool, perf_text(CALLS, KERNEL), STALE)
    assert (run.places("stale"), run.places("follow")) == (["first+0x4"], ["second+0x4"])
    out, _ = run("check", code=1)
    assert out.splitlines()[1:] == [
        "1 word of the image cannot be what ran",
        "also: 1 impossible step at 1 other word, after the first one of a CPU and before its next gap",
    ]


@pytest.mark.parametrize("line", ["trace on", "loss", "damage"])
def test_after_a_gap_the_next_one_is_a_finding(tmp_path: Path, tool: Tool, line: str) -> None:
    text = perf_text(CALLS[:4], KERNEL)
    text += {
        "trace on": perf_text([("first+0x14", 0), (0, "second")], KERNEL),
        "loss": LOSS + perf_text(CALLS[3:4], KERNEL),
        "damage": "line that is none\n" + perf_text(CALLS[3:4], KERNEL),
    }[line]  # fmt: skip
    run = Run(tmp_path, tool, text + perf_text(CALLS[4:], KERNEL), STALE)
    assert (run.places("stale"), run.places("follow")) == (["first+0x4", "second+0x4"], [])


def test_another_cpu_is_not_astray(tmp_path: Path, tool: Tool) -> None:
    text = perf_text(CALLS[:4], KERNEL, cpu=0) + perf_text(CALLS[3:], KERNEL, cpu=1)
    assert Run(tmp_path, tool, text, STALE).places("stale") == ["first+0x4", "second+0x4"]


def test_a_recording_followed_no_image(tmp_path: Path, tool: Tool) -> None:
    places = [("first", 2), ("callee", 3), ("first+0x8", 4), ("second", 2), ("callee", 3)]
    rows = [{"start": KERNEL.at(place), "count": count} for place, count in places]
    run = Run(tmp_path, tool, recording(rows), STALE)
    assert (run.places("stale"), run.places("follow")) == (["first+0x4", "second+0x4"], [])


LANES = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.booleans(), st.booleans()), max_size=40)


@pytest.mark.thorough
@given(LANES)
def test_the_first_ones_one_by_one(rows: list[tuple[int, bool, bool, bool, bool]]) -> None:
    """Rows are CPU, gap, impossible step to it, impossible to run through, and whether a batch ends with it."""
    first, sequences = FirstImpossible(every=False), Sequences()
    cuts = [number + 1 for number, row in enumerate(rows) if row[4]]
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = rows[begin:end]
        ranges = new_ranges(len(part))
        ranges["cpu"] = [row[0] for row in part]
        ranges["flags"] = [GAP if row[1] else 0 for row in part]
        numbers = np.arange(begin, end)
        sequence = sequences.take(ranges, numbers)
        order = sequence.rows
        places = np.array([k for k, row in enumerate(order.tolist()) if part[row][2] and not part[row][1]], np.int64)
        inside = np.array([k for k, row in enumerate(order.tolist()) if part[row][3]], np.int64)
        first.take(Batch(ranges, [NO_TASK], [""]), sequence, places, numbers[order[places]], inside)
    steps, inner, astray = [], [], dict[int, bool]()
    for number, (cpu, gap, step, broken, _) in enumerate(rows):
        if gap:
            astray[cpu] = False
        if step and not gap and not astray.get(cpu):
            steps.append(number)
            astray[cpu] = True
        if broken and not astray.get(cpu):
            inner.append(number)
        astray[cpu] = astray.get(cpu, False) or broken
    assert (sorted(first.steps), sorted(first.ranges)) == (steps, inner)


# ranges that did not run

STOPS: dict[str, str | int] = {
    "ret": "ret", "b": "b #-8", "bl": "bl #8", "br": "br x3", "blr": "blr x3", "eret": "eret", "b.al": "b.al #8",
    "cbz": "cbz xzr, #8", "brk": "brk #1", "udf": 0, "retaa": RETAA, "eretaa": ERETAA, "retaasppc": RETAASPPC,
    "texit": TEXIT,
}  # fmt: skip


def word(line: str | int) -> int:
    return line if isinstance(line, int) else assemble(line)


@pytest.mark.thorough
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", ["elements", "perf", "recording"])
def test_a_range_through_a_branch_is_left_out(tmp_path: Path, tool: Tool, kind: str, stop: str) -> None:
    """``callee`` is called, then a range runs through the word at first+0x10."""
    trace: str | bytes | ElementTrace = decoded("1.8.0", THROUGH + at("second", 2))
    if kind == "perf":
        trace = perf_text(CALLS[:5], KERNEL)
    elif kind == "recording":
        places = [("first", 2), ("callee", 3), ("first+0x8", 4), ("second", 2)]
        trace = recording([{"start": KERNEL.at(place), "count": count} for place, count in places])
    run = Run(tmp_path, tool, trace, {"first+0x10": word(STOPS[stop])})
    data = run.stats()
    assert {one["name"]: one["instructions"] for one in data["images"][0]["functions"]} == {
        "first": 2, "callee": 3, "second": 2,
    }  # fmt: skip
    assert (data["ranges"], data["instructions"], data["gaps"]) == (3, 7, 1)
    assert data["left_out"] == {"ranges": 1, "instructions": 4}
    for form in ("perf", "text"):
        out, err = run("disasm", "--format", form)
        assert f"{KERNEL.at('first+0x10'):x}" not in out
        assert out.count("gap\n" if form == "text" else "CS_ETM_TRACE_ON") == 1
        assert "1 range with 4 instructions left out, a gap instead: it runs through " in err
        assert " at first+0x10, so this did not run\n" in err
        assert err.count("warning: ") == 1
    checked = run.check()
    assert (checked["ranges"], checked["instructions"]) == (3, 7)
    assert checked["left_out"] == {"ranges": 1, "instructions": 4}
    assert len(checked["stale"] + checked["decoder"]) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line", ["b.eq #8", "cbz x0, #-4", "tbnz w1, #3, #8", "isb", "wfe", "svc #0", "hvc #0", "b #4"]
)
@pytest.mark.parametrize("kind", ["elements", "perf"])
def test_what_may_go_on_is_not_left_out(tmp_path: Path, tool: Tool, kind: str, line: str) -> None:
    """A conditional branch that was not taken: in ranges of perf, and of an ETE with source addresses."""
    trace = ElementTrace(THROUGH + at("second", 2)) if kind == "elements" else perf_text(CALLS[:5], KERNEL)
    run = Run(tmp_path, tool, trace, {"first+0x10": word(line)})
    data = run.check()
    assert (data["stale"], data["follow"], data["decoder"]) == ([], [], [])
    assert (data["instructions"], data["left_out"]) == (11, {"ranges": 0, "instructions": 0})
    assert "warning" not in run("disasm")[1] + run("stats")[1]


def test_a_branch_of_a_later_architecture_may_go_anywhere(tmp_path: Path, tool: Tool) -> None:
    run = Run(tmp_path, tool, perf_text(CALLS, KERNEL), {"first+0x4": 0x55FFFFFF, "first+0x10": 0x55FFFFFF})
    assert run("check")[0] == "6 steps, none impossible\n"


@pytest.mark.thorough
def test_a_long_range_that_did_not_run_costs_nothing(tmp_path: Path, tool: Tool) -> None:
    """A range is looked up in the stops of its text, not word by word."""
    kernel = MadeKernel({"long": ["nop", "ret", *["nop"] * 20_000], "callee": ["ret"]})
    trace = list(ON)
    for count in range(10_000, 12_000):
        trace += range_(kernel.at("long"), count) + range_(kernel.at("callee"), 1)
    data = Run(tmp_path, tool, ElementTrace(trace), {}, kernel).stats()
    assert data["instructions"] == 2000
    assert data["left_out"] == {"ranges": 2000, "instructions": sum(range(10_000, 12_000))}


def test_a_decoder_that_ran_away_is_damage(tmp_path: Path, tool: Tool) -> None:
    """As OpenCSD does that looks for the return address of an exception after it (its snapshot q_elem)."""
    kernel = MadeKernel({"called": ["nop", "ret"], **{f"f{k}": ["nop", "ret", "b #-4"] for k in range(9)}})
    far = ON + range_(kernel.at("called"), 2) + range_(kernel.at("f0"), (kernel.at("f8") - kernel.at("f0")) // 4)
    out, _ = Run(tmp_path, tool, ElementTrace(far), {}, kernel)("check", code=1)
    assert out.splitlines() == [
        f"decoder astray at f0+0x4 ({kernel.at('f0+0x4'):#x}): it ran through 16 branches in one range: damage in the "
        "trace (once, first on cpu 16)",
        "the decoder went astray at 1 place",
    ]
    near = ON + range_(kernel.at("f0"), 3)
    assert "image stale at f0+0x4" in Run(tmp_path, tool, ElementTrace(far + near), {}, kernel)("check", code=1)[0]


# what the decoder did not know

UNKNOWN = {
    "retaasppc": (RETAASPPC, "1.5.0", "1.5.1"), "retabsppcr": (RETABSPPCR, "1.3.3", "1.5.1"),
    "texit": (TEXIT, "1.7.1", "1.8.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_decoder_that_is_too_old_is_blamed(tmp_path: Path, tool: Tool, name: str) -> None:
    unknown, before, since = UNKNOWN[name]
    trace = THROUGH + at("callee", 3)
    run = Run(tmp_path, tool, decoded(before, trace), {"first+0x10": unknown})
    out, _ = run("check", code=1)
    assert out.splitlines() == [
        f"decoder astray at first+0x10 ({KERNEL.at('first+0x10'):#x}): OpenCSD {before} does not know {name}: decode "
        f"with {since} or later (once, first on cpu 16)",
        "the decoder went astray at 1 place",
    ]
    assert "stale" not in out
    assert f"decode with {since} or later" in run("disasm")[1]
    assert Run(tmp_path, tool, decoded(since, trace), {"first+0x10": unknown}).places("stale") == ["first+0x10"]
    by_perf = perf_text([*CALLS[:3], ("first+0x14", "callee")], KERNEL)  # by a version that perf does not name
    assert Run(tmp_path, tool, by_perf, {"first+0x10": unknown}).places("decoder") == ["first+0x10"]


@pytest.mark.parametrize(("unknown", "before", "since"), [(BC_EQ, "1.2.1", "1.3.0"), (CBGT, "1.5.6", "1.6.0")])
def test_a_conditional_branch_that_the_decoder_did_not_know(
    tmp_path: Path, tool: Tool, unknown: int, before: str, since: str
) -> None:
    """The range that runs through it can be; what comes after it has the atoms of other branches: nothing is said."""
    text = ON + at("first", 6) + at("second", 2) + at("second+0x8", 4) + at("callee", 3) + at("first", 6)
    changed = {"first+0x4": NOP, "first+0x8": unknown}
    run = Run(tmp_path, tool, decoded(before, text), changed)
    data = run.check()
    assert (data["decoder"], data["stale"], data["follow"]) == ([], [], [])
    assert [(count, f"from {since} on" in why) for why, count in data["steps_not_judged"].items()] == [(1, True)]
    assert run("check", code=5)[0].endswith("none impossible; 1 could not be judged: not decided\n")
    assert f"from {since} on" in next(line for line in run("stats")[1].splitlines() if line.startswith("warning: "))
    run = Run(tmp_path, tool, decoded(since, text), changed)
    assert (run.places("decoder"), run.places("stale")) == ([], ["second+0x4"])
    before_it = ON + at("second", 2) + at("second+0x8", 4) + at("callee", 3)
    run = Run(tmp_path, tool, decoded(before, before_it + text), changed)
    assert (run.places("decoder"), run.places("stale")) == ([], ["second+0x4"])
    assert "1 word of the image cannot be what ran" in run("check", code=1)[0]
    run = Run(tmp_path, tool, decoded(before, ON + at("first", 6)), {"first+0x8": unknown})
    assert run.places("stale") == ["first+0x4"]  # it had run through that before


@pytest.mark.parametrize(("protocol", "blamed"), [(TraceProtocol.ETE, "stale"), (TraceProtocol.ETM4, "decoder")])
@pytest.mark.parametrize("unknown", [RETAA, ERETAA])
def test_pointer_authentication_needs_to_be_told(
    tmp_path: Path, tool: Tool, protocol: TraceProtocol, blamed: str, unknown: int
) -> None:
    trace = decoded("1.5.5", THROUGH, protocol)
    assert Run(tmp_path, tool, trace, {"first+0x10": unknown}).places(blamed) == ["first+0x10"]


def test_a_recording_has_no_decoder(tmp_path: Path, tool: Tool) -> None:
    run = Run(tmp_path, tool, recording([{"start": KERNEL.at("first"), "count": 6}] * 2), {"first+0x4": RETAASPPC})
    assert run.places("stale") == ["first+0x4"]


# warnings of the other commands


@pytest.mark.parametrize("options", [("disasm",), ("disasm", "--from", "first"), ("stats",)])
def test_the_other_commands_warn_once(tmp_path: Path, tool: Tool, options: Sequence[str]) -> None:
    run = Run(tmp_path, tool, perf_text(CALLS * 3, KERNEL), STALE)
    _, err = run(*options)
    assert err.splitlines()[0] == (
        "warning: 1 word of the image is not what ran, 8 impossible steps: give the text that ran, with "
        "prologue live overlay or --memory, to the decoder too; prologue trace check names the words"
    )
    assert err.count("warning") == 1
    run = Run(tmp_path, tool, perf_text(CALLS * 3, KERNEL), {})
    assert "warning" not in run(*options)[1]


def test_another_place_for_one_word(tmp_path: Path, tool: Tool) -> None:
    changed = {"callee+0x8": encode_b(KERNEL.at("callee+0x8"), KERNEL.at("first"))}
    run = Run(tmp_path, tool, perf_text(CALLS, KERNEL), changed)
    (stale,) = run.check()["stale"]
    assert stale["message"] == "b first is not what ran: execution went on at first+0x8 and 1 other place"
