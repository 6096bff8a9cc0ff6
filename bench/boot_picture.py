"""A picture of what ftrace's work at boot costs: instructions for each site, of any kernels that were counted.

    .venv/bin/python bench/exact_counts.py --json VMLINUX... > counts.json
    .venv/bin/python bench/boot_picture.py [LABEL=]FILE[:boot|:build]... -o boot.svg
    .venv/bin/python bench/boot_picture.py stock=stock.json:boot 'the series=counts.json' -o boot.svg

A file has each kernel as linked (boot) and processed (build): two bars, or the one that is named. LABEL stands before
them instead of the kernel's release.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from prologue.errors import InputError, PrologueError
from prologue.report.pictures import OWN, drawing, require_plottable, save_picture, shade

SCHEMA: Final = "prologue.exact-counts/1"
_STATES: Final = {"boot": "not processed", "build": "processed"}
_PARTS: Final = (("ftrace_init", "#1f5b99"), ("relocation", "#8fa9c4"))  # names in the file, and on the picture
_BAR, _FRAME = 0.34, 1.5  # inches


class Bar(NamedTuple):
    """A boot: what it is called, and instructions for each site, by part."""

    label: str
    parts: tuple[float, ...]


def bars(source: str) -> Iterator[Bar]:
    """Yield a bar for each boot that a file has counts of; ``source`` is ``[LABEL=]FILE[:boot|:build]``.

    Raises:
        InputError: it is not a file of ``bench/exact_counts.py --json``.

    """
    label, _, name = source.rpartition("=")
    only = next((state for state in _STATES if name.endswith(f":{state}")), "")
    name = name.removesuffix(f":{only}")
    try:
        data = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON ({error})", path=name) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InputError("has no exact counts: give what bench/exact_counts.py --json printed", path=name)
    for kernel in data["kernels"]:
        for state, words in _STATES.items():
            if only in ("", state):
                counts = kernel[state]
                parts = tuple(counts[part] / counts["sites"] for part, _ in _PARTS)
                yield Bar(f"{label or counts['release']}, {words}", parts)


def draw(rows: list[Bar], path: Path) -> None:
    """Draw the bars below each other, the first on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with drawing(OWN):
        figure = Figure(figsize=(9, _FRAME + _BAR * len(rows)), layout="constrained")
        FigureCanvasAgg(figure)
        axes: Any = figure.subplots()
        left = [0.0] * len(rows)
        for number, (name, colour) in enumerate(_PARTS):
            values = [row.parts[number] for row in rows]
            axes.barh(range(len(rows)), values, left=left, height=0.7, color=shade(colour), label=name)
            left = [start + value for start, value in zip(left, values, strict=True)]
        for place, row in enumerate(rows):
            written = " + ".join(f"{part:,.1f}" for part in row.parts)
            axes.annotate(f" {written}", (left[place], place), va="center", fontsize=9)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, max(left) * 1.2)
        axes.set_xlabel("instructions for each site, from reset to init")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        save_picture(figure, path)


def main(words: Sequence[str] | None = None) -> int:
    """Read, draw, say what was drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="+", metavar="[LABEL=]FILE[:boot|:build]")
    parser.add_argument("-o", "--output", type=Path, required=True, help="PNG, SVG or PDF")
    args = parser.parse_args(words)
    try:
        require_plottable(args.output)
        rows = [bar for source in args.counts for bar in bars(source)]
        draw(rows, args.output)
    except PrologueError as error:
        print(f"boot_picture: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{args.output}: {len(rows)} boots")
    return 0


if __name__ == "__main__":
    sys.exit(main())
