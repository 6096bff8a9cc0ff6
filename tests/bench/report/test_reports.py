"""Reports as they are mailed: golden texts, width, what JSON and CSV hold. ``PROLOGUE_WRITE_GOLDEN=1`` writes them."""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from prologue_bench.recorder.workloads import BOOT
from prologue_bench.report.layout import WIDTH, command_lines
from tests.support.result_sets import (
    BASE,
    BUILD,
    CONTROL,
    HACKBENCH,
    MESSAGING,
    Made,
    boots,
    campaign,
    make,
    make_exact,
    write,
)
from tests.support.tool import Tool, as_format

GOLDEN = Path(__file__).parent / "golden"


def bench(tool: Tool, *words: str) -> str:
    said = tool("bench", *words)
    assert said.err == ""
    return said.out


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("PROLOGUE_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
    assert text.isascii()
    if path.suffix == ".txt":
        assert max(len(line) for line in text.splitlines()) <= WIDTH


def half_void(directory: Path) -> None:
    """A campaign with void boots, a boot without read-back, and fewer boots than planned."""
    made = Made(pairs=8)
    recorded = boots(made)
    recorded[0] = replace(recorded[0], void="gate: the CPU was throttled", values=MappingProxyType({}))
    recorded[1] = replace(recorded[1], readback=None)
    write(directory, replace(campaign(made), boots_planned=10, command="prologue bench run campaign.toml"), recorded)


MADE = {
    "equivalent": Made(),
    "different": Made(effects={BUILD: 0.012}, workloads=(HACKBENCH, MESSAGING)),
    "inconclusive": Made(pairs=20, boot_noise=0.03),
    "too-few": Made(pairs=4),
    "control-fails": Made(effects={CONTROL: 0.02}),
    "no-control": Made(control=False),
    "smoke": Made(evidence="smoke"),
}


def coarse(directory: Path) -> None:
    """A campaign timed with a clock of 10 ms, which saw nothing but whole steps."""
    made = Made(pairs=8)
    seconds = {BASE: 4.99, CONTROL: 4.99, BUILD: 5.01}
    recorded = [
        replace(boot, values=MappingProxyType({HACKBENCH.name: (seconds[boot.variant],) * 3})) for boot in boots(made)
    ]
    write(directory, campaign(made), recorded)


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, made in MADE.items():
        make(tmp_path / name, made)
    make_exact(tmp_path / "exact", {BASE: 4103322, BUILD: 1204100})
    half_void(tmp_path / "half-void")
    coarse(tmp_path / "coarse")
    return tmp_path


@pytest.mark.parametrize("name", ["2019-a57", "2019-a53"])
def test_the_tables_of_2019(name: str, tool: Tool) -> None:
    text = bench(tool, "compare", f"example:{name}")
    assert ("0.9% faster" if name == "2019-a57" else "2.1% slower") in text
    check(f"{name}.txt", text)
    check(f"{name}-table.txt", bench(tool, "table", f"example:{name}"))


def test_medians_of_boots_without_a_pair_are_explained(tmp_path: Path, tool: Tool) -> None:
    """The base lacks the boots of the faster half: medians say 5% slower, pairs say equal."""
    made = Made(pairs=16)
    recorded = [
        replace(
            boot,
            values=MappingProxyType({name: tuple(v * 1.1 for v in values) for name, values in boot.values.items()}),
        )
        if (boot.block or 0) >= 8
        else boot
        for boot in boots(made)
        if not (boot.variant == BASE and (boot.block or 0) in (1, 2, 3, 5, 6, 7))
    ]
    write(tmp_path, campaign(made), recorded)
    text = " ".join(bench(tool, "compare", str(tmp_path)).split())
    assert f"{BUILD}: medians alone differ by -" in text
    assert "%; the change is the mean over pairs, and some boots have none" in text
    write(tmp_path, campaign(made), [boot for boot in recorded if (boot.block or 0) >= 8])
    assert "medians alone" not in bench(tool, "compare", str(tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*MADE, "exact", "half-void", "coarse"])
def test_reports(sets: Path, name: str, tool: Tool) -> None:
    check(f"{name}.txt", bench(tool, "compare", name))


@pytest.mark.parametrize("values", [(5.731234567, 5.731234568), (100 / 3, 200 / 7)])
def test_numbers_without_an_error_are_short(values: tuple[float, float], tmp_path: Path, tool: Tool) -> None:
    """One boot of one run, timed to the nanosecond."""
    made = Made(pairs=1, runs=1, control=False)
    seconds = dict(zip((BASE, BUILD), values, strict=True))
    recorded = [
        replace(boot, values=MappingProxyType({HACKBENCH.name: (seconds[boot.variant],)})) for boot in boots(made)
    ]
    write(tmp_path, campaign(made), recorded)
    for command in ("compare", "table"):
        shown = [line for line in bench(tool, command, str(tmp_path)).splitlines() if str(tmp_path) not in line]
        assert max(map(len, shown)) <= WIDTH


@pytest.mark.thorough
def test_a_variant_that_is_not_in_the_table_is_named(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=6)
    recorded = [replace(boot, void="lost" if boot.variant == BUILD else None) for boot in boots(made)]
    text = bench(tool, "compare", str(write(tmp_path / "void", campaign(made), recorded)))
    assert f"\nnot compared, since no boot counts: {BUILD}\n" in text


def test_comparisons_of_too_few_boots_raise_no_false_alarms(tmp_path: Path, tool: Tool) -> None:
    """Two workloads, of which one does not vary: its verdict cannot be different."""
    for pairs, constant in ((4, False), (8, True)):
        made = Made(pairs=pairs, workloads=(HACKBENCH, MESSAGING))
        recorded = [
            replace(b, values=MappingProxyType({**b.values, **({HACKBENCH.name: (5.0,)} if constant else {})}))
            for b in boots(made)
        ]
        write(tmp_path / str(pairs), campaign(made), recorded)
        assert "each with a false alarm" not in bench(tool, "compare", str(tmp_path / str(pairs)))


def test_other_forms(sets: Path, tool: Tool) -> None:
    check("different.md", bench(tool, "compare", "different", "--format", "markdown"))
    check("different-table.txt", bench(tool, "table", "different"))
    check("different-table.md", bench(tool, "table", "different", "--format", "markdown"))


def test_another_machine_is_not_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """What ``bench record`` took on x86 is smoke evidence, but QEMU has nothing to do with it."""
    monkeypatch.chdir(tmp_path)
    made = Made(evidence="smoke")
    write(tmp_path / "x86", replace(campaign(made), machine=MappingProxyType({"arch": "x86_64"})), boots(made))
    said = " ".join(bench(tool, "compare", "x86").split())
    assert "no comparison: smoke evidence. The machine is x86_64, where no arm64 prologue runs" in said
    assert "TCG" not in said


@pytest.mark.usefixtures("sets")
def test_smoke_prints_no_percentage(tool: Tool) -> None:
    for form in ("text", "markdown"):
        said = bench(tool, "compare", "smoke", *as_format(form))
        assert "%" not in said
        assert "faster" not in said
    data = json.loads(bench(tool, "compare", "smoke", "--json"))
    assert data["workloads"][0]["comparisons"] == []


@pytest.mark.usefixtures("sets")
def test_json_holds_every_sample(tool: Tool) -> None:
    data = json.loads(bench(tool, "compare", "different", "--json", "--margin", "0.5%"))
    assert data["schema"] == "prologue.bench-compare/1"
    assert data["settings"]["margin"] == 0.005
    assert data["settings"]["resampling_seed"] == 2019
    first, second = data["workloads"]
    samples = [len(boot["samples"]) for variant in first["variants"] for boot in variant["boots"]]
    assert samples == [10] * 36
    control, build = second["comparisons"]
    assert (control["variant"], build["variant"], build["verdict"]) == (CONTROL, BUILD, "different")
    assert build["low"] < build["ratio"] < build["high"]
    assert second["aa_difference"] == abs(control["ratio"] - 1)
    table = json.loads(bench(tool, "table", "different", "--json"))
    assert table["schema"] == "prologue.bench-table/1"
    assert [row["runs"] for row in table["rows"]] == [120] * 6


@pytest.mark.thorough
@pytest.mark.usefixtures("sets")
@pytest.mark.parametrize("margin", ["1.25", "0.375", "12.3456789"])
def test_a_margin_is_said_as_it_was_given(margin: str, tool: Tool) -> None:
    text = bench(tool, "compare", "equivalent", "--margin", margin)
    assert f"equivalent within +-{margin}% " in text
    assert f"  within +-{margin}%\n" in text
    assert text.endswith(f"$ prologue bench compare equivalent --margin {margin}\n")
    if margin == "12.3456789":
        assert f", yet within +-{margin}%" in " ".join(bench(tool, "compare", "different", "--margin", margin).split())


def test_labels_cannot_break_a_mail(tmp_path: Path, tool: Tool) -> None:
    table = {
        "label": "caf\u00e9 \x1b[31m" + "x" * 90, "unit": "s", "direction": "lower",
        "machine": {"host": "\u202e" * 40},
        "samples": {"a | very long label that goes on and on": [1.0, 1.1] * 4, "b\n": [1, 1.2] * 4, " ": [1, 1.3] * 4},
    }  # fmt: skip
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table))
    for command in ("compare", "table"):
        text = bench(tool, command, str(path))
        assert text.isascii()
        assert "\x1b" not in text
        shown = [line for line in text.splitlines() if str(path) not in line]
        assert max(map(len, shown)) <= WIDTH
        assert "a \\| very long" in bench(tool, command, str(path), "--format", "markdown")


@pytest.mark.parametrize("command", ["compare", "table"])
def test_markdown_shows_names_as_they_are(command: str, tmp_path: Path, tool: Tool) -> None:
    names = ["sort <in >out; grep '*x*' | wc", "_a_ `b` ~~c~~ &amp; [d](e) \\*", "a_b <br>"]
    names += ["## of May", "> 6.1", "- x9", "+ x9"]
    table = {"label": names[0], "unit": "s", "direction": "lower", "samples": {name: [1, 2] for name in names[1:]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    text = bench(tool, command, str(tmp_path / "t.json"), "--format", "markdown")
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    pieces = [piece for token in tokens for piece in token.children or ()]
    assert {piece.type for piece in pieces} <= {"text", "text_special"}
    assert not {token.tag for token in tokens} & {"h1", "h2", "blockquote", "ol"}
    assert sum(token.type == "bullet_list_open" for token in tokens) <= 2
    shown = ["".join(piece.content for piece in token.children or ()) for token in tokens]
    assert all(any(name in line for line in shown) for name in names)


def test_the_command_that_recorded_can_be_pasted(tmp_path: Path, tool: Tool) -> None:
    words = ["prologue", "bench", "run", "--target", "ssh:root@board", "--workload", "time:sleep 1; echo 'it is done'"]
    for k in range(5):
        words += ["--workload", f"hackbench:process,sockets,g={k + 1},l=1000"]
    for name, command in (("a", shlex.join(words)), ("b", "typed by hand, and it's no command")):
        write(tmp_path / name, replace(campaign(Made()), command=command), boots(Made()))
    lines = bench(tool, "compare", str(tmp_path / "a")).splitlines()
    begin = lines.index("recorded by:") + 1
    end = next(k for k, line in enumerate(lines) if line.startswith("$ prologue bench compare"))
    assert shlex.split("\n".join(lines[begin:end]).replace("\\\n", "")) == ["$", *words]
    assert max(map(len, lines[begin:end])) <= WIDTH
    assert "recorded by: typed by hand, and it's no command\n" in bench(tool, "compare", str(tmp_path / "b"))


@pytest.mark.parametrize("name", ["mesures d'\u00e9t\u00e9 1", "\u202e2\\n", "\udcff \t"])
def test_a_command_with_names_that_no_mail_holds_can_be_pasted(name: str) -> None:
    lines = command_lines(["printf", "%s", name])
    assert "\n".join(lines).isascii()
    printed = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, check=True).stdout
    assert printed == os.fsencode(name)
    assert command_lines(["\ud800"]) == ["$'\\355\\240\\200'"]


def test_a_long_command_is_broken_between_words() -> None:
    lines = command_lines(["$", "prologue", "bench", "compare", *(f"results of day {k}" for k in range(9))])
    assert max(map(len, lines)) <= WIDTH
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert lines[0].startswith("$ prologue bench compare 'results of day 0'")


@pytest.mark.parametrize("pairs", [6, 20])
def test_how_many_boots_would_see_a_millisecond(pairs: int, tmp_path: Path, tool: Tool) -> None:
    """Four times the boots see half of it; the made boots take 5.7 s."""
    make(tmp_path / "boots", Made(pairs=pairs, workloads=(BOOT,)))
    text = " ".join(bench(tool, "compare", str(tmp_path / "boots")).split())
    report = json.loads(bench(tool, "compare", str(tmp_path / "boots"), "--json"))
    (workload,) = report["workloads"]
    (other,) = (each for each in workload["comparisons"] if each["variant"] == BUILD)
    base = next(each["median"] for each in workload["variants"] if each["label"] == BASE)
    boots = math.ceil(pairs * (other["detectable"] * base / 0.001) ** 2)
    assert boots > 100
    assert f"to see 1 ms takes about {boots:,} boots of each variant" in text
    make(tmp_path / "hackbench", Made(pairs=pairs))
    assert "to see 1 ms" not in bench(tool, "compare", str(tmp_path / "hackbench"))


def test_a_report_in_a_file(tmp_path: Path, tool: Tool) -> None:
    """It may lie in the result set, and is never written over what it is made of."""
    results = make(tmp_path / "campaign", Made())
    printed = bench(tool, "compare", str(results))
    report = results / "report.txt"
    assert bench(tool, "compare", str(results), "-o", str(report)) == f"{report}: written\n"
    assert report.read_text() == printed
    before = (results / "results.jsonl").read_bytes()
    for command in ("compare", "export"):
        form = ["--csv"] if command == "export" else []
        for file in ("results.jsonl", "campaign.json"):
            assert f"{results / file}: " in tool("bench", command, *form, results, "-o", results / file, status=2).err
    assert (results / "results.jsonl").read_bytes() == before
