"""Boots recorded one at a time: what is put together, what is refused, and that reports can be made of it."""

from __future__ import annotations

import fcntl
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue_bench.errors import BenchError
from prologue_bench.record import Record, encode_record
from prologue_bench.record_file import appending
from prologue_bench.recorder import Measured, Task, script
from prologue_bench.records import read_records
from prologue_bench.results import Readback, Workload
from prologue_bench.sources import open_results
from tests.bench.machine_tree import make_tree, run_script

WORK: Final = (Measured(Workload("hackbench", "hackbench -g 10", "seconds", "lower"), r"Time: \([0-9.]*\)"),)
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
    return Record(
        label, f"boot-{boot}", MACHINE, KERNEL, WORK, 2, f"2026-11-21T10:00:{boot:02}Z", readback, {"taint": 0},
        {"taint": 0}, {"hackbench": (value, value + 0.01)}, None,
    )  # fmt: skip


def save(path: Path, *records: Record) -> Path:
    path.write_text("".join(encode_record(record) for record in records))
    return path


def ten_of_each() -> list[Record]:
    noise = np.random.default_rng(5).normal(0, 0.004, 20)
    return [one(("base", "mov")[k % 2], k, 5 + noise[k] + 0.1 * (k % 2), mov=k % 2 == 1) for k in range(20)]


def test_a_record_survives(tmp_path: Path) -> None:
    results = read_records([save(tmp_path / "a.jsonl", one(), one("mov", 1, 6.0, mov=True))])
    campaign, (first, second) = results.campaign, results.boots
    assert (campaign.evidence, campaign.base, campaign.aa, campaign.runs_per_boot) == ("timing", "base", None, 2)
    assert [(v.label, v.kind, v.image_sha256) for v in campaign.variants] == [("base", None, None), ("mov", None, None)]
    assert (campaign.machine, campaign.kernel, campaign.workloads) == (MACHINE, KERNEL, (WORK[0].workload,))
    assert (first.block, first.position, first.number, first.started) == (None, 0, 1, "2026-11-21T10:00:00Z")
    assert (second.values, second.variant) == ({"hackbench": (6.0, 6.01)}, "mov")
    assert second.readback == Readback("ab" * 20, 256, 256, 0)
    assert results.boots_known


def test_reports_are_made_of_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = ten_of_each()
    names = [str(save(tmp_path / "monday.jsonl", *records[:9])), str(save(tmp_path / "tuesday.jsonl", *records[9:]))]
    assert main(["bench", "compare", *names]) == 0
    said = capsys.readouterr().out
    assert "mov: different" in said
    assert "1.98% slower" in said
    assert "without read-back" not in said
    assert main(["bench", "table", *names]) == 0
    assert "10 boots of each variant, 2 runs in each" in capsys.readouterr().out
    assert main(["bench", "plot", *names, "-o", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").stat().st_size > 1000


OTHER_COMMAND: Final = replace(WORK[0], workload=replace(WORK[0].workload, command="hackbench -g 9"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": {**MACHINE, "cpus": "8", "model": "X"}}, "machine cpus: 4 and 8; machine model: Board and X"),
        ({"machine": {**MACHINE, "memory": "2005176 kB"}}, "memory: 4005176 kB and 2005176 kB"),
        ({"machine": {**MACHINE, "compatible": "linux,dummy-virt"}}, "evidence class: timing and smoke"),
        ({"kernel": {**KERNEL, "release": "6.12.2"}}, "kernel release: 6.12.1 and 6.12.2"),
        ({"kernel": {**KERNEL, "build_id": "cd" * 20}}, f"kernel build_id: {'ab' * 20} and {'cd' * 20}"),
        ({"runs": 3}, "runs_per_boot: 2 and 3"),
        ({"workloads": (OTHER_COMMAND,)}, "hackbench -g 10 (seconds, lower is better) and hackbench -g 9"),
    ],
)
def test_unlike_records_are_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.jsonl", one()), save(tmp_path / "b.jsonl", replace(one("mov", 1), **change))
    with pytest.raises(BenchError) as refused:
        read_records([a, b])
    assert refused.value.message.startswith(f"{a}:1 and {b}:1 are not of one setup: ")
    assert said in refused.value.message


def test_memory_may_differ_a_little(tmp_path: Path) -> None:
    other = replace(one("mov", 1), machine={**MACHINE, "memory": "4005100 kB"})
    assert len(read_records([save(tmp_path / "a.jsonl", one(), other)]).boots) == 2


def test_one_boot_has_one_label(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", one(), one("mov"))
    with pytest.raises(BenchError, match=r"a.jsonl:2: boot boot-0 is 'mov' here and 'base' in .*a.jsonl:1: one boot"):
        read_records([path])


def test_one_boot_may_be_recorded_twice(tmp_path: Path) -> None:
    void = replace(one("mov", 1), void="throttled")
    path = save(tmp_path / "a.jsonl", one(), one("mov", 1), one(value=7.0), void)
    first, second = read_records([path]).boots
    assert first.values["hackbench"] == (5.0, 5.01, 7.0, 7.01)
    assert second.void == "throttled"


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
    with pytest.raises(BenchError, match=r"a.jsonl: no record in it"):
        read_records([path])
    with pytest.raises(BenchError, match=r"b.log: No such file"):
        open_results([str(tmp_path / "b.log")])
    for name, wrong in (("label", ""), ("started", "noon"), ("values", {}), ("workloads", []), ("runs", -1),
                        ("schema", "prologue.bench-boot/1"), ("gate", {})):  # fmt: skip
        data: dict[str, Any] = {**json.loads(whole), name: wrong}
        path.write_text(json.dumps(data) + "\n")
        with pytest.raises(BenchError, match=r"a.jsonl:1: .*expected"):
            read_records([path])


def test_appending_cuts_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(encode_record(one()) + encode_record(one("mov", 1))[:-30])
    with appending(path) as append:
        append(one("mov", 2))
    assert path.read_text() == encode_record(one()) + encode_record(one("mov", 2))


def test_only_one_records_at_a_time(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", one())
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BenchError, match="another process records there"), appending(path):
            pass
    assert path.read_text() == encode_record(one())


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(BenchError, match="failed"), appending(path):
        raise BenchError("failed")
    assert not path.exists()
    with pytest.raises(BenchError, match="No such file or directory"), appending(tmp_path / "nowhere" / "a.jsonl"):
        pass


def test_a_log_of_many_boots(tmp_path: Path) -> None:
    """What a board without Python printed: two good boots, one that failed, one that broke off in its first run."""
    log = ""
    commands = (("nop", "echo 5.0"), ("mov", "echo 5.1"), ("nop", "echo no memory; exit 2"), ("mov", "echo 5.2"))
    for k, (label, command) in enumerate(commands):
        task = Task((Measured(replace(WORK[0].workload, command="x"), r"\([0-9.]*\)$"),), 2)
        tree = make_tree(tmp_path / "machine", {"proc/sys/kernel/random/boot_id": f"boot-{k}\n"})
        text = script(task).replace("command_0=x", f"command_0='{command}'")
        log += "[    1.0] noise\r\n" + run_script("dash", text, tree, tmp_path / "programs", {"LABEL": label}).stdout
    (tmp_path / "boots.log").write_text(log[: log.rindex('@prologue {"event": "value", "run": 2')])
    results = open_results([str(tmp_path / "boots.log")])
    assert [(boot.variant, boot.void, dict(boot.values)) for boot in results.boots] == [
        ("nop", None, {"hackbench": (5.0, 5.0)}),
        ("mov", None, {"hackbench": (5.1, 5.1)}),
        ("nop", "hackbench: run 1: exit status 2; last line of its output: no memory", {}),
        ("mov", "the recorder's output is not complete: no value of hackbench in 1 of 2 runs", {}),
    ]
    assert results.campaign.machine["cpu"] == "410fd034 x3, 411fd072 x1"


def test_a_log_without_a_label(tmp_path: Path) -> None:
    task = Task((Measured(WORK[0].workload, None),), 0)
    done = run_script("dash", script(task), make_tree(tmp_path / "machine"), tmp_path / "programs")
    (tmp_path / "a.log").write_text("\n" + done.stdout)
    with pytest.raises(BenchError, match=r"a.log:2: no label: which variant was this\?"):
        read_records([tmp_path / "a.log"])
