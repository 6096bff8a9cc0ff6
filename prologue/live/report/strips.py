"""The words that each mechanism of a kernel could change in its text, for pictures and maps of text."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import U32, U64, Bool, among
from prologue.live.audit.audited import OwnedWords
from prologue.live.audit.run import KERNEL, Audit, AuditedFile
from prologue.report.pictures import PictureLook
from prologue.report.text_plot import PlottedWords, plot_strips


class Strip(NamedTuple):
    """The words of a mechanism by link-time address, ascending, as the file and as memory has them; shape (n,)."""

    vaddrs: U64
    linked: U32
    live: U32
    wrong: Bool

    @property
    def changed(self) -> Bool:
        """Mask of the words that differ from the file."""
        return np.not_equal(self.linked, self.live)


def strips_of(file: AuditedFile) -> dict[str, Strip]:
    """Make strips by mechanism, without empty ones; wrong words that no mechanism owns have a strip of their own."""
    words = file.audited.words
    wrong = np.array([word.vaddr + 4 * k for word in words for k in range(word.words)], np.uint64)
    tables: dict[str, list[OwnedWords]] = {}
    for table in file.audited.owned:
        tables.setdefault(table.mechanism, []).append(table)
    strips = {name: strip for name, parts in tables.items() if len((strip := _strip(parts, wrong)).vaddrs)}
    owned = np.concatenate([np.zeros(0, np.uint64), *(strip.vaddrs for strip in strips.values())])
    free = ~among(wrong, owned)
    if free.any():
        # Of several words that are one finding, the first one's are known.
        linked, live = (
            np.array([word for word, size in pairs for _ in range(size)], np.uint32)[free]
            for pairs in ([(word.expected, word.words) for word in words], [(word.live, word.words) for word in words])
        )
        strips["no mechanism"] = Strip(wrong[free], linked, live, np.ones(int(free.sum()), np.bool_))
    return strips


def plot_audit(audit: Audit, path: Path, look: PictureLook) -> None:
    """Draw the kernel's own text; modules are elsewhere in memory, and are left out; errors as of ``plot_strips``."""
    kernel = next(file for file in audit.files if file.name == KERNEL)
    title = f"{audit.release}: where the kernel patches its text (darker: changed; red: wrong)"
    strips = {name: PlottedWords(s.vaddrs, s.changed, s.wrong) for name, s in strips_of(kernel).items()}
    plot_strips(strips, title, path, look)


def _strip(parts: list[OwnedWords], wrong: U64) -> Strip:
    vaddrs: U64 = np.concatenate([part.vaddrs for part in parts])
    order = np.argsort(vaddrs, kind="stable")
    vaddrs = vaddrs[order]
    linked, live = (np.concatenate(words)[order] for words in zip(*((p.linked, p.live) for p in parts), strict=True))
    return Strip(vaddrs, linked, live, among(vaddrs, wrong))
