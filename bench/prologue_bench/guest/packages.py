"""Debian's arm64 packages, by name, cached."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError, UnreachableError
from prologue_bench.guest import apt
from prologue_bench.host import cache
from prologue_bench.host.progress import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prologue_bench.host.progress import Progress


def download(suite: str, names: Sequence[str], progress: Progress | None = None) -> tuple[Path, ...]:
    """Return the .deb files of the named arm64 packages, in that order, fetching what is not cached.

    Raises BenchError for a package that the suite does not have, UnreachableError if it can be neither fetched nor
    found in the cache, MissingToolError if there is no apt.
    """
    with shown(progress) as report:
        private = apt.open_apt(suite)
        _refresh_if_possible(private, report)
        return _fetched(private, [private.show(name) for name in names], report)


def download_whole(suite: str, name: str) -> tuple[Path, ...]:
    """Return the .deb files of a package, which is the first, and of those that it needs in exactly its own version.

    Debian 14 keeps a kernel's boot file and modules in packages of their own: linux-image-RELEASE holds no file.
    Raises what ``download`` raises.
    """
    with shown() as report:
        private = apt.open_apt(suite)
        _refresh_if_possible(private, report)
        package = private.show(name)
        parts = [private.show(part) for part, version in package.depends if version == package.version]
        return _fetched(private, [package, *parts], report)


def _fetched(private: apt.PrivateApt, packages: Sequence[apt.Package], report: Progress) -> tuple[Path, ...]:
    return tuple(
        cache.produce(_deb_key(private.suite, package), partial(fetch, private, package, progress=report))
        for package in packages
    )


def fetch(private: apt.PrivateApt, package: apt.Package, destination: Path, *, progress: Progress) -> None:
    """Download one package to `destination`; raises BenchError if there is no room for it, and what apt raises."""
    free = shutil.disk_usage(destination.parent).free
    if free < package.size:
        raise BenchError(f"no space left for {package.name}: {package.size >> 20} MiB to fetch, {free >> 20} free")
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix="fetch-") as name:
        private.download([package], Path(name), progress)
        (fetched,) = Path(name).glob("*.deb")
        fetched.rename(destination)


def _refresh_if_possible(private: apt.PrivateApt, progress: Progress) -> None:
    """Fetch the lists unless they are young; without network, old lists do, and without lists nothing does."""
    try:
        private.refresh(progress)
    except UnreachableError:
        if private.lists_age == float("inf"):
            raise


def _deb_key(suite: str, package: apt.Package) -> str:
    return f"debs/{suite}/{package.name}_{file_name(package.version)}_arm64.deb"


def file_name(version: str) -> str:
    """Return a version as Debian writes it in file names that must not hold a colon (the epoch's)."""
    return version.replace(":", "%3a")
