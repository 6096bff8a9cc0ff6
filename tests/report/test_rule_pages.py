"""docs/rules is what the rules say, for all of them."""

from __future__ import annotations

import dataclasses
import re

from prologue.insn.disasm import insn_text
from prologue.report.rule_page import rule_page
from prologue.rules.registry import RULES, find_rule
from tests.support.rule_pages import DIRECTORY, pages


def test_docs_are_up_to_date() -> None:
    made = pages()
    assert {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.iterdir()} == made, "run `make docs`"
    assert len(made) == len(RULES) + 1
    assert set(re.findall(r"\]\(([^)]+)\)", made["README.md"])) == made.keys() - {"README.md"}


def test_every_rule_has_a_page() -> None:
    for rule in RULES:
        page = (DIRECTORY / f"{rule.code}-{rule.slug}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {rule.code} {rule.slug}\n")
        titles = ["What it finds", "Why it is unsafe", "Example", "How to fix", "Source"]
        assert re.findall(r"^## (.+)$", page, re.MULTILINE) == titles, rule.code
        for text in (rule.what, rule.why, rule.example, rule.fix[1:], rule.citation):
            assert text in page
        assert [f"{word:08x}" for word in rule.words if f"\n{word:08x}  " not in page] == [], rule.code
        assert page.count("```") in (2, 4), rule.code
        assert f"Severity: {rule.severity}." in page


def test_words_are_disassembled() -> None:
    words = (0xD503245F, 0xAA1E03E9, 0x54000040, 0xFFFFFFFF)
    page = rule_page(dataclasses.replace(find_rule("PL203"), words=words))
    listing = page.split("```text\n")[2].split("\n```")[0]
    texts = [insn_text(word, 4 * k) for k, word in enumerate(words)]
    assert listing.splitlines() == [f"{word:08x}  {text}" for word, text in zip(words, texts, strict=True)]
    assert "d503245f  bti c" in listing
    assert "54000040  b.eq #0x10" in listing
