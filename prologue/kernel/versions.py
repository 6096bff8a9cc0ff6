"""Versions of symbols (CONFIG_MODVERSIONS): the CRCs of a kernel's exports, and those that a module was built with."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols

_EXPORTED: Final = "__crc_"
# struct modversion_info of 64 bits (include/linux/module.h)
_VERSION: Final = np.dtype([("crc", "<u8"), ("name", "S56")])


def exported_crcs(image: ElfImage, symbols: Symbols) -> dict[str, int]:
    """Return the CRC of each symbol that a vmlinux exports; empty without CONFIG_MODVERSIONS.

    ``__crc_NAME`` labels the word with it: in ``__kcrctab`` since 5.19, before that in ``.rodata``, or it is the CRC
    itself, an absolute symbol (include/linux/export.h, 5.10).
    """
    labels = symbols.with_prefix(_EXPORTED)
    offsets = image.offsets(np.array([label.vaddr for label in labels], np.uint64))
    words = np.array([label.vaddr for label in labels], np.uint64)
    words[offsets >= 0] = image.words_at(offsets[offsets >= 0], 4)
    names = (label.name.removeprefix(_EXPORTED) for label in labels)
    return dict(zip(names, (words & np.uint64(0xFFFFFFFF)).tolist(), strict=True))


def imported_crcs(image: ElfImage) -> dict[str, int]:
    """Return the CRC that a module was built with of each symbol that it refers to; empty without them.

    Since 6.14 names that are too long for ``__versions`` are in two sections of their own (CONFIG_EXTENDED_MODVERSIONS,
    scripts/mod/modpost.c).
    """
    plain = image.section("__versions")
    rows = image.view(plain, _VERSION) if plain is not None else np.zeros(0, _VERSION)
    result = {bytes(row["name"]).decode("ascii", "replace"): int(row["crc"]) for row in rows}
    crcs, names = image.section("__version_ext_crcs"), image.section("__version_ext_names")
    if crcs is not None and names is not None:
        texts = image.data(names).decode("ascii", "replace").split("\0")
        result |= dict(zip(texts, image.view(crcs, "<u4").tolist(), strict=False))
    return result
