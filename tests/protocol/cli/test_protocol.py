"""``prologue protocol`` as its users run it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prologue.protocol.form import load_protocol, protocol_names
from tests.support.needs import needs_tools
from tests.support.tool import Tool


def test_list(tool: Tool) -> None:
    said = tool("protocol", "list").out
    for name in protocol_names():
        assert f"{name}: {load_protocol(name).title}\n" in said
    data = tool("protocol", "list", "--json").json
    assert data["schema"] == "prologue.protocols/1"
    assert [row["name"] for row in data["protocols"]] == list(protocol_names())


def test_an_unsafe_one_is_shown_step_by_step(tool: Tool) -> None:
    needs_tools("spin", "tcc")
    said = tool("protocol", "check", "two-writes-live/either", status=1).out
    assert "UNSAFE (lr-lost)" in said
    rows = [" ".join(line.split()) for line in said.splitlines()]
    old, write, call, back = (rows.index(row) for row in (
        "3 first: NOP", '4 STR "MOV X9, X30", [first] patch_text([first], "MOV X9, X30")',
        "11 second: BL tracer", "16 body: RET",
    ))  # fmt: skip
    assert old < write < call < back
    assert "RET does not return to the caller" in said


@pytest.mark.thorough
def test_a_safe_one_says_how_far_it_looked(tool: Tool) -> None:
    needs_tools("spin", "tcc")
    said = tool("protocol", "check", "two-writes-live/mov-in-place", "--barriers").out
    assert "two-writes-live/mov-in-place: safe\n" in said
    assert "states, depth " in said
    assert "2 CPUs, preemptible, tasks: patcher, caller" in said
    assert said.count("not needed: a CPU that executes the old NOP") == 5
    assert tool("protocol", "check", "two-writes-live/mov-in-place", "-q").out == ""


@pytest.mark.thorough
def test_json_of_all_variants(tool: Tool) -> None:
    needs_tools("spin", "tcc")
    data = tool("protocol", "check", "stop-machine", "--all-variants", "--json", status=1).json
    assert data["schema"] == "prologue.protocol-check/1"
    assert [(row["variant"], row["safe"], row["reason"]) for row in data["results"]] == [
        ("preemptible", False, "lr-lost"), ("not-preemptible", True, None), ("two-stops-and-a-wait", True, None),
    ]  # fmt: skip
    unsafe, safe, _ = data["results"]
    assert {"cpu": 1, "task": "caller", "text": "(preempted)", "step": None} in unsafe["events"]
    assert unsafe["events"][-1]["text"] == "body: RET"
    assert safe["events"] == []
    assert safe["bounds"]["preempt"] is False


@pytest.mark.parametrize("name", protocol_names())
def test_explain(name: str, tool: Tool) -> None:
    said = tool("protocol", "explain", name).out
    protocol = load_protocol(name)
    assert said.startswith(f"{name}: {protocol.title}\n")
    for variant in protocol.variants:
        assert f"\n{variant.name} ({variant.expect})\n" in said
    assert all(source in said for source in protocol.sources)


def test_explain_prints_the_model(tool: Tool) -> None:
    said = tool("protocol", "explain", "mov-at-boot", "--promela").out
    assert "proctype run_caller()" in said
    assert "inline dsb_full(c)" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "frobnicate"], "no protocol 'frobnicate': there are brk-owner, call-ops"),
        (["check", "stop-machin"], "no protocol 'stop-machin': did you mean stop-machine?"),
        (["explain", "stop-machine/frobnicate"], "has no variant 'frobnicate': there are preemptible"),
    ],
)
def test_unknown_names(words: list[str], message: str, tool: Tool) -> None:
    assert message in tool("protocol", *words, status=2).err


@pytest.mark.parametrize(("kept", "lost"), [("gcc", "spin"), ("spin", "gcc")])
def test_a_missing_tool_is_named_with_its_package(
    kept: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    needs_tools(kept)
    found = shutil.which(kept)
    assert found is not None
    (tmp_path / kept).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    printed = tool("protocol", "check", "two-writes-live", status=2)
    assert printed.err == f"prologue: {lost} is not in PATH: apt-get install {lost}\n"
