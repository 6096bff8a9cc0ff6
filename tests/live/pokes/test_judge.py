"""Made recordings and what is said of them: which writes were live, and which of these are unsafe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prologue.errors import InputError
from prologue.insn import a64
from prologue.live.pokes.judge import JudgedWrites, judge_writes
from prologue.live.pokes.recording import NO_CPU, Capability, Flag, Function, Loss, Maintenance, Trailer
from prologue.live.pokes.violations import missing_maintenance
from prologue.live.report.writes import render_writes, table_of, unseen
from tests.live.pokes.made import recording_of, write_recording
from tests.rules.running import CALLERS, FUNCTIONS, PLACE, STORE, SWITCHED
from tests.support.tool import Tool

BL = 0x94000010
B_EQ = 0x54000040


def judged(*writes: dict[str, Any], without: tuple[Capability, ...] = (), **ending: Any) -> JudgedWrites:
    made = recording_of(*(SWITCHED | write for write in writes), trailer=Trailer(functions=FUNCTIONS, **ending))
    sees = tuple(sight for sight in made.header.sees if sight not in without)
    return judge_writes(replace(made, header=replace(made.header, sees=sees)))


def codes(*writes: dict[str, Any], **how: Any) -> list[str]:
    return [finding.code for finding in judged(*writes, **how).findings]


def test_nop_and_b_is_allowed() -> None:
    assert codes({}) == []


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (a64.NOP, a64.MOV_X9_X30, "PL308"),
        (a64.MOV_X9_X30, BL, "PL308"),
        (a64.NOP, B_EQ, "PL310"),
        (B_EQ, a64.NOP, "PL310"),
        (0xAA0503E5, 0xAA0503E6, "PL308"),
    ],
)
def test_live_transitions_off_the_list(old: int, new: int, code: str) -> None:
    assert codes({"old": old, "new": new}) == [code]


@pytest.mark.parametrize(
    "calm",
    [{"running": 1}, {"running": 2}, {"flags": Flag.STOPPED}, {"flags": Flag.UNREACHABLE}, {"flags": Flag.LITERAL}],
)
def test_what_is_not_live_is_not_judged_by_its_words(calm: dict[str, int]) -> None:
    assert codes({"new": a64.MOV_X9_X30, "maintenance": 0} | calm) == []


def test_advice_is_for_the_writer_and_not_for_a_file() -> None:
    (finding,) = judged({"new": a64.MOV_X9_X30}).findings
    assert finding.fix == "write it while one CPU runs or in stop_machine; live, only instructions that the list has"


def test_a_cpu_that_is_not_known_is_said() -> None:
    for cpu, name in ((3, "; CPU 3, "), (NO_CPU, "; CPU not known, ")):
        assert name in judged({"new": a64.MOV_X9_X30, "cpu": cpu}).findings[0].message


def test_an_unknown_writer_is_a_finding_live_or_not() -> None:
    for running in (1, 3):
        assert codes({"running": running, "callers": ()}) == ["PL507"]


def test_what_was_not_seen_is_said_and_not_judged() -> None:
    assert codes({"maintenance": 0}, without=("maintenance",)) == []
    stopped = {"flags": Flag.STOPPED | Flag.RAN_BEFORE, "new": a64.MOV_X9_X30}
    assert codes(stopped, without=("stopped",)) == ["PL308"]
    assert codes({"running": 1, "new": a64.MOV_X9_X30}, without=("running",)) == ["PL308"]
    assert codes({"pc": 0, "callers": ()}, without=("pc", "callers")) == []
    assert codes({"flags": Flag.NOT_RETURNED, "maintenance": 0}) == []
    said = unseen(judged({"maintenance": 0}, without=("maintenance", "pc", "callers"), lost=(Loss("events", 7),)))
    assert said == [
        "cache maintenance and barriers: PL506 is not judged", "who wrote: PL507 is not judged", "lost: 7 of events",
    ]  # fmt: skip
    assert unseen(judged({"flags": Flag.NOT_RETURNED})) == [
        "1 live write whose writer had not returned: PL506 is not judged for it"
    ]
    assert unseen(judged({}, complete=False)) == ["the recorder was interrupted"]
    assert unseen(judged({})) == []


def test_an_old_word_that_is_not_known() -> None:
    assert codes({"flags": Flag.OLD_UNKNOWN, "old": 0}) == []
    assert codes({"flags": Flag.OLD_UNKNOWN | Flag.RAN_BEFORE, "old": 0, "new": a64.MOV_X9_X30}) == ["PL308"]
    (row,) = table_of(judged({"flags": Flag.OLD_UNKNOWN, "old": 0}))
    assert row.transition == "? -> B"


def test_the_table_counts_every_word_once() -> None:
    writes = [{"time": k, "address": PLACE + 4 * k, "running": 1 + 2 * (k % 2)} for k in range(1000, 1010)]
    done = judged(*writes, {"time": 2000, "new": a64.MOV_X9_X30})
    table = {(row.writer, row.transition, row.why, row.verdict): count for row, count in table_of(done).items()}
    assert table == {
        ("jump label", "NOP -> MOV X9, X30", "", "PL308"): 1,
        ("jump label", "NOP -> B", "one CPU runs", "not live"): 5,
        ("jump label", "NOP -> B", "", "allowed"): 5,
    }
    text = render_writes(done, "text", show_all=False)
    assert "copy_to_kernel_nofault < __aarch64_insn_write+0x10 < " in text
    assert "11 words written, 6 live" in text


def test_slots_and_programs_that_nothing_reaches() -> None:
    functions = tuple(f._replace(name="bpf_arch_text_copy") if f.start == STORE else f for f in FUNCTIONS)
    copied = SWITCHED | {"new": a64.MOV_X9_X30, "maintenance": 0, "flags": 0}
    writes = [copied, copied | {"flags": Flag.RAN_BEFORE}, copied | {"flags": Flag.RAN_BEFORE | Flag.RAN_MEANWHILE}]
    done = judge_writes(recording_of(*writes, trailer=Trailer(functions=functions)))
    # Executed while it was written: it was reachable, whatever its writer is called.
    assert {(row.why.partition(": ")[2], row.verdict) for row in table_of(done)} == {
        ("never executed before", "not live"), ("not executed meanwhile", "not live"), ("", "PL308, PL506"),
    }  # fmt: skip
    blind = replace(done.recording, header=replace(done.recording.header, sees=("old", "callers", "pc")))
    assert judge_writes(blind).findings == ()
    assert any("unreachable by their writer's name alone" in said for said in unseen(judge_writes(blind)))


NEVER = {"old": 0x530C7E61, "new": 0x53097E61, "flags": 0}  # LSR W1, W19, #12 and #9, which no CPU had executed
CONSTANT = tuple(f._replace(name="futex_init") if f.start == CALLERS[2] & ~0xFFF else f for f in FUNCTIONS)


def set_by(
    functions: tuple[Function, ...], *writes: dict[str, Any], without: tuple[Capability, ...] = ()
) -> JudgedWrites:
    made = recording_of(*(SWITCHED | NEVER | write for write in writes), trailer=Trailer(functions=functions))
    sees = tuple(sight for sight in made.header.sees if sight not in without)
    return judge_writes(replace(made, header=replace(made.header, release="7.3.4-made", sees=sees)))


def test_a_live_write_to_what_no_cpu_had_executed() -> None:
    """Is no PL308: a warning, and info where the mechanism is made for it."""
    for functions, severity in ((FUNCTIONS, "warn"), (CONSTANT, "info")):
        done = set_by(functions, {})
        assert [(f.code, f.severity) for f in done.findings] == [("PL513", severity)]
        assert "no CPU had executed it, nor did one afterwards" in done.findings[0].message
        (row,) = table_of(done)
        assert (row.why, row.executed, row.verdict) == ("", "never executed before", "PL513")
        assert "yes: never executed before" in render_writes(done, "text", show_all=False)
        assert not done.failing
        assert done.undecided == ()


@pytest.mark.parametrize("ran", [Flag.RAN_BEFORE, Flag.RAN_MEANWHILE])
def test_a_constant_that_a_cpu_had_executed_is_no_constant_that_was_set_in_time(ran: Flag) -> None:
    assert [finding.code for finding in set_by(CONSTANT, {"flags": ran}).findings] == ["PL308"]


def test_how_cpus_came_to_execute_it() -> None:
    """Each CPU has to synchronise itself: the writer's maintenance does not reach what it has fetched."""
    synced, unsynced = {"flags": Flag.RAN_AFTER}, {"flags": Flag.RAN_AFTER | Flag.RAN_UNSYNCED}
    assert "each that did so afterwards had synchronised" in set_by(CONSTANT, synced).findings[0].message
    done = set_by(CONSTANT, unsynced)
    assert [(f.code, f.severity) for f in done.findings] == [("PL506", "error"), ("PL513", "info")]
    assert "executed by a CPU without a context synchronization event" in done.findings[0].message
    assert codes({"flags": Flag.RAN_BEFORE | Flag.RAN_UNSYNCED}) == []  # NOP and B: on the list
    older = set_by(CONSTANT, {}, without=("first_runs",))
    assert "had synchronised is not known" in older.findings[0].message
    assert any("which CPUs executed a word first" in said for said in unseen(older))


def test_a_recorder_that_does_not_see_what_cpus_execute() -> None:
    """A constant is not decided; text that is in use by its nature is judged as in use, and that is said."""
    done = set_by(CONSTANT, {}, {"time": 1001, "address": PLACE + 4}, without=("ran", "first_runs"))
    assert done.findings == ()
    assert [finding.code for finding in done.undecided] == ["PL513", "PL513"]
    text = render_writes(done, "text", show_all=False)
    assert "not decided: 2 words written by futex_init: whether a CPU had executed them before is not known" in text
    assert "no finding, 2 words not decided" in text
    done = set_by(FUNCTIONS, {}, without=("ran", "first_runs"))
    (finding,) = done.findings
    assert finding.code == "PL308"
    assert "whether a CPU had executed it is not known" in finding.message
    assert any("live writes as writes to code in use" in said for said in unseen(done))


def test_an_execution_that_may_have_been_missed() -> None:
    """The recording ended before the writer returned: what ran meanwhile is not known, what ran before is."""
    assert [f.code for f in set_by(FUNCTIONS, {"flags": Flag.NOT_RETURNED}).findings] == ["PL308"]
    assert len(set_by(CONSTANT, {"flags": Flag.NOT_RETURNED}).undecided) == 1


def test_lines_that_were_not_seen_are_said_where_they_matter() -> None:
    said = "which lines a DC or an IC was for: PL506 judges their kinds and order only"
    assert unseen(judged({}, without=("lines",))) == [said]
    assert unseen(judged({"running": 1}, without=("lines",))) == []


def test_another_machine() -> None:
    made = recording_of(SWITCHED)
    with pytest.raises(InputError, match="x86_64, not arm64"):
        judge_writes(replace(made, header=replace(made.header, machine="x86_64")))


DC, DSB, IC, ALL, LOCAL, ISB, MORE, DC2, IC2 = (
    Maintenance.DC, Maintenance.DSB, Maintenance.IC_IVAU, Maintenance.IC_IALLUIS, Maintenance.IC_IALLU,
    Maintenance.ISB, Maintenance.MORE, Maintenance.DC_ELSEWHERE, Maintenance.IC_ELSEWHERE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "ctr", "missing"),
    [
        ((DC, DSB, IC, DSB, ISB), None, ""),
        ((DSB, ISB, DC, DSB, ALL, DSB, ISB, DC), None, ""),
        ((DC, DSB, LOCAL, DSB, ISB), None, "no IC IVAU or IC IALLUIS"),
        ((IC, DSB, ISB, DC, DSB), None, "no IC IVAU or IC IALLUIS"),
        ((DC, IC, DSB, ISB), None, "no IC IVAU or IC IALLUIS"),
        ((DSB, IC, DSB, ISB), None, "no DC to the point of unification"),
        ((DC, DSB, IC, ISB), None, "no DSB after the IC"),
        ((DC, DSB, IC, DSB), None, "no ISB"),
        ((), None, "no DC to the point of unification"),
        ((DSB, IC, DSB, ISB), 1 << 28, ""),
        ((DC, DSB, ISB), 1 << 29, ""),
        ((DSB, ISB), 3 << 28, ""),
        ((ISB,), 3 << 28, "no DSB"),
        ((DC, DSB, MORE), None, ""),
        ((DC2, DC, DC2, DSB, IC2, IC, DSB, ISB), None, ""),
        ((DC2, DSB, IC, DSB, ISB), None, "no DC to the point of unification (for its line)"),
        ((DC, DSB, IC2, DSB, ISB), None, "no IC IVAU or IC IALLUIS (for its line)"),
        ((DC2, DSB, IC2, DSB, ISB), 3 << 28, ""),
        ((DC2, DSB, ALL, DSB, ISB), 1 << 28, ""),
    ],
)
def test_maintenance(steps: tuple[Maintenance, ...], ctr: int | None, missing: str) -> None:
    assert missing_maintenance(steps, ctr) == missing


def test_functions_that_are_not_known_are_addresses() -> None:
    made = recording_of(SWITCHED, trailer=Trailer(functions=(Function(1, 2, "f"),)))
    (finding,) = judge_writes(made).findings
    assert finding.code == "PL507"
    assert hex(STORE) in finding.message


def test_quiet_leaves_json_whole(tmp_path: Path, tool: Tool) -> None:
    made = recording_of(SWITCHED, trailer=Trailer(functions=FUNCTIONS))
    command = ["writes", "judge", "-q", str(write_recording(tmp_path / "made.writes", made))]
    assert tool(*command).out == ""
    assert tool(*command, "--json").json["passed"]


def test_a_writer_has_one_line_of_the_table_whatever_its_name_is() -> None:
    made = recording_of(SWITCHED, trailer=Trailer(functions=(Function(STORE, STORE + 4, "a\nb"),)))
    text = render_writes(judge_writes(made), "text", show_all=False)
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("unknown")] == [["unknown:", r"a\nb"]]


@pytest.mark.parametrize(("release", "known"), [("6.12.107-made", True), ("6.6.3-made", False), ("8.0.0", False)])
def test_a_writer_of_a_release_that_was_never_compared(release: str, *, known: bool) -> None:
    """It may be that release's own: no finding, and no pass."""
    functions = tuple(f._replace(name="new_patcher") if f.start == CALLERS[2] & ~0xFFF else f for f in FUNCTIONS)
    made = recording_of(SWITCHED, trailer=Trailer(functions=functions))
    done = judge_writes(replace(made, header=replace(made.header, release=release)))
    assert {finding.code for finding in done.findings} == ({"PL507"} if known else set())
    assert {finding.code for finding in done.undecided} == (set() if known else {"PL507"})
    text, data = render_writes(done, "text", show_all=False), render_writes(done, "json", show_all=False)
    assert not json.loads(data)["passed"]
    assert ("not decided: 1 word written by " in text) != known
    assert ("not known for" in render_writes(done, "sarif", show_all=False)) != known
    assert ("not known for" in render_writes(done, "junit", show_all=False)) != known
