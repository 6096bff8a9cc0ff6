"""A rule as a page of the documentation, and the instructions of its example."""

from __future__ import annotations

from prologue.rules.base import FINISH, INPUTS, Rule


def rule_page(rule: Rule) -> str:
    """Make the Markdown page of a rule."""
    example = f"```text\n{rule.example}\n```"
    if rule.words:
        example += "\n".join(["\n\n```text", *insn_lines(rule.words), "```"])
    fix = f"{rule.fix[0].upper()}{rule.fix[1:]}."
    fix += f" In a module: {rule.fix_of_module}." if rule.fix_of_module else ""
    fix += f" If an interrupted run left the file: {FINISH}." if rule.open_while_unfinished else ""
    sections = (
        ("What it finds", rule.what),
        ("Why it is unsafe", rule.why),
        ("Example", example),
        ("How to fix", fix),
        ("Source", rule.citation),
    )
    head = f"# {rule.code} {rule.slug}\n\nSeverity: {rule.severity}. Looks at: {inputs(rule)}.\n"
    return "\n".join([head, *(f"## {title}\n\n{text}\n" for title, text in sections)])


def inputs(rule: Rule) -> str:
    """Name what the rule looks at."""
    return ", ".join(INPUTS[kind] for kind in rule.inputs)


def insn_lines(words: tuple[int, ...], start: int = 0) -> list[str]:
    """Return a line for each instruction from address ``start`` on: its word, and its text."""
    from prologue.insn.disasm import insn_text

    return [f"{word:08x}  {insn_text(word, start + 4 * k)}" for k, word in enumerate(words)]


def page_name(rule: Rule) -> str:
    """Return the name of a rule's page in ``docs/rules``."""
    return f"{rule.code}-{rule.slug}.md"
