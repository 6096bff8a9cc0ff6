"""The picture of a comparison: one row for each workload, samples on the left, differences on the right.

Both halves share their lines, one for each variant. On the left every run is a point: its place across is its value,
its place down is its boot, so drift from boot to boot can be seen. Colours are those of Okabe and Ito.
"""

from __future__ import annotations

import math
import textwrap
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from prologue.errors import UsageError
from prologue.report.pictures import OWN, PictureLook, drawing, save_picture, shade, svg_of
from prologue.words import counted
from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport, faster_or
from prologue_bench.analysis.series import Series, by_link
from prologue_bench.analysis.stats import outliers
from prologue_bench.report import words
from prologue_bench.report.group_words import boards_used
from prologue_bench.report.layout import mail

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from prologue_bench.results.model import Workload

_GREY: Final = "#4d4d4d"
# A kind of variant has its colour in every picture, whatever else is drawn; other labels get the rest.
_OF_KIND: Final = {"nop-nop": _GREY, "boot": "#0072B2", "build": "#D55E00"}
_OF_LABEL: Final = {**_OF_KIND, "nop;nop": _GREY, "mov x9,lr;nop": _OF_KIND["build"]}  # what tables call them
_CONTROL: Final = "#009E73"
_OTHERS: Final = ("#CC79A7", "#56B4E9", "#E69F00", "#8C6D31", "#6A3D9A", "#B15928", "#1B7837", "#762A83")
_BAND: Final = "#56b4e933"
_LINE: Final = 0.85  # inches for each variant
_AROUND: Final = 1.25  # inches for title and axis of each workload
_LEGEND: Final = 0.5  # inches below everything, with the legend
_FOOT: Final = 0.185  # inches for each line of notes below that
_TITLE: Final = 0.2  # inches for each further line of a title
# Letters in a line of a picture of the usual width: of a title, of notes, of the axis of differences; and at least.
_TITLE_WIDTH: Final = 84
_NOTE_WIDTH: Final = 165
_LABEL_WIDTH: Final = 60
_FEWEST: Final = 20
_LEAST_ABOVE: Final = 0.55  # of their own height that rows need, or their words cover each other
_EDGE: Final = 4  # dots between words and the edge of the picture
_WIDTH: Final = 11.0
_SPREAD: Final = 0.62  # of a variant's line that its boots fill
_MANY: Final = 5000  # points from which on an SVG holds them as a bitmap
STYLE: Final[dict[Any, Any]] = {"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False}
_ALIKE: Final = 10  # so many times may the spans of one unit differ and still have one scale


def save(report: Report, path: Path, look: PictureLook = OWN) -> None:
    """Draw the report into a file, whole or not at all.

    Raises:
        OutputError: it cannot be written.

    """
    with drawing(look, STYLE):
        save_picture(draw(report, look), path)


def svg(report: Report, look: PictureLook) -> bytes:
    """Return the picture as SVG."""
    with drawing(look, STYLE):
        return svg_of(draw(report, look))


def draw(report: Report, look: PictureLook = OWN) -> Figure:
    """Draw the picture, not yet in a file; without comparisons it has no right half."""
    rows = report.workloads
    both = any(row.comparisons for row in rows)
    share = look.inches(_WIDTH, 0)[0] / _WIDTH  # of the width that letters are counted for
    titles = [_title(row.workload, share) for row in rows]
    heights = [
        _AROUND + _TITLE * title.count("\n") + _LINE * len(row.series) for title, row in zip(titles, rows, strict=True)
    ]
    notes = _notes(report, share) if look.notes else []
    reach = max((_reach(row, report.margin) for row in rows), default=report.margin)
    marks = _legend(report, reach)
    columns = min(max(int(len(marks) * share), 1), len(marks))
    head = _LEGEND + _TITLE * (math.ceil(len(marks) / columns) - 1)
    below = head + _FOOT * len(notes)
    width, height = look.inches(_WIDTH, sum(heights) + below)
    if notes and height - below < _LEAST_ABOVE * sum(heights):
        raise UsageError(f"--size: no room for {counted(len(notes), 'line')} of sentences: more pixels, or --no-notes")
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[max(height - below, below), below])[:, 0]
    if look.title is not None:
        upper.suptitle(look.title, weight="bold", fontsize=12)
    widths = [1.25, 1] if both else [1]
    grid = upper.subplots(len(rows), len(widths), squeeze=False, width_ratios=widths, height_ratios=heights)
    colours = {label: shade(colour) for label, colour in colours_of(report).items()}
    for row, title, (left, *right) in zip(rows, titles, grid, strict=True):
        _write_title(left, title)
        _draw_samples(left, row, colours)
        if report.results.campaign.evidence == "exact":
            left.set_xlim(left=0)  # or 2% and 87% would look alike
        for axes in right:
            _draw_differences(axes, row, report, reach, colours)
    _one_scale([(row.workload.unit, left) for row, (left, *_) in zip(rows, grid, strict=True)])
    lower.legend(handles=marks, loc="upper center", ncols=columns, frameon=False, handlelength=1.5, columnspacing=1.2)
    lower.text(0.012, 1 - (head - 0.1) / below, "\n".join(notes), fontsize=8, va="top", linespacing=1.35)
    for _, *right in grid:
        for axes in right:
            _keep_inside(figure, axes)
    return figure


def _write_title(axes: Axes, title: str) -> None:
    """Write the title of a row over both of its halves: the layout keeps room for its lines, not for its width."""
    axes.set_title("\n".join(" " for _ in title.split("\n")), loc="left", weight="bold")
    text = axes.annotate(
        title, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points", va="baseline",
        weight="bold", fontsize="large", annotation_clip=False,
    )  # fmt: skip
    text.set_in_layout(False)


def colours_of(report: Report) -> dict[str, str]:
    """Choose a colour for each variant, by its kind and label."""
    campaign, chosen = report.results.campaign, {}
    for variant in campaign.variants:
        if variant.label == campaign.aa:
            chosen[variant.label] = _CONTROL
        elif colour := _OF_KIND.get(str(variant.kind)) or _OF_LABEL.get(variant.label):
            chosen[variant.label] = colour
    for label in sorted(variant.label for variant in campaign.variants if variant.label not in chosen):
        first = zlib.crc32(label.encode("utf-8", "surrogateescape")) % len(_OTHERS)
        ring = [*_OTHERS[first:], *_OTHERS[:first]]
        chosen[label] = next((colour for colour in ring if colour not in chosen.values()), ring[0])
    return chosen


def picture_text(text: str) -> str:
    """Return the words of reports, which are ASCII for mail, with the signs that they stand for."""
    shown = mail(text).replace("+-", "\N{PLUS-MINUS SIGN}")
    return shown.replace("<-", "\N{LEFTWARDS ARROW}").replace("->", "\N{RIGHTWARDS ARROW}")


def _ink() -> str:
    """Return the colour of words and lines, on a light or a dark ground."""
    return str(mpl.rcParams["text.color"])


def _plate() -> dict[str, Any]:
    """Return what words are written on, so that lines do not run through them."""
    ground = mpl.rcParams["figure.facecolor"]
    return {"facecolor": ground, "alpha": 0.75, "edgecolor": "none", "boxstyle": "square,pad=0.12"}


def _title(workload: Workload, share: float) -> str:
    title = mail(f"{workload.name}: {workload.unit}, {workload.direction} is better")
    return textwrap.fill(title, max(int(_TITLE_WIDTH * share), _FEWEST))


def _one_scale(drawn: list[tuple[str, Axes]]) -> None:
    """Give axes of one unit the same number of units per inch, unless one of them would become a dot."""
    for unit in {unit for unit, _ in drawn}:
        group = [axes for other, axes in drawn if other == unit]
        spans = [high - low for low, high in (axes.get_xlim() for axes in group)]
        if max(spans) > _ALIKE * min(spans):
            for axes in group:
                axes.set_xlabel(f"{axes.get_xlabel()} (scale of its own)")
            continue
        for axes in group:
            low, high = axes.get_xlim()
            middle = max(spans) / 2 if low == 0 else (low + high) / 2
            axes.set_xlim(middle - max(spans) / 2, middle + max(spans) / 2)


def _keep_inside(figure: Figure, axes: Axes) -> None:
    """Move words that would be cut off at the edge of the picture."""
    figure.draw_without_rendering()
    room = figure.bbox
    for text in axes.texts:
        if isinstance(text, Annotation):
            box = text.get_window_extent()
            shift = max(room.x0 + _EDGE - box.x0, 0) - max(box.x1 - (room.x1 - _EDGE), 0)
            x, y = text.get_position()
            text.set_position((x + shift * 72 / figure.dpi, y))


def _notes(report: Report, share: float) -> list[str]:
    results = report.results
    limits, facts = words.limits(results.campaign), words.setup_facts(results.campaign)
    design = filter(None, (words.design(results), boards_used(results)))
    lines = [*report.first_lines, *limits, *_verdicts(report), *design, *words.caveats(report), *facts, *results.notes]
    return [
        part for line in lines for part in textwrap.wrap(picture_text(line), max(int(_NOTE_WIDTH * share), _FEWEST))
    ]


def _verdicts(report: Report) -> Iterator[str]:
    """Yield the sentences with p, as under the tables."""
    for row in report.workloads:
        if row.comparisons and not row.comparisons[0].exact:
            verdicts = [words.verdict(row, comparison, report.margin) for comparison in row.comparisons]
            verdicts += words.trend(row.trend)
            yield from (f"{row.workload.name}: {sentence}" for sentence in verdicts)
            if method := words.method(row):
                yield f"{row.workload.name}: {method}"


def _legend(report: Report, reach: float) -> list[Artist]:
    marks: list[Artist] = [_dot("one run", "o", 4, 0.5)]
    median = Line2D([], [], color=_ink(), linewidth=2, label="median")
    if report.results.campaign.evidence == "exact":
        return [*marks, median]
    if report.results.boots_known:
        marks.append(_dot("median of a boot", "|", 8, 1.0))
    marks += [_dot("outlier, kept", "o", 7, 1.0, hollow=True), median]
    if report.results.campaign.evidence == "timing":
        marks.append(_dot("change, 95% interval", "D", 6, 1.0))
        wider = " (wider than shown)" if reach < report.margin else ""
        marks.append(Patch(color=_BAND, label=picture_text(f"margin +-{words.margin_of(report.margin)}{wider}")))
    if any(row.floor is not None for row in report.workloads):
        marks.append(Line2D([], [], color=_ink(), linestyle=":", label="A/A floor"))
    return marks


def _dot(label: str, marker: str, size: float, alpha: float, *, hollow: bool = False) -> Line2D:
    face = "none" if hollow else _ink()
    return Line2D(
        [], [], color=_ink(), marker=marker, markersize=size, alpha=alpha, linestyle="", label=label,
        markerfacecolor=face,
    )  # fmt: skip


def _draw_samples(axes: Axes, row: WorkloadReport, colours: Mapping[str, str]) -> None:
    workload = row.workload
    for line, series in enumerate(row.series):
        _draw_series(axes, series, line, colours[series.label])
    axes.set_yticks(range(len(row.series)), ["\n".join(textwrap.wrap(mail(s.label), 22)) for s in row.series])
    axes.set_ylim(len(row.series) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(mail(workload.unit) + (", by boot: first on top" if row.series[0].boots_known else ""))
    _number_axis(axes, float(max(s.pooled.max() for s in row.series)))
    axes.grid(axis="x", color="#80808040", linewidth=0.7)
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
        if len(series.boots) < len(values):  # otherwise a boot's median is its only run
            tick = float(np.clip(60 / len(places), 2, 9))
            axes.plot(series.medians, places, "|", color=colour, markersize=tick, markeredgewidth=1.4,
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


def _draw_differences(
    axes: Axes, row: WorkloadReport, report: Report, reach: float, colours: Mapping[str, str]
) -> None:
    axes.set_ylim(len(row.series) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    compared = {comparison.variant: comparison for comparison in row.comparisons}
    if not compared:
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        text = "smoke evidence: no comparison" if report.results.campaign.evidence == "smoke" else "nothing to compare"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=_ink())
        return
    base = row.series[0]
    if report.results.campaign.evidence == "exact":
        _draw_exact(axes, row, compared, colours)
        return
    _draw_scale(axes, row, report.margin, reach)
    axes.axvline(0, color="#999999", linewidth=1, zorder=1)
    for line, series in enumerate(row.series[1:], 1):
        verdict = picture_text(words.short_verdict(row, compared[series.label], report.margin))
        _draw_effect(axes, compared[series.label], verdict, line=line, colour=colours[series.label])
    axes.text(0, 0, "base", ha="center", va="center", color=colours[base.label], bbox=_plate())


def _reach(row: WorkloadReport, margin: float) -> float:
    """Return the reach of the axis of differences to either side: the margin, unless the rest would become a dot."""
    bounds = [abs(end - 1) for c in row.comparisons if c.effect is not None for end in (c.effect.low, c.effect.high)]
    most = max(bounds, default=margin) or margin
    return 1.3 * max(most, margin) if margin <= 3 * most else 1.5 * most


def _draw_scale(axes: Axes, row: WorkloadReport, margin: float, reach: float) -> None:
    """Draw axis, margin and floor of relative differences; ``reach`` is one for all rows."""
    less, more = (faster_or(row.workload, change) for change in (-1, 1))
    label = picture_text(f"{less}   <-   change against {row.series[0].label}, %   ->   {more}")
    _write_label(axes, label)
    axes.axvspan(-100 * margin, 100 * margin, color=_BAND, linewidth=0, zorder=0)
    axes.set_xlim(-100 * reach, 100 * reach)
    if row.floor is not None:
        for side in (-1, 1):
            axes.axvline(side * 100 * row.floor, color=_ink(), linestyle=":", linewidth=1.2, zorder=1)


def _write_label(axes: Axes, label: str) -> None:
    share = axes.figure.bbox.width / axes.figure.dpi / _WIDTH
    axes.set_xlabel("\n".join(textwrap.wrap(label, max(int(_LABEL_WIDTH * share), _FEWEST))))


def _draw_effect(axes: Axes, comparison: Comparison, verdict: str, *, line: int, colour: str) -> None:
    effect = comparison.effect
    if effect is None:
        axes.text(0, line, f" {verdict}", va="center", color=_ink())
        return
    middle, low, high = (100 * (ratio - 1) for ratio in (effect.ratio, effect.low, effect.high))
    axes.plot([low, high], [line, line], color=colour, linewidth=2.4, solid_capstyle="butt", zorder=3)
    axes.plot([low, high], [line, line], "|", color=colour, markersize=10, markeredgewidth=2, zorder=3)
    axes.plot([middle], [line], "D", color=colour, markersize=6.5, zorder=4)
    axes.annotate(
        words.change(effect), (middle, line), xytext=(0, 14), textcoords="offset points", ha="center",
        va="center", fontsize=8.5, zorder=2, bbox=_plate(),
    )  # fmt: skip
    axes.annotate(
        verdict, (middle, line), xytext=(0, -15), textcoords="offset points",
        ha="center", va="center", fontsize=9.5, weight="bold", color=colour, zorder=2, bbox=_plate(),
    )  # fmt: skip


def _draw_exact(
    axes: Axes, row: WorkloadReport, compared: Mapping[str, Comparison], colours: Mapping[str, str]
) -> None:
    """Draw every count as a share of the base's: a bar from 0, so that 2% less and 87% less do not look alike.

    Of a base of 0 there are no shares: then bars are counts. A variant is beside the base of the links that have both;
    without any, or if that base is 0, it has no bar: it would show the difference between links.
    """
    base = row.series[0]
    counts = [_on_shared_links(base, series) for series in row.series]
    has_shares = any(part.median for part in by_link(base).values())
    shares = [count for _, count in counts]
    if has_shares:
        shares = [100.0, *(100 * count / of_base if of_base else 0.0 for of_base, count in counts[1:])]
    for line, (series, share) in enumerate(zip(row.series, shares, strict=True)):
        text = words.exact_change(compared[series.label]) if line else "base"
        if line and has_shares and counts[line][0] and compared[series.label].difference:
            text += f" ({share - 100:+.3g}%)"
        axes.barh(line, share, height=0.28, color=colours[series.label], zorder=2)
        axes.annotate(
            text, (0, line), xytext=(4, 17), textcoords="offset points", ha="left", va="center", zorder=3, bbox=_plate()
        )  # fmt: skip
    axes.axvline(shares[0], color="#999999", linewidth=1, zorder=1)
    axes.set_xlim(0, 1.05 * max(shares) or 1)
    _number_axis(axes, max(shares))
    label = picture_text(f"{row.workload.unit} (exact){f', % of {base.label}' if has_shares else ''}")
    _write_label(axes, label)


def _on_shared_links(base: Series, series: Series) -> tuple[float, float]:
    """Return the counts of the base and of a variant, medians over the links that have both; 1 and 0 without any."""
    bases, others = by_link(base), by_link(series)
    shared = [(bases[link].median, other.median) for link, other in others.items() if link in bases]
    of_base, count = np.median(shared or [(1.0, 0.0)], axis=0)
    return float(of_base), float(count)
