"""Links between pages lead somewhere, no page is linked from nowhere, messages that a page explains exist; the site."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prologue
from tests.support.needs import needs_dev_module

ROOT = Path(prologue.__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
# The rooms of the code.
LONG = {"architecture.md"}
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """File and anchor of each link of a page into the repository; code is left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]
    return [((page.parent / path).resolve() if path else page, anchor)
            for path, _, anchor in (target.partition("#") for target in targets)]  # fmt: skip


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ +(.+?)\s*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    found = [(page, file, anchor) for page in PAGES for file, anchor in links(page)]
    assert [f"{page}: {file}" for page, file, _ in found if not file.exists()] == []
    lost = [f"{page}: {file}#{anchor}" for page, file, anchor in found if anchor and anchor not in anchors(file)]
    assert lost == []


def test_a_page_can_be_read_to_the_end() -> None:
    """Figures go to docs/evidence, reasons to docs/decisions, and what an option means to its help."""
    words = {
        path.name: sum(bool(re.search(r"\w", word)) for word in path.read_text().split()) for path in DOCS.glob("*.md")
    }
    assert {name for name, count in words.items() if count > 1500} <= LONG


def test_every_page_is_reached_from_the_first_one() -> None:
    seen, front = set[Path](), [ROOT / "README.md"]
    while front:
        page = front.pop()
        if page not in seen:
            seen.add(page)
            front += [file for file, _ in links(page) if file.suffix == ".md"]
    assert len(seen) > len(list(DOCS.glob("*.md")))
    # Decisions are read by who changes the code: their directory is named, not each of them.
    assert sorted(set(PAGES) - seen - set((DOCS / "decisions").iterdir())) == []


def test_messages_that_troubleshooting_explains_exist() -> None:
    sources = [*Path(prologue.__file__).parent.rglob("*.py"), ROOT / "prologue" / "kernel_tree" / "Makefile.postlink"]
    # Messages are put together from literals: without quotation marks, line ends and placeholders they are one text.
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    rows = re.findall(
        r"^\| ((?:``? ?)?`.+?`) \|", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) >= 15
    for row in rows:
        parts = [part.strip(" :=") for part in row.strip("`").split("...")]
        assert [part for part in parts if part and part not in code] == [], row


@pytest.mark.thorough
def test_the_site_has_every_page_and_every_public_name() -> None:
    needs_dev_module("mkdocs")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / ".ci" / "site")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    site = ROOT / "build" / "site" / "html"
    made = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert {path for path in pages if path.name != "README"} - made == set()
    api = (site / "api.html").read_text(encoding="utf-8")
    ids = {name.rsplit(".", 1)[1] for name in re.findall(r'id="(prologue\.[\w.]+)"', api)}
    assert set(prologue.__all__) - ids == set()
    loaded = re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*?(?:src|href)="(https?:[^"]*)', api)
    assert loaded == []
