"""The words that each mechanism of a kernel could change in its text, for pictures of text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prologue.arrays import U64, among
from prologue.live.audit.audited import LiveWord, OwnedWords
from prologue.live.audit.outcome import KERNEL, Audit, AuditedFile
from prologue.report.pictures import PictureLook
from prologue.report.text_plot import PlottedWords, plot_strips


def strips_of(file: AuditedFile) -> list[OwnedWords]:
    """Return the words of each mechanism that has some, ascending; and wrong words that none owns, as if one did.

    Of several words that are one finding, the first one's are known.
    """
    words = file.audited.words
    tables: dict[str, list[OwnedWords]] = {}
    for table in file.audited.owned:
        tables.setdefault(table.mechanism, []).append(table)
    strips = [strip for parts in tables.values() if len((strip := _joined(parts)).vaddrs)]
    wrong = _wrong_vaddrs(words)
    free = ~among(wrong, np.concatenate([np.zeros(0, np.uint64), *(strip.vaddrs for strip in strips)]))
    if free.any():
        sizes = [word.words for word in words]
        linked, live = (
            np.repeat(np.array(column, np.uint32), sizes)[free]
            for column in zip(*((word.expected[0], word.found[0]) for word in words), strict=True)
        )
        strips.append(OwnedWords("no mechanism", wrong[free], linked, live))
    return strips


def _wrong_vaddrs(words: Sequence[LiveWord]) -> U64:
    """Return the addresses of all words that are not as they must be; shape (n,)."""
    return np.array([word.vaddr + 4 * k for word in words for k in range(word.words)], np.uint64)


def plot_audit(audit: Audit, path: Path, look: PictureLook) -> None:
    """Draw the kernel's own text; modules are elsewhere in memory, and are left out; errors as of ``plot_strips``."""
    kernel = next(file for file in audit.files if file.name == KERNEL)
    title = f"{audit.release}: where the kernel patches its text (darker: changed; red: wrong)"
    wrong = _wrong_vaddrs(kernel.audited.words)
    strips = {s.mechanism: PlottedWords(s.vaddrs, s.changed, among(s.vaddrs, wrong)) for s in strips_of(kernel)}
    plot_strips(strips, title, path, look)


def _joined(parts: list[OwnedWords]) -> OwnedWords:
    vaddrs, linked, live = (np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True))
    order = np.argsort(vaddrs, kind="stable")
    return OwnedWords(parts[0].mechanism, vaddrs[order], linked[order], live[order])
