"""``verify --release`` lets through what it promises and nothing else, whatever options and settings say."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.code import read_x9
from tests.rules.fixture import fixture_of
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.tool import Tool, as_format

FORMATS = ("text", "json", "sarif", "junit")
ENTRY = '[[known]]\nrule = "{}"\nreason = "read twice"\nowner = "a maintainer"\n'


def verify(*arguments: object) -> int:
    return main(["verify", *map(str, arguments)])


def release(*arguments: object) -> int:
    return verify(*arguments, "--release")


def processed(vmlinux: Path) -> Path:
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    return vmlinux


@pytest.fixture
def native(mini: Mini) -> Path:
    """A file that may be released."""
    return processed(mini(Spec()))


def with_x9_live(vmlinux: Path) -> Path:
    """Give the file one finding, of a rule that a release may do without."""
    with edit(vmlinux) as elf:
        read_x9(elf)
    return vmlinux


# What may be released.


def test_a_processed_native_kernel_passes_and_is_described(native: Path, tool: Tool) -> None:
    sites = tool("verify", native, "--release", "--json").json["checked"][0]["sites"]
    assert tool("verify", native, "--release").out == f"1 file: clean ({sites} sites, processed, native)\n"


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize(
    "kind", ["native, unprocessed", "stock", "stock, processed", "nop-nop", "stock nop-nop", "boot"]
)
def test_everything_else_is_a_finding_in_every_format(
    mini: Mini, tmp_path: Path, kind: str, layout: str, tool: Tool
) -> None:
    vmlinux = mini(Spec(layout=layout, contract="stock" if "stock" in kind else "native"))  # type: ignore[arg-type]  # parametrize loses the literal
    if kind == "stock, processed":
        assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 0
    elif kind.endswith(("nop-nop", "boot")):
        made = tmp_path / "variant"
        assert main(["variant", str(vmlinux), "--kind", kind.rsplit(maxsplit=1)[-1], "-o", str(made)]) == 0
        vmlinux = made
    for name in FORMATS:
        out = tmp_path / name
        said = tool("verify", vmlinux, *as_format(name), "-o", out, "--release", status=1).err
        assert "GATE" in out.read_text()
        assert "clean" not in said
    codes = {finding["code"] for finding in json.loads((tmp_path / "json").read_text())["findings"]}
    assert codes == {"GATE", "PL408"} if "nop-nop" in kind else {"GATE"}
    assert json.loads((tmp_path / "json").read_text())["passed"] is False
    failing = [case.get("name") for case in ET.parse(tmp_path / "junit").iter("testcase") if list(case.iter("failure"))]  # noqa: S314 - ours
    assert "GATE release-gate" in failing
    assert "clean" not in (tmp_path / "text").read_text()


def test_a_kernel_whose_record_table_has_no_symbols_is_no_release(native: Path, tool: Tool) -> None:
    """It was stripped: ftrace_init walks a table, whatever symbols are left."""
    with edit(native) as elf:
        elf.rename_symbol("__start_mcount_loc", "x")
        elf.rename_symbol("__stop_mcount_loc", "y")
    said = tool("verify", native, "--release", status=2).err
    assert "stripped in part: the symbol __start_mcount_loc is gone" in said
    assert verify(native) == 2


def test_the_gate_s_own_case_passes_where_it_passes(native: Path, tool: Tool) -> None:
    said = tool("verify", native, "--format", "junit", "--release").out
    cases = {case.get("name"): len(case) for case in ET.fromstring(said.encode()).iter("testcase")}  # noqa: S314 - ours
    assert cases["GATE release-gate"] == 0
    assert "REQUIRE required-state" not in cases


# Rules that do not run.


@pytest.mark.thorough
@pytest.mark.parametrize(
    "ignored", ["PL2", "PL", "pl4", "PL402", "marker-disagrees", "sites-partly-patched", "PL3,PL109", "PL408"]
)
@pytest.mark.parametrize("place", ["command line", "settings"])
def test_only_rules_of_pl3_may_be_ignored(native: Path, ignored: str, place: str, tool: Tool) -> None:
    more: list[str] = []
    if place == "settings":
        names = json.dumps(ignored.split(","))
        native.with_name(".prologue.toml").write_text(f"ignore = {names}\n")
    else:
        more = ["--ignore", ignored]
    if ignored != "PL":
        assert verify(native, *more) == 0
    said = tool("verify", native, *more, "--release", status=2)
    assert said.out == ""
    assert ("nothing would be checked" if ignored == "PL" else "rules of PL3 only") in said.err
    assert (".prologue.toml" in said.err) == (place == "settings")


@pytest.mark.parametrize("selected", ["PL3", "PL201", "site-not-pair"])
@pytest.mark.parametrize("place", ["command line", "settings", "--config"])
def test_a_release_runs_every_rule(native: Path, selected: str, place: str, tmp_path: Path, tool: Tool) -> None:
    more: list[object] = []
    if place == "command line":
        more = ["--select", selected]
    else:
        path = native.with_name(".prologue.toml") if place == "settings" else tmp_path / "ci.toml"
        path.write_text(f'select = ["{selected}"]\n')
        more = ["--config", path] if place == "--config" else []
    said = tool("verify", native, *more).out
    assert "other rules did not run" in said
    assert said.endswith("rules that apply ran)\n")
    assert "a release runs every rule" in tool("verify", native, *more, "--release", status=2).err
    assert release(native, "--select", "PL") == 0  # leaves none out


@pytest.mark.thorough
def test_an_ignored_rule_is_named_with_its_source_in_every_format(native: Path, tmp_path: Path, tool: Tool) -> None:
    with_x9_live(native)
    assert release(native) == 1
    settings = native.with_name(".prologue.toml")
    settings.write_text('ignore = ["PL304"]\n')
    for source, more in ((str(settings), []), ("the command line", ["--no-config", "--ignore", "PL304"])):
        for name in FORMATS:
            out = tmp_path / name
            assert release(native, *as_format(name), "-o", out, *more) == 0
            assert f"ignored by {source}, did not run: PL304 x9-live-at-entry" in out.read_text()
        (rule,) = json.loads((tmp_path / "json").read_text())["checked"][0]["not_run"]
        assert rule == {"code": "PL304", "slug": "x9-live-at-entry", "how": "ignored", "source": source}
        names = [case.get("name") for case in ET.parse(tmp_path / "junit").iter("testcase")]  # noqa: S314 - ours
        assert names
        assert "PL304 x9-live-at-entry" not in names
        assert " rules that apply ran" in (tmp_path / "text").read_text().splitlines()[-1]
    said = tool("verify", native, "--quiet", "--release")
    assert said.out == ""
    assert f"ignored by {settings}" in said.err


def test_a_terminal_gets_no_commands_from_the_name_of_a_directory(native: Path, tmp_path: Path, tool: Tool) -> None:
    build = tmp_path / "\x1b[2J"
    build.mkdir()
    shutil.copy(native, build / "vmlinux")
    (build / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    said = tool("verify", build / "vmlinux", "--quiet", "--release").err
    assert r"\x1b[2J/.prologue.toml, did not run: PL304" in said
    assert "\x1b" not in said


def test_nothing_can_ignore_or_accept_the_gate(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, known = mini(Spec()), tmp_path / "known.toml"
    for name in ("GATE", "release-gate", "REQUIRE"):
        assert release(vmlinux, "--ignore", name) == 2
        known.write_text(f'[[known]]\nrule = "{name}"\nreason = "r"\nowner = "o"\n')
        assert f"no rule '{name}'" in tool("verify", vmlinux, "--baseline", known, "--release", status=2).err


def test_known_findings_of_pl3_are_accepted_and_named(native: Path, tmp_path: Path, tool: Tool) -> None:
    known = tmp_path / "known.toml"
    with_x9_live(native)
    known.write_text(ENTRY.format("PL304"))
    said = tool("verify", native, "--baseline", known, "--release").out
    assert f"1 known finding (baseline {known}): PL304 x 1: read twice (a maintainer)" in said
    assert "clean except for 1 known finding (" in said
    assert "read twice (a maintainer)" in tool("verify", native, "--baseline", known, "--quiet", "--release").err


@pytest.mark.parametrize("rule", ["PL109", "PL303"])
def test_known_findings_of_other_rules_and_fatal_ones_are_not(
    mini: Mini, tmp_path: Path, rule: str, tool: Tool
) -> None:
    if rule == "PL109":
        vmlinux = processed(mini(Spec(weak=True, zeros=True)))
    else:
        vmlinux = processed(Path(fixture_of(find_rule(rule)).broken(mini)[0]))
    known = tmp_path / "known.toml"
    known.write_text(ENTRY.format(rule))
    assert verify(vmlinux, "--baseline", known) == 0
    said = tool("verify", vmlinux, "--baseline", known, "--release", status=1).out
    assert "accepts known findings of PL3 that are not fatal, and no others: 1 count as new" in said
    assert f"{vmlinux}: {rule} " in said
    assert "known" not in said.splitlines()[-1]


# Where settings come from.


@pytest.mark.thorough
def test_a_baseline_of_several_directories_counts_once(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    files = [tmp_path / name / "vmlinux" for name in "ab"]
    vmlinux = with_x9_live(processed(mini(Spec())))
    for path in files:
        path.parent.mkdir()
        shutil.copy(vmlinux, path)
        (path.parent / ".prologue.toml").write_text('baseline = "../known.toml"\n')
    (tmp_path / "known.toml").write_text(ENTRY.format("PL304") + "count = 1\n")
    assert [verify(path) for path in files] == [0, 0]
    assert f"{tmp_path / 'known.toml'}: PL304: 2 findings, but only 1 known" in tool("verify", *files, status=1).out


@pytest.mark.thorough
def test_settings_of_one_file_do_not_apply_to_another(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    a, b = tmp_path / "a" / "vmlinux", tmp_path / "b" / "vmlinux"
    vmlinux = with_x9_live(processed(mini(Spec())))
    for path in (a, b):
        path.parent.mkdir()
        shutil.copy(vmlinux, path)
    (a.parent / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    for files in ([a, b], [b, a]):
        data = tool("verify", *files, "--release", "--json", status=1).json
        assert {finding["file"] for finding in data["findings"]} == {str(b)}
        assert {one["file"]: len(one["not_run"]) for one in data["checked"]} == {str(a): 1, str(b): 0}
    assert release(a, b) == 1
    assert release(a) == 0
    # One of them calls for a release: then this run is one.
    (b.parent / ".prologue.toml").write_text("release = true\n")
    (a.parent / ".prologue.toml").write_text('ignore = ["PL304", "PL1"]\n')
    assert verify(a) == 0
    assert verify(a, b) == 2


@pytest.mark.thorough
def test_the_name_of_a_file_does_not_choose_its_settings(mini: Mini, tmp_path: Path, monkeypatch: Any) -> None:
    """Neither a link to the file, nor one to its directory, nor the directory of the command."""
    build, elsewhere = tmp_path / "build", tmp_path / "elsewhere"
    build.mkdir()
    elsewhere.mkdir()
    vmlinux = Path(shutil.copy(with_x9_live(processed(mini(Spec()))), build / "vmlinux"))
    (elsewhere / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    (tmp_path / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    (elsewhere / "vmlinux").symlink_to(vmlinux)
    (elsewhere / "build").symlink_to(build)
    monkeypatch.chdir(elsewhere)
    links = (Path("vmlinux"), Path("build/vmlinux"))
    for name in (vmlinux, *links, *(elsewhere / link for link in links)):
        assert release(name) == 1, name
    (build / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    for name in (vmlinux, *links):
        assert release(name) == 0, name


def test_settings_of_a_directory_of_modules(mini: Mini, native: Path, tmp_path: Path, tool: Tool) -> None:
    """Those in the directory that was named; no module brings its own."""
    modules = tmp_path / "modules"
    (modules / "net").mkdir(parents=True)
    shutil.copy(mini(ModuleSpec()), modules / "net" / "mini.ko")
    (modules / "net" / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    data = tool("verify", modules, "--vmlinux", native, "--release", "--json").json
    assert [one["not_run"] for one in data["checked"]] == [[], []]
    (modules / ".prologue.toml").write_text('ignore = ["PL304"]\n')
    data = tool("verify", modules, "--vmlinux", native, "--release", "--json").json
    assert [len(one["not_run"]) for one in data["checked"]] == [1, 0]


def test_no_report_overwrites_the_settings(native: Path) -> None:
    settings = native.with_name(".prologue.toml")
    settings.write_text('ignore = ["PL304"]\n')
    assert release(native, "-o", settings) == 2
    assert settings.read_text() == 'ignore = ["PL304"]\n'


# What a report leaves out.


def test_a_report_names_every_file_that_was_not_verified(native: Path, tmp_path: Path, tool: Tool) -> None:
    gone, empty = tmp_path / "gone", tmp_path / "empty"
    empty.mkdir()
    for name in FORMATS:
        out = tmp_path / f"report.{name}"
        said = tool("verify", gone, native, empty, *as_format(name), "-o", out, "--release", status=2).err
        assert "No such file" in out.read_text()
        assert "no modules" in out.read_text()
        assert "2 could not be verified" in said
        if name != "sarif":  # which has the texts of all rules; one speaks of cleaning the data cache
            assert "clean" not in out.read_text()
    root = ET.parse(tmp_path / "report.junit").getroot()  # noqa: S314 - ours
    assert (root.get("errors"), root.get("failures")) == ("2", "0")
    assert [len(suite.findall("testcase")) for suite in root][::2] == [1, 1]
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["passed"] is False
    assert [one["error"] is None for one in data["checked"]] == [False, True, False]


def test_a_report_says_on_the_terminal_what_it_says_in_the_file(native: Path, tmp_path: Path, tool: Tool) -> None:
    for format_ in FORMATS:
        said = tool("verify", native, *as_format(format_), "-o", tmp_path / "report", "--release").err
        assert said.startswith(f"{tmp_path / 'report'}: 1 file: clean (")
    # a file that is named twice is one file
    assert tool("verify", native, native, "--json").json["files"] == [str(native)]


def test_an_option_that_nothing_looks_at_is_refused_or_noted(
    native: Path, mini: Mini, tmp_path: Path, tool: Tool
) -> None:
    said = tool("verify", native, "--image", tmp_path / "absent", "--select", "PL201", status=2).err
    assert "--image is for PL404" in said
    said = tool("verify", native, "--vmlinux", tmp_path / "absent", status=2).err
    assert "is for modules, but no FILE is a module" in said
    assert "is for modules, and none was verified" in tool("verify", native, "--vmlinux", native).out
    (tmp_path / "settings.toml").write_text("")
    said = tool("verify", native, "--no-config", "--config", tmp_path / "settings.toml", status=2).err
    assert "--no-config and --config contradict each other" in said
    # rules for modules
    said = tool("verify", native, mini(ModuleSpec()), "--select", "PL307,PL405", "--jobs", "1").out
    assert "2 files: 1 without an applicable rule (" in said.splitlines()[-1]
    assert "contradict" in tool("verify", native, "--require", "untouched", "--release", status=2).err
    assert tool("verify", mini(ModuleSpec())).out == "1 file: clean (6 sites, untouched, module; no kernel given)\n"


@pytest.mark.thorough
@pytest.mark.parametrize("require", ["untouched", "processed"])
def test_a_required_state_in_every_format(mini: Mini, tmp_path: Path, require: str) -> None:
    for contract in ("native", "stock"):
        vmlinux = mini(Spec(contract=contract))
        if require == "untouched":
            assert main(["patch", str(vmlinux), "--in-place", "--contract", contract]) == 0
        other = {"untouched": "processed", "processed": "untouched"}[require]
        assert verify(vmlinux, "--require", other) == 0
        for name in FORMATS:
            assert verify(vmlinux, "--require", require, *as_format(name), "-o", tmp_path / name) == 1
            assert f"is {other}, but must be {require}" in (tmp_path / name).read_text()


@pytest.mark.parametrize("name", ["loop", "loop/vmlinux"])
def test_what_cannot_be_reached_is_an_error_of_that_file(native: Path, tmp_path: Path, name: str, tool: Tool) -> None:
    """Root may search every directory, so a loop of links stands for one that is closed."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    said = tool("verify", tmp_path / name, native, "--release", status=2)
    assert f"{tmp_path / name}: cannot be opened: Too many levels of symbolic links" in said.out
    assert "settings" not in said.err
    assert os.fspath(native) not in said.out
