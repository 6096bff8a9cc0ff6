"""An arm64 user space on any machine: Debian's packages, unpacked, whose Python is run by QEMU's user emulation.

Nothing is installed in it, no root rights and no chroot are needed: QEMU looks for files below its prefix first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from prologue_bench.host import cache
from tests.support.needs import missing, needs_tools

ROOT: Final = Path(__file__).parent.parent.parent
# Links of the merged /usr are in base-files.
_PACKAGES: Final = ("base-files", "libstdc++6", "python3")
# Debian's releases, and the Python of each.
PYTHONS: Final = {"bookworm": "3.11", "trixie": "3.13"}
_EXTRAS: Final = ("live", "reports")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did: exit code, and what it printed."""

    code: int
    out: str
    err: str


def run_here(arguments: Sequence[str], directory: Path) -> Outcome:
    """Run prologue in a directory, by this Python."""
    return _run([sys.executable, "-P"], arguments, directory, [])


def run_arm64(arguments: Sequence[str], directory: Path, suite: str) -> Outcome:
    """Run prologue in a directory, by the arm64 Python of a Debian; skips the test where that is not to be had."""
    needs_tools("mmdebstrap")
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        missing("qemu-aarch64-static")
    root = cache.produce(f"arm64/{suite}-1", partial(_unpack, suite))
    libraries = cache.produce(f"arm64/python-{PYTHONS[suite]}-1", partial(_install, PYTHONS[suite], _requirements()))
    python = [str(emulator), "-L", str(root), str(root / "usr" / "bin" / "python3"), "-P"]
    return _run(python, arguments, directory, [libraries])


def _run(python: list[str], arguments: Sequence[str], directory: Path, libraries: list[Path]) -> Outcome:
    environment = {
        **os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "100", "XDG_CACHE_HOME": str(directory / "cache"),
        "PYTHONPATH": os.pathsep.join(map(str, [*libraries, ROOT, ROOT / "bench"])),
        "PYTHONPYCACHEPREFIX": str(cache.root() / "arm64" / "compiled"),
    }  # fmt: skip
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [*python, "-m", "prologue", *arguments]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def _unpack(suite: str, out: Path) -> None:
    command = ["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64"]
    subprocess.run([*command, f"--include={','.join(_PACKAGES)}", suite, str(out)], check=True)


def _requirements() -> list[str]:
    """Return what prologue asks for on an arm64 machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in _EXTRAS for line in project["optional-dependencies"][extra])]
    return sorted({line for line in lines if "platform_machine" not in line})


def _install(version: str, requirements: list[str], out: Path) -> None:
    """Let pip take the wheels for aarch64; what has none fails here."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}", f"--target={out}"]
    command += [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 37)]
    subprocess.run([*command, *requirements], check=True)
