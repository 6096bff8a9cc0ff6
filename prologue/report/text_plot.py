"""A picture of a kernel's text: one strip for each kind of words, from the first address to the last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from prologue.arrays import U64, Bool, sorted_unique
from prologue.errors import OutputError
from prologue.report.pictures import PictureLook, drawing, save_picture, shade

if TYPE_CHECKING:
    import numpy.typing as npt

_BINS: Final = 1200  # columns of the picture, at most
_BLOCK: Final = np.uint64(1 << 16)  # bytes of text that are in the picture or not
_MIB, _KIB = 1 << 20, 1 << 10
_COULD, _CHANGED, _WRONG = "#8fa9c4", "#1f5b99", "#d62728"
_FAINT: Final = 0.5  # of words that could be changed, on either ground
_STRIP, _HEAD = 0.38, 1.3  # inches


class PlottedWords(NamedTuple):
    """Words of one kind by address, ascending, and masks of those that are darker, and red; shape (n,)."""

    vaddrs: U64
    changed: Bool
    wrong: Bool


def plot_strips(strips: Mapping[str, PlottedWords], title: str, path: Path, look: PictureLook) -> None:
    """Draw a strip for each kind of words, with its counts.

    Raises:
        OutputError: ``path`` cannot be written, or there are no words.

    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not strips:
        raise OutputError("no picture: no mechanism of this kernel owns a word of its text", path=path)
    owned = np.concatenate([strip.vaddrs for strip in strips.values()])
    blocks = sorted_unique(owned // _BLOCK)
    size = float(_compact(owned, blocks).max()) + 4  # of the text up to the last owned word, in bytes
    unit, unit_name = (_MIB, "MiB") if size >= _MIB else (_KIB, "KiB")
    with drawing(look):
        figure = Figure(figsize=look.inches(11, _HEAD + _STRIP * len(strips)), layout="constrained")
        FigureCanvasAgg(figure)
        axes: Any = figure.subplots(len(strips), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (name, words) in zip(axes, strips.items(), strict=True):
            places = [_compact(words.vaddrs[which], blocks) for which in (slice(None), words.changed, words.wrong)]
            _draw(axis, places, size, unit)
            changed = f"{words.changed.sum():,} of " if words.changed.any() else ""
            counts = f"{changed}{len(words.vaddrs):,}"
            axis.set_ylabel(f"{name}\n{counts}", rotation=0, ha="right", va="center", fontsize=8)
        left_out = ", from the lowest address on; text without owned words is left out" if look.notes else ""
        axes[-1].set_xlabel(f"{unit_name} of text{left_out}")
        figure.suptitle(title if look.title is None else look.title, fontsize=10)
        save_picture(figure, path)


def _draw(axis: Any, places: list[npt.NDArray[np.float64]], size: float, unit: int) -> None:
    """Draw a strip: the number of words in each column, on a logarithmic scale, and marks for wrong words.

    ``places`` of all words, of changed and of wrong ones are in bytes.
    """
    bins = min(_BINS, int(size) // 4)  # no column is less than a word
    width = size / bins
    could, changed = (np.bincount((at / width).astype(np.int64), minlength=bins) for at in places[:2])
    edges = np.arange(bins + 1) * width / unit
    # One outline a kind: a rectangle for each column takes seconds to draw.
    axis.stairs(np.log1p(could), edges, fill=True, color=_COULD, alpha=_FAINT)
    axis.stairs(np.log1p(changed), edges, fill=True, color=shade(_CHANGED))
    axis.vlines(places[2] / unit, 0, 1, transform=axis.get_xaxis_transform(), color=shade(_WRONG), linewidth=1)
    axis.set_xlim(0, size / unit)
    axis.set_yticks([])


def _compact(words: U64, blocks: U64) -> npt.NDArray[np.float64]:
    """Return the bytes from the left of the picture to each word, if only these blocks are in it."""
    places: npt.NDArray[np.float64] = np.searchsorted(blocks, words // _BLOCK) * float(_BLOCK) + words % _BLOCK
    return places
