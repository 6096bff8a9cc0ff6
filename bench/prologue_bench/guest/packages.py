"""Debian's arm64 packages, by name, cached."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from prologue_bench.errors import BenchError, UnreachableError
from prologue_bench.guest import apt
from prologue_bench.host import cache
from prologue_bench.host.progress import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prologue_bench.host.progress import Progress

_Taken = TypeVar("_Taken")
_YOUNG: Final = 60.0  # seconds; lists of that age are those of the archive as it is


def download(suite: str, names: Sequence[str], progress: Progress | None = None) -> tuple[Path, ...]:
    """Return the .deb files of the named arm64 packages, in that order, fetching what is not cached.

    Raises BenchError for a package that the suite does not have, UnreachableError if it can be neither fetched nor
    found in the cache, MissingToolError if there is no apt.
    """
    return from_lists(suite, lambda apt, report: fetch_all(apt, [apt.show(name) for name in names], report), progress)


def from_lists(
    suite: str, take: Callable[[apt.PrivateApt, Progress], _Taken], progress: Progress | None = None
) -> _Taken:
    """Return what ``take`` finds and fetches by the suite's package lists.

    The archive moves on: lists of this morning may name a package that is gone, so they are fetched again then.
    Without network old lists do, and without lists nothing does. Raises as ``download`` does.
    """
    with shown(progress) as report:
        private = apt.open_apt(suite)
        try:
            private.refresh(report)
        except UnreachableError:
            if private.lists_age == float("inf"):
                raise
        try:
            return take(private, report)
        except UnreachableError:
            if private.lists_age < _YOUNG:
                raise
            private.refresh(report, max_age=0)
            return take(private, report)


def fetch_all(private: apt.PrivateApt, packages: Sequence[apt.Package], report: Progress) -> tuple[Path, ...]:
    """Return the .deb files of packages of the lists; raises as ``download`` does."""
    return tuple(
        cache.produce(
            f"debs/{private.suite}/{package.name}_{file_name(package.version)}_arm64.deb",
            partial(fetch, private, package, progress=report),
        )
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


def file_name(version: str) -> str:
    """Return a version as Debian writes it in file names that must not hold a colon (the epoch's)."""
    return version.replace(":", "%3a")
