"""Options of the command line for each form of a report."""

from __future__ import annotations


def as_format(form: str) -> list[str]:
    """Return the options that choose a form: JSON has its own."""
    return ["--json"] if form == "json" else ["--format", form]
