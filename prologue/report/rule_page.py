"""Pages of the documentation, one for each rule: generated from the rules, so that both agree."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from prologue.rules.base import FINISH, INPUTS, Rule
from prologue.rules.engine import DECIDING
from prologue.rules.registry import RULES

_INDEX: Final = "README.md"
_GROUPS: Final = """\
PL1: records. PL2: patch sites. PL3: code and data around them. PL4: what the build left behind. PL5: a kernel that
runs, or ran: recorded writes are judged by `prologue writes judge`, all else by `prologue live audit`.

*fatal* and *error* fail, *warn* fails with `verify --release`, *info* never does; a rule may give less where it cannot
be sure, and its page says so. `prologue patch` refuses a file that violates a rule of the last column. In a release,
only rules of PL3 can be ignored. GATE and REQUIRE are findings of `verify` about the whole file: no release, or not in
the state that was asked for.
"""
_MADE: Final = "Made by `python -m prologue.report.rule_page`: change the rule, not this file."


def rule_page(rule: Rule) -> str:
    """Make the Markdown page of a rule."""
    example = f"```text\n{rule.example}\n```"
    if rule.words:
        example += "\n".join(["\n\n```text", *insn_lines(rule.words), "```"])
    sections = (
        ("What it finds", rule.what),
        ("Why it is unsafe", rule.why),
        ("Example", example),
        ("How to fix", _fix(rule)),
        ("Source", rule.citation),
    )
    head = f"# {rule.code} {rule.slug}\n\nSeverity: {rule.severity}. Looks at: {_inputs(rule)}.\n"
    return "\n".join([head, *(f"## {title}\n\n{text}\n" for title, text in sections), f"<!-- {_MADE} -->\n"])


def index_page(rules: tuple[Rule, ...]) -> str:
    """Make the Markdown table of all rules, each linked to its page."""
    rows = [
        f"| [{rule.code}]({page_name(rule)}) | {rule.slug} | {_inputs(rule)} | {rule.severity} "
        f"| {'yes' if rule in DECIDING else ''} |"
        for rule in rules
    ]
    table = "\n".join(["| code | name | looks at | severity | `patch` refuses |", "|---|---|---|---|---|", *rows])
    return f"# Rules\n\n{_GROUPS}\n{table}\n\n<!-- {_MADE} -->\n"


def _inputs(rule: Rule) -> str:
    return ", ".join(INPUTS[kind] for kind in rule.inputs)


def insn_lines(words: tuple[int, ...], start: int = 0) -> list[str]:
    """Return a line for each instruction from address ``start`` on: its word, and its text."""
    from prologue.insn.disasm import insn_text

    return [f"{word:08x}  {insn_text(word, start + 4 * k)}" for k, word in enumerate(words)]


def page_name(rule: Rule) -> str:
    """Return the name of a rule's page in ``docs/rules``."""
    return f"{rule.code}-{rule.slug}.md"


def _pages() -> dict[str, str]:
    """Make all files: names and contents."""
    return {_INDEX: index_page(RULES)} | {page_name(rule): rule_page(rule) for rule in RULES}


def write_pages(directory: Path) -> list[Path]:
    """Write all pages, remove those of removed rules, return the paths of the written ones."""
    pages = _pages()
    directory.mkdir(parents=True, exist_ok=True)
    for name in _surplus(directory, pages):
        (directory / name).unlink()
    for name, text in pages.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in pages]


def stale_pages(directory: Path) -> list[str]:
    """Return the names of pages that are missing, differ, or belong to no rule."""
    pages = _pages()
    wrong = [
        name
        for name, text in pages.items()
        if not (directory / name).is_file() or (directory / name).read_bytes() != text.encode()
    ]
    return wrong + _surplus(directory, pages)


def _surplus(directory: Path, pages: dict[str, str]) -> list[str]:
    return sorted(path.name for path in directory.glob("PL*.md") if path.name not in pages)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or with ``--check`` report which are stale; 1 if any is."""
    parser = argparse.ArgumentParser(prog="python -m prologue.report.rule_page", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is stale")
    options = parser.parse_args(arguments)
    if not options.check:
        print(f"{options.directory}: {len(write_pages(options.directory))} pages")
        return 0
    stale = stale_pages(options.directory)
    for name in stale:
        print(f"{options.directory / name}: stale: run python -m prologue.report.rule_page {options.directory}")
    return 1 if stale else 0


def _fix(rule: Rule) -> str:
    text = f"{rule.fix[0].upper()}{rule.fix[1:]}."
    text += f" In a module: {rule.fix_of_module}." if rule.fix_of_module else ""
    return f"{text} If an interrupted run left the file: {FINISH}." if rule.open_while_unfinished else text


if __name__ == "__main__":
    raise SystemExit(main())
