"""Debian's arm64 kernels, by suite and flavour, cached."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path
from typing import Final

from prologue.documents import parse_json
from prologue_bench.errors import BenchError, UnreachableError
from prologue_bench.guest import apt, deb
from prologue_bench.guest.apt import Package, PrivateApt, parse_packages
from prologue_bench.guest.packages import fetch, fetch_all, file_name, from_lists
from prologue_bench.host import cache, programs
from prologue_bench.host.progress import Progress
from tests.support.debian.source import extract_all

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
    """Return the newest kernel that `suite` has whole, downloading its debug package (260-320 MB) if it is not cached.

    Without network, the newest cached kernel of that suite and flavour is returned. Raises UnreachableError if there is
    none, MissingToolError if there is no apt, BenchError if the suite has no such kernel or the disk is full.
    """
    try:
        return from_lists(suite, lambda private, report: _fetch_newest(private, flavour, report))
    except UnreachableError as error:
        cached = _cached_kernels(suite, flavour)
        if not cached:
            raise UnreachableError(f"no cached {flavour} kernel of {suite}: {error.message}") from error
        return cached[-1]


def fetch_modules(kernel: DebianKernel) -> Path:
    """Return a directory with the kernel's image packages, unpacked: ``boot`` and ``.../lib/modules``.

    Treat it as read-only: it is the cache's. Raises what ``packages.download`` raises.
    """

    def unpack(private: apt.PrivateApt, report: Progress, path: Path) -> None:
        for package in fetch_all(private, _image_of(private, kernel), report):
            extract_all(package, path)

    def take(private: apt.PrivateApt, report: Progress) -> Path:
        return cache.produce(key, lambda path: unpack(private, report, path))

    key = f"modules/{kernel.suite}/{kernel.release}_{file_name(kernel.package_version)}"
    whole = cache.root() / key
    return whole if whole.exists() else from_lists(kernel.suite, take)


def boot_file(package: Path) -> Path:
    """Return the vmlinuz of an unpacked package: in ``boot``, since Debian 14 beside the modules."""
    (path,) = [*(package / "boot").glob("vmlinuz-*"), *package.glob("usr/lib/modules/*/vmlinuz")]
    return path


def _image_of(private: apt.PrivateApt, kernel: DebianKernel) -> Sequence[apt.Package]:
    for each in kernel_sets(private, kernel.flavour):
        if (each.release, each.debug.version) == (kernel.release, kernel.package_version):
            return each.image
    raise BenchError(
        f"{kernel.suite} has no boot file and modules of {kernel.release} {kernel.package_version} any more: run the"
        " same command again, for the kernel that it has now"
    )


def _fetch_newest(private: apt.PrivateApt, flavour: str, progress: Progress) -> DebianKernel:
    newest = kernel_sets(private, flavour)[0]
    key = f"{_kernel_directory(private.suite, flavour)}/{newest.debug.name}_{file_name(newest.debug.version)}"
    return _load(cache.produce(key, lambda path: _make_kernel(private, flavour, newest, path, progress=progress)))


def _make_kernel(
    private: apt.PrivateApt, flavour: str, newest: KernelSet, directory: Path, *, progress: Progress
) -> None:
    """Fill `directory` with the package's vmlinux and a description of it."""
    package = newest.debug
    directory.mkdir()
    path = directory / "package.deb"
    fetch(private, package, path, progress=progress)
    expected = package.size * _UNPACKED_PER_BYTE

    def unpacked(count: int) -> None:
        progress(f"unpacking {package.name}", min(100.0, 100.0 * count / expected))

    vmlinux = directory / "vmlinux"
    if not extract_first(path, lambda name: _VMLINUX.fullmatch(name) is not None, vmlinux, unpacked):
        raise BenchError(f"{package.name} {package.version} has no vmlinux where Debian's debug packages keep it")
    vmlinux.chmod(0o444)
    path.unlink()
    description = {
        "suite": private.suite,
        "flavour": flavour,
        "release": newest.release,
        "package": package.name,
        "package_version": package.version,
    }
    (directory / "kernel.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def extract_first(
    package: Path, wanted: Callable[[str], bool], destination: Path, progress: Callable[[int], None]
) -> bool:
    """Copy the first regular file whose path satisfies `wanted` to `destination`; False if there is none.

    Symbolic links to it, wherever they are, need no care: only the regular file is looked at. The package is read as
    a stream and no further than needed. `progress` is called with the number of bytes unpacked so far.
    """
    with deb.tar_stream(package) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            progress(member.offset)
            if not member.isreg() or not wanted(posixpath.normpath(member.name)):
                continue
            source = tar.extractfile(member)
            if source is None:
                continue
            with destination.open("xb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            return True
    return False


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
