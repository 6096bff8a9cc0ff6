"""Reasons for which a kernel would refuse a module for what it was built with.

Where a module has CRCs of symbols, the kernel ignores the release in its vermagic and compares the CRC of each symbol
that it refers to (kernel/module/version.c, ``same_magic`` and ``check_version``, 6.12; the same in 5.10 and 7.2):
modules of one kABI belong to every kernel that has it.
"""

from __future__ import annotations

from typing import NamedTuple

from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module


class VersionCheck(NamedTuple):
    """Names of the symbols whose CRCs agree, those that differ, and those that this kernel itself does not export."""

    same: tuple[str, ...]
    differing: tuple[str, ...]
    elsewhere: tuple[str, ...]  # of other modules, unless ``depends`` of the module is empty


def check_versions(module: Module, kernel: Kernel) -> VersionCheck | None:
    """Compare a module's CRCs with a kernel's; None if either has none: then the releases have to be the same."""
    wanted, exported = module.crcs, kernel.crcs
    if not wanted or not exported:
        return None
    known = {name: crc for name, crc in wanted.items() if name in exported}
    return VersionCheck(
        tuple(name for name, crc in known.items() if exported[name] == crc),
        tuple(name for name, crc in known.items() if exported[name] != crc),
        tuple(name for name in wanted if name not in exported),
    )


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
