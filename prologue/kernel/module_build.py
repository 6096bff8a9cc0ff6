"""Reasons for which a kernel would refuse a module for what it was built with.

Where a module has CRCs of symbols, the kernel ignores the release in its vermagic and compares the CRC of each symbol
that it refers to (kernel/module/version.c, ``same_magic`` and ``check_version``, 6.12; the same in 5.10 and 7.2):
modules of one kABI belong to every kernel that has it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module

_EXPORTED: Final = "__crc_"
# struct modversion_info of 64 bits (include/linux/module.h)
_VERSION: Final = np.dtype([("crc", "<u8"), ("name", "S56")])


class VersionCheck(NamedTuple):
    """Names of the symbols whose CRCs agree, those that differ, and those that this kernel itself does not export."""

    same: tuple[str, ...]
    differing: tuple[str, ...]
    elsewhere: tuple[str, ...]  # of other modules, unless ``depends`` of the module is empty


def check_versions(module: Module, kernel: Kernel) -> VersionCheck | None:
    """Compare a module's CRCs with a kernel's; None if either has none: then the releases have to be the same."""
    wanted, exported = _imported_crcs(module.image), _exported_crcs(kernel)
    if not wanted or not exported:
        return None
    known = {name: crc for name, crc in wanted.items() if name in exported}
    return VersionCheck(
        tuple(name for name, crc in known.items() if exported[name] == crc),
        tuple(name for name, crc in known.items() if exported[name] != crc),
        tuple(name for name in wanted if name not in exported),
    )


@lru_cache(maxsize=2)  # of the kernel of a thousand modules
def _exported_crcs(kernel: Kernel) -> dict[str, int]:
    """Return the CRC of each symbol that a vmlinux exports; empty without CONFIG_MODVERSIONS.

    ``__crc_NAME`` labels the word with it: in ``__kcrctab`` since 5.19, before that in ``.rodata``, or it is the CRC
    itself, an absolute symbol (include/linux/export.h, 5.10).
    """
    labels = kernel.symbols.with_prefix(_EXPORTED)
    offsets = kernel.image.offsets(np.array([label.vaddr for label in labels], np.uint64))
    words = np.array([label.vaddr for label in labels], np.uint64)
    words[offsets >= 0] = kernel.image.words_at(offsets[offsets >= 0], 4)
    names = (label.name.removeprefix(_EXPORTED) for label in labels)
    return dict(zip(names, (words & np.uint64(0xFFFFFFFF)).tolist(), strict=True))


def _imported_crcs(image: ElfImage) -> dict[str, int]:
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


def why_other_build(module: Module, kernel: Kernel) -> str:
    """Say why a kernel would refuse a module for what it was built with; empty if nothing is known against it."""
    other = bool(module.release and kernel.release and module.release != kernel.release)
    differs = f"built for {module.release}, but {kernel.path} is {kernel.release}"
    check = check_versions(module, kernel)
    if check is None:
        return differs if other else ""
    if check.differing:
        compared = len(check.differing) + len(check.same)
        names = ", ".join(check.differing[:3]) + (", ..." if len(check.differing) > 3 else "")
        built = f"built for {module.release}" if other else "of another build"
        return f"{built}: {len(check.differing)} of {compared} CRCs of symbols differ from {kernel.path}'s: {names}"
    if other and (not check.same or (check.elsewhere and not module.modinfo.get("depends"))):
        lacks = f", which does not export {check.elsewhere[0]}" if check.elsewhere else ""
        return f"{differs}{lacks}"
    return ""


def versions_note(module: Module, kernel: Kernel) -> str:
    """Say by what a module of another release was taken for this kernel's; empty if the releases are the same."""
    check = check_versions(module, kernel) if module.release != kernel.release else None
    if check is None:
        return ""
    others = f"; {len(check.elsewhere)} are of other modules, and were not compared" if check.elsewhere else ""
    return f"built for {module.release}, judged for {kernel.release}: CRCs of {len(check.same)} symbols agree{others}"
