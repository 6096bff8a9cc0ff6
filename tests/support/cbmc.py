"""CBMC, the bounded model checker: this machine's own, or Debian 13's beside the libraries that it was built with."""

from __future__ import annotations

import platform
import shutil
from functools import cache
from pathlib import Path
from typing import Final

from prologue_bench.guest import apt
from prologue_bench.guest.apt import sources_list
from prologue_bench.host import cache as kept
from prologue_bench.host.progress import silent
from tests.support.debian.source import extract_all
from tests.support.needs import missing, or_missing

_SUITE: Final = "trixie"
_PACKAGES: Final = ("cbmc", "minisat", "libc6", "libstdc++6", "libgcc-s1", "zlib1g")
# Debian's name of the architecture, and of its program that loads libraries.
_MACHINES: Final = {"x86_64": ("amd64", "ld-linux-x86-64.so.2"), "aarch64": ("arm64", "ld-linux-aarch64.so.1")}


@cache
def needs_cbmc() -> tuple[str, ...]:
    """The words of a command that runs it."""
    installed = shutil.which("cbmc")
    if installed:
        return (installed,)
    if platform.machine() not in _MACHINES:
        missing("cbmc")
    with or_missing():
        root = kept.produce(f"cbmc/{_SUITE}", _unpack)
    loader = next(root.glob(f"usr/lib/*/{_MACHINES[platform.machine()][1]}"))
    return str(loader), "--library-path", f"{loader.parent}:{root}/usr/lib", f"{root}/usr/bin/cbmc"


def _unpack(root: Path) -> None:
    home = root.with_name("apt")
    for directory in ("lists/partial", "cache/archives/partial", "debs"):
        (home / directory).mkdir(parents=True)
    (home / "status").touch()
    architecture = _MACHINES[platform.machine()][0]
    (home / "apt.conf").write_text(apt._CONF.format(home=home).replace('"arm64"', f'"{architecture}"'))
    (home / "sources.list").write_text(sources_list(apt.machine_archive(), _SUITE, apt.keyring()))
    private = apt.PrivateApt(suite=f"{_SUITE}-host", home=home)
    private.refresh(silent)
    private.download([private.show(name) for name in _PACKAGES], home / "debs", silent)
    for package in (home / "debs").iterdir():
        extract_all(package, root)
