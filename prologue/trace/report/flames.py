"""A flame graph of folded stacks: a bar for each function under each caller, as wide as its share of instructions.

It is an SVG with titles, zoom and search in itself (``flames.js``), and asks no network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr
from zlib import crc32

from prologue.outputs import write_text
from prologue.report.html.page import FlameBar
from prologue.report.pictures import DARK_GROUND, DARK_INK, PictureLook
from prologue.words import counted, printable

_SMALLEST: Final = 0.0001  # share of all instructions below which a bar is not drawn
_COLOURS: Final = ("#d9c48f", "#e0b576", "#e2a25f", "#d98c52", "#cf7a4d", "#e6cf9d")
_FEWEST: Final = 6  # letters of a name that is shown, its two dots included

# pixels of the SVG
_PIXELS, _BAR, _TOP, _FOOT, _LETTER = 1200, 17, 40, 24, 6.7
_STYLE: Final = """
text { font: 11px monospace; fill: #222; pointer-events: none }
.head { font-size: 13px }
.search, .reset { visibility: hidden; fill: #06c; cursor: pointer; pointer-events: all; text-anchor: end }
.live .search, .live .reset { visibility: visible }
.found { text-anchor: end }
.frame rect { stroke: #fff; stroke-width: .5 }
.live .frame { cursor: pointer }
.frame:hover rect { stroke: #222 }
.hidden { display: none }
.outer { opacity: .5 }
.match rect { fill: #b76be0 }
"""
# Names in bars keep their ink: the bars are as light as on a light ground.
_DARK_STYLE: Final = f"svg > text {{ fill: {DARK_INK} }} .frame rect {{ stroke: {DARK_GROUND} }}\n"


@dataclass(slots=True)
class _Bar:
    count: int = 0
    callees: dict[str, _Bar] = field(default_factory=dict)


def plot_flames(lines: Iterable[str], title: str, path: Path, look: PictureLook) -> None:
    """Draw stacks (``a;b;c COUNT``), the outermost function at the bottom.

    Raises:
        OutputError: ``path`` cannot be written.

    """
    bars, total = place_bars(lines)
    title = printable(title if look.title is None else look.title)
    write_text(path, flame_svg(bars, total, title, look))


def flame_svg(bars: Iterable[FlameBar], total: int, title: str, look: PictureLook) -> str:
    """Return a flame graph of ``total`` instructions as an SVG file that works by itself."""
    drawn = [FlameBar("all", 0, 0, total), *(bar._replace(depth=bar.depth + 1) for bar in bars)]
    height = _TOP + _BAR * (1 + max(bar.depth for bar in drawn)) + _FOOT
    width, shown_height = look.size or (_PIXELS, height)
    ground = DARK_GROUND if look.dark else "#fff"
    script = files("prologue.trace.report").joinpath("flames.js").read_text("utf-8")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PIXELS} {height}" width="{width}"'
        f' height="{shown_height}" data-width="{_PIXELS}" data-letter="{_LETTER}" data-fewest="{_FEWEST}">',
        f"<style>{_STYLE}{_DARK_STYLE if look.dark else ''}</style>",
        f'<rect width="{_PIXELS}" height="{height}" fill="{ground}"/>',
        f'<text class="head" x="4" y="18">{escape(title)}</text>',
        f'<text class="reset" x="{_PIXELS - 70}" y="18">reset (Esc)</text>',
        f'<text class="search" x="{_PIXELS - 4}" y="18">find (/)</text>',
        f'<text class="line" x="4" y="{height - 8}"/>',
        f'<text class="found" x="{_PIXELS - 4}" y="{height - 8}"/>',
        *(_frame(bar, total, height - _FOOT) for bar in drawn),
        f"<script><![CDATA[\n{script}]]></script>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _frame(bar: FlameBar, total: int, bottom: int) -> str:
    """Draw a bar with its title, and its name if there is room for it."""
    scale = _PIXELS / max(total, 1)
    x, width, y = scale * bar.left, scale * bar.instructions, bottom - _BAR * (bar.depth + 1)
    room = int((width - _LETTER) / _LETTER)
    share = 100 * bar.instructions / max(total, 1)
    colour = _COLOURS[crc32(bar.name.encode()) % len(_COLOURS)]
    title = f"{bar.name}: {counted(bar.instructions, 'instruction')}, {share:.2f}%"
    return (
        f'<g class="frame" data-name={quoteattr(bar.name)} data-depth="{bar.depth}" data-left="{bar.left}"'
        f' data-count="{bar.instructions}"><title>{escape(title)}</title>'
        f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.5):.2f}" height="{_BAR - 1}" fill="{colour}"/>'
        f'<text x="{x + _LETTER / 2:.2f}" y="{y + 12}">{escape(_shortened(bar.name, room))}</text></g>'
    )


def _shortened(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    return f"{name[: room - 2]}.." if room >= _FEWEST else ""


def place_bars(lines: Iterable[str]) -> tuple[list[FlameBar], int]:
    """Return where each function of folded stacks is drawn, except those too narrow to be seen, and the whole."""
    root = _tree(lines)
    return list(_placed(root)), root.count


def _tree(lines: Iterable[str]) -> _Bar:
    root = _Bar()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        bar, number = root, int(count)
        bar.count += number
        for name in map(printable, stack.split(";")):
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
                yield FlameBar(name, depth + 1, left, callee.count)
                todo.append((callee, depth + 1, left))
            left += callee.count
