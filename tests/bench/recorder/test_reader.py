"""Boots recorded one at a time: what is put together, what is refused, and that reports can be made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue_bench.analysis.sources import open_results
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.reader import read_records
from prologue_bench.recorder.record import Record, appending, encode_record, make_record
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Readback, Workload
from tests.support.machine_tree import make_tree, run_script
from tests.support.tool import Tool

WORK: Final = (Workload("hackbench", "hackbench -g 10", "seconds", "lower", pattern=r"Time: \([0-9.]*\)"),)
MACHINE: Final = {
    "arch": "aarch64",
    "cpus": "4",
    "cpu": "410fd083 x4",
    "model": "Board",
    "memory": "4005176 kB",
    "kvm": "no",
}
KERNEL: Final = {"release": "6.12.1", "build_id": "ab" * 20}


def one(label: str = "base", boot: int = 0, value: float = 5.0, mov: bool = False) -> Record:
    readback = Readback("ab" * 20, 256, 256 * mov, 256 * (not mov))
    facts = {**MACHINE, **KERNEL, "boot_id": f"boot-{boot}", "started": f"2026-11-21T10:00:{boot:02}Z"}
    recorded = Recorded(
        machine=facts,
        readback=readback,
        gate_before={"taint": 0},
        gate_after={"taint": 0},
        values={"hackbench": (value, value + 0.01)},
    )
    return make_record(recorded, Task(workloads=WORK, runs=2), label)


def changed(record: Record, **change: Any) -> Record:
    """Another setup, or another boot."""
    setup = {name: change.pop(name) for name in ("machine", "kernel", "workloads", "runs_per_boot") if name in change}
    return replace(record, setup=replace(record.setup, **setup), boot=replace(record.boot, **change))


def later(record: Record) -> Record:
    """More of the same boot."""
    return changed(record, started=record.boot.started.replace("T10", "T11"))


def save(path: Path, *records: Record) -> Path:
    path.write_text("".join(encode_record(record) for record in records))
    return path


def printing(runs: int) -> Task:
    return Task(workloads=(replace(WORK[0], command="x", pattern=r"\([0-9.]*\)$"),), runs=runs)


def printed(
    directory: Path, label: str, boot: int, command: str = "echo 5", *, runs: int = 1, host: str = "board"
) -> str:
    """What the recorder's script says in one boot of a made-up machine, whatever the workload's command is called."""
    files = {"proc/sys/kernel/random/boot_id": f"boot-{boot}\n", "proc/sys/kernel/hostname": f"{host}\n"}
    tree = make_tree(directory / "machine", files)
    text = script(printing(runs)).replace("command_0=x", f"command_0='{command}'")
    return run_script("dash", text, tree, directory / "programs", {"LABEL": label}).stdout


def ten_of_each() -> list[Record]:
    noise = np.random.default_rng(5).normal(0, 0.004, 20)
    return [one(("base", "mov")[k % 2], k, 5 + noise[k] + 0.1 * (k % 2), mov=k % 2 == 1) for k in range(20)]


def test_a_record_survives(tmp_path: Path) -> None:
    results = read_records([save(tmp_path / "a.jsonl", one(), one("mov", 1, 6.0, mov=True))])
    campaign, (first, second) = results.campaign, results.boots
    assert (campaign.evidence, campaign.base, campaign.aa, campaign.runs_per_boot) == ("timing", "base", None, 2)
    assert [(v.label, v.kind, v.image_sha256) for v in campaign.variants] == [("base", None, None), ("mov", None, None)]
    assert (campaign.machine, campaign.kernel, campaign.workloads) == (MACHINE, KERNEL, (WORK[0],))
    assert (first.block, first.position, first.number, first.started) == (None, 0, 1, "2026-11-21T10:00:00Z")
    assert (second.values, second.variant) == ({"hackbench": (6.0, 6.01)}, "mov")
    assert second.readback == Readback("ab" * 20, 256, 256, 0)
    assert results.boots_known


@pytest.mark.thorough
def test_reports_are_made_of_several_files(tmp_path: Path, tool: Tool) -> None:
    records = ten_of_each()
    names = [str(save(tmp_path / "monday.jsonl", *records[:9])), str(save(tmp_path / "tuesday.jsonl", *records[9:]))]
    said = tool("bench", "compare", *names).out
    assert "mov: different" in said
    assert "1.98% slower" in said
    assert "without read-back" not in said
    assert "10 boots of each variant, 2 runs in each" in tool("bench", "table", *names).out
    assert main(["bench", "plot", *names, "-o", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").stat().st_size > 1000


OTHER_COMMAND: Final = replace(WORK[0], command="hackbench -g 9")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": {**MACHINE, "cpus": "8", "model": "X"}}, "machine cpus: 4 and 8; machine model: Board and X"),
        ({"machine": {**MACHINE, "memory": "2005176 kB"}}, "memory: 4005176 kB and 2005176 kB"),
        ({"machine": {**MACHINE, "compatible": "linux,dummy-virt"}}, "evidence class: timing and smoke"),
        ({"kernel": {**KERNEL, "release": "6.12.2"}}, "kernel release: 6.12.1 and 6.12.2"),
        ({"kernel": {**KERNEL, "build_id": "cd" * 20}}, f"kernel build_id: {'ab' * 20} and {'cd' * 20}"),
        ({"runs_per_boot": 3}, "runs_per_boot: 2 and 3"),
        ({"workloads": (OTHER_COMMAND,)}, "hackbench -g 10 (seconds, lower is better) and hackbench -g 9"),
        ({"workloads": (replace(WORK[0], pattern=r"Max: \([0-9.]*\)"),)}, r"hackbench: Time: \([0-9.]*\) and Max: \("),
    ],
)
def test_unlike_records_are_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.jsonl", one()), save(tmp_path / "b.jsonl", changed(one("mov", 1), **change))
    with pytest.raises(BenchError) as refused:
        read_records([a, b])
    assert refused.value.message.startswith(f"{a}:1 and {b}:1 are not of one setup: ")
    assert said in refused.value.message


SET: Final[dict[str, Any]] = {"taint": 0, "governors": ["performance"], "boost": 0, "affinity": "0-3"}


def test_boots_whose_settings_differ_are_refused(tmp_path: Path) -> None:
    """A governor is worth more than any prologue, and the labels would get the blame."""
    path = tmp_path / "a.jsonl"
    slow = {**SET, "governors": ["powersave"]}
    records = [changed(r, gate_before=slow if r.boot.variant == "mov" else SET) for r in ten_of_each()]
    save(path, *records)
    with pytest.raises(BenchError) as refused:
        read_records([path])
    assert refused.value.message == (f"{path}:2: settings differ: governors: powersave, but performance in {path}:1")
    save(path, changed(one(), gate_before=SET), later(changed(one(), gate_before=slow)))
    with pytest.raises(BenchError, match=r"a.jsonl:2: settings differ: governors"):  # one boot, two parts
        read_records([path])
    save(path, changed(one(), gate_before=SET), changed(one("mov", 1), gate_before=slow, void="throttled"))
    assert len(read_records([path]).boots) == 2


def test_settings_that_are_not_known_of_every_boot(tmp_path: Path, tool: Tool) -> None:
    records = [changed(r, gate_before=SET) for r in ten_of_each()]
    records[3] = changed(records[3], gate_before={**SET, "governors": [], "boost": None})
    said = " ".join(tool("bench", "compare", save(tmp_path / "a.jsonl", *records)).out.split())
    assert "mov: different" in said
    assert "not recorded for every boot, so they may differ: governors (missing in 1), boost (missing in 1)" in said


def test_memory_may_differ_a_little(tmp_path: Path) -> None:
    other = changed(one("mov", 1), machine={**MACHINE, "memory": "4005100 kB"})
    assert len(read_records([save(tmp_path / "a.jsonl", one(), other)]).boots) == 2


def test_boots_of_two_boards_of_one_model_are_refused(tmp_path: Path) -> None:
    """What the boards differ in would be taken for the effect of the variant, or for noise."""
    log = printed(tmp_path, "base", 0, host="rpi4-1") + printed(tmp_path, "mov", 1, host="rpi4-2")
    path = tmp_path / "boots.log"
    path.write_text(log)
    with pytest.raises(BenchError, match=r"are not of one setup: machine host: rpi4-1 and rpi4-2$"):
        read_records([path])
    path.write_text(log.replace('"host": "rpi4-1", ', ""))  # as records were before
    assert len(read_records([path]).boots) == 2


def test_one_boot_has_one_label(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", one(), later(one("mov")))
    with pytest.raises(BenchError, match=r"a.jsonl:2: boot boot-0 is 'mov' here and 'base' in .*a.jsonl:1: one boot"):
        read_records([path])


def test_one_boot_may_be_recorded_twice(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", one(), one("mov", 1), later(one(value=7.0)))
    first, second = read_records([path]).boots
    assert first.values["hackbench"] == (5.0, 5.01, 7.0, 7.01)
    assert second.values["hackbench"] == (5.0, 5.01)


@pytest.mark.parametrize("void_first", [True, False])
def test_a_try_that_is_void_leaves_the_others_of_its_boot_alone(void_first: bool, tmp_path: Path) -> None:
    """It is left out for what the gate saw, whatever its numbers were, and named."""
    void = changed(one("mov", 1, 9.0), void="other work used 2.0 CPUs before the first run")
    good = one("mov", 1)
    tries = [void, later(good)] if void_first else [good, later(void)]
    path = save(tmp_path / "a.jsonl", one(), *tries)
    results = read_records([path])
    assert [(boot.void, boot.values["hackbench"]) for boot in results.boots] == [(None, (5.0, 5.01))] * 2
    assert results.notes == (
        f"{path}:{2 if void_first else 3}: a try that is void (other work used 2.0 CPUs before the first run) was left "
        "out; its boot counts",
    )


def test_a_boot_whose_tries_are_all_void_is_void(tmp_path: Path) -> None:
    void = changed(one("mov", 1), void="throttled")
    results = read_records([save(tmp_path / "a.jsonl", one(), void, changed(later(void), void="busy"))])
    assert [boot.void for boot in results.boots] == [None, "throttled"]
    assert results.notes == ()


def test_a_kernel_that_was_tainted_in_one_try_is_void_in_all(tmp_path: Path) -> None:
    """What runs after an Oops runs on a damaged kernel, though the gate sees the same before and after."""
    oops = changed(one("mov", 1), gate_after={"taint": 128}, void="kernel's taint changed: 0 before, 128 after")
    again = changed(later(one("mov", 1)), gate_before={"taint": 128}, gate_after={"taint": 128})
    results = read_records([save(tmp_path / "a.jsonl", one(), oops, again)])
    assert [boot.void for boot in results.boots] == [None, oops.boot.void]


def test_the_same_record_twice_is_refused(tmp_path: Path) -> None:
    """It would count as more runs."""
    path = save(tmp_path / "a.jsonl", one(), one("mov", 1))
    copy = save(tmp_path / "b.jsonl", one("mov", 1))
    with pytest.raises(BenchError) as refused:
        read_records([path, copy])
    assert refused.value.message == (
        f"{copy}:1: boot boot-1, started 2026-11-21T10:00:01Z, is in {path}:2 already"
    )  # fmt: skip


def test_the_base_is_the_first_label_that_counts(tmp_path: Path) -> None:
    broken = changed(one("bsae"), values={}, void="hackbench: run 1: exit status 127")
    path = save(tmp_path / "a.jsonl", broken, one("base", 1), one("mov", 2, mov=True))
    assert [variant.label for variant in read_records([path]).campaign.variants] == ["base", "mov", "bsae"]
    save(path, broken, later(one("base")), one("mov", 2, mov=True))
    results = read_records([path])
    assert ([variant.label for variant in results.campaign.variants], results.campaign.base) == (
        ["base", "mov"],
        "base",
    )
    assert not results.voids


def test_a_label_given_to_the_wrong_boot(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", one(), one(boot=1, mov=True))
    with pytest.raises(BenchError, match=r"label 'base': .*a.jsonl:1 ran with NOP, .*a.jsonl:2 with MOV"):
        read_records([path])


def test_damaged_files(tmp_path: Path) -> None:
    whole = encode_record(one())
    path = tmp_path / "a.jsonl"
    path.write_text(whole + encode_record(one("mov", 1))[:-30])
    results = read_records([path])
    assert len(results.boots) == 1
    assert results.notes == ("a.jsonl: the last line is torn (its writer was killed) and was left out",)
    path.write_text(whole[:-30] + "\n" + whole)
    with pytest.raises(BenchError, match=r"a.jsonl:1: not JSON"):
        read_records([path])
    path.write_text("")
    with pytest.raises(BenchError, match=r"a.jsonl: contains no record"):
        read_records([path])
    with pytest.raises(BenchError, match=r"b.log: No such file"):
        open_results([str(tmp_path / "b.log")])
    for name, wrong in (("label", ""), ("started", "noon"), ("values", {}), ("workloads", []), ("runs", -1),
                        ("schema", "prologue.bench-boot/1"), ("gate", {})):  # fmt: skip
        data: dict[str, Any] = {**json.loads(whole), name: wrong}
        path.write_text(json.dumps(data) + "\n")
        with pytest.raises(BenchError, match=r"a.jsonl:1: .*expected"):
            read_records([path])


def test_appending_keeps_a_whole_line_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text((encode_record(one()) + encode_record(one("mov", 1))).rstrip("\n"))
    assert len(read_records([path]).boots) == 2
    with appending(path) as append:
        append(one("mov", 2))
        with pytest.raises(BenchError, match="another process is recording there"), appending(path):
            pass
    assert path.read_text() == encode_record(one()) + encode_record(one("mov", 1)) + encode_record(one("mov", 2))


@pytest.mark.parametrize("content", ["a note", "hello\n", '{"other": "line"}\n'])
def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "boots.log"
    path.write_text(content)
    with pytest.raises(BenchError, match="exists and is not a record file"), appending(path):
        pass
    assert path.read_text() == content


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(BenchError, match="failed"), appending(path):
        raise BenchError("failed")
    assert not path.exists()
    with pytest.raises(BenchError, match="No such file or directory"), appending(tmp_path / "nowhere" / "a.jsonl"):
        pass


@pytest.mark.thorough
def test_a_log_of_many_boots(tmp_path: Path) -> None:
    """What a board without Python printed: good boots, one that failed, and two that broke off in their first run."""
    log, second = "", '@prologue {"event": "value", "run": 2'
    commands = (("nop", "echo 5.0"), ("nop", "echo 5.1"), ("mov", "echo 5.2"), ("nop", "echo no memory; exit 2"))
    for k, (label, command) in enumerate((*commands, ("mov", "echo 5.3"))):
        log += "[    1.0] noise\r\n" * (k != 2) + printed(tmp_path, label, k, command, runs=2)
        if k == 1:  # the power fails in a line, which the next boot goes on with
            log = log[: log.rindex(second) + 30]
    (tmp_path / "boots.log").write_text(log[: log.rindex(second)])
    results = open_results([str(tmp_path / "boots.log")])
    incomplete = "lost: the recorder's output is not complete: no value of hackbench in 1 of 2 runs"
    assert [(boot.variant, boot.void, dict(boot.values)) for boot in results.boots] == [
        ("nop", None, {"hackbench": (5.0, 5.0)}),
        ("nop", incomplete, {}),
        ("mov", None, {"hackbench": (5.2, 5.2)}),
        ("nop", "hackbench: run 1: exit status 2; last line of its output: no memory", {}),
        ("mov", incomplete, {}),
    ]
    assert results.campaign.machine["cpu"] == "410fd034 x3, 411fd072 x1"


def test_two_values_of_one_run_are_refused(tmp_path: Path) -> None:
    task, lines = printing(1), printed(tmp_path, "base", 0).splitlines()
    value = next(k for k, line in enumerate(lines) if '"event": "value"' in line)
    assert read_recorded(lines, task).values == {"hackbench": (5.0,)}
    with pytest.raises(GuestLostError, match="run 1 of workload 0 comes twice"):
        read_recorded([*lines[:value], lines[value], *lines[value:]], task)


def test_what_a_boot_says_once_is_not_taken_from_another(tmp_path: Path) -> None:
    """A boot that died in its first run, and one whose first line a kernel message tore."""
    log = printed(tmp_path, "boot", 0) + printed(tmp_path, "build", 1)
    died = log[: log.index('@prologue {"event": "value"')]
    torn = log[log.rindex('@prologue {"event": "begin"') :].replace('"task"', '[   61.000000] "task')
    (tmp_path / "boots.log").write_text(died + torn)
    (record,) = read_records([tmp_path / "boots.log"]).boots
    assert (record.variant, record.values) == ("boot", {})
    assert record.void == "lost: the recorder's output is of two boots: readback comes twice"


@pytest.mark.thorough
def test_a_log_without_a_label(tmp_path: Path) -> None:
    task = Task(workloads=(replace(WORK[0], pattern=None),), runs=0)
    done = run_script("dash", script(task), make_tree(tmp_path / "machine"), tmp_path / "programs")
    (tmp_path / "a.log").write_text("\n" + done.stdout)
    with pytest.raises(BenchError, match=r"a.log:2: no label: which variant was this\?"):
        read_records([tmp_path / "a.log"])
