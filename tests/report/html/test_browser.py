"""Pages in Chromium: nothing to complain of, readable on a phone and on paper, and the scripts do what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.report.html.page import BulletList, Page, Table, render_page
from tests.mini_kernel.build import Spec
from tests.rules.fixture import as_running, process
from tests.rules.sites import call_in_second_slot
from tests.support.browser import Browser, browser
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit, edit
from tests.support.tool import Tool
from tests.trace.made import KERNEL, perf_text
from tests.trace.test_check import STEPS

pytestmark = pytest.mark.thorough

BRK = 0xD4200000
_WIDTHS = "return [document.documentElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def check_everywhere(window: Browser, page: Path) -> None:
    """No complaints; nothing wider than a phone; light and dark differ; and it prints."""
    grounds = set()
    for width in (400, 1280):
        for dark in (False, True):
            window.open(page, width=width, dark=dark)
            scroll, inner = window.run(_WIDTHS)
            assert scroll <= inner == width
            grounds.add(window.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
    printed = window.print(page.with_suffix(".pdf")).read_bytes()
    assert printed.startswith(b"%PDF")
    assert window.complaints() == []


def test_verify(window: Browser, mini: Mini, tmp_path: Path) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "report.html"
    with edit(vmlinux) as elf:
        call_in_second_slot(elf)
    assert main(["verify", str(vmlinux), "--format", "html", "-o", str(out)]) == 1
    check_everywhere(window, out)


def test_an_audit(window: Browser, mini: Mini, tmp_path: Path) -> None:
    path, out = process(mini(Spec(form="relr", labels=True))), tmp_path / "audit.html"
    elf = ElfEdit(path)
    arguments = as_running(path, {elf.value("work_leaf"): NOP, elf.value("_stext"): BRK})
    assert main(["live", "audit", *map(str, arguments), "--format", "html", "-o", str(out)]) == 1
    check_everywhere(window, out)
    both = window.run("return [...document.querySelectorAll('.both pre')].map((pre) => pre.textContent.trim())")
    assert both[:2] == ["d503201f  nop", "aa1e03e9  mov x9, x30"]


def test_tables_sort(window: Browser, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    at = [f"0x{vaddr:x}" for vaddr in (0x10, 0xFFFF800080099990, 0xFFFF800080012340, 0xFFFF800080012344, 0x9)]
    counts = (("b", "1,200"), ("a", "30"), ("c", ""), ("A10", "4.5"), ("6low", "-7"))
    rows = [(*pair, vaddr) for pair, vaddr in zip(counts, at, strict=True)]
    table = Table(title="T", head=("name", "count", "address"), rows=rows, numbers=(1,))
    parts = (table, BulletList(title="L", lines=["x"]))
    out.write_text(render_page(Page(title="t", outcome="", summary="s", parts=parts, command=["prologue"])))
    window.open(out)
    assert _sorted_by(window, 1) == ["-7", "4.5", "30", "1,200", ""]
    assert _sorted_by(window, 1) == ["", "1,200", "30", "4.5", "-7"]
    assert _sorted_by(window, 2) == [at[4], at[0], at[2], at[3], at[1]]  # more digits than a number has
    assert _sorted_by(window, 0) == ["6low", "a", "A10", "b", "c"]
    assert window.run("return document.querySelectorAll('th')[0].ariaSort") == "ascending"


def _sorted_by(window: Browser, column: int) -> list[str]:
    window.run("document.querySelectorAll('th button')[arguments[0]].click()", column)
    cells = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[arguments[0]].textContent)"
    found: list[str] = window.run(f"return {cells}", column)
    return found


def test_traces(window: Browser, tmp_path: Path) -> None:
    vmlinux, trace = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    trace.write_text(perf_text(STEPS))
    for action, said in (("stats", "vfs_read"), ("check", "none impossible")):
        out = tmp_path / f"{action}.html"
        command = ["trace", action, str(trace), "--vmlinux", str(vmlinux), "--format", "html", "-o", str(out)]
        assert main(command) == 0
        check_everywhere(window, out)
        assert said in window.run("return document.body.textContent")


def test_a_campaign(window: Browser, tmp_path: Path, tool: Tool) -> None:
    said = tool("bench", "compare", "example:2019-a57", "--format", "html").out
    out = tmp_path / "bench.html"
    out.write_text(said)
    check_everywhere(window, out)
    window.open(out)
    assert "0.9% faster" in window.run("return document.body.textContent")
    assert window.run("return document.querySelector('figure img').naturalWidth") > 500
