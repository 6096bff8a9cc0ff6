"""JUnit XML parses, whatever the names, and fails where a finding fails."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from prologue.errors import InternalError
from prologue.report.junit import CheckedFiles, findings_junit
from prologue.rules.base import Input, Severity
from prologue.rules.registry import RULES as ALL_RULES
from tests.support.made_findings import ERROR, FATAL, INFO, NASTY, RULES, WARN, finding

FAILING: tuple[Severity, ...] = ("fatal", "error")


def junit_of(*what: Any, **more: Any) -> str:
    names = ("files", "findings", "notes", "failing", "rules")
    return findings_junit(CheckedFiles(**dict(zip(names, what, strict=True)), **more))


def parse(xml: str) -> ET.Element:
    return ET.fromstring(xml.encode("utf-8"))  # noqa: S314  # our own output


def case(suite: ET.Element, code: str) -> ET.Element:
    (found,) = [c for c in suite.iter("testcase") if c.attrib["name"].startswith(code)]
    return found


def test_a_suite_for_each_file_and_a_case_for_each_rule() -> None:
    root = parse(junit_of(["out/vmlinux", "ext4.ko"], [], [], FAILING, RULES))
    assert root.tag == "testsuites"
    assert [suite.attrib["name"] for suite in root] == ["out/vmlinux", "ext4.ko"]
    for suite, classname in zip(root, ("prologue.out/vmlinux", "prologue.ext4.ko"), strict=True):
        assert {c.attrib["classname"] for c in suite} == {classname}
        assert [c.attrib["name"] for c in suite] == [f"{rule.code} {rule.slug}" for rule in RULES]
        assert all(len(c) == 0 for c in suite)
    assert root.attrib == {"name": "prologue", "tests": "8", "failures": "0", "errors": "0"}


def test_it_parses_whatever_encoding_standard_output_has() -> None:
    xml = junit_of(["é名.ko"], [], [], FAILING, RULES)
    assert xml.isascii()
    assert parse(xml)[0].attrib["name"] == "é名.ko"


def test_failures_and_other_findings() -> None:
    findings = [finding(FATAL), finding(FATAL, symbol="other", message="second"), finding(WARN), finding(INFO)]
    root = parse(junit_of(["vmlinux", "clean"], findings, [], FAILING, RULES))
    suite, clean = root
    failure = case(suite, "PL203").find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "fatal"
    assert failure.attrib["message"].startswith("2 findings; first: schedule+0x4 (.text+0x10004")
    assert failure.text is not None
    lines = failure.text.splitlines()
    assert [("schedule" in lines[0], "other" in lines[1]), lines[2]] == [(True, True), f"to do: {FATAL.fix}"]
    warned = case(suite, "PL109")
    assert warned.find("failure") is None
    assert "schedule+0x4" in (warned.findtext("system-out") or "")
    assert len(case(suite, "PL105")) == 0
    assert (root.attrib["failures"], suite.attrib["failures"], clean.attrib["failures"]) == ("1", "1", "0")


def test_what_fails_is_the_callers_choice() -> None:
    release: tuple[Severity, ...] = ("fatal", "error", "warn")
    root = parse(junit_of(["vmlinux"], [finding(WARN)], [], release, RULES))
    assert root.attrib["failures"] == "1"


def test_long_lists_are_cut_and_counted() -> None:
    findings = [finding(ERROR, offset=4 * k) for k in range(1234)]
    root = parse(junit_of(["vmlinux"], findings, [], FAILING, RULES))
    failure = case(root[0], "PL105").find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("1,234 findings; ")
    assert failure.text is not None
    lines = failure.text.splitlines()
    assert (len(lines), lines[100]) == (102, "... and 1,134 more")


def test_rules_that_do_not_apply_have_no_case() -> None:
    inputs = {"vmlinux": frozenset("V"), "ext4.ko": frozenset("K")}
    root = parse(junit_of(["vmlinux", "ext4.ko"], [], [], FAILING, RULES, inputs=inputs))
    assert [[c.attrib["name"][:5] for c in suite] for suite in root] == [["PL203", "PL105", "PL109"]] * 2
    assert [suite.attrib["tests"] for suite in root] == ["3", "3"]


def test_rules_that_were_left_out_are_named_once() -> None:
    left_out = {"vmlinux": {"PL203": "ignored by the command line"}}
    root = parse(junit_of(["vmlinux", "other"], [], ["one"], FAILING, RULES, left_out=left_out))
    assert [len(list(suite.iter("testcase"))) for suite in root] == [3, 4]
    assert root[0].findtext("system-out") == "note: one\nnot run: PL203: ignored by the command line (1 file)"


@pytest.mark.thorough
def test_a_release_of_modules_stays_below_what_gitlab_takes() -> None:
    files = [f"/build/tree/debian/modules/lib/modules/6.12.117/kernel/drivers/some/vendor/{k}.ko" for k in range(4351)]
    modules = dict.fromkeys(files, frozenset[Input](("K",)))
    xml = junit_of(files, [], [], FAILING, ALL_RULES, inputs=modules)
    assert len(xml.encode()) < 30_000_000
    assert xml.count("<testsuite ") == len(files)


def test_an_unreadable_file_has_one_error_and_no_pass() -> None:
    root = parse(junit_of(["gone", "vmlinux"], [], [], FAILING, RULES, unreadable={"gone": "gone: no\0file"}))
    gone, vmlinux = root
    (only,) = gone
    error = only.find("error")
    assert error is not None
    assert error.attrib["message"] == r"gone: no\x00file"
    assert (only.attrib["classname"], only.attrib["name"]) == ("prologue.gone", "verified")
    assert gone.attrib == {"name": "gone", "tests": "1", "failures": "0", "errors": "1"}
    assert root.attrib == {"name": "prologue", "tests": "5", "failures": "0", "errors": "1"}
    assert len(vmlinux) == len(RULES)


def test_files_of_one_name_differ() -> None:
    root = parse(junit_of(["a/vmlinux", "b/vmlinux"], [], [], FAILING, RULES))
    assert [{c.attrib["classname"] for c in suite} for suite in root] == [
        {"prologue.a/vmlinux"},
        {"prologue.b/vmlinux"},
    ]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["/build/a/x.ko", "/build/b/x.ko"], ["a/x.ko", "b/x.ko"]),
        (["modules/x.ko", "modules/y.ko"], ["x.ko", "y.ko"]),
        (["/x.ko", "/y.ko"], ["x.ko", "y.ko"]),
        (["/build/vmlinux", "build/x.ko"], ["/build/vmlinux", "build/x.ko"]),
        (["/build/vmlinux"], ["/build/vmlinux"]),
    ],
)
def test_thousands_of_cases_do_not_repeat_the_directory(files: list[str], names: list[str]) -> None:
    root = parse(junit_of(files, [], [], FAILING, RULES))
    assert [suite.attrib["name"] for suite in root] == files
    assert [{c.attrib["classname"] for c in suite} for suite in root] == [{f"prologue.{name}"} for name in names]


def test_notes_are_shown() -> None:
    root = parse(junit_of(["vmlinux", "ext4.ko"], [], ["one", "two"], FAILING, RULES))
    assert root[0].findtext("system-out") == "note: one\nnote: two"


def test_no_finding_is_lost() -> None:
    root = parse(junit_of(["vmlinux", "vmlinux"], [finding()], [], FAILING, RULES))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("4", "1")
    for stray in (finding(path="elsewhere"), finding(WARN)):
        with pytest.raises(InternalError, match=f"{stray.path}: a finding of {stray.code}, which did not run"):
            junit_of(["vmlinux"], [stray], [], FAILING, (FATAL,))


@pytest.mark.thorough
@given(path=NASTY, symbol=NASTY, message=NASTY)
def test_any_name_gives_well_formed_xml(path: str, symbol: str, message: str) -> None:
    findings = [finding(rule, path=path, symbol=symbol, message=message) for rule in (FATAL, WARN)]
    root = parse(junit_of([path], findings, [message], FAILING, RULES))
    failure = case(root[0], "PL203").find("failure")
    assert failure is not None
    assert failure.text is not None
    assert len(failure.text.splitlines()) == 2
    assert root.attrib["tests"] == "4"
