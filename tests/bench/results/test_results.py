"""Result sets: read back as written, damage named by file and line, merged only if alike, and set alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from prologue_bench.analysis.sources import open_results
from prologue_bench.errors import BenchError
from prologue_bench.results.merge import merge
from prologue_bench.results.model import Readback
from prologue_bench.results.settings import setup_differences, unknown_settings
from prologue_bench.results.store import CAMPAIGN, RESULTS, read_results
from tests.support.result_sets import BUILD, BUILD_ID, HACKBENCH, Made, boots, campaign, make, write
from tests.support.tool import Tool


def test_read_back_as_written(tmp_path: Path) -> None:
    made = Made(pairs=3)
    results = read_results(make(tmp_path, made))
    assert results.campaign == campaign(made)
    assert list(results.boots) == boots(made)
    assert (results.notes, results.voids, results.seeds) == ((), (), (7,))


@pytest.mark.parametrize(
    ("cut", "more", "left"),
    [(1, b"", 6), (30, b"", 5), (200, b"", 5), (0, b"\0" * 100, 6)],
    ids=["only the line end is gone", "30 bytes", "200 bytes", "a tail of zeros"],
)
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int, more: bytes, left: int) -> None:
    path = make(tmp_path, Made(pairs=2)) / RESULTS
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut] + more)
    results = read_results(tmp_path)
    assert len(results.boots) == left
    assert ["torn" in note for note in results.notes] == [True] * (cut != 1)


Edit = Callable[[dict[str, Any]], object]


def sample(value: object) -> Edit:
    return lambda row: row["values"].update({HACKBENCH.name: [1, value]})


RANGE: Final = "expected 0 or a number from 1e-60 to 1e60, found"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda row: row.pop("schema"), 'schema: expected "prologue.bench-boot/1", found nothing'),
        (lambda row: row.update(variant="other"), "variant: expected one of nop;nop, "),
        (lambda row: row.update(boot=-1), "boot: expected a whole number from 0 on, found -1"),
        (lambda row: row.update(started="yesterday"), "started: expected an ISO 8601 time"),
        (lambda row: row["values"].clear(), "hackbench, sockets: expected a list of numbers, found nothing"),
        (lambda row: row["values"].update(more=[1]), "'more' is not a workload of this campaign"),
        (sample("2"), f'{RANGE} "2"'),
        (sample(float("nan")), f"{RANGE} NaN"),
        (sample(1e308), f"{RANGE} 1e+308"),
        (sample(5e-324), f"{RANGE} 5e-324"),
        (sample(True), f"{RANGE} true"),
        (sample(10**400), f"{RANGE} 1000"),
        (lambda row: row.update(gate=None), "gate: expected an object, found null"),
        (lambda row: row.update(readback={"build_id": "x"}), "sites: expected a whole number from 0 on"),
        (lambda row: row.update(boot=1), "boot 1 is already in line 1"),
        (lambda row: row.update(block=0, position=0), "block 0, position 0 is already in line 1"),
    ],
)
def test_damage_is_named_by_file_and_line(tmp_path: Path, edit: Edit, said: str) -> None:
    path = make(tmp_path, Made(pairs=2)) / RESULTS
    lines = path.read_text().splitlines()
    row = json.loads(lines[4])
    edit(row)
    lines[4] = json.dumps(row)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BenchError) as failed:
        read_results(tmp_path)
    assert failed.value.message.startswith(f"{path}:5: ")
    assert said in failed.value.message


@pytest.mark.parametrize("line", [b"{", b"[]", b"", b"\xff", b"null"])
def test_a_broken_line_that_is_not_the_last(tmp_path: Path, line: bytes) -> None:
    path = make(tmp_path, Made(pairs=2)) / RESULTS
    lines = path.read_bytes().splitlines()
    lines[2] = line
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(BenchError, match=r"results\.jsonl:3: "):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda data: data.update(schema="prologue.bench-campaign/2"), "schema: expected"),
        (lambda data: data.update(evidence="guess"), "evidence: expected one of exact, timing, smoke"),
        (lambda data: data.update(base="none"), "base: expected one of"),
        (lambda data: data.update(aa="nop;nop"), "aa: expected the label of another variant"),
        (lambda data: data.update(aa=BUILD), "is not the same image as the base"),
        (lambda data: data.update(machine={"cpus": 8}), "machine: expected an object of texts"),
        (lambda data: data["workloads"][0].update(direction="up"), "direction: expected one of lower, higher"),
        (lambda data: data["variants"].append(data["variants"][0]), "variants: the same name twice"),
        (lambda data: data.update(workloads=[]), "workloads: expected a list of objects, found []"),
    ],
)
def test_a_wrong_campaign(tmp_path: Path, edit: Edit, said: str) -> None:
    path = make(tmp_path, Made(pairs=2)) / CAMPAIGN
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(BenchError) as failed:
        read_results(tmp_path)
    assert failed.value.message.startswith(str(path))
    assert said in failed.value.message


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"campaign\.json: No such file"):
        read_results(tmp_path)
    with pytest.raises(BenchError, match="nowhere: No such file"):
        open_results([str(tmp_path / "nowhere")])


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (Readback("other", 64, 0, 64), "read-back: build-id other, not "),
        (Readback(BUILD_ID, 64, 64, 0), "read-back: 64 of 64 sites are not those of nop-nop"),
        (Readback(BUILD_ID, 64, 0, 60), "read-back: 0 MOV and 60 NOP in 64 sites"),
        (Readback(BUILD_ID, 0, 0, 0), "read-back: 0 MOV and 0 NOP in 0 sites"),
    ],
)
def test_a_boot_of_another_kernel_is_void_whatever_its_writer_thought(
    tmp_path: Path, seen: Readback, reason: str
) -> None:
    made = Made(pairs=2)
    recorded = boots(made)
    k = next(k for k, boot in enumerate(recorded) if boot.variant == "nop;nop")
    recorded[k] = replace(recorded[k], readback=seen)
    results = read_results(write(tmp_path, campaign(made), recorded))
    assert [boot.number for boot in results.voids] == [recorded[k].number]
    assert str(results.voids[0].void).startswith(reason)
    assert len(results.valid("nop;nop")) == 1


def test_a_boot_whose_settings_differ_is_void(tmp_path: Path) -> None:
    """Whatever its writer thought of it; then it can be repeated at its place."""
    made = Made(pairs=2)
    fast, slow = ({"governors": [name], "boost": None} for name in ("performance", "powersave"))
    recorded = [replace(boot, gate_before=fast) for boot in boots(made)]
    odd = replace(recorded[3], gate_before=slow)
    again = replace(recorded[3], number=99, started="2026-03-01T00:00:00+00:00")
    results = read_results(write(tmp_path, campaign(made), [*recorded[:3], odd, *recorded[4:], again]))
    assert [(boot.number, boot.void) for boot in results.voids] == [
        (odd.number, "settings differ from earlier boots: governors: powersave, but performance in them"),
    ]  # fmt: skip
    assert len(results.valid(odd.variant)) == 2
    earlier = make(tmp_path / "earlier", replace(made, started=1))
    (void,) = open_results([str(earlier), str(tmp_path)]).voids
    assert void.number > odd.number
    assert void.void == results.voids[0].void, "the number of a boot of the other set would stand there"


def test_merge_refuses_sets_whose_settings_differ(tmp_path: Path) -> None:
    for name, started, governor in (("a", 0, "performance"), ("b", 1, "powersave")):
        made = Made(pairs=2, started=started)
        recorded = [replace(boot, gate_before={"governors": [governor]}) for boot in boots(made)]
        write(tmp_path / name, campaign(made), recorded)
    with pytest.raises(BenchError, match=r"/b: settings differ: governors: powersave, but perf.* in .*/a"):
        open_results([str(tmp_path / "a"), str(tmp_path / "b")])


def test_a_void_boot_is_repeated_at_its_place(tmp_path: Path) -> None:
    made = Made(pairs=2)
    recorded = boots(made)
    void = replace(recorded[0], void="throttled", values=MappingProxyType({}))
    again = replace(recorded[0], number=99)
    results = read_results(write(tmp_path, campaign(made), [void, *recorded[1:], again]))
    assert len(results.voids) == 1
    assert len(results.valid(recorded[0].variant)) == 2


def test_merge_numbers_on(tmp_path: Path) -> None:
    one, other = make(tmp_path / "a", Made(pairs=3)), make(tmp_path / "b", Made(pairs=4, seed=8, started=1))
    results = open_results([str(one), str(other)])
    assert len(results.boots) == 21
    assert len({boot.number for boot in results.boots}) == 21
    assert {boot.block for boot in results.boots} == set(range(7))
    assert results.seeds == (7, 8)
    assert results.campaign.boots_planned == 7


def test_reports_name_boots_of_merged_sets_as_their_files_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Their numbers go on over all sets, and the same number is another boot in the second file."""
    monkeypatch.chdir(tmp_path)
    for name, made in (("a", Made(pairs=2)), ("b", Made(pairs=6, seed=8, started=1))):
        recorded = boots(made)
        slow = {workload: (60.0, *values[1:]) for workload, values in recorded[3].values.items()}
        recorded[1], recorded[3] = replace(recorded[1], void="throttled"), replace(recorded[3], values=slow)
        write(Path(name), campaign(made), recorded)
    printed = " ".join(tool("bench", "compare", "a", "b").out.split())
    assert re.search(r"boot 2 of a, [^;]*;nop \(throttled\); boot 2 of b, [^;]*;nop \(throttled\)", printed), printed
    text = " ".join(tool("bench", "table", "a", "b").out.split())
    assert "(boot 4 of b)" in text
    assert "(boot 10)" not in text


def test_merge_keeps_the_commands_of_all_sets(tmp_path: Path) -> None:
    names = []
    for seed in (7, 8):
        made = Made(pairs=2, seed=seed, started=seed)
        plan = replace(campaign(made), command=f"prologue bench run --seed {seed}")
        names.append(str(write(tmp_path / str(seed), plan, boots(made))))
    results = open_results(names)
    assert results.campaign.command is None
    assert results.notes == tuple(
        f"{name}: recorded by: prologue bench run --seed {seed}" for name, seed in zip(names, (7, 8), strict=True)
    )


def test_merge_names_everything_that_differs(tmp_path: Path) -> None:
    made = Made(pairs=2)
    plan = campaign(made)
    unlike = replace(
        plan,
        evidence="smoke",
        machine=MappingProxyType({**plan.machine, "cpu": "Cortex-A53", "rev": "2"}),
        kernel=MappingProxyType({**plan.kernel, "config_sha256": "d1" * 32}),
        workloads=(replace(HACKBENCH, command="hackbench -g 20"),),
        variants=(*plan.variants[:2], replace(plan.variants[2], words=7)),
        runs_per_boot=3,
    )
    one = read_results(write(tmp_path / "a", plan, boots(made)))
    other = read_results(write(tmp_path / "b", unlike, boots(Made(pairs=2, started=1))))
    with pytest.raises(BenchError) as failed:
        merge([("a", one), ("b", other)])
    for words in (
        "a and b are not of one setup", "evidence class: timing and smoke", "machine cpu: Cortex-A57 and Cortex-A53",
        "machine rev: (nothing) and 2", f"kernel config_sha256: {'c0' * 32} and {'d1' * 32}",
        "workload hackbench, sockets: hackbench -g 10 -l 1000 -P (seconds, lower is better) and hackbench -g 20",
        "41022 words) and build (image", "runs_per_boot: 10 and 3",
    ):  # fmt: skip
        assert words in failed.value.message


def test_merge_refuses_a_boot_that_is_in_both(tmp_path: Path) -> None:
    made = Made(pairs=3)
    one = make(tmp_path / "a", made)
    copy = write(tmp_path / "b", campaign(made), [replace(boot, number=boot.number + 50) for boot in boots(made)[5:]])
    with pytest.raises(BenchError, match=r"/b: boot 56, started .*, is in .*/a already \(boot 6\)"):
        open_results([str(one), str(copy)])
    with pytest.raises(BenchError, match="named twice"):
        open_results([str(one), str(one)])
    with pytest.raises(BenchError, match="made by hand"):
        open_results(["example:2019-a57", "example:2019-a53"])


def test_tables_made_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table: dict[str, Any] = {
        "label": "build", "unit": "s", "direction": "lower", "samples": {"a": [1, 2], "b": [2, 3.5]},
    }  # fmt: skip
    path.write_text(json.dumps(table))
    results = open_results([str(path)])
    assert (results.campaign.base, results.boots_known, results.notes) == ("a", False, ())
    assert results.valid("b")[0].values["build"] == (2.0, 3.5)
    for change, said in (
        ({"samples": {"a": [1]}}, "samples: expected at least two variants"),
        ({"direction": None}, "direction: expected one of lower, higher"),
        ({"evidence": "exact"}, "evidence: expected one of timing, smoke"),
        ({"published_means": {"c": 1}}, "'c' has no samples"),
        ({"schema": "other"}, "schema: expected"),
    ):
        path.write_text(json.dumps({**table, **change}))
        with pytest.raises(BenchError, match=said):
            open_results([str(path)])
    path.write_text(json.dumps({**table, "published_means": {"a": 1.5, "b": 2.9}}))
    (note,) = open_results([str(path)]).notes
    assert note == "published mean of b: 2.9; the samples published with it give 2.8"
    for mean, seen in (("1.40", "1.50"), ("1.50", None), ("1.5", None), ("2", None), ("3", "2"), ("15e-1", None)):
        path.write_text(json.dumps(table)[:-1] + f', "published_means": {{"a": {mean}}}}}')
        notes = open_results([str(path)]).notes
        assert notes == ((f"published mean of a: {mean}; the samples published with it give {seen}",) if seen else ())
    path.write_text(json.dumps(table)[:-1] + f', "published_means": {{"a": 1e-{"9" * 40}}}}}')
    assert "samples published with it give 1.5" in open_results([str(path)]).notes[0]
    path.write_text(
        json.dumps({**table, "samples": {"a": [43.64], "b": [2]}})[:-1] + ', "published_means": {"a": 43.60}}'
    )
    assert open_results([str(path)]).notes == ("published mean of a: 43.60; the samples published with it give 43.64",)


def test_a_variant_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """JSON leaves open which of the two counts: the verdict would depend on it."""
    path = tmp_path / "samples.json"
    path.write_text(
        '{"label": "x", "unit": "s", "direction": "lower", '
        '"samples": {"base": [1, 2, 1, 2, 1], "base": [9, 9, 9, 9, 8], "new": [1, 2, 1, 2, 1]}}'
    )
    with pytest.raises(BenchError, match=r"samples\.json: 'base' is named twice in one object"):
        open_results([str(path)])


QUIET: Final[dict[str, Any]] = {
    "busy": 3, "governors": ["performance"], "boost": 0, "online": "0-3", "affinity": "0-3", "taint": 0,
    "limits": [{"policy": "policy0", "min": 600000, "max": 1500000}],
    "command_line": "root=/dev/x quiet", "vulnerabilities": ["meltdown: Not affected", "spectre_v2: Mitigation: CSV2"],
    "huge_pages": "always [madvise] never", "memory": 4_000_000, "frequencies": [1_500_000],
    "programs": ["hackbench 4f"],
}  # fmt: skip
SLOWED: Final = [{**QUIET["limits"][0], "max": 1200000}]
POWERSAVE: Final = {**QUIET, "governors": ["powersave"], "limits": SLOWED}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({**QUIET, "busy": 40, "taint": 512}, None),
        (POWERSAVE, "governors: powersave, but performance in a; "
                    "frequency limits: policy0 600000-1200000 kHz, but policy0 600000-1500000 kHz in a"),
        ({**QUIET, "boost": 1}, "boost: 1, but 0 in a"),
        ({**QUIET, "affinity": "2-3"}, "affinity: 2-3, but 0-3 in a"),
        ({**QUIET, "online": "0-2"}, "online CPUs: 0-2, but 0-3 in a"),
        ({**QUIET, "command_line": "root=/dev/x quiet mitigations=off"},
         "kernel command line: mitigations=off, but nothing in a"),
        ({**QUIET, "vulnerabilities": ["meltdown: Not affected", "spectre_v2: Vulnerable"]},
         "vulnerabilities: spectre_v2: Vulnerable, but spectre_v2: Mitigation: CSV2 in a"),
        ({**QUIET, "huge_pages": "[always] madvise never"},
         "transparent huge pages: [always] madvise, but always [madvise] in a"),
        ({**QUIET, "memory": 3_900_000}, "RAM: 3900000, but 4000000 in a"),
        ({**QUIET, "memory": 3_990_000, "frequencies": [1_499_000]}, None),
        ({**QUIET, "frequencies": [1_200_000]}, "core frequencies in kHz: 1200000, but 1500000 in a"),
        ({**QUIET, "programs": ["hackbench 00"]}, "programs of workloads: hackbench 00, but hackbench 4f in a"),
    ],
)  # fmt: skip
def test_boots_whose_settings_differ(other: dict[str, Any], said: str | None) -> None:
    """Whatever is known of two is compared, wherever they stand."""
    assert list(setup_differences([("a", QUIET), ("b", other), ("c", QUIET)])) == [None, said, None]
    late = [("x", {}), ("a", QUIET), ("y", {**QUIET, "boost": None}), ("b", other)]
    assert list(setup_differences(late)) == [None, None, None, said]


def test_what_differs_is_no_example_for_others() -> None:
    first = {**QUIET, "boost": None}
    odd = {**POWERSAVE, "boost": 1}
    assert [bool(found) for found in setup_differences([("a", first), ("b", odd), ("c", QUIET)])] == [
        False, True, False,
    ]  # fmt: skip


def test_settings_that_only_some_boots_have() -> None:
    half = {**QUIET, "governors": [], "limits": [{**QUIET["limits"][0], "min": None}], "affinity": "", "boost": None}
    assert not any(setup_differences([("a", half), ("b", QUIET), ("c", half)]))
    assert list(unknown_settings([half, QUIET, half])) == [
        ("affinity", 2), ("governors", 2), ("boost", 2), ("frequency limits", 2),
    ]  # fmt: skip
    assert not list(unknown_settings([QUIET, QUIET]))
    assert not list(unknown_settings([{}, dict.fromkeys(QUIET)]))
