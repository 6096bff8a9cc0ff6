"""Kernels that a Debian suite has whole: the debug package, and boot file and modules of the same version.

Debian uploads the signed image of a kernel hours or days after its debug package, and removes the parts of an old
kernel one by one: the newest debug package may have no image.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Final

from prologue_bench.errors import BenchError
from prologue_bench.guest.apt import parse_packages
from prologue_bench.host import programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prologue_bench.guest.apt import Package, PrivateApt

# Packages that hold a release's boot file and modules. What is not signed is as good: nothing here checks signatures.
_IMAGES: Final = (
    ("linux-image-{}",),
    ("linux-image-{}-unsigned",),
    ("linux-binary-unsigned-{}", "linux-modules-{}"),  # Debian 14, where linux-image-RELEASE holds no file
)


@dataclass(frozen=True, slots=True)
class KernelSet:
    """A kernel of a suite: packages of one version."""

    release: str  # what `uname -r` says
    debug: Package
    image: tuple[Package, ...]  # with what they need in exactly their own version


def kernel_sets(private: PrivateApt, flavour: str) -> list[KernelSet]:
    """Return the whole kernels of that flavour, the newest first.

    Raises BenchError if the suite has none; says which debug packages lack an image.
    """
    debug_name = re.compile(rf"linux-image-(?P<release>\d[^-]*(?:-\d+)?-{re.escape(flavour)})-dbg")
    names = private.ask("pkgnames", "linux-", what="linux-").split()  # also those that others only mention
    releases = [match["release"] for match in map(debug_name.fullmatch, names) if match]
    of_releases = [name for name in names if any(release in name for release in releases)]
    packages = {(package.name, package.version): package for package in _versions(private, of_releases)}
    sets, lacking = [], []
    for (name, version), package in packages.items():
        match = debug_name.fullmatch(name)
        if match is None:
            continue
        image = _image(packages, match["release"], version)
        if image is None:
            lacking.append(match["release"])
        else:
            sets.append(KernelSet(match["release"], package, image))
    if not sets:
        why = f": no image of {', '.join(sorted(lacking))} yet; try again tomorrow" if lacking else ""
        raise BenchError(f"{private.suite} has no {flavour} kernel with debug package, boot file and modules{why}")
    return sorted(sets, key=cmp_to_key(_compare), reverse=True)


def _versions(private: PrivateApt, names: list[str]) -> list[Package]:
    return parse_packages(private.ask("show", *sorted(names), what="kernels")) if names else []


def _image(packages: Mapping[tuple[str, str], Package], release: str, version: str) -> tuple[Package, ...] | None:
    """Return the packages of one of the forms of which all are there."""
    for form in _IMAGES:
        wanted = [name.format(release) for name in form]
        for name in wanted:  # it grows
            package = packages.get((name, version))
            if package is None:
                break
            wanted += [name for name, exactly in package.depends if exactly == version and name not in wanted]
        else:
            return tuple(packages[name, version] for name in wanted)
    return None


def _compare(this: KernelSet, other: KernelSet) -> int:
    """Compare two kernels by Debian's version numbers: negative if the first is older."""
    if this.debug.version == other.debug.version:
        return 0
    command = [programs.find("dpkg"), "--compare-versions", this.debug.version, "lt", other.debug.version]
    return -1 if subprocess.run(command, check=False).returncode == 0 else 1
