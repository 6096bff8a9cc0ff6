"""The trees of Debian's kernel source packages, unpacked once: what is built or read has links to one in the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from prologue_bench.errors import BenchError
from prologue_bench.host import cache, programs


def unpacked_source(deb: Path) -> Path:
    """Return the tree of a ``linux-source-...`` package, 80,000 files; the cache's, so read-only.

    Raises BenchError if the package is damaged or the disk is full.
    """
    return cache.produce(f"trees/{deb.stem}", lambda tree: _unpack(deb, tree))


def link_source(deb: Path, tree: Path) -> None:
    """Make a tree of hard links to it: to change a file there, put another one in its place.

    Unpacking takes ten seconds of CPU time and 1.3 GB, links take half a second. Raises as ``unpacked_source`` does.
    """
    _run(["cp", "-al", str(unpacked_source(deb)), str(tree)])


def extract_all(deb: Path, directory: Path) -> None:
    """Unpack a package into a directory, made if need be; raises BenchError."""
    _run([programs.find("dpkg-deb"), "--extract", str(deb), str(directory)])


def _unpack(deb: Path, tree: Path) -> None:
    scratch = tree.with_name(f"{tree.name}.unpacked")
    extract_all(deb, scratch)
    (tarball,) = (scratch / "usr" / "src").glob("linux-source-*.tar.xz")
    tree.mkdir()
    _run(["tar", "-xf", str(tarball), "-C", str(tree), "--strip-components=1"])
    shutil.rmtree(scratch)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
