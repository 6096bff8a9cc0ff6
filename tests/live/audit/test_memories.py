"""Reports name the memory that was audited: ten boards run one vmlinux, and are ten suites."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.rules.fixture import AUDIT
from tests.support.cores import running
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.tool import Tool, as_format


def board(vmlinux: Path, number: int) -> Path:
    """A board whose first slot of work_leaf is not written."""
    source = vmlinux.with_name(f"board{number}.core")
    source.write_bytes(running(vmlinux, {ElfEdit(vmlinux).value("work_leaf"): NOP}))
    return source


def report(kind: str, vmlinux: Path, *sources: Path, tool: Tool) -> str:
    return tool(*AUDIT, vmlinux, *sources, *as_format(kind), status=1).out


def test_text(vmlinux: Path, tool: Tool) -> None:
    one = board(vmlinux, 1)
    assert report("text", vmlinux, one, tool=tool).startswith(f"{one}: {vmlinux}: PL501 ")


def test_json(vmlinux: Path, tool: Tool) -> None:
    one, two = board(vmlinux, 1), board(vmlinux, 2)
    data = json.loads(report("json", vmlinux, one, two, tool=tool))
    assert [finding["memory"] for finding in data["findings"]] == [str(one), str(two)]
    assert {finding["file"] for finding in data["findings"]} == {str(vmlinux)}


def test_junit_has_a_suite_for_each(vmlinux: Path, tool: Tool) -> None:
    one, two = board(vmlinux, 1), board(vmlinux, 2)
    names = [f"{memory}: {vmlinux}" for memory in (one, two)]
    suites = ET.fromstring(report("junit", vmlinux, one, two, tool=tool))  # noqa: S314 - our own
    assert [(suite.get("name"), suite.get("failures")) for suite in suites] == [(name, "1") for name in names]
    assert len({case.get("classname") for case in suites.iter("testcase")}) == 2


def test_sarif_logs_of_two_boards_are_two_analyses(vmlinux: Path, tool: Tool) -> None:
    found = []
    for number in (1, 2):
        (run,) = json.loads(report("sarif", vmlinux, board(vmlinux, number), tool=tool))["runs"]
        (result,) = run["results"]
        assert result["properties"]["memory"].endswith(f"board{number}.core")
        assert result["message"]["text"].startswith(f"in {vmlinux.parent}/board{number}.core: ")
        assert any(artifact["location"]["uri"].endswith(f"board{number}.core") for artifact in run["artifacts"])
        found.append((run["automationDetails"]["id"], result["partialFingerprints"]["prologueFinding/v1"]))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]
