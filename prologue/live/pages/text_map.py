"""The map of a kernel's text for the script of a page: words of each mechanism, symbols, and wrong words.

Arrays are little-endian 32-bit words, their bytes by significance (all lowest bytes first: that compresses well), as
zlib streams in base64. Offsets are in words from ``base``; sorted ones are differences to the one before.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from prologue.arrays import U32, U64, among, sorted_unique
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.live.audit.audited import LiveWord, OwnedWords
from prologue.live.audit.outcome import AuditedFile
from prologue.live.report.strips import strips_of, wrong_vaddrs
from prologue.report.html.page import TextMap
from prologue.words import printable

_BLOCK: Final = 1 << 16  # bytes of text that are on the map or not
_WRONG: Final = 2000  # wrong words with their message
_TEXTS: Final = 20_000  # distinct words that are disassembled
_BRANCHES: Final = (0x14000000, 0x94000000)  # B and BL, whose targets the script knows


def text_map(file: AuditedFile) -> TextMap:
    """Make the map of one audited file."""
    return map_of_strips(file.path, strips_of(file), file.audited.words)


def map_of_strips(
    path: Path, strips: Sequence[OwnedWords], wrong: Sequence[LiveWord] = (), *, says: str = "changed"
) -> TextMap:
    """Make the map of a vmlinux with a strip for each mechanism; 64 KiB without a word of a strip are left out.

    ``says`` is what the words are that stand out: those that differ from the file, or with another text all of them.
    """
    owned = np.concatenate([strip.vaddrs for strip in strips] or [np.zeros(0, np.uint64)])
    blocks = sorted_unique(owned // np.uint64(_BLOCK))
    base = int(blocks[0]) * _BLOCK if len(blocks) else 0
    rest = (_BLOCK - 4 - int(owned.max()) % _BLOCK) // 4 if len(owned) else 0  # words after the last one of a strip
    symbols = Symbols(ElfImage(path))
    starts = sorted_unique(symbols.function_starts)
    starts = starts[starts >= np.uint64(base)]
    names = [printable(place.symbol or "") for place in symbols.locate_all(starts.tolist())]
    data = {
        "base": hex(base),
        "says": says,
        "block": _BLOCK // 4,
        "words": len(blocks) * (_BLOCK // 4) - rest,
        "blocks": _packed(_steps(blocks * np.uint64(_BLOCK), base)),
        "strips": [_strip_data(strip, base, wrong_vaddrs(wrong)) for strip in strips],
        "symbols": {"at": _packed(_steps(starts, base)), "names": _squeezed("\n".join(names))},
        "texts": _squeezed(json.dumps(_texts(strips))),
        "wrong": [[(word.vaddr - base) // 4, word.words, word.kind, word.message] for word in wrong[:_WRONG]],
    }
    script = files(__package__).joinpath("text_map.js").read_text("utf-8")
    return TextMap(title="Map of the kernel's text", data=data, script=script)


def _strip_data(strip: OwnedWords, base: int, wrong: U64) -> dict[str, Any]:
    return {
        "name": strip.mechanism,
        "count": len(strip.vaddrs),
        "changed": int(strip.changed.sum()),
        "at": _packed(_steps(strip.vaddrs, base)),
        "linked": _packed(strip.linked),
        "live": _packed(strip.live),
        "wrong": np.flatnonzero(among(strip.vaddrs, wrong)).tolist(),
    }


def _texts(strips: Sequence[OwnedWords]) -> dict[str, str]:
    """Return the disassembly of every word whose text is the same at any address."""
    from prologue.insn.disasm import insn_text

    words: U32 = np.unique(np.concatenate([words for strip in strips for words in (strip.linked, strip.live)]))
    words = words[~np.isin(words & np.uint32(0xFC000000), _BRANCHES)][:_TEXTS]
    return {f"{word:08x}": insn_text(word) for word in words.tolist() if not _is_relative(word)}


def _is_relative(word: int) -> bool:
    """Return whether the text depends on the address: ADR, ADRP, B.cond, CBZ, TBZ, LDR (literal) (Arm ARM, C4.1)."""
    return (
        word & 0x1F000000 == 0x10000000
        or word & 0x7E000000 in (0x34000000, 0x36000000)
        or (word & 0xFE000000 == 0x54000000 or word & 0x3B000000 == 0x18000000)
    )


def _steps(vaddrs: U64, base: int) -> U32:
    offsets = (vaddrs - np.uint64(base)) >> np.uint64(2)
    return np.diff(offsets, prepend=np.uint64(0)).astype(np.uint32)


def _packed(words: U32) -> str:
    planes = words.astype("<u4").view(np.uint8).reshape(-1, 4).T
    return b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")


def _squeezed(text: str) -> str:
    return b64encode(zlib.compress(text.encode("utf-8", "backslashreplace"), 9)).decode("ascii")
