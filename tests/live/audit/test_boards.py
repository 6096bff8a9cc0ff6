"""``live audit --board``: several machines on one page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.rules.fixture import AUDIT, as_running
from tests.support.cores import SLIDE
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.tool import Tool


def memory(vmlinux: Path, name: str, changes: dict[int, int]) -> str:
    """Save memory with changed words under a name of its own."""
    _, source = as_running(vmlinux, changes)
    return str(Path(source).rename(vmlinux.with_name(name)))


def test_ten_machines_are_one_page(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    wrong = ElfEdit(vmlinux).value("work_leaf")
    boards = [memory(vmlinux, f"board-{k}", {wrong: NOP} if k == 3 else {}) for k in range(9)]
    first, *more = [*boards, str(tmp_path / "off")]
    out = tmp_path / "boards.html"
    options = [word for board in more for word in ("--board", board)]
    output = tool(*AUDIT, vmlinux, first, *options, "--format", "html", "-o", out, status=2)  # one is not there
    assert output.err.splitlines()[-1] == f"{out}: 10 machines: 1 not audited, 1 failed, 8 passed"
    assert f"{tmp_path / 'off'}: " in output.err
    page = out.read_text()
    assert len(page) < 2_000_000
    assert "prologue live audit: 10 machines" in page
    machines = page[page.index("Machines") :]
    assert [board for board in (first, *more) if board not in machines] == []
    assert len(re.findall(r"PL501", page)) > 0
    assert "(9 machines)" in page  # what none of them looked at stands there once


def test_the_worst_outcome_is_the_exit_code(vmlinux: Path, tmp_path: Path) -> None:
    wrong = ElfEdit(vmlinux).value("work_leaf")
    good, bad = memory(vmlinux, "good", {}), memory(vmlinux, "bad", {wrong: NOP})
    page = ["--format", "html", "-o", str(tmp_path / "page.html")]
    assert main([*AUDIT, str(vmlinux), good, "--board", good, *page]) == 0
    assert main([*AUDIT, str(vmlinux), good, "--board", bad, *page]) == 1


def test_the_page_says_which_rules_did_not_run(vmlinux: Path, tmp_path: Path) -> None:
    good, out = memory(vmlinux, "good", {}), tmp_path / "page.html"
    options = ["--ignore", "PL501", "--format", "html", "-o", str(out)]
    assert main([*AUDIT, str(vmlinux), good, "--board", good, *options]) == 0
    assert out.read_text().count("without PL501)") == 2  # in each machine's row


def test_another_boot_is_named_on_the_terminal(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    good, other = memory(vmlinux, "good", {}), Path(memory(vmlinux, "other", {}))
    slide = f"KERNELOFFSET={SLIDE:x}\n".encode()
    assert slide in other.read_bytes()
    other.write_bytes(other.read_bytes().replace(slide, f"KERNELOFFSET={SLIDE + 0x10000:x}\n".encode()))
    page = ["--format", "html", "-o", str(tmp_path / "page.html")]
    assert "(PL505)" in tool(*AUDIT, vmlinux, good, "--board", other, *page, status=2).err


@pytest.mark.parametrize(
    "options", [[], ["--json"], ["LATER", "--format", "html"]], ids=["text", "json", "two memories"]
)
def test_what_is_of_one_machine_is_refused(options: list[str], vmlinux: Path, tool: Tool) -> None:
    board = memory(vmlinux, "board", {})
    words = [board if word == "LATER" else word for word in options]
    printed = tool(*AUDIT, vmlinux, board, *words, "--board", board, status=2)
    assert "--board makes one page of several machines: give --format html" in printed.err
