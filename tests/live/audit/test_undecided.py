"""``live audit`` of memory that does not decide every word: nothing reads as clean, nothing passes unasked."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.errors import UNDECIDED
from prologue.live.audit.audited import Audited, LiveWord, MechanismCount, undecided
from prologue.live.audit.run import _mark_unstable
from tests.live.audit.made_kernel import captured
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool, as_format

SITES = 15


def seconds(vmlinux: Path) -> tuple[int, ...]:
    elf = ElfEdit(vmlinux)
    return tuple(sorted(elf.record(slot) for slot in elf.live_slots()))  # they were moved


def test_what_memory_lacks(vmlinux: Path, tool: Tool) -> None:
    """Of the mini kernel no ftrace says which second slots are traced; who knows that may let it pass."""
    command = ["live", "audit", str(vmlinux), str(captured(vmlinux))]
    for options, status in (((), UNDECIDED), (("--allow-undecided",), 0)):
        said = tool(*command, *options, status=status).out.splitlines()
        assert ": nothing wrong found, 15 words not decided (6.1.0-mini, " in said[-1]
        assert said[-2].startswith(
            "not decided: right in form: 15; nothing that was read decides them (prologue help live.md "
        )
    assert "15 words not decided" in tool(*command, "-q", status=UNDECIDED).out
    assert tool(*command, "-q", "--allow-undecided").out == ""


def test_what_did_not_come_to_rest(vmlinux: Path, tool: Tool) -> None:
    """Is never let pass; the text has some of the words, and JSON each."""
    elf = ElfEdit(vmlinux)
    free = elf.value("work_leaf") + 12
    source = captured(vmlinux, unstable=(*seconds(vmlinux), free))
    command = ["live", "audit", str(vmlinux), str(source), "--allow-undecided"]
    said = tool(*command, status=UNDECIDED).out.splitlines()
    assert said[0].endswith("vmlinux: PL504 live-unstable (warn): 16")
    assert "  ... and 11 more (--all)" in said
    assert sum(line.startswith("  to do: ") for line in said) == 1
    assert ": 16 warn, 16 words not decided (" in said[-1]
    assert said[-2].startswith("not decided: being changed while they were read: 16; ")
    assert tool(*command, "--all", status=UNDECIDED).out.count("still changed after several readings") == SITES + 1
    data = tool(*command, "--json", status=UNDECIDED).json
    assert {int(finding["vaddr"], 16) for finding in data["findings"]} == {*seconds(vmlinux), free}
    assert (data["passed"], data["undecided"]) == (
        False,
        {"restless": 16, "lacking": 0, "unknown": 0, "hooks": 0, "lists": 0},
    )
    assert main([*command, "--json", "--ignore", "PL504"]) == UNDECIDED


@pytest.mark.thorough
def test_no_format_passes(vmlinux: Path, tool: Tool) -> None:
    command = ["live", "audit", str(vmlinux), str(captured(vmlinux))]
    said = {}
    for allowed in (False, True):
        for kind in ("json", "sarif", "junit"):
            printed = tool(
                *command,
                *as_format(kind),
                *(["--allow-undecided"] if allowed else []),
                status=0 if allowed else UNDECIDED,
            )
            said[kind] = printed.out
        assert json.loads(said["json"])["passed"] == allowed
        (invocation,) = json.loads(said["sarif"])["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] == allowed
        suites = ET.fromstring(said["junit"])  # noqa: S314 - our own
        assert suites.get("errors") == ("0" if allowed else "1")
        assert suites.get("failures") == "0"


def test_a_word_that_was_right_a_moment_before() -> None:
    """It leaves the wrong ones, and is counted where it belongs."""
    words = (
        LiveWord(kind="call", vaddr=4, found=(1,), expected=(2,), message="wrong", mechanism="second slots"),
        LiveWord(kind="unexplained", vaddr=64, found=(1,), expected=(2,), message="nobody's", words=3),
        LiveWord(
            kind="word", vaddr=96, found=(1,), expected=(2,), message="no entry", words=3, mechanism="module PLTs"
        ),
        LiveWord(kind="call", vaddr=8, found=(1,), expected=(2,), message="wrong twice", mechanism="second slots"),
    )
    rows = (
        MechanismCount(mechanism="second slots", words=9, changed=2, wrong=2, unsure=1),
        MechanismCount(mechanism="module PLTs", words=9, changed=9, wrong=3, unsure=0),
    )
    now = _mark_unstable(Audited(words=words, mechanisms=rows, text=100, unlooked=()), set(words[:3]))
    assert [word.kind for word in now.words] == ["unstable", "unstable", "unstable", "call"]
    assert now.mechanisms == (
        MechanismCount(mechanism="second slots", words=9, changed=2, wrong=1, unsure=2, unstable=1),
        MechanismCount(mechanism="module PLTs", words=9, changed=9, wrong=0, unsure=3, unstable=3),
    )
    assert undecided([now]) == (7, 1, 0)
