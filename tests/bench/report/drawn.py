"""Pictures of results for tests: matplotlib, which takes a second, is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    from prologue_bench.analysis.compare import Report


def draw(*arguments: Any) -> Figure:
    from prologue_bench.report import plots

    return plots.draw(*arguments)


def colours_of(report: Report) -> dict[str, Any]:
    from prologue_bench.report import plots

    return dict(plots.colours_of(report))


def rectangles(axes: Axes) -> list[Rectangle]:
    """Return the bars."""
    from matplotlib.patches import Rectangle

    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]
