"""docs/rules is what the rules say, for all of them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import prologue
from prologue.insn.disasm import insn_text
from prologue.report.rule_page import index_page, main, rule_page, stale_pages, write_pages
from prologue.rules.registry import RULES, find_rule

DOCS = Path(prologue.__file__).parent.parent / "docs" / "rules"


def test_docs_are_up_to_date() -> None:
    assert stale_pages(DOCS) == [], "run `python -m prologue.report.rule_page docs/rules`"


def test_every_rule_has_a_page() -> None:
    for rule in RULES:
        page = (DOCS / f"{rule.code}-{rule.slug}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {rule.code} {rule.slug}\n")
        titles = ["What it finds", "Why it is unsafe", "Example", "How to fix", "Source"]
        assert re.findall(r"^## (.+)$", page, re.MULTILINE) == titles, rule.code
        for text in (rule.what, rule.why, rule.example, rule.fix[1:], rule.citation):
            assert text in page
        assert [f"{word:08x}" for word in rule.words if f"\n{word:08x}  " not in page] == [], rule.code
        assert page.count("```") in (2, 4), rule.code
        assert f"Severity: {rule.severity}." in page


def test_the_index_links_to_existing_pages() -> None:
    links = re.findall(r"\]\(([^)]+)\)", index_page(RULES))
    assert len(links) == len(RULES)
    assert all((DOCS / link).is_file() for link in links)


def test_words_are_disassembled() -> None:
    words = (0xD503245F, 0xAA1E03E9, 0x54000040, 0xFFFFFFFF)
    page = rule_page(dataclasses.replace(find_rule("PL203"), words=words))
    listing = page.split("```text\n")[2].split("\n```")[0]
    texts = [insn_text(word, 4 * k) for k, word in enumerate(words)]
    assert listing.splitlines() == [f"{word:08x}  {text}" for word, text in zip(words, texts, strict=True)]
    assert "d503245f  bti c" in listing
    assert "54000040  b.eq #0x10" in listing


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "docs" / "rules"
    assert len(stale_pages(directory)) == len(RULES) + 1
    written = write_pages(directory)
    assert sorted(written) == sorted(directory.iterdir())
    assert stale_pages(directory) == []
    (directory / "PL999-gone.md").touch()
    (directory / "notes.md").touch()  # not ours, left alone
    (directory / "README.md").unlink()
    (directory / "PL203-site-after-bti-broken.md").write_bytes(b"other")
    assert stale_pages(directory) == ["README.md", "PL203-site-after-bti-broken.md", "PL999-gone.md"]
    assert main([str(directory), "--check"]) == 1
    assert "PL999-gone.md: stale" in capsys.readouterr().out
    assert main([str(directory)]) == 0
    assert main([str(directory), "--check"]) == 0
    assert (directory / "notes.md").exists()
    assert not (directory / "PL999-gone.md").exists()
