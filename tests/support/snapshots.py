"""The trace snapshots of OpenCSD's own tests, real hardware and models.

They are in the source package of libopencsd in Debian's sid (13 MB), which apt finds by its name. What was unpacked
stays in the cache, by the version of that package.
"""

from __future__ import annotations

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

_SUITE: Final = "sid"
_PACKAGE: Final = "libopencsd"


@remembered  # apt is asked for the version
def needs_snapshots() -> dict[str, Path]:
    """The directory of each snapshot, by its name and that of the set."""
    needs_tools("apt-get", "apt-cache", "tar", "trc_pkt_lister")
    try:
        version = _version()
        source = cache.produce(f"snapshots/{_PACKAGE}_{version}", partial(_unpack, version))
    except (MissingToolError, BenchError) as error:
        missing(f"the source package {_PACKAGE} of Debian {_SUITE}: {error}")
    directories = (path.parent for path in source.glob("snapshots*/*/trace.ini"))
    return {f"{directory.parent.name}/{directory.name}": directory for directory in directories}


def _version() -> str:
    """The version that the suite has, by lists that are a day old at most; older ones, without a network."""
    home = cache.root() / "apt" / f"{_SUITE}-sources"
    with cache.locked(f"apt/{_SUITE}-sources"):
        (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (home / "sources.list").write_text(
            f"deb-src [signed-by={apt.keyring()} target=Sources] {apt.machine_archive()} {_SUITE} main\n"
        )
        updated = home / "updated"
        if not updated.exists() or time.time() - updated.stat().st_mtime > apt.LISTS_MAX_AGE:
            done = _apt("apt-get", "update")
            if not done.returncode:
                updated.touch()
            elif not updated.exists():
                raise BenchError(f"cannot fetch its list: {done.stderr.strip()[-200:]}")
    found = re.search(r"^Version: (\S+)", _apt("apt-cache", "showsrc", "--only-source", _PACKAGE).stdout, re.MULTILINE)
    if found is None:
        raise BenchError("is not there")
    return found[1]


def _apt(tool: str, *arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The private apt of the suite, with a list of sources in place of that of packages."""
    home = cache.root() / "apt" / f"{_SUITE}-sources"
    options = [f"Dir::Etc::sourcelist={home}/sources.list", f"Dir::State::lists={home}/lists", "Dir::Cache::pkgcache="]
    options.append("Dir::Cache::srcpkgcache=")
    command = [tool, "-q", "-c", str(apt.open_apt(_SUITE).home / "apt.conf")]
    command += [word for option in options for word in ("-o", option)]
    return subprocess.run([*command, *arguments], cwd=directory or home, capture_output=True, text=True, check=False)


def _unpack(version: str, directory: Path) -> None:
    directory.mkdir()
    done = _apt("apt-get", "source", "--tar-only", "--download-only", f"{_PACKAGE}={version}", directory=directory)
    tarballs = list(directory.glob("*.orig.tar.*"))
    if done.returncode or not tarballs:
        raise BenchError(f"cannot be fetched: {done.stderr.strip()[-200:]}")
    command = ["tar", "-xf", str(tarballs[0]), "--strip-components=3", "--wildcards", "*/decoder/tests/snapshots*"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    tarballs[0].unlink()
