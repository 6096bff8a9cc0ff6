"""What the gate has against a file that no rule has anything against: one row for each kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.gate.refusal import GATE_RULES, Required, refusals
from prologue.verify import Facts

FILE, KERNEL = Path("file"), Path("vmlinux")
NATIVE = Facts("vmlinux", "native", "processed", 10, "6.12.1")
STOCK = Facts("vmlinux", "stock", "untouched", 10, "6.12.1")
MODULE = Facts("module", None, "untouched", 10, "6.12.1", KERNEL, "6.12.1")


def messages(facts: Facts, *, release: bool = True, require: Required | None = None) -> list[str]:
    found = refusals(FILE, facts, release=release, require=require)
    assert {finding.severity for finding in found} <= {"fatal"}
    return [f"{finding.code}: {finding.message}" for finding in found]


@pytest.mark.parametrize(
    "facts",
    [
        NATIVE,
        MODULE,
        MODULE._replace(state="processed"),
        MODULE._replace(state="no sites", sites=0),
        MODULE._replace(release="", vmlinux_release=""),
    ],
)
def test_what_may_be_released(facts: Facts) -> None:
    assert messages(facts) == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (NATIVE._replace(state="untouched"), "a native kernel, but untouched"),
        (NATIVE._replace(state="unfinished"), "a native kernel, but unfinished"),
        (NATIVE._replace(state="mixed"), "a native kernel, but mixed"),
        (NATIVE._replace(state="no sites"), "no dynamic ftrace"),
        (STOCK, "a stock kernel (untouched)"),
        (STOCK._replace(state="processed"), "for bench and lab use"),
        (STOCK._replace(state="unfinished"), "for bench and lab use"),
        (STOCK._replace(state="mixed"), "a stock kernel (mixed)"),
        (STOCK._replace(state="no sites"), "no dynamic ftrace"),
        (MODULE._replace(vmlinux=None), "no kernel was given"),
        (MODULE._replace(vmlinux=None, state="no sites"), "no kernel was given"),
        (MODULE._replace(release=""), "names no kernel release"),
        (MODULE._replace(state="mixed"), "is mixed"),
        (MODULE._replace(state="unfinished"), "is unfinished"),
    ],
)
def test_what_may_not(facts: Facts, message: str) -> None:
    (found,) = messages(facts)
    assert found.startswith("GATE: ")
    assert message in found
    assert messages(facts, release=False) == []


@pytest.mark.parametrize(
    ("facts", "require", "wrong"),
    [
        (NATIVE, "processed", False),
        (NATIVE, "untouched", True),
        (NATIVE._replace(state="unfinished"), "processed", True),
        (NATIVE._replace(state="unfinished"), "untouched", True),
        (STOCK, "untouched", False),
        (STOCK, "processed", True),
        (STOCK._replace(state="processed"), "processed", False),
        (STOCK._replace(state="no sites"), "untouched", True),
        (MODULE, "untouched", False),
        (MODULE, "processed", True),
        (MODULE._replace(vmlinux=None), "untouched", False),
        (MODULE._replace(state="no sites"), "processed", False),  # there is nothing to process
        (MODULE._replace(state="no sites"), "untouched", False),
    ],
)
def test_a_required_state(facts: Facts, require: Required, wrong: bool) -> None:
    state = "without sites" if facts.state == "no sites" else facts.state
    expected = [f"REQUIRE: is {state}, but must be {require}"] if wrong else []
    assert messages(facts, release=False, require=require) == expected


def test_a_release_may_require_processed_modules() -> None:
    assert messages(MODULE, require="processed") == ["REQUIRE: is untouched, but must be processed"]
    assert messages(MODULE._replace(state="processed"), require="processed") == []


def test_refusals_are_explained_like_rules(capsys: pytest.CaptureFixture[str]) -> None:
    from prologue.cli.main import main

    for rule in GATE_RULES:
        for name in (rule.code, rule.slug, rule.code.lower()):
            assert main(["explain", name]) == 0
            said = capsys.readouterr().out
            assert said.startswith(f"{rule.code} {rule.slug} (fatal; ")
            assert "to do:" in said
