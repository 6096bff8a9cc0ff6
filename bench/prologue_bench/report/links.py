"""Kernels of several links side by side: one table for a mail, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from prologue_bench.analysis.links import Links
from prologue_bench.report import words
from prologue_bench.report.layout import command_lines, markdown, markdown_table, text_table, wrapped

SCHEMA: Final = "prologue.bench-links/1"
_INSIDE: Final = " in ftrace_init"
_FTRACE_INIT: Final = "ftrace_init"
_RELOCATION: Final = "relocation"
_MAINTENANCE: Final = ("DC", "IC", "TLBI", "DSB", "ISB")
_SHORT: Final = {
    "text words written": "text words",
    "first slots written": "first slots",
    "text lines read": "lines read",
    "text lines written": "lines written",
}
_TITLE: Final = "what a boot does, kernels of several links; counts, lower is better"
_MEANING: Final = (
    "Instructions from reset to init, in ftrace_init with all that it calls, and of the relocation of the kernel, "
    "which takes longer for every mcount record that has a relocation; both is the sum of the last two. In "
    "ftrace_init also words of 4 bytes written to text (a CALL_OPS literal is two, and data; a first slot is one), "
    "lines of 64 bytes of text read or written, and instructions that maintain caches and TLBs or wait for that."
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
    """Write the table as plain text, in two parts if it is too wide for one; ``command`` makes it again."""
    lines = [*wrapped(_TITLE), *wrapped(_kernel(links)), ""]
    for head, rows in _parts(links):
        lines += [*text_table(head, rows, range(1, len(head))), ""]
    for sentence in _foot(links):
        lines += wrapped(sentence)
    return "\n".join([*lines, *command_lines(["$", *command])]) + "\n"


def to_markdown(links: Links, command: Sequence[str]) -> str:
    """Write the same in Markdown, as one table."""
    (head, whole), *others = _parts(links)
    for more, rows in others:
        head += more[1:]
        whole = [[*cells, *row[1:]] for cells, row in zip(whole, rows, strict=True)]
    lines = [f"### {_TITLE}", "", markdown(_kernel(links)), "", *markdown_table(head, whole, range(1, len(head))), ""]
    lines += [*(f"- {markdown(sentence)}" for sentence in _foot(links)), "", "```", *command_lines(command), "```"]
    return "\n".join(lines) + "\n"


def to_json(links: Links) -> str:
    """Write all counts; described in docs/json.md."""
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
    """Split off instructions with their differences from the first kernel; then the rest, a narrow table each."""
    names = [measure.name for measure in links.measures]
    spans = [name for name in names if not name.endswith(_INSIDE) and name != _RELOCATION]
    yield _with_changes(links, "instructions", {name: _counts(links, name) for name in spans})
    if _RELOCATION in names:
        relocation = _counts(links, _RELOCATION)
        sums = [a + b for a, b in zip(relocation, _counts(links, _FTRACE_INIT), strict=True)]
        yield _with_changes(links, "instructions", {_RELOCATION: relocation, "both": sums})
    others = {name.removesuffix(_INSIDE): _counts(links, name) for name in names if name.endswith(_INSIDE)}
    for maintains in (False, True):
        part = {
            _SHORT.get(name, name): counts for name, counts in others.items() if (name in _MAINTENANCE) == maintains
        }
        cells = [[f"{count:,}" for count in counts] for counts in part.values()]
        rows = [[row.label, *numbers] for row, *numbers in zip(links.rows, *cells, strict=True)]
        if part:
            yield ["in ftrace_init", *part], rows


def _counts(links: Links, name: str) -> list[int]:
    return [row.counts[name] for row in links.rows]


def _with_changes(links: Links, corner: str, columns: dict[str, list[int]]) -> tuple[list[str], list[list[str]]]:
    """Add a column after each one, of differences from its first number."""
    head, rows = [corner], [[row.label] for row in links.rows]
    for name, (base, *_) in columns.items():
        head += [name, "change"]
        for k, (cells, number) in enumerate(zip(rows, columns[name], strict=True)):
            change = number - base
            cells += [f"{number:,}", "" if not k else f"{change:+,}" if change else "0"]
    return head, rows


def _foot(links: Links) -> Iterator[str]:
    yield from (_MEANING, _NOT_ONE_LINK, _EXACT)
    if machine := words.facts("machine", links.machine):
        yield machine
