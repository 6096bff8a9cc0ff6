"""Reports as HTML: whole, safe whatever the names, small, and loading nothing."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given

from prologue.gate.judge import judge
from prologue.report.html.page import BulletList, Page, PagePart, Table, render_page
from prologue.report.html.verify import verify_page
from prologue.rules.registry import RULES, find_rule
from tests.mini_kernel.build import Spec
from tests.report.test_closing import MODULE, NATIVE, file, gone
from tests.rules.sites import call_in_second_slot
from tests.support.built import Mini
from tests.support.cases import one_quick
from tests.support.elf_edit import edit
from tests.support.made_findings import ERROR, FATAL, NASTY, WARN, finding
from tests.support.tool import Tool


class Document(HTMLParser):
    """Elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(*parts: PagePart, title: str = "title") -> Page:
    return Page(title=title, outcome="failed", summary="summary", parts=parts, command=["prologue", "verify", "a b"])


def test_it_reads_the_same_in_any_encoding_of_standard_output() -> None:
    html = render_page(page(title="é名"))
    assert html.isascii()
    assert Document(html).text.count("é名") == 2


def test_the_head_says_what_was_judged_and_when() -> None:
    facts = [("file", "/a/very/long/way/vmlinux"), ("release", "6.12.0"), ("sha256", "0" * 64)]
    whole = replace(page(), subject="/a/very/long/way/vmlinux", facts=facts, date="2026-11-29T12:00:00Z")
    html = render_page(whole)
    assert "<title>title: vmlinux</title>" in html
    assert all(f"<dt>{name}</dt><dd>{value}</dd>" in html for name, value in facts)
    assert "<dd>2026-11-29T12:00:00Z by prologue " in html


def test_backticks_are_code_and_no_markup_is() -> None:
    html = render_page(page(BulletList(title="t", lines=["run `make <all>` & wait", "``a`` alone", "one ` only"])))
    assert "<li>run <code>make &lt;all&gt;</code> &amp; wait</li>" in html
    assert "<li><code>a</code> alone</li>" in html
    assert "<li>one ` only</li>" in html


def test_cells_of_a_wide_table_have_their_heads() -> None:
    """On a narrow screen each row is a list."""
    rows = [[str(k) for k in range(7)]]
    wide, narrow = (Table(title="t", head=[f"h{k}" for k in range(n)], rows=[rows[0][:n]]) for n in (7, 6))
    assert [cell.get("data-head") for cell in Document(render_page(page(wide))).all("td")] == list(wide.head)
    assert not any("data-head" in cell for cell in Document(render_page(page(narrow))).all("td"))


def test_a_broken_kernel(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "report.html"
    with edit(vmlinux) as elf:
        call_in_second_slot(elf)
    said = tool("verify", vmlinux, "--format", "html", "-o", out, status=1).err
    assert said.splitlines()[-1].startswith(f"{out}: 1 file: ")
    document = Document(out.read_text())
    for said in (
        "PL201 site-not-pair", "nop", "Why it is unsafe", "PL404: input: flat Image (not given)",
        f"prologue verify {vmlinux} --format html -o {out}",
    ):  # fmt: skip
        assert said in document.text
    assert {"class": "badge failed"} in document.all("span")


def test_what_was_checked_and_what_was_not() -> None:
    judged = [
        file("vmlinux", NATIVE, finding(), finding(WARN), ignore=("PL303",)),
        file("a.ko", MODULE, replace(finding(ERROR, path="a.ko"), follows_from=("PL203",)), inputs="K"),
        gone("b.ko"),
    ]
    html = render_page(verify_page(judge(judged, release=False, require=None, notes=["vmlinux: a note"]), ["prologue"]))
    text = re.sub(r"\s+", " ", Document(html).text)
    for said in (
        "could not be verified: b.ko: no such file",
        f"PL303 {find_rule('PL303').slug}: ignored by the command line, for 1 file",
        "PL501, ", "input: live text (prologue live audit)", "vmlinux: a note", "43,880",
    ):  # fmt: skip
        assert said in text


def test_it_loads_nothing() -> None:
    document = Document(render_page(page(BulletList(title="BulletList", lines=["https://example.org"]))))
    places = [value for _, attributes in document.elements for name, value in attributes.items() if name in _LOADED]
    assert places
    assert all(place is not None and place.startswith(("#", "data:")) for place in places)
    (policy,) = [meta["content"] for meta in document.all("meta") if meta.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


_LOADED = ("src", "srcset", "href", "action", "data", "poster")


@pytest.mark.thorough
@given(NASTY)
def test_names_are_text(text: str) -> None:
    parts = (
        Table(title=text, head=(text,), rows=[(text,)], folded=True, note=text),
        BulletList(title=text, lines=[text], plain=True),
    )
    safe = "<script>alert(1)</script>"
    wanted = [name for name, _ in Document(render_page(page(*_like(parts, safe), title=safe))).elements]
    html = render_page(page(*parts, title=text))
    assert [name for name, _ in Document(html).elements] == wanted
    html.encode()


def _like(parts: tuple[Table, BulletList], text: str) -> tuple[Table, BulletList]:
    table, lines = parts
    return replace(table, title=text, head=(text,), rows=[(text,)], note=text or "note" if table.note else ""), replace(
        lines, title=text, lines=[text]
    )


@pytest.mark.thorough
def test_4351_modules_that_break_many_rules() -> None:
    of_modules = [rule for rule in RULES if "K" in rule.inputs][:6]
    judged = []
    for k in range(4351):
        path = f"/build/tree/debian/modules/lib/modules/6.12.117/kernel/drivers/some/vendor/{k}.ko"
        found = [finding(rule, path=path, message=f"a message of some length, number {k}") for rule in of_modules]
        judged.append(file(path, MODULE, *found, inputs="K"))
    html = render_page(verify_page(judge(judged, release=False, require=None, notes=[]), ["prologue"]))
    assert len(html.encode()) < 5_000_000  # CI servers and mail take that much
    document = Document(html)
    assert len(document.all("tr")) > 4351
    assert "which --json has" in document.text


def test_without_jinja(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    said = tool("verify", "vmlinux", "--format", "html", status=2)
    assert said.out == ""
    assert said.err.startswith("prologue: reports as HTML need Jinja2, which is not installed: pip install ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("rule", one_quick(FATAL, ERROR, WARN))
def test_a_page_is_the_same_each_time(rule: object) -> None:
    verdict = judge([file("vmlinux", NATIVE, finding(rule))], release=False, require=None, notes=[])  # type: ignore[arg-type]  # of made_findings
    assert render_page(verify_page(verdict, ["prologue"])) == render_page(verify_page(verdict, ["prologue"]))
