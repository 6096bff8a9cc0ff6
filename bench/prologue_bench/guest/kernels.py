"""Debian's arm64 kernels, by suite and flavour, cached."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prologue.documents import parse_json
from prologue_bench.errors import BenchError, UnreachableError
from prologue_bench.guest import apt, deb
from prologue_bench.guest.packages import fetch, file_name
from prologue_bench.host import cache
from prologue_bench.host.progress import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prologue_bench.host.progress import Progress

_KERNEL_PACKAGE = re.compile(r"linux-image-(?P<release>\d.*)-dbg")
_VMLINUX = re.compile(r"usr/lib/debug/(?:boot/vmlinux-[^/]+|lib/modules/[^/]+/vmlinux)")
_UNPACKED_PER_BYTE = 5  # roughly what a debug package unpacks to; only the progress bar cares


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianKernel:
    """An unstripped kernel as Debian built it. Treat `vmlinux` as read-only: it is the cache's."""

    suite: str
    flavour: str
    release: str  # what `uname -r` says
    package: str
    package_version: str
    vmlinux: Path


def fetch_kernel(suite: str, flavour: str = "cloud-arm64") -> DebianKernel:
    """Return the newest kernel of `suite`, downloading its debug package (260-320 MB) if it is not cached.

    Without network, the newest cached kernel of that suite and flavour is returned. Raises UnreachableError if there is
    none, MissingToolError if there is no apt, BenchError if the suite has no such kernel or the disk is full.
    """
    with shown() as report:
        private = apt.open_apt(suite)
        try:
            private.refresh(report)
            try:
                return _fetch_newest(private, flavour, report)
            except UnreachableError:
                if private.lists_age < 60:
                    raise
                # The archive moves on: lists of this morning may name a kernel that is gone.
                private.refresh(report, max_age=0)
                return _fetch_newest(private, flavour, report)
        except UnreachableError as error:
            cached = _cached_kernels(suite, flavour)
            if not cached:
                raise UnreachableError(f"no cached {flavour} kernel of {suite}: {error.message}") from error
            return cached[-1]


def _fetch_newest(private: apt.PrivateApt, flavour: str, progress: Progress) -> DebianKernel:
    meta = private.show(f"linux-image-{flavour}-dbg")
    fixed = [(name, version) for name, version in meta.depends if _KERNEL_PACKAGE.fullmatch(name)]
    if len(fixed) != 1:
        raise BenchError(f"{meta.name} {meta.version} of {private.suite} names no single kernel: {meta.depends}")
    package = private.show(fixed[0][0])
    if fixed[0][1] not in (None, package.version):
        raise BenchError(f"{private.suite} has {package.name} {package.version}, {meta.name} wants {fixed[0][1]}")
    key = f"{_kernel_directory(private.suite, flavour)}/{package.name}_{file_name(package.version)}"
    directory = cache.produce(key, lambda path: _make_kernel(private, flavour, package, path, progress=progress))
    return _load(directory)


def _make_kernel(
    private: apt.PrivateApt, flavour: str, package: apt.Package, directory: Path, *, progress: Progress
) -> None:
    """Fill `directory` with the package's vmlinux and a description of it."""
    match = _KERNEL_PACKAGE.fullmatch(package.name)
    if match is None:
        raise BenchError(f"{package.name} is not a kernel's debug package")
    directory.mkdir()
    path = directory / "package.deb"
    fetch(private, package, path, progress=progress)
    expected = package.size * _UNPACKED_PER_BYTE

    def unpacked(count: int) -> None:
        progress(f"unpacking {package.name}", min(100.0, 100.0 * count / expected))

    vmlinux = directory / "vmlinux"
    if not deb.extract_first(path, lambda name: _VMLINUX.fullmatch(name) is not None, vmlinux, unpacked):
        raise BenchError(f"{package.name} {package.version} has no vmlinux where Debian's debug packages keep it")
    vmlinux.chmod(0o444)
    path.unlink()
    description = {
        "suite": private.suite,
        "flavour": flavour,
        "release": match["release"],
        "package": package.name,
        "package_version": package.version,
    }
    (directory / "kernel.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _cached_kernels(suite: str, flavour: str) -> list[DebianKernel]:
    """Return the cached kernels, the one fetched last at the end."""
    parent = cache.root() / _kernel_directory(suite, flavour)
    entries: Iterable[Path] = parent.iterdir() if parent.is_dir() else ()
    by_age: Callable[[Path], float] = lambda path: path.stat().st_mtime  # noqa: E731 - names the sort key
    return [_load(path) for path in sorted(entries, key=by_age)]


def _load(directory: Path) -> DebianKernel:
    fields = parse_json((directory / "kernel.json").read_text(encoding="utf-8"))
    return DebianKernel(vmlinux=directory / "vmlinux", **fields)


def _kernel_directory(suite: str, flavour: str) -> str:
    return f"kernels/{suite}/{flavour}"
