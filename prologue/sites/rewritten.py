"""Instructions that the kernel itself rewrites: jump labels, and alternatives at boot. What may stand there."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from prologue.sites import tables
from prologue.sites.binary import Binary

PATCHES_NOPS: Final = "alt_cb_patch_nops"  # the one callback whose result is known (arch/arm64/kernel/alternative.c)


class Replacement(NamedTuple):
    """What may run instead of the instruction at some place: ``words``, which stand at ``start``, and then ``resume``.

    ``words`` is None if a callback writes them.
    """

    words: tuple[int, ...] | None
    start: int
    resume: int


class Rewritten:
    """The two tables of one file, looked at function by function."""

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        self.at: dict[int, list[Replacement]] = {}  # by address, in functions of which ``places`` was asked

    @cached_property
    def _labels(self) -> tables.JumpLabels:
        return tables.jump_labels(self._binary)

    @cached_property
    def _alternatives(self) -> tables.Alternatives:
        return tables.alternative_entries(self._binary)

    def places(self, start: int, stop: int) -> set[int]:
        """Where paths through the replacements between two addresses lead."""
        found: list[tuple[int, Replacement]] = []
        labels = self._labels
        for k in _between(labels.code, start, stop):
            code, target = int(labels.code[k]), int(labels.target[k])
            found += [(code, Replacement((), code, resume)) for resume in (code + 4, target)]
        entries = self._alternatives
        for k in _between(entries.original.start, start, stop):
            code, size = int(entries.original.start[k]), int(entries.original.size[k])
            replacement, length = int(entries.replacement.start[k]), int(entries.replacement.size[k])
            words: tuple[int, ...] | None
            if entries.is_callback[k]:
                words = () if PATCHES_NOPS in self._binary.symbols.names_at(replacement) else None
            else:
                raw = self._binary.text.read_at(replacement, length) if length else b""
                words = None if raw is None else tuple(np.frombuffer(raw, "<u4").tolist())
            found.append((code, Replacement(words, replacement, code + size)))
        for code, what in found:
            self.at.setdefault(code, []).append(what)
        return {what.resume for _, what in found}


def _between(vaddrs: np.ndarray, start: int, stop: int) -> list[int]:
    inside = vaddrs - np.uint64(start) < np.uint64(stop - start)
    return [int(k) for k in np.flatnonzero(inside)]
