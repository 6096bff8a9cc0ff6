"""Kernels of several links side by side: one table for a mail, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Final

from prologue_bench.analysis.links import Links
from prologue_bench.report import words
from prologue_bench.report.layout import command_lines, mail, markdown_table, text_table, wrapped

SCHEMA: Final = "prologue.bench-links/1"
_INSIDE: Final = " in ftrace_init"
_SHORT: Final = {"text words written": "text words"}
_TITLE: Final = "what a boot does, kernels of several links; counts, lower is better"
_MEANING: Final = (
    "Instructions from reset to init, and in ftrace_init with all that it calls; there also words of 4 bytes written "
    "to text (a CALL_OPS literal is two, and data), and instructions that maintain caches and TLBs or wait for that."
)
_NOT_ONE_LINK: Final = (
    "These kernels are not of one link. Counts of a boot hardly depend on layout; times would, and counts of "
    "workloads depend on the scheduler's clock: compare those within one link."
)
_EXACT: Final = (
    "exact evidence: every count was taken at least twice, and all were equal. NOP and MOV both count 1, a cache or "
    "TLB instruction too, whatever it costs on a machine."
)


def to_text(links: Links, command: Sequence[str]) -> str:
    """The table as plain text, in two parts where it is too wide for one; ``command`` is what makes it again."""
    lines = [*wrapped(_TITLE), *wrapped(_kernel(links)), ""]
    for head, rows in _parts(links):
        lines += [*text_table(head, rows, range(1, len(head))), ""]
    for sentence in _foot(links):
        lines += wrapped(sentence)
    return "\n".join([*lines, *command_lines(["$", *command])]) + "\n"


def to_markdown(links: Links, command: Sequence[str]) -> str:
    """The same in Markdown, as one table."""
    (head, rows), (more, others) = _parts(links)
    whole = [[*row, *other[1:]] for row, other in zip(rows, others, strict=True)]
    head = [*head, *more[1:]]
    lines = [f"### {_TITLE}", "", mail(_kernel(links)), "", *markdown_table(head, whole, range(1, len(head))), ""]
    lines += [*(f"- {mail(sentence)}" for sentence in _foot(links)), "", "```", *command_lines(command), "```"]
    return "\n".join(lines) + "\n"


def to_csv(links: Links) -> str:
    """One row for each kernel."""
    stream = io.StringIO()
    names = [measure.name for measure in links.measures]
    writer = csv.DictWriter(stream, ("kernel", "variant", "build_id", *names), lineterminator="\n")
    writer.writeheader()
    for row in links.rows:
        writer.writerow({"kernel": row.label, "variant": row.variant, "build_id": row.build_id, **row.counts})
    return stream.getvalue()


def to_json(links: Links) -> str:
    """All counts; described in docs/json.md."""
    document = {
        "schema": SCHEMA,
        "evidence": "exact",
        "machine": dict(links.machine),
        "release": links.release,
        "layout": links.layout,
        "measures": [{"name": measure.name, "unit": measure.unit} for measure in links.measures],
        "kernels": [
            {"label": row.label, "variant": row.variant, "build_id": row.build_id, "counts": dict(row.counts)}
            for row in links.rows
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _kernel(links: Links) -> str:
    return f"kernel {links.release}, layout {links.layout}"


def _parts(links: Links) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Instructions with their differences from the first kernel; then everything else."""
    names = [measure.name for measure in links.measures]
    spans = [name for name in names if not name.endswith(_INSIDE)]
    others = [name for name in names if name.endswith(_INSIDE)]
    first = links.rows[0].counts
    head, rows = ["instructions"], [[row.label] for row in links.rows]
    for name in spans:
        head += [name, "change"]
        for cells, row in zip(rows, links.rows, strict=True):
            change = row.counts[name] - first[name]
            cells += [f"{row.counts[name]:,}", "" if row is links.rows[0] else f"{change:+,}" if change else "0"]
    yield head, rows
    short = [name.removesuffix(_INSIDE) for name in others]
    head = ["in ftrace_init", *(_SHORT.get(name, name) for name in short)]
    yield head, [[row.label, *(f"{row.counts[name]:,}" for name in others)] for row in links.rows]


def _foot(links: Links) -> Iterator[str]:
    yield from (_MEANING, _NOT_ONE_LINK, _EXACT)
    if machine := words.facts("machine", links.machine):
        yield machine
