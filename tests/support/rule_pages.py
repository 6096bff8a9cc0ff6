"""The pages of docs/rules, one for each rule and the index: ``python -m tests.support.rule_pages`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prologue.report.rule_page import inputs, page_name, rule_page
from prologue.rules.engine import DECIDING
from prologue.rules.registry import RULES

MADE: Final = "<!-- Made by `python -m tests.support.rule_pages`: change the rule, not this file. -->\n"
DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "rules"
_GROUPS: Final = """\
PL1: records. PL2: patch sites. PL3: code and data around them. PL4: what the build left behind. PL5: a kernel that
runs, or ran: recorded writes are judged by `prologue writes judge`, all else by `prologue live audit`.

*fatal* and *error* fail, *warn* fails with `verify --release`, *info* never does; a rule may give less where it cannot
be sure, and its page says so. `prologue patch` refuses a file that violates a rule of the last column. In a release,
only rules of PL3 can be ignored. GATE and REQUIRE are findings of `verify` about the whole file: no release, or not in
the state that was asked for.
"""


def pages() -> dict[str, str]:
    """All files: names and contents."""
    rows = [
        f"| [{rule.code}]({page_name(rule)}) | {rule.slug} | {inputs(rule)} | {rule.severity} "
        f"| {'yes' if rule in DECIDING else ''} |"
        for rule in RULES
    ]
    table = "\n".join(["| code | name | looks at | severity | `patch` refuses |", "|---|---|---|---|---|", *rows])
    index = f"# Rules\n\n{_GROUPS}\n{table}\n\n{MADE}"
    return {"README.md": index} | {page_name(rule): f"{rule_page(rule)}\n{MADE}" for rule in RULES}


if __name__ == "__main__":
    for path in DIRECTORY.glob("*.md"):  # those of removed rules, too
        path.unlink()
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
