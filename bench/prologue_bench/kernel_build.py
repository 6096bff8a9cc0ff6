"""Builds a small arm64 kernel from Debian's kernel source package, once for everything that decides what comes out."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue_bench import cache, debian, tools
from prologue_bench.errors import BenchError
from prologue_bench.progress import shown

if TYPE_CHECKING:
    from prologue_bench.progress import Progress

CROSS: Final = "aarch64-linux-gnu-"
# What the build runs, and the package that brings it where the name does not say.
TOOLS: Final = ("make", "gcc", "flex", "bison", "bc", "perl", "xz", "dpkg-deb", f"{CROSS}gcc", f"{CROSS}ld")


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """Treat both files as read-only: they are the cache's."""

    vmlinux: Path
    config: Path


def build_kernel(suite: str, source: str, progress: Progress | None = None) -> BuiltKernel:
    """Build the vmlinux of a ``linux-source-...`` package with the small configuration; about four minutes.

    Raises MissingToolError, what ``debian.download`` raises, and BenchError with the end of make's output.
    """
    with shown(progress) as report:
        for name in TOOLS:
            tools.find(name)
        (deb,) = debian.download(suite, [source], report)
        fragment = files("prologue_bench").joinpath("minimal.config").read_bytes()
        made_by = [
            deb.name.encode(),
            fragment,
            Path(__file__).read_bytes(),
            _version(f"{CROSS}gcc"),
            _version(f"{CROSS}ld"),
        ]
        key = f"builds/{source}-{hashlib.sha256(b'|'.join(made_by)).hexdigest()[:16]}"
        directory = cache.produce(key, lambda path: _build(deb, fragment, path, report))
    return BuiltKernel(directory / "vmlinux", directory / "config")


def _version(tool: str) -> bytes:
    return subprocess.run([tools.find(tool), "--version"], capture_output=True, check=True).stdout.splitlines()[0]


def _build(deb: Path, fragment: bytes, directory: Path, progress: Progress) -> None:
    directory.mkdir()
    # Beside the result, not in /tmp: source and objects take 2 GB for a while.
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="build-") as name:
        work = Path(name)
        progress(f"unpacking {deb.stem}", 0.0)
        _run(["dpkg-deb", "--extract", str(deb), str(work)], work)
        (tarball,) = (work / "usr" / "src").glob("linux-source-*.tar.xz")
        _run(["tar", "-xf", str(tarball)], work)
        (tree,) = (path for path in work.glob("linux-source-*") if path.is_dir())
        (work / "fragment").write_bytes(fragment)
        make = ["make", "-s", "-C", str(tree), f"O={work / 'out'}", "ARCH=arm64", f"CROSS_COMPILE={CROSS}"]
        _run([*make, f"KCONFIG_ALLCONFIG={work / 'fragment'}", "allnoconfig"], work)
        _require_options(fragment.decode(), (work / "out" / ".config").read_text(encoding="utf-8"), deb)
        progress(f"building {deb.stem}", 10.0)
        _run([*make, f"-j{len(os.sched_getaffinity(0))}", "vmlinux"], work)
        (work / "out" / "vmlinux").rename(directory / "vmlinux")
        (work / "out" / ".config").rename(directory / "config")
    (directory / "vmlinux").chmod(0o444)


def _require_options(fragment: str, config: str, deb: Path) -> None:
    """Kconfig drops what it does not know or what something else forbids, and says nothing."""
    wanted = {line for line in fragment.splitlines() if line.startswith("CONFIG_")}
    dropped = sorted(wanted - set(config.splitlines()))
    if dropped:
        raise BenchError(f"{deb.stem} cannot be configured with {', '.join(dropped)}")


def _run(command: list[str], directory: Path) -> None:
    # Nothing of our caller's environment gets in (LLVM, KCFLAGS, an outer make's MAKEFLAGS): the cache's key does not
    # know of it. The build's own time and user would make two builds of one source differ.
    fixed = {"KBUILD_BUILD_TIMESTAMP": "1970-01-01", "KBUILD_BUILD_USER": "prologue", "KBUILD_BUILD_HOST": "prologue"}
    done = subprocess.run(
        command, cwd=directory, env={"PATH": os.environ["PATH"], "LC_ALL": "C", **fixed}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        tail = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise BenchError(f"{' '.join(command[:2])} failed in {directory}:\n  {tail}")
