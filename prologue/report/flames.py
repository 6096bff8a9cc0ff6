"""A flame graph of folded stacks: a bar for each function under each caller, as wide as its share of instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from prologue.report.pictures import save_picture

_WIDTH, _ROW, _HEAD = 13.0, 0.19, 1.0  # inches
_SMALLEST: Final = 0.001  # share of all instructions below which a bar is not drawn
_LETTERS: Final = 190  # characters of the font that fit into the whole width
_COLOURS: Final = ("#d9c48f", "#e0b576", "#e2a25f", "#d98c52", "#cf7a4d", "#e6cf9d")


@dataclass(slots=True)
class _Bar:
    count: int = 0
    callees: dict[str, _Bar] = field(default_factory=dict)


class FlameBar(NamedTuple):
    """A function under its callers; left edge and width are shares of the whole."""

    name: str
    depth: int
    left: float
    width: float


def plot_flames(lines: Iterable[str], title: str, path: Path) -> None:
    """Draw stacks (``a;b;c COUNT``), the outermost function at the bottom.

    Raises:
        OutputError: ``path`` cannot be written.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    bars = place_bars(lines)
    depth = max((bar.depth for bar in bars), default=0) + 1
    figure = Figure(figsize=(_WIDTH, _HEAD + _ROW * depth), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    boxes = [Rectangle((bar.left, bar.depth), bar.width, 1) for bar in bars]
    colours = [_COLOURS[crc32(bar.name.encode()) % len(_COLOURS)] for bar in bars]
    axis.add_collection(PatchCollection(boxes, facecolors=colours, edgecolors="white", linewidths=0.4))
    for bar in bars:
        room = int(bar.width * _LETTERS)
        if room >= 3:
            name = bar.name if len(bar.name) <= room else f"{bar.name[: room - 2]}.."
            axis.text(bar.left + 0.001, bar.depth + 0.5, name, fontsize=6, va="center", clip_on=True, parse_math=False)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, depth)
    axis.axis("off")
    axis.set_title(title, fontsize=9, loc="left", parse_math=False)
    save_picture(figure, path)


def place_bars(lines: Iterable[str]) -> list[FlameBar]:
    """Where each function of folded stacks is drawn; those too narrow to be seen are left out."""
    return list(_placed(_tree(lines)))


def _tree(lines: Iterable[str]) -> _Bar:
    root = _Bar()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        bar, number = root, int(count)
        bar.count += number
        for name in stack.split(";"):
            bar = bar.callees.setdefault(name, _Bar())
            bar.count += number
    return root


def _placed(root: _Bar) -> Iterator[FlameBar]:
    todo = [(root, -1, 0)]
    while todo:
        bar, depth, left = todo.pop()
        for name in sorted(bar.callees):
            callee = bar.callees[name]
            if callee.count >= _SMALLEST * root.count:
                yield FlameBar(name, depth + 1, left / root.count, callee.count / root.count)
                todo.append((callee, depth + 1, left))
            left += callee.count
