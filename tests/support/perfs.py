"""perf of several Debian suites, for this machine's architecture, unpacked beside each other with all its libraries."""

from __future__ import annotations

import os
import re
import subprocess
import time
from functools import cache as remembered
from functools import partial
from pathlib import Path
from typing import Final

from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.guest import apt
from prologue_bench.host import cache
from tests.support.needs import missing, needs_tools

_PACKAGE: Final = "linux-perf"
_KEPT: Final = ("./usr/bin/perf", "*/lib*.so*", "*/ld-linux*.so*")
SUITES: Final = ("bookworm", "trixie", "sid")


@remembered
def needs_perf(suite: str) -> Path:
    """Return a program that runs perf of a suite: through that suite's own dynamic linker and C library."""
    needs_tools("apt-get", "apt-cache", "dpkg", "dpkg-deb", "tar")
    try:
        version = _version(suite)
        directory = cache.produce(f"perfs/{suite}-{_architecture()}-{version}", partial(_unpack, suite))
    except (MissingToolError, BenchError) as error:
        missing(f"{_PACKAGE} of Debian {suite}: {error}")
    return directory / "perf"


@remembered
def _architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def _version(suite: str) -> str:
    home, architecture = _home(suite), _architecture()
    with cache.locked(f"apt/{home.name}"):
        for directory in ("lists/partial", "cache/archives/partial"):
            (home / directory).mkdir(parents=True, exist_ok=True)
        foreign = apt.open_apt(suite).home
        (home / "status").touch()
        (home / "sources.list").write_text((foreign / "sources.list").read_text())
        own = (
            (foreign / "apt.conf")
            .read_text()
            .replace(f'"{foreign}', f'"{home}')
            .replace('"arm64"', f'"{architecture}"')
        )
        (home / "apt.conf").write_text(own)
        updated = home / "updated"
        if not updated.exists() or time.time() - updated.stat().st_mtime > apt.LISTS_MAX_AGE:
            _run(suite, "apt-get", "update")
            updated.touch()
    shown = re.search(r"^Version: (\S+)", _run(suite, "apt-cache", "show", "--no-all-versions", _PACKAGE), re.MULTILINE)
    if shown is None:
        raise BenchError("is not there")
    return shown[1]


def _home(suite: str) -> Path:
    return cache.root() / "apt" / f"{suite}-perf"


def _run(suite: str, tool: str, *arguments: str) -> str:
    command = [tool, "-q", "-c", str(_home(suite) / "apt.conf"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise BenchError(f"cannot be fetched: {done.stderr.strip()[-200:]}")
    return done.stdout


def _unpack(suite: str, directory: Path) -> None:
    """Fetch the package with all that it depends on; keep the program and libraries."""
    root = directory / "root"
    root.mkdir(parents=True)
    with cache.locked(f"apt/{_home(suite).name}"):
        _run(suite, "apt-get", "-y", "--no-install-recommends", "--download-only", "install", _PACKAGE)
        for package in sorted((_home(suite) / "cache/archives").glob("*.deb")):
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as files:
                # tar fails if a package has none of these.
                command = ["tar", "-x", "-C", str(root), "--wildcards", *_KEPT]
                subprocess.run(command, stdin=files.stdout, stderr=subprocess.DEVNULL, check=False)
            package.unlink()
    linker = next(iter(sorted(root.rglob("ld-linux*.so*"), key=lambda path: len(path.parts))), None)
    if linker is None or not (root / "usr/bin/perf").is_file():
        raise BenchError("its packages have no perf, or no dynamic linker")
    place = linker.relative_to(root)
    libraries = sorted({str(path.parent.relative_to(root)) for path in root.rglob("lib*.so*")})
    paths = ":".join(f"$R/{library}" for library in libraries if "perl" not in library and "python3/" not in library)
    program = directory / "perf"
    program.write_text(
        f'#!/bin/sh\nR=$(dirname "$(readlink -f "$0")")/root\n'
        f'exec "$R/{place}" --library-path "{paths}" "$R/usr/bin/perf" "$@"\n'
    )
    program.chmod(0o755)
