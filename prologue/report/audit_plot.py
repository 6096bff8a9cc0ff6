"""A picture of a kernel's text: one strip for each mechanism, from the first address to the last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prologue.arrays import U64, among, sorted_unique
from prologue.live.audit.run import KERNEL, Audit, AuditedFile
from prologue.report.pictures import save_picture

if TYPE_CHECKING:
    import numpy.typing as npt

_BINS: Final = 1200  # columns of the picture
_BLOCK: Final = np.uint64(1 << 16)  # bytes of text that are in the picture or not
_MIB: Final = 1 << 20
_COULD, _CHANGED, _WRONG = "#c9d5e3", "#1f5b99", "#d62728"
_STRIP, _HEAD = 0.38, 1.3  # inches


def plot_audit(audit: Audit, path: Path) -> None:
    """Draw the kernel's own text; modules are elsewhere in memory, and are left out.

    Raises:
        OutputError: ``path`` cannot be written.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kernel = next(file for file in audit.files if file.name == KERNEL)
    strips = _strips(kernel)
    every = np.concatenate([could for could, _, _ in strips.values()])
    blocks = sorted_unique(every // _BLOCK)
    figure = Figure(figsize=(11, _HEAD + _STRIP * len(strips)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(len(strips), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, words) in zip(axes, strips.items(), strict=True):
        _draw(axis, name, words, blocks)
    axes[-1].set_xlabel("MiB of text, from the lowest address on; text without owned words is left out")
    figure.suptitle(f"{audit.release}: where the kernel patches its text (darker: changed; red: wrong)", fontsize=10)
    save_picture(figure, path)


Strip = tuple[U64, U64, U64]
"""Addresses of words that a mechanism could change, that it changed, and that are wrong."""


def _strips(kernel: AuditedFile) -> dict[str, Strip]:
    """By mechanism; what no mechanism owns has a strip if something is wrong there."""
    wrong = np.array([word.vaddr + 4 * k for word in kernel.audited.words for k in range(word.words)], np.uint64)
    parts: dict[str, list[tuple[U64, U64]]] = {}
    for table in kernel.audited.owned:
        parts.setdefault(table.mechanism, []).append((table.vaddrs, table.vaddrs[table.changed]))
    strips: dict[str, Strip] = {}
    owned = np.zeros(0, np.uint64)
    for name, tables in parts.items():
        could, changed = (np.concatenate(column) for column in zip(*tables, strict=True))
        owned = np.concatenate([owned, could])
        if len(could):
            strips[name] = could, changed, wrong[among(wrong, could)]
    free = wrong[~among(wrong, owned)]
    return strips | ({"no mechanism": (free, free, free)} if len(free) else {})


def _draw(axis: Any, name: str, strip: Strip, blocks: U64) -> None:
    """One strip: how many words of each column, on a logarithmic scale; what is wrong as marks over all of it."""
    width = len(blocks) * int(_BLOCK) / _BINS
    places = [_compact(words, blocks) for words in strip]
    could, changed = (np.bincount((at / width).astype(np.int64), minlength=_BINS) for at in places[:2])
    edges = np.arange(_BINS + 1) * width / _MIB
    # One outline a kind: a rectangle for each column takes seconds to draw.
    axis.stairs(np.log1p(could), edges, fill=True, color=_COULD)
    axis.stairs(np.log1p(changed), edges, fill=True, color=_CHANGED)
    axis.vlines(places[2] / _MIB, 0, 1, transform=axis.get_xaxis_transform(), color=_WRONG, linewidth=1)
    axis.set_xlim(0, _BINS * width / _MIB)
    axis.set_yticks([])
    axis.set_ylabel(f"{name}\n{len(strip[1]):,} of {len(strip[0]):,}", rotation=0, ha="right", va="center", fontsize=8)


def _compact(words: U64, blocks: U64) -> npt.NDArray[np.float64]:
    """Bytes from the left of the picture to each word, if only those blocks are in it."""
    places: npt.NDArray[np.float64] = np.searchsorted(blocks, words // _BLOCK) * float(_BLOCK) + words % _BLOCK
    return places
