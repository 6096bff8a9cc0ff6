"""KTAP holds to Documentation/dev-tools/ktap.rst of the kernel, as a strict parser reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prologue.report.cases import CheckedFiles, findings_ktap
from prologue.rules.base import Severity
from tests.support.made_findings import ERROR, FATAL, INFO, NASTY, RULES, WARN, finding

FAILING: tuple[Severity, ...] = ("fatal", "error")
RESULT = re.compile(r"(ok|not ok) ([1-9][0-9]*)(?: ([^#]*[^# ]))?(?: # (SKIP)(?: (.+))?)?")


def ktap_of(*what: Any, **more: Any) -> str:
    names = ("files", "findings", "notes", "failing", "rules")
    return findings_ktap(CheckedFiles(**dict(zip(names, what, strict=True)), **more))


@dataclass
class Parsed:
    """One test and its subtests."""

    name: str
    ok: bool
    skip: str | None
    said: list[str]
    subtests: list[Parsed] = field(default_factory=list)


def parse(text: str) -> list[Parsed]:
    """Top-level tests; unlike a tolerant reader of console logs, this one takes no unknown line."""
    lines = text.split("\n")
    tests, rest, _ = parse_level(lines, 0)
    assert not rest, f"after the last test: {rest[0]!r}"
    return tests


def parse_level(lines: list[str], depth: int) -> tuple[list[Parsed], list[str], list[str]]:
    """Tests of one level, the lines after them, and diagnostics that belong to none of the tests."""
    indent = "  " * depth
    assert lines[0] == f"{indent}KTAP version 1", lines[0]
    plan = re.fullmatch(rf"{indent}1\.\.([0-9]+)", lines[1])
    assert plan, lines[1]
    lines = lines[2:]
    tests: list[Parsed] = []
    said: list[str] = []
    subtests: list[Parsed] | None = None
    while lines and lines[0].startswith(indent):
        line = lines[0].removeprefix(indent)
        if line == "  KTAP version 1":
            assert subtests is None, "two lists of subtests for one test"
            subtests, lines, more = parse_level(lines, depth + 1)
            said += more
            continue
        lines = lines[1:]
        if line.startswith("# "):
            said.append(line[2:])
            continue
        result = RESULT.fullmatch(line)
        assert result, f"neither a result nor a diagnostic: {line!r}"
        status, number, name, skip, why = result.groups()
        assert int(number) == len(tests) + 1, line
        tests.append(Parsed(name or "", status == "ok", (why or "") if skip else None, said, subtests or []))
        said, subtests = [], None
    assert subtests is None, "subtests without the result of their parent"
    assert len(tests) == int(plan[1]), f"{len(tests)} tests, planned {plan[1]}"
    return tests, lines, said


def check_parents(tests: list[Parsed]) -> None:
    for test in tests:
        if test.subtests:
            assert test.ok == all(subtest.ok for subtest in test.subtests)


def test_a_test_for_each_file_and_a_subtest_for_each_rule() -> None:
    tests = parse(ktap_of(["out/vmlinux", "ext4.ko"], [], [], FAILING, RULES))
    assert [test.name for test in tests] == ["out/vmlinux", "ext4.ko"]
    for test in tests:
        assert [s.name for s in test.subtests] == [f"{rule.code} {rule.slug}" for rule in RULES]
        assert test.ok
        assert all(s.ok and s.skip is None and not s.said for s in test.subtests)


def test_the_text_as_a_whole() -> None:
    text = ktap_of(["vmlinux"], [finding(FATAL), finding(WARN)], ["a note"], FAILING, (FATAL, WARN))
    place = "schedule+0x4 (.text+0x10004, 0xffff800008010004)"
    assert text.split("\n") == [
        "KTAP version 1",
        "1..1",
        "# note: a note",
        "  KTAP version 1",
        "  1..2",
        f"  # {place}: fatal: MOV X9, X30 before the BTI landing pad",
        f"  # to do: {FATAL.fix}",
        "  not ok 1 PL203 site-after-bti-broken",
        f"  # {place}: warn: MOV X9, X30 before the BTI landing pad",
        "  ok 2 PL109 record-not-at-function",
        "not ok 1 vmlinux",
    ]


def test_failures_bubble_up_in_their_file_only() -> None:
    findings = [finding(ERROR, "a"), finding(INFO, "b")]
    first, second = parse(ktap_of(["a", "b"], findings, [], FAILING, RULES))
    check_parents([first, second])
    assert [s.ok for s in first.subtests] == [True, False, True, True]
    assert second.ok
    assert len(second.subtests[3].said) == 1


def test_long_lists_are_cut_and_counted() -> None:
    (test,) = parse(ktap_of(["vmlinux"], [finding(WARN)] * 150, [], FAILING, (WARN,)))
    assert len(test.subtests[0].said) == 101
    assert test.subtests[0].said[-1] == "... and 50 more"


def test_rules_that_do_not_apply_are_skipped() -> None:
    inputs = {"ext4.ko": frozenset("K")}
    (test,) = parse(ktap_of(["ext4.ko"], [], [], FAILING, (WARN, INFO), inputs=inputs))
    assert [s.skip for s in test.subtests] == [None, "needs pair before/after"]
    assert test.skip is None
    (test,) = parse(ktap_of(["ext4.ko"], [], [], FAILING, (INFO,), inputs=inputs))
    assert (test.ok, test.skip) == (True, "no rule applies")


def test_rules_that_were_left_out_are_skipped() -> None:
    left_out = {"vmlinux": {"PL203": "ignored by # SKIP.toml"}}
    (test,) = parse(ktap_of(["vmlinux"], [], [], FAILING, (FATAL, WARN), left_out=left_out))
    assert [s.skip for s in test.subtests] == ["ignored by # SKIP.toml", None]


def test_an_unreadable_file_fails_and_passes_nothing() -> None:
    tests = parse(ktap_of(["gone", "vmlinux"], [], [], FAILING, RULES, unreadable={"gone": "gone: no\nfile"}))
    check_parents(tests)
    gone, vmlinux = tests
    (only,) = gone.subtests
    assert (gone.ok, gone.skip, only.name, only.ok) == (False, None, "verified", False)
    assert only.said == [r"error: gone: no\nfile"]
    assert (vmlinux.ok, len(vmlinux.subtests)) == (True, len(RULES))


def test_a_hash_sign_in_a_path_is_no_directive() -> None:
    (test,) = parse(ktap_of(["a # SKIP"], [finding(path="a # SKIP")], [], FAILING, RULES))
    assert (test.name, test.ok, test.skip) == (r"a \x23 SKIP", False, None)


@pytest.mark.thorough
@given(paths=st.lists(NASTY.filter(str.strip), max_size=3), symbol=NASTY, message=NASTY)
@example(paths=["0 ", " 0"], symbol="", message="")  # found by chance
def test_any_name_gives_sound_ktap(paths: list[str], symbol: str, message: str) -> None:
    findings = [
        finding(rule, path=path, symbol=symbol, message=message)
        for path in dict.fromkeys(paths)
        for rule in (ERROR, WARN)
    ]
    tests = parse(ktap_of(paths, findings, [message], FAILING, RULES))
    assert len(tests) == len(set(paths))
    check_parents(tests)
    for test in tests:
        assert [s.ok for s in test.subtests] == [True, False, True, True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1..2", "1..3"),
        ("ok 2 PL109", "ok 3 PL109"),
        ("  ok 2 PL109", "ok 2 PL109"),
        ("ok 1 vmlinux", "  ok 1 vmlinux"),
        ("\nok 1 vmlinux", ""),
        ("  KTAP version 1", "  TAP version 14"),
        ("  1..2\n", ""),
        ("  ok 1 PL203", "  passed 1 PL203"),
    ],
)
def test_the_parser_is_strict(old: str, new: str) -> None:
    text = ktap_of(["vmlinux"], [], [], FAILING, (FATAL, WARN))
    assert text.count(old) == 1
    with pytest.raises(AssertionError):
        parse(text.replace(old, new))
