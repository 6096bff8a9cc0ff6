"""The command line as its users run it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import prologue
from prologue.cli.main import bug_report, main
from prologue.cli.parser import GROUPS as FIRST
from prologue.cli.parser import build_parser
from prologue.cli.subcommands import Subcommand, every_parser, fill_all
from prologue.plan.variants import KINDS
from prologue.rules.registry import RULES
from tests.mini_kernel.build import Spec
from tests.rules.fixture import forget
from tests.support.elf_edit import edit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]
GROUPS = ("live", "writes", "trace", "kernel", "protocol", "bench")
COMMANDS = (
    "scan",
    "patch",
    "verify",
    "help",
    "schema",
    "rules",
    "explain",
    "transition",
    "probe",
    "variant",
    "image",
    *GROUPS,
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str, tool: Tool) -> None:
    assert f"prologue {command}" in tool(command, "--help").out.partition("examples:")[2]


@pytest.mark.thorough
def test_only_the_chosen_command_is_filled_and_its_help_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Options that are added late must look as if they had always been there."""
    grammar = build_parser()
    fill_all(grammar)
    whole = every_parser(grammar)
    commands = [parser.prog.split()[1:] for parser in whole]
    assert len(commands) > 2 * len(COMMANDS) - 3
    for words, parser in zip(commands, whole, strict=True):
        late = build_parser()
        with pytest.raises(SystemExit) as done:
            late.parse_args([*words, "--help"])
        assert done.value.code == 0
        assert capsys.readouterr().out == parser.format_help()
        others = [p for p in every_parser(late)[1:] if words[: len(p.prog.split()) - 1] != p.prog.split()[1:]]
        assert all(isinstance(p, Subcommand) for p in others)
        assert not [p.prog for p in others if len(p._actions) > 1 and p.prog.split()[1] not in words]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frobnicate"], "no command 'frobnicate': prologue --help lists them"),
        (["verfy"], "no command 'verfy': did you mean verify?"),
        (["help", "verfy"], "no command 'verfy': did you mean verify?"),
        (["verify", "--format", "json"], "argument --format: JSON is printed by --json"),
        (["audit"], "no command 'audit': did you mean prologue live audit?"),
        (["kernel", "verify"], "no command 'verify': did you mean prologue verify?"),
        (["check"], "no command 'check': did you mean prologue kernel check or prologue trace check or "),
        (["bench", "frobnicate"], "no command 'frobnicate': prologue bench --help lists them"),
        (["live", "aduit"], "no command 'aduit': did you mean audit?"),
        (["patch", "vmlinux", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["patch", "vmlinux", "--in-palce"], "unrecognized arguments: --in-palce: did you mean --in-place?"),
        (["verify", "vmlinux", "--imag=Image"], "unrecognized arguments: --imag=Image: did you mean --image?"),
        (["patch", "vmlinux", "--jobs", "-1"], "not a number from 0 on"),
        (["verify", "vmlinux", "--format", "pdf"], "invalid choice: 'pdf'"),
    ],
)
def test_errors_of_the_grammar(words: list[str], message: str, tool: Tool) -> None:
    said = tool(*words, status=2).err
    # The usage is that of the command whose words are wrong.
    known = [word for word in words[:1] if word in COMMANDS and word != "help"]
    assert said.startswith(" ".join(["usage: prologue", *known]) + " [-h]")
    assert message in said
    assert said.count("usage:") == 1


def test_without_a_command_help_is_shown(tool: Tool) -> None:
    for words in ([], ["live"], ["bench"]):
        shown = tool(*words, status=2)
        assert shown.err == ""
        for more in (["help", *words], [*words, "--help"]):
            assert tool(*more).out == shown.out


def test_the_first_screen_has_every_command_in_one_group(tool: Tool) -> None:
    lines = tool(status=2).out.splitlines()
    assert sorted(name for _, names, _ in FIRST for name in names) == sorted(COMMANDS)
    for title, names, start in FIRST:
        at = lines.index(f"{title}:")
        group = lines[at : at + lines[at:].index("")]
        assert [line.split()[0] for line in group[1:-1] if line[2] != " "] == list(names)
        assert group[-1] == f"  start here: {start}"
        assert main_command(start) in names


def main_command(line: str) -> str:
    return line.split()[1]


def test_a_group_of_rules_is_explained(tool: Tool) -> None:
    said = tool("explain", "pl2").out
    codes = [line.split()[0] for line in said.splitlines() if line.startswith("PL")]
    assert codes == [rule.code for rule in RULES if rule.code.startswith("PL2")]
    assert "no rule 'PL9'" in tool("explain", "PL9", status=2).err


def test_scan_text_and_json(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(layout="4,2", bti=True, form="relr", zeros=True))
    text = tool("scan", vmlinux).out
    assert "CALL_OPS" in text
    assert "17 (RELR), 2 zero, 0 moved" in text
    document = tool("scan", vmlinux, "--json").json
    assert (document["schema"], document["failed"]) == ("prologue.scan/1", 0)
    (data,) = document["files"]
    assert (data["layout"], data["records"], data["zero_records"], data["sites"]) == ("4,2", 17, 2, 15)
    assert data["sites_by_section"] == {".text": 14, ".init.text": 1}
    assert (data["state"], data["contract"], data["anomalies"]) == ("untouched", "native", [])
    assert tool("patch", vmlinux, "--in-place", "--json").json["files"][0]["words_written"] == 15 + 15 + 2
    (after,) = tool("scan", vmlinux, "--json").json["files"]
    assert (after["state"], after["moved_records"], after["sites_with_mov"]) == ("processed", 15, 15)


def test_a_dry_run_says_what_would_be_written(mini: Mini, tool: Tool) -> None:
    vmlinux = str(mini(Spec()))
    for _ in range(2):
        said = tool("patch", vmlinux, "--dry-run").out
        assert "untouched, dry run: 15 sites, 15 records, 32 words would be written" in said
    other = shutil.copy(vmlinux, f"{vmlinux}.other")
    # each file once
    assert "64 words would be written" in tool("patch", vmlinux, other, vmlinux, "--dry-run").out
    (data,) = tool("patch", vmlinux, "--dry-run", "--json").json["files"]
    assert (data["words_written"], data["words_to_write"]) == (0, 32)
    (data,) = tool("patch", vmlinux, "--in-place", "--json").json["files"]
    assert (data["words_written"], data["words_to_write"]) == (32, None)
    said = tool("patch", vmlinux, "--dry-run").out
    assert "processed, dry run: 15 sites, 15 records, 0 words would be written" in said


def test_whatever_explain_explains_is_listed(tool: Tool) -> None:
    codes = [line.split()[0] for line in tool("rules").out.splitlines()[1:]]
    assert {"GATE", "REQUIRE", "PL101"} <= set(codes)
    for code in codes:
        assert tool("explain", code).out.startswith(f"{code} ")
    for rule in tool("rules", "--json").json["rules"]:
        said = tool("explain", rule["slug"]).out
        assert said.startswith(f"{rule['code']} ")
        assert "to do:" in said
    assert main(["explain", "PL999"]) == 2


@pytest.mark.parametrize(
    ("form", "encoding"),
    [("static", "static"), ("rela", "RELA unapplied"), ("rela-applied", "RELA applied"), ("relr", "RELR")],
)
def test_scan_names_the_encoding(mini: Mini, form: str, encoding: str, tool: Tool) -> None:
    assert tool("scan", mini(Spec(form=form)), "--json").json["files"][0]["encoding"] == encoding  # type: ignore[arg-type]


def test_weak_leftovers_are_a_warning_that_release_refuses(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(weak=True, zeros=True))  # zeros: its build should have zeroed that record, too
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert "PL109" in tool("verify", vmlinux).out
    assert "1 file: 1 warn (" in tool("verify", vmlinux, "--release", status=1).out
    said = tool("verify", vmlinux, "--release", "--ignore", "PL109", status=2).err
    assert "a release may do without rules of PL3 only" in said
    assert main(["verify", str(vmlinux), "--select", "PL9"]) == 2


def test_stock_output_is_marked_and_refused_for_release(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(contract="stock"))
    assert "bench and lab use only" in tool("patch", vmlinux, "--in-place", "--contract", "stock").out
    assert "stock contract" in tool("verify", vmlinux).out
    assert main(["verify", str(vmlinux), "--release"]) == 1


def test_stock_cannot_be_reversed_without_its_plan(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(contract="stock"))
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 0
    assert "--save-plan" in tool("patch", vmlinux, "--in-place", "--reverse", status=2).err


def test_native_is_reversed_without_a_plan(mini: Mini) -> None:
    vmlinux = mini(Spec(layout="4,2", bti=True))
    original = vmlinux.read_bytes()
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 0
    assert vmlinux.read_bytes() == original


def test_every_kind_of_variant_can_be_asked_for(tool: Tool) -> None:
    """The grammar does not load the room that makes them."""
    said = tool("variant", "vmlinux", "-o", "out", "--kind", "none", status=2).err.partition("choose from ")[2]
    assert re.findall(r"[a-z-]+", said) == list(KINDS)


# Records of version 2 are two in 8 bytes, and nothing relocates them.
@pytest.mark.parametrize(
    ("kind", "marker", "words"), [("nop-nop", 1, 1), ("boot", 1, 0), ("build", 1, 15 + 15 + 2), ("build", 2, 113)]
)
def test_variants_differ_only_where_they_should(
    mini: Mini, kind: str, marker: Literal[1, 2], words: int, tool: Tool
) -> None:
    vmlinux = mini(Spec(layout="4,2", marker=marker))
    out = vmlinux.with_name("out")
    said = tool("variant", vmlinux, "--kind", kind, "-o", out).out
    assert ("1 word differs" if words == 1 else f"{words} words differ") in said
    before, after = vmlinux.read_bytes(), out.read_bytes()
    assert len(before) == len(after)
    changed = sum(before[k : k + 4] != after[k : k + 4] for k in range(0, len(before), 4))
    assert changed == words
    if kind != "boot":  # variants are made of the file as linked
        assert main(["variant", str(out), "--kind", "boot", "-o", str(vmlinux.with_name("again"))]) == 2


@pytest.mark.parametrize("form", ["static", "rela", "relr"])
def test_image_is_what_objcopy_makes(mini: Mini, form: str) -> None:
    needs_tools("aarch64-linux-gnu-objcopy")
    vmlinux = mini(Spec(form=form))  # type: ignore[arg-type]  # parametrize loses the literal
    ours, theirs = vmlinux.with_name("ours"), vmlinux.with_name("theirs")
    assert main(["image", str(vmlinux), "-o", str(ours)]) == 0
    removed = ["-R", ".note", "-R", ".note.gnu.build-id", "-R", ".comment"]
    subprocess.run(["aarch64-linux-gnu-objcopy", "-O", "binary", *removed, "-S", str(vmlinux), str(theirs)], check=True)
    assert ours.read_bytes() == theirs.read_bytes()


def test_against_accounts_for_every_byte(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(layout="4,2", form="relr"))
    out = vmlinux.with_name("out")
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    assert main(["verify", str(out), "--against", str(vmlinux)]) == 0
    data = bytearray(out.read_bytes())
    data[0x2000] ^= 1
    out.write_bytes(data)
    said = tool("verify", out, "--against", vmlinux, "--select", "PL403", status=1).out
    assert "1 byte at file offset 0x2000" in said


def test_against_knows_what_processing_writes(mini: Mini, tool: Tool) -> None:
    """A record that went to another function's second slot lies in a planned place, but is not what was planned."""
    vmlinux = mini(Spec())
    out = vmlinux.with_name("out")
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    with edit(out) as elf:
        one, other = elf.live_slots()[2:4]
        elf.set_record(one, elf.record(other))
    assert "PL403" in tool("verify", out, "--against", vmlinux, "--select", "PL403", status=1).out


def test_a_complete_plan_is_never_overwritten_by_less(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec(contract="stock"))
    original, plan = vmlinux.read_bytes(), vmlinux.with_name("plan.json")
    command = ["patch", str(vmlinux), "--in-place", "--contract", "stock", "--save-plan", str(plan)]
    assert main(command) == 0
    saved = plan.read_bytes()
    assert main(command) == 0  # as after a kill that came last of all
    assert plan.read_bytes() == saved
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 0
    assert vmlinux.read_bytes() == original
    assert main([*command[:-2]]) == 0
    plan.unlink()
    assert "from the unprocessed file only" in tool(*command, status=2).err


@pytest.mark.parametrize("empty", ["no records", "only zero records"])
def test_a_table_without_functions_is_left_alone(mini: Mini, empty: str, tool: Tool) -> None:
    vmlinux = mini(Spec(form="static", zeros=True))
    with edit(vmlinux) as elf:
        start = elf.value("__start_mcount_loc")
        for slot in elf.live_slots():
            forget(elf, elf.record(slot))
        elf.set_symbol("__stop_mcount_loc", value=start + (16 if empty == "only zero records" else 0))
    before = vmlinux.read_bytes()
    assert "nothing to do" in tool("patch", vmlinux, "--in-place").out
    assert vmlinux.read_bytes() == before


def test_report_goes_to_a_file(mini: Mini, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["verify", str(mini(Spec())), "--json", "-o", str(report)]) == 0
    data = json.loads(report.read_text())
    assert data["schema"] == "prologue.verify/1"
    assert data["counts"] == {"fatal": 0, "error": 0, "warn": 0, "info": 0}


def test_quiet_says_nothing_unless_something_fails(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    assert main(["patch", "--quiet", "--in-place", str(vmlinux)]) == 0
    assert tool("verify", "--quiet", vmlinux) == ("", "", 0)
    with edit(vmlinux) as elf:
        elf.set_word(elf.value("work_leaf") + 4, 0)
    assert "PL201" in tool("verify", "--quiet", vmlinux, status=1).out
    said = tool("patch", "--quiet", "--in-place", vmlinux, status=2)
    assert said.out == ""
    assert "work_leaf" in said.err


@pytest.mark.parametrize("form", [["--json"], ["--format", "sarif"]])
def test_quiet_leaves_a_document_whole(mini: Mini, form: list[str], tool: Tool) -> None:
    """What reads it cannot read nothing."""
    vmlinux = mini(Spec())
    assert main(["patch", "--quiet", "--in-place", str(vmlinux)]) == 0
    assert tool("verify", "--quiet", vmlinux, *form).json


def test_usage_errors(mini: Mini, tool: Tool) -> None:
    vmlinux = str(mini(Spec()))
    assert "no output: use -o OUT, --in-place" in tool("patch", vmlinux, status=2).err
    assert main(["patch", vmlinux, "another", "-o", "x"]) == 2


def test_our_own_failure_is_exit_3(monkeypatch: pytest.MonkeyPatch, mini: Mini, tool: Tool) -> None:
    vmlinux = str(mini(Spec()))

    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("prologue.cli.scan.scan_data", fail)
    said = tool("scan", vmlinux, status=3).err
    assert "internal error (a bug in prologue): ZeroDivisionError: on purpose" in said
    *_, begin, versions, libraries, command, kernel, error, end = said.splitlines()
    assert begin.startswith("---- paste this into a report")
    assert versions.startswith(f"prologue {prologue.__version__}, Python 3.")
    assert "numpy" in libraries
    assert command == f"command: prologue scan {vmlinux}"
    assert kernel == "vmlinux: 6.12.0-mini, build-id none"
    assert error.startswith("error: ZeroDivisionError at tests/cli/test_commands.py:")
    assert end == "----"


def test_a_bug_report_names_no_user(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setenv("HOME", "/srv/ada")
    words = ["--debug", "live", "audit", "/srv/ada/vmlinux", "/home/bob/x.capture"]
    said = tool(*words, status=2).err
    report = said[said.index("---- paste") :]
    assert "command: prologue --debug live audit ~/vmlinux /home/USER/x.capture\n" in report
    assert bug_report(ValueError("ssh:eve@board: no"), ["ssh:eve@board"]).count("ssh:HOST") == 2
    assert "ada" not in report
    assert "bob" not in report


@pytest.mark.thorough
def test_as_a_program(mini: Mini) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prologue", "scan", str(mini(Spec()))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "untouched" in done.stdout
    version = subprocess.run(
        [sys.executable, "-m", "prologue", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("prologue 0.")
