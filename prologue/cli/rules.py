"""``prologue rules`` and ``prologue explain``."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from typing import Final

from prologue.cli.arguments import add_json
from prologue.cli.subcommands import Subcommand
from prologue.gate.refusal import GATE_RULES
from prologue.rules.base import INPUTS
from prologue.rules.registry import RULES, find_rule, select_rules

SCHEMA: Final = "prologue.rules/1"


def add_list_options(command: Subcommand) -> None:
    """Give ``rules`` its options."""
    add_json(command, "rules")


def add_explain_options(command: Subcommand) -> None:
    """Give ``explain`` its options."""
    command.add_argument("rule", metavar="CODE|SLUG", help="such as PL202 or site-not-pair; PL2 is a group")


def run_list(args: Namespace) -> int:
    """List all rules."""
    if args.json:
        fields = ("code", "slug", "severity", "inputs", "what", "why", "example", "words", "fix", "citation")
        rules = [{field: getattr(rule, field) for field in fields} for rule in RULES]
        print(json.dumps({"schema": SCHEMA, "rules": rules}, indent=2))
        return 0
    from prologue.report.lines import table_lines

    # What the gate itself refuses is explained like a rule, but cannot be selected or ignored.
    rows = [(r.code, r.slug, "".join(r.inputs), r.severity) for r in (*RULES, *GATE_RULES)]
    print("\n".join(table_lines(rows, ("code", "slug", "on", "severity"))))
    return 0


def run_explain(args: Namespace) -> int:
    """Explain one rule, or a refusal of the gate; of a group, what each of its rules finds."""
    import textwrap

    if re.fullmatch(r"PL\d?", args.rule, re.IGNORECASE):
        return _explain_group(args.rule)

    refusals = {name.lower(): rule for rule in GATE_RULES for name in (rule.code, rule.slug)}
    rule = refusals.get(args.rule.lower()) or find_rule(args.rule)
    print(f"{rule.code} {rule.slug} ({rule.severity}; {', '.join(INPUTS[kind] for kind in rule.inputs)})")
    parts = (
        ("finds", rule.what),
        ("unsafe", rule.why),
        ("example", rule.example),
        ("to do", rule.fix),
        ("source", rule.citation),
    )
    for title, text in parts:
        print("\n" + textwrap.fill(text, 88, initial_indent=f"{title + ':':<9}", subsequent_indent=" " * 9))
        if title == "example" and rule.words:
            from prologue.report.rule_page import insn_lines

            for line in insn_lines(rule.words):
                print(f"{'':<9}  {line}")
    return 0


def _explain_group(name: str) -> int:
    import textwrap

    for rule in select_rules((name,), ()):
        print(f"{rule.code} {rule.slug} ({rule.severity}; {', '.join(INPUTS[kind] for kind in rule.inputs)})")
        print(textwrap.fill(rule.what, 88, initial_indent="    ", subsequent_indent="    "))
    print("\nprologue explain CODE says why, and what to do.")
    return 0
