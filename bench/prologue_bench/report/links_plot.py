"""The picture of several links: for each, the instructions of ``ftrace_init`` and of relocation, for each site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from prologue.report.pictures import OWN, drawing, require_plottable, save_picture
from prologue_bench.report.layout import mail
from prologue_bench.report.plots import STYLE

_FTRACE_INIT: Final = "#D55E00"
_RELOCATION: Final = "#b8c7d3"
_LINE: Final = 0.36  # inches for each row
_AROUND: Final = 1.15  # inches for title, axis and legend
_WIDTH: Final = 9.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A kernel: instructions for each site."""

    label: str
    ftrace_init: float
    relocation: float


def save_bars(title: str, bars: Sequence[Bar], path: Path) -> None:
    """Draw the bars into a file, whole or not at all.

    Raises:
        UsageError: not a kind of picture that we draw.
        OutputError: it cannot be written.

    """
    require_plottable(path)
    with drawing(OWN, STYLE):
        save_picture(draw(title, bars), path)


def draw(title: str, bars: Sequence[Bar]) -> Figure:
    """Draw the picture, not yet in a file. The longest bar decides the scale; every bar has its numbers beside it."""
    figure = Figure(figsize=(_WIDTH, _AROUND + _LINE * len(bars)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = range(len(bars))
    inside = [bar.ftrace_init for bar in bars]
    axes.barh(places, inside, height=0.62, color=_FTRACE_INIT, label="ftrace_init")
    axes.barh(
        places, [bar.relocation for bar in bars], left=inside, height=0.62, color=_RELOCATION,
        label="relocation of the whole kernel",
    )  # fmt: skip
    for place, bar in zip(places, bars, strict=True):
        text = f"{bar.ftrace_init:.1f} + {bar.relocation:.1f}"
        axes.annotate(
            text, (bar.ftrace_init + bar.relocation, place), (5, 0), textcoords="offset points", va="center"
        )  # fmt: skip
    axes.set_yticks(list(places), [mail(bar.label) for bar in bars])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("instructions for each site (lower is better)")
    axes.set_title(mail(title), loc="left", fontsize=10.5)
    axes.legend(loc="lower right", frameon=False)
    return figure
