"""What a baseline covers, what it does not, and what is said about wrong ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.errors import InputError
from prologue.gate.baseline import Known, baseline_notes, baseline_text, in_scope, load_baseline, split
from tests.support.made_findings import ERROR, FATAL, NASTY, WARN, finding

WHY: dict[str, Any] = {"reason": "the linker's own", "owner": "kernel team"}
ENTRY = '[[known]]\nrule = "PL109"\nreason = "r"\nowner = "o"\n'


def load(tmp_path: Path, text: str) -> tuple[Known, ...]:
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    return load_baseline(path)


def test_all_keys(tmp_path: Path) -> None:
    text = (
        '[[known]]\nrule = "pl109"\nfile = "vmlinux*"\nsymbol = "arch_*"\nsection = ".init.text"\ncount = 3\n'
        'reason = "weak, and overridden"\nowner = "mm"\n'
        '[[known]]\nrule = "record-outside-text"\nreason = "r"\nowner = "o"\n'
    )
    assert load(tmp_path, text) == (
        Known(
            rule="PL109",
            reason="weak, and overridden",
            owner="mm",
            file="vmlinux*",
            symbol="arch_*",
            section=".init.text",
            count=3,
        ),
        Known(rule="PL105", reason="r", owner="o", file="*", symbol=None, section=None, count=None),
    )


@pytest.mark.parametrize("text", ["", "# nothing is known\n", "known = []\n"])
def test_an_empty_baseline_covers_nothing(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ENTRY + "[[known]]\n", "[[known]] number 2: rule is missing or empty: fill it in"),
        (ENTRY.replace('"r"', '" "'), "number 1: reason is missing or empty: fill it in"),
        (ENTRY.replace('owner = "o"', ""), "number 1: owner is missing or empty: fill it in"),
        (ENTRY.replace('"o"', "3"), "owner must be a string, not 3"),
        (ENTRY + "count = 0\n", "count must be a positive number, not 0"),
        (ENTRY + "count = true\n", "count must be a positive number, not True"),
        (ENTRY + 'expires = "2030-12-31"\n', "expires must be a date such as 2030-12-31, without quotes"),
        (ENTRY + "expires = 2030-12-31T00:00:00Z\n", "expires must be a date such as 2030-12-31"),
        (ENTRY + 'count = "3"\n', "count must be a positive number"),
        (ENTRY + 'function = "f"\n', "unknown key 'function': the keys are rule, reason, owner, file,"),
        (ENTRY.replace("PL109", "PL1"), "no rule 'PL1'"),
        ("[known]\n", "known must be a list: write [[known]]"),
        ("known = [1]\n", "number 1: must be a table, not 1"),
        ("[[knwon]]\n", "unknown 'knwon': a baseline is a list of [[known]]"),
        ("[[known]\n", "is not valid TOML"),
        ("a = " + "[" * 100_000, "is not valid TOML"),
    ],
)
def test_a_wrong_baseline_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'known.toml'}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_baseline_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(InputError, match="cannot read the baseline: "):
            load_baseline(path)
    (tmp_path / "latin1.toml").write_bytes(b"# \xe4\n")
    with pytest.raises(InputError, match="is not valid TOML"):
        load_baseline(tmp_path / "latin1.toml")


@pytest.mark.parametrize(
    ("limits", "covered"),
    [
        ({}, "abcd"),
        ({"file": "vmlinux"}, "abd"),
        ({"file": "*.ko"}, "c"),
        ({"file": "out/vmlinux"}, ""),  # globs are on the last component
        ({"symbol": "sched*"}, "ac"),
        ({"symbol": "*"}, "abcd"),
        ({"symbol": ""}, "d"),
        ({"section": ".init.*"}, "b"),
        ({"symbol": "sched*", "file": "vmlinux"}, "a"),
        ({"count": 4}, "abcd"),
        ({"count": 3}, ""),
        ({"symbol": "sched*", "count": 1}, ""),
    ],
)
def test_what_an_entry_covers(limits: dict[str, object], covered: str) -> None:
    findings = {
        "a": finding(WARN, "out/vmlinux"),
        "b": finding(WARN, "out/vmlinux", "start_kernel", section=".init.text"),
        "c": finding(WARN, "ext4.ko"),
        "d": finding(WARN, "out/vmlinux", None),
    }
    other = finding(FATAL, "out/vmlinux")
    entry = Known(rule="PL109", **(WHY | limits))
    parts = split([*findings.values(), other], [entry])
    assert [f for f, _ in parts.baselined] == [findings[name] for name in covered]
    assert parts.new == [f for name, f in findings.items() if name not in covered] + [other]
    assert all(known == entry for _, known in parts.baselined)


def test_entries_that_match_nothing_or_too_much() -> None:
    stale, narrow, wide = (
        Known(rule="PL109", symbol="gone", **WHY),
        Known(rule="PL203", count=1, **WHY),
        Known(rule="PL203", **WHY),
    )
    parts = split([finding(FATAL), finding(FATAL, symbol="other")], [stale, narrow, wide])
    assert parts.new == [finding(FATAL), finding(FATAL, symbol="other")]  # the first entry that matches decides
    assert parts.baselined == []
    assert parts.exceeded == [(narrow, 2)]
    assert parts.unused == [stale, wide]


def test_an_entry_that_expired_covers_nothing(tmp_path: Path) -> None:
    text = ENTRY.replace("PL109", "PL105") + "expires = 2026-03-31\n" + ENTRY
    dated, lasting = load(tmp_path, text)
    assert (dated.expires, lasting.expires) == (date(2026, 3, 31), None)
    findings = [finding(ERROR), finding(WARN)]
    for day, new in ((date(2026, 3, 31), []), (date(2026, 4, 1), findings[:1])):
        parts = split(findings, [dated, lasting], day)
        assert (parts.new, parts.expired) == (new, (dated,) * len(new))
        assert len(parts.baselined) == 2 - len(new)
    assert baseline_notes(parts, Path("b.toml"))[1:] == [
        "baseline b.toml: PL105: expired on 2026-03-31: covers nothing; fix the findings, or decide again"
    ]
    # Without a day it is that of the run.
    assert split(findings, [replace(dated, expires=date(2001, 1, 1))]).new == findings


@pytest.mark.thorough
def test_more_entries_than_fnmatch_remembers() -> None:
    findings = [finding(WARN, symbol=f"f{k}") for k in range(600)]
    known = [Known(rule="PL109", symbol=f"f{k}", **WHY) for k in reversed(range(600))]
    parts = split(findings, known)
    assert (parts.new, parts.unused) == ([], [])
    assert all(f.where.symbol == entry.symbol for f, entry in parts.baselined)


def test_entries_about_other_files_and_rules_are_out_of_scope() -> None:
    module = Known(rule="PL109", file="*.ko", **WHY)
    kernel = Known(rule="PL109", file="vmlinux*", **WHY)
    other_rule = Known(rule="PL203", **WHY)
    known = (module, kernel, other_rule)
    assert in_scope(known, {"PL109": ["vmlinux"]}) == (kernel,)
    assert in_scope(known, {"PL109": ["vmlinux", "ext4.ko"], "PL203": ["ext4.ko"]}) == known
    assert in_scope(known, {}) == ()


def test_notes() -> None:
    known = [
        Known(rule="PL109", reason="weak", owner="mm"),
        Known(rule="PL105", reason="vendor", owner="arm64", symbol="x"),
        Known(rule="PL105", reason="vendor", owner="arm64", symbol="y"),
        Known(rule="PL203", reason="?", owner="?", file="gone*"),
        Known(rule="PL203", reason="?", owner="?", symbol="z", section=".text", count=1),
    ]
    findings = [finding(WARN), finding(WARN), finding(ERROR, symbol="x"), finding(ERROR, symbol="y")]
    findings += [finding(FATAL, symbol="z")] * 2
    assert baseline_notes(split(findings, known), Path("b.toml")) == [
        "4 known findings (baseline b.toml): PL109 x 2: weak (mm); PL105 x 2: vendor (arm64)",
        "baseline b.toml: PL203 symbol 'z' section '.text': 2 findings, but only 1 known: all count as new",
        "baseline b.toml: PL203 file 'gone*': covers nothing any more: remove the entry",
    ]
    assert baseline_notes(split([finding()], []), Path("b.toml")) == []
    assert baseline_notes(split([finding(WARN)], known[:1]), Path("b"))[0].startswith("1 known finding (baseline b)")


def filled_in(template: str) -> str:
    return template.replace('reason = ""', 'reason = "r"').replace('owner = ""', 'owner = "o"')


def test_the_template_says_what_to_fill_in(tmp_path: Path) -> None:
    findings = [finding(WARN, symbol="b"), finding(WARN, symbol="a"), finding(WARN, symbol="b"), finding(FATAL)]
    template = baseline_text(findings)
    assert template.count("[[known]]") == 3
    assert 'rule = "PL109"  # record-not-at-function\nfile = "vmlinux"\nsymbol = "b"\ncount = 2\n' in template
    assert 'reason = ""  # fill in\nowner = ""  # fill in\n' in template
    assert template.startswith("# Known findings")
    for text in (template, template.replace('reason = ""', 'reason = "r"')):
        with pytest.raises(InputError, match="is missing or empty: fill it in"):
            load(tmp_path, text)
    assert len(load(tmp_path, filled_in(template))) == 3
    assert load(tmp_path, baseline_text([])) == ()


def test_one_finding_more_is_new(tmp_path: Path) -> None:
    findings = [finding(WARN, symbol="b")] * 2
    known = load(tmp_path, filled_in(baseline_text(findings)))
    assert split(findings, known).new == []
    assert len(split([*findings, findings[0]], known).new) == 3
    assert len(split([*findings, finding(WARN, symbol="c")], known).new) == 1


# Lone surrogates stand for bytes that are not UTF-8; TOML cannot write them, and `?` in their place matches others too.
NAMES = st.one_of(NASTY, st.sampled_from(["vm[l]inux", "a*", "a?", 'q"\\', "init\x7f", "é€😀"]))
PLACES = st.tuples(st.sampled_from([WARN, FATAL]), NAMES, st.none() | NAMES)


@pytest.mark.thorough
@given(st.lists(PLACES.filter(lambda place: not any("\ud800" <= c <= "\udfff" for c in f"{place[1]}{place[2]}"))))
def test_the_template_covers_exactly_its_findings(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[object, str, str | None]]
) -> None:
    findings = [finding(rule, path, symbol) for rule, path, symbol in places]  # type: ignore[arg-type]  # rules
    known = load(tmp_path_factory.getbasetemp(), filled_in(baseline_text(findings)))
    parts = split(findings, known)
    assert (parts.new, parts.unused, parts.exceeded) == ([], [], [])
    assert Counter(f for f, _ in parts.baselined) == Counter(findings)
    stranger = finding(ERROR)
    assert split([*findings, stranger], known).new == [stranger]
    assert len(split([*findings, *findings], known).new) == 2 * len(findings)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    findings = [finding(WARN, "out/vml\udcffinux")]
    known = load(tmp_path, filled_in(baseline_text(findings)))
    assert known[0].file == "vml?inux"
    assert split(findings, known).new == []
