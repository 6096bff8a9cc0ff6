"""A comparison as a page: tables, verdicts, the picture, and how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from prologue.report.html.page import BulletList, Page, PagePart, Picture, Table, render_page
from prologue.report.pictures import PictureLook
from prologue_bench.analysis.compare import Report, WorkloadReport
from prologue_bench.report import plots
from prologue_bench.report.text import comparison_table, foot, heading, sentences


def to_html(report: Report, command: Sequence[str]) -> str:
    """Write the report as one HTML file; ``command`` is what makes it again."""
    campaign = report.results.campaign
    parts: list[PagePart] = [_table(part, report.margin) for part in report.workloads]
    verdicts = [
        f"{part.workload.name}: {sentence}" for part in report.workloads for sentence in sentences(part, report.margin)
    ]
    if verdicts:
        parts.insert(0, BulletList(title="Verdicts", lines=verdicts))
    if report.first_lines:
        parts.insert(0, BulletList(title="Read this first", lines=list(report.first_lines)))
    parts.append(_picture(report))
    parts.append(BulletList(title="What was measured, and what was not", lines=[*campaign.same_link, *foot(report)]))
    facts = [*campaign.machine.items(), *campaign.kernel.items()]
    if facts:
        rows = [(name, str(value)) for name, value in facts]
        parts.append(Table(title="Machine and kernel", head=("fact", "value"), rows=rows))
    if campaign.command:
        parts.append(BulletList(title="Recorded by", lines=[campaign.command], plain=True))
    names = ", ".join(part.workload.name for part in report.workloads)
    variants = ", ".join(variant.label for variant in campaign.variants)
    return render_page(
        Page(
            title="prologue bench compare",
            subject=names,
            outcome="",
            summary=f"{variants}; {campaign.evidence} evidence",
            parts=parts,
            command=command,
        )
    )


def _table(part: WorkloadReport, margin: float) -> Table:
    head, rows, numbers = comparison_table(part, margin)
    command = "" if part.workload.command == part.workload.name else f"$ {part.workload.command}"
    return Table(title=heading(part.workload), head=head, rows=rows, numbers=numbers, note=command)


def _picture(report: Report) -> Picture:
    light, dark = (plots.svg(report, PictureLook(dark=dark, notes=False)) for dark in (False, True))
    words = "Every sample of every variant, and each difference with its interval; the tables have the numbers."
    return Picture(title="Samples and differences", light=light, dark=dark, words=words)
