"""Variables that keep what was read of them, so that a capture can have what an audit reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.live.audit.layouts import Layouts
from prologue.live.audit.variables import Variables
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE, Range

_MOST_PIECES: Final = 20_000  # a core has fewer than 65,535 segments


class KeptVariables(Variables):
    """Variables as ``Variables`` has them; every range that was read is kept."""

    def __init__(
        self, memory: Memory, symbols: Symbols | None, slide: int, layouts: Layouts, image: ElfImage | None = None
    ) -> None:
        super().__init__(memory, symbols, slide, layouts, image)
        self._kept: dict[Range, bytes] = {}

    def read(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes as ``Variables.read``, and keep them."""
        data = super().read(vaddr, size)
        if data is not None:
            self._kept[Range(vaddr, size)] = data
        return data

    def pieces(self, near: int = 0) -> Sequence[tuple[int, bytes]]:
        """Return address and bytes of all that was read, ascending and apart.

        Ranges that touch are one piece; so are those with at most ``near`` bytes between them, which are kept as well,
        or at most a page if they would be too many pieces for a core.
        """
        pieces = self._joined(near)
        return pieces if len(pieces) <= _MOST_PIECES else self._joined(PAGE)

    def _joined(self, near: int) -> Sequence[tuple[int, bytes]]:
        pieces: list[tuple[int, bytearray]] = []
        for (vaddr, _), data in sorted(self._kept.items()):
            between = self._between(*pieces[-1], vaddr, near) if pieces else None
            if between is None:
                pieces.append((vaddr, bytearray(data)))
                continue
            start, whole = pieces[-1]
            whole += between
            whole[vaddr - start : vaddr - start + len(data)] = data
        return [(vaddr, bytes(data)) for vaddr, data in pieces]

    def _between(self, start: int, data: bytearray, vaddr: int, near: int) -> bytes | None:
        """Return the bytes from the end of a piece to ``vaddr``; None if they are too many, or memory lacks them."""
        end = start + len(data)
        if vaddr <= end:
            return b""
        return super().read(end, vaddr - end) if vaddr - end <= near else None
