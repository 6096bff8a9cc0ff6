"""Finds the programs that the bench runs."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess

from prologue_bench.errors import MissingToolError

CROSS = "aarch64-linux-gnu-"
# What to install, for the programs whose package has another name.
_PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-ld": "binutils-aarch64-linux-gnu",
    "apt-cache": "apt",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "ld.lld": "lld",
    "ld": "binutils",
    "llvm-nm": "llvm",
    "llvm-objcopy": "llvm",
    "objcopy": "binutils",
    "pahole": "dwarves",
    "qemu-system-aarch64": "qemu-system-arm",
    "ssh": "openssh-client",
    "setpriv": "util-linux",
    "xz": "xz-utils",
}


def find(name: str) -> str:
    """Return the path of program `name`, or raise MissingToolError naming the Debian package that has it."""
    name = own_name(name)
    path = shutil.which(name)
    if path is None:
        raise MissingToolError(f"{name} is not installed (Debian package {_package(name)})")
    return path


def own_name(name: str) -> str:
    """Return what a program is called on this machine, which is only another name for arm64's compiler and binutils."""
    return cross_prefix() + name.removeprefix(CROSS) if name.startswith(CROSS) else name


def cross_prefix() -> str:
    """Return what names of arm64's compiler and binutils begin with: nothing where they are the machine's own."""
    return "" if platform.machine() == "aarch64" and shutil.which(f"{CROSS}gcc") is None else CROSS


def _package(name: str) -> str:
    """Name the Debian package that has a program; ``ld.lld-19`` is in ``lld-19``."""
    versioned = re.fullmatch(r"(.*)(-\d+)", name)
    base, suffix = versioned.groups() if versioned else (name, "")
    return _PACKAGES.get(base, base) + suffix


def version(name: str) -> bytes:
    """Return the first line of what ``NAME --version`` prints; raises MissingToolError."""
    return subprocess.run([find(name), "--version"], capture_output=True, check=True).stdout.splitlines()[0]
