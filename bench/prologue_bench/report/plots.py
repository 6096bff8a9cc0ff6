"""The picture of a comparison: one row for each workload, samples on the left, differences on the right.

Both halves share their lines, one for each variant. On the left every run is a point: its place across is its value,
its place down is its boot, so drift from boot to boot can be seen. Colours are those of Okabe and Ito.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from prologue.outputs import new_file
from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport, faster_or
from prologue_bench.analysis.series import Series
from prologue_bench.analysis.stats import outliers
from prologue_bench.errors import BenchError
from prologue_bench.report import words
from prologue_bench.report.layout import mail

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_COLOURS: Final = ("#4d4d4d", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_BAND: Final = "#dce9f2"
_LINE: Final = 0.85  # inches for each variant
_AROUND: Final = 1.25  # inches for title and axis of each workload
_LEGEND: Final = 0.5  # inches below everything, with the legend
_FOOT: Final = 0.185  # inches for each line of notes below that
_WIDTH: Final = 11.0
_SPREAD: Final = 0.62  # of a variant's line that its boots fill
_MANY: Final = 5000  # points from which on an SVG holds them as a bitmap
_STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,  # a label is no formula
    "svg.hashsalt": "prologue",  # the same picture is the same file
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Behind words, so that lines do not run through them.
_PLATE: Final = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "boxstyle": "square,pad=0.12"}
_SUFFIXES: Final = (".png", ".svg")


def suffix_of(path: Path) -> str:
    """The kind of picture.

    Raises:
        BenchError: none that we draw.

    """
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise BenchError(f"{path}: the picture's name must end in {' or '.join(_SUFFIXES)}")
    return suffix


def save(report: Report, path: Path) -> None:
    """Draw the report into a file, whole or not at all.

    Raises:
        BenchError: not a kind of picture that we draw.
        OutputError: it cannot be written.

    """
    suffix = suffix_of(path)
    with new_file(path) as temporary, mpl.rc_context(_STYLE):
        # Neither the date nor the version: the same picture is the same file.
        metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
        draw(report).savefig(temporary, format=suffix[1:], dpi=130, metadata=metadata)


def draw(report: Report) -> Figure:
    """The picture, not yet in a file."""
    rows = report.workloads
    heights = [_AROUND + _LINE * len(row.series) for row in rows]
    notes = _notes(report)
    below = _LEGEND + _FOOT * len(notes)
    figure = Figure(figsize=(_WIDTH, sum(heights) + below), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[sum(heights), below])[:, 0]
    grid = upper.subplots(len(rows), 2, squeeze=False, width_ratios=[1.25, 1], height_ratios=heights)
    for row, (left, right) in zip(rows, grid, strict=True):
        _draw_samples(left, row)
        _draw_differences(right, row, report)
    marks = _legend(report)
    lower.legend(
        handles=marks, loc="upper center", ncols=len(marks), frameon=False, handlelength=1.5, columnspacing=1.2
    )
    top = 1 - (_LEGEND - 0.1) / below
    lower.text(0.012, top, "\n".join(notes), fontsize=8, color="#333333", va="top", linespacing=1.35)
    return figure


def _notes(report: Report) -> list[str]:
    results = report.results
    limits, facts = words.limits(results.campaign), words.setup_facts(results.campaign)
    lines = [*limits, words.design(results), *words.caveats(report), *facts]
    return [part for line in lines for part in textwrap.wrap(mail(line), 165)]


def _legend(report: Report) -> list[Artist]:
    marks: list[Artist] = [_dot("one run", "o", 4, 0.5)]
    median = Line2D([], [], color="#333333", linewidth=2, label="median")
    if report.results.campaign.evidence == "exact":
        return [*marks, median]
    if report.results.boots_known:
        marks.append(_dot("median of a boot", "|", 8, 1.0))
    marks += [_dot("outlier, kept", "o", 7, 1.0, hollow=True), median]
    if report.results.campaign.evidence == "timing":
        marks.append(_dot("change, 95% interval", "D", 6, 1.0))
        beyond = any(_reach(row, report.margin) < report.margin for row in report.workloads)
        wider = " (wider than shown)" if beyond else ""
        marks.append(Patch(color=_BAND, label=f"margin +-{words.margin_of(report.margin)}{wider}"))
    if any(row.floor is not None for row in report.workloads):
        marks.append(Line2D([], [], color="#333333", linestyle=":", label="A/A floor"))
    return marks


def _dot(label: str, marker: str, size: float, alpha: float, *, hollow: bool = False) -> Line2D:
    face = "none" if hollow else "#333333"
    return Line2D(
        [], [], color="#333333", marker=marker, markersize=size, alpha=alpha, linestyle="", label=label,
        markerfacecolor=face,
    )  # fmt: skip


def _draw_samples(axes: Axes, row: WorkloadReport) -> None:
    workload = row.workload
    axes.set_title(mail(f"{workload.name}: {workload.unit}, {workload.direction} is better"), loc="left", weight="bold")
    for line, series in enumerate(row.series):
        _draw_series(axes, series, line, _COLOURS[line % len(_COLOURS)])
    axes.set_yticks(range(len(row.series)), ["\n".join(textwrap.wrap(mail(s.label), 22)) for s in row.series])
    axes.set_ylim(len(row.series) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(mail(workload.unit) + (", by boot: first on top" if row.series[0].boots_known else ""))
    _number_axis(axes, float(max(s.pooled.max() for s in row.series)))
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)


def _number_axis(axes: Axes, most: float) -> None:
    if most >= 10_000:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    else:
        axes.ticklabel_format(axis="x", useOffset=False)


def _draw_series(axes: Axes, series: Series, line: int, colour: str) -> None:
    values = series.pooled
    if series.boots_known:
        places = _places(len(series.boots), line)
        down = np.repeat(places, [len(runs) for runs in series.runs])
        if len(series.boots) < len(values):  # else a boot's median is its only run
            axes.plot(series.medians, places, "|", color=colour, markersize=_tick(len(places)), markeredgewidth=1.4,
                      zorder=3, rasterized=len(values) > _MANY)  # fmt: skip
    else:
        down = _places(len(values), line)
    faint = float(np.clip(30 / len(values) ** 0.5, 0.08, 0.55))
    size = 4.5 if len(values) <= 1000 else 2.5 if len(values) <= 10_000 else 1.5
    axes.plot(values, down, "o", color=colour, markersize=size, alpha=faint, markeredgewidth=0,
              rasterized=len(values) > _MANY)  # fmt: skip
    out = outliers(values)
    axes.plot(values[out], down[out], "o", color=colour, markersize=size + 2.5, markerfacecolor="none",
              markeredgewidth=0.8, alpha=max(faint, 0.3), rasterized=len(values) > _MANY)  # fmt: skip
    axes.plot([series.median] * 2, [line - 0.4, line + 0.4], color=colour, linewidth=2, zorder=4)


def _places(count: int, line: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    offsets = np.linspace(-_SPREAD / 2, _SPREAD / 2, count) if count > 1 else np.zeros(1)
    return np.asarray(line + offsets)


def _tick(boots: int) -> float:
    return float(np.clip(60 / boots, 2, 9))


def _draw_differences(axes: Axes, row: WorkloadReport, report: Report) -> None:
    axes.set_ylim(len(row.series) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    compared = {comparison.variant: comparison for comparison in row.comparisons}
    if not compared:
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        text = "smoke evidence: no comparison" if report.results.campaign.evidence == "smoke" else "nothing to compare"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="#555555")
        return
    exact = report.results.campaign.evidence == "exact"
    if exact:
        _number_axis(axes, float(max(abs(comparison.difference or 0) for comparison in row.comparisons)))
        axes.set_xlabel(mail(f"change against {row.series[0].label}, {row.workload.unit} (exact)"))
    else:
        _draw_scale(axes, row, report.margin)
    axes.axvline(0, color="#999999", linewidth=1, zorder=1)
    for line, series in enumerate(row.series[1:], 1):
        colour = _COLOURS[line % len(_COLOURS)]
        if exact:
            _draw_exact(axes, compared[series.label], line, colour)
        else:
            verdict = words.short_verdict(row, compared[series.label], report.margin)
            _draw_effect(axes, compared[series.label], verdict, line=line, colour=colour)
    axes.text(0, 0, "base", ha="center", va="center", color=_COLOURS[0], bbox=_PLATE)
    if exact:
        axes.margins(x=0.12)


def _reach(row: WorkloadReport, margin: float) -> float:
    """How far the axis of differences goes to either side: to the margin, unless all the rest would become a dot."""
    bounds = [abs(end - 1) for c in row.comparisons if c.effect is not None for end in (c.effect.low, c.effect.high)]
    most = max(bounds, default=margin) or margin
    return 1.3 * max(most, margin) if margin <= 3 * most else 1.5 * most


def _draw_scale(axes: Axes, row: WorkloadReport, margin: float) -> None:
    """Axis, margin and floor of relative differences."""
    base, reach = row.series[0].label, 100 * _reach(row, margin)
    less, more = (faster_or(row.workload, change) for change in (-1, 1))
    axes.set_xlabel(mail(f"{less}   <-   change against {base}, %   ->   {more}"))
    axes.axvspan(-100 * margin, 100 * margin, color=_BAND, linewidth=0, zorder=0)
    axes.set_xlim(-reach, reach)
    if row.floor is not None:
        for side in (-1, 1):
            axes.axvline(side * 100 * row.floor, color="#333333", linestyle=":", linewidth=1.2, zorder=1)


def _draw_effect(axes: Axes, comparison: Comparison, verdict: str, *, line: int, colour: str) -> None:
    effect = comparison.effect
    if effect is None:
        axes.text(0, line, f" {verdict}", va="center", color="#555555")
        return
    middle, low, high = (100 * (ratio - 1) for ratio in (effect.ratio, effect.low, effect.high))
    axes.plot([low, high], [line, line], color=colour, linewidth=2.4, solid_capstyle="butt", zorder=3)
    axes.plot([low, high], [line, line], "|", color=colour, markersize=10, markeredgewidth=2, zorder=3)
    axes.plot([middle], [line], "D", color=colour, markersize=6.5, zorder=4)
    axes.annotate(
        words.change(effect), (middle, line), xytext=(0, 14), textcoords="offset points", ha="center",
        va="center", fontsize=8.5, zorder=2, bbox=_PLATE,
    )  # fmt: skip
    axes.annotate(
        verdict, (middle, line), xytext=(0, -15), textcoords="offset points",
        ha="center", va="center", fontsize=9.5, weight="bold", color=colour, zorder=2, bbox=_PLATE,
    )  # fmt: skip


def _draw_exact(axes: Axes, comparison: Comparison, line: int, colour: str) -> None:
    difference = comparison.difference or 0
    axes.plot([0, difference], [line, line], color=colour, linewidth=6, solid_capstyle="butt", zorder=3)
    axes.annotate(
        f"{difference:+,}" if difference else "equal", (difference / 2, line), xytext=(0, 12),
        textcoords="offset points", ha="center", va="center",
    )  # fmt: skip
