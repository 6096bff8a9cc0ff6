"""What the gate has against a file that no rule has anything against: one row for each kind of file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prologue.gate.refusal import GATE_RULES, Required, refusals
from prologue.gate.verify import Facts
from tests.support.tool import Tool

FILE, KERNEL = Path("file"), Path("vmlinux")
NATIVE = Facts(kind="vmlinux", contract="native", state="processed", sites=10, release="6.12.1")
STOCK = Facts(kind="vmlinux", contract="stock", state="untouched", sites=10, release="6.12.1")
MODULE = Facts(
    kind="module",
    contract=None,
    state="untouched",
    sites=10,
    release="6.12.1",
    vmlinux=KERNEL,
    vmlinux_release="6.12.1",
)


def messages(facts: Facts, *, release: bool = True, require: Required | None = None) -> list[str]:
    found = refusals(FILE, facts, release=release, require=require)
    assert {finding.severity for finding in found} <= {"fatal"}
    return [f"{finding.code}: {finding.message}" for finding in found]


@pytest.mark.parametrize(
    "facts",
    [
        NATIVE,
        MODULE,
        replace(MODULE, state="processed"),
        replace(MODULE, state="no sites", sites=0),
        replace(MODULE, release="", vmlinux_release=""),
    ],
)
def test_what_may_be_released(facts: Facts) -> None:
    assert messages(facts) == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (replace(NATIVE, state="untouched"), "a native kernel, but untouched"),
        (replace(NATIVE, state="unfinished"), "a native kernel, but unfinished"),
        (replace(NATIVE, state="mixed"), "a native kernel, but mixed"),
        (replace(NATIVE, state="no sites"), "no dynamic ftrace"),
        (STOCK, "a stock kernel (untouched)"),
        (replace(STOCK, state="processed"), "for bench and lab use"),
        (replace(STOCK, state="unfinished"), "for bench and lab use"),
        (replace(STOCK, state="mixed"), "a stock kernel (mixed)"),
        (replace(STOCK, state="no sites"), "no dynamic ftrace"),
        (replace(MODULE, vmlinux=None), "no kernel to check it against"),
        (replace(MODULE, vmlinux=None, state="no sites"), "no kernel to check it against"),
        (replace(MODULE, release=""), "names no kernel release"),
        (replace(MODULE, state="mixed"), "is mixed"),
        (replace(MODULE, state="unfinished"), "is unfinished"),
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
        (replace(NATIVE, state="unfinished"), "processed", True),
        (replace(NATIVE, state="unfinished"), "untouched", True),
        (STOCK, "untouched", False),
        (STOCK, "processed", True),
        (replace(STOCK, state="processed"), "processed", False),
        (replace(STOCK, state="no sites"), "untouched", True),
        (MODULE, "untouched", False),
        (MODULE, "processed", True),
        (replace(MODULE, vmlinux=None), "untouched", False),
        (replace(MODULE, state="no sites"), "processed", False),  # there is nothing to process
        (replace(MODULE, state="no sites"), "untouched", False),
    ],
)
def test_a_required_state(facts: Facts, require: Required, wrong: bool) -> None:
    state = "without sites" if facts.state == "no sites" else facts.state
    expected = [f"REQUIRE: is {state}, but must be {require}"] if wrong else []
    assert messages(facts, release=False, require=require) == expected


def test_a_release_may_require_processed_modules() -> None:
    assert messages(MODULE, require="processed") == ["REQUIRE: is untouched, but must be processed"]
    assert messages(replace(MODULE, state="processed"), require="processed") == []


def test_refusals_are_explained_like_rules(tool: Tool) -> None:

    for rule in GATE_RULES:
        for name in (rule.code, rule.slug, rule.code.lower()):
            said = tool("explain", name).out
            assert said.startswith(f"{rule.code} {rule.slug} (fatal; ")
            assert "to do:" in said
