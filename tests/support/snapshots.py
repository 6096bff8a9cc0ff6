"""The trace snapshots of OpenCSD's own tests, real hardware and models, and what ``trc_pkt_lister`` says of them.

They are in the source package of libopencsd in Debian's sid (13 MB), which apt finds by its name. What was unpacked
and decoded stays in the cache, by the versions of that package and of the decoder.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache as remembered
from functools import partial
from pathlib import Path
from typing import Final

import zstandard

from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.guest import apt
from prologue_bench.host import cache
from tests.support.needs import missing, needs_tools

_SUITE: Final = "sid"
_PACKAGE: Final = "libopencsd"
_BUFFER: Final = re.compile(r"^\s*name\s*=\s*(\S+)", re.MULTILINE)  # of trace.ini
_LAYOUT: Final = 1  # of what is decoded: raise it with every change of ``_decode``


def needs_decoded_snapshots() -> dict[str, Path]:
    """The text of ``trc_pkt_lister -decode`` (zstd) of each buffer, by ``SNAPSHOT/BUFFER``."""
    needs_tools("apt-get", "apt-cache", "tar", "trc_pkt_lister")
    try:
        version = _version()
        source = cache.produce(f"snapshots/{_PACKAGE}_{version}", partial(_unpack, version))
    except (MissingToolError, BenchError) as error:
        missing(f"the source package {_PACKAGE} of Debian {_SUITE}: {error}")
    texts = cache.produce(
        f"snapshots/{_PACKAGE}_{version}-decoded-by-{_decoder_version()}-{_LAYOUT}", partial(_decode, source)
    )
    return {path.name.removesuffix(".zst").replace("+", "/"): path for path in sorted(texts.glob("*.zst"))}


@remembered  # apt is asked for the version
def snapshot_directories() -> dict[str, Path]:
    """The directory of each snapshot, by its name and that of the set; ``needs_decoded_snapshots`` comes first."""
    version = _version()
    source = cache.produce(f"snapshots/{_PACKAGE}_{version}", partial(_unpack, version))
    found = (path.parent for path in source.glob("snapshots*/*/trace.ini"))
    return {f"{directory.parent.name}/{directory.name}": directory for directory in found}


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


def _decoder_version() -> str:
    """What the decoder says of itself; it prints that before all else."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["trc_pkt_lister", "-help", "-logfilename", f"{scratch}/log"]  # else it makes one where it runs
        subprocess.run(command, capture_output=True, check=False)
        found = re.search(r"Library Version : (\S+)", Path(scratch, "log").read_text(errors="replace"))
    return found[1] if found else "unknown"


def _decode(source: Path, directory: Path) -> None:
    directory.mkdir()
    for snapshot, buffer in _buffers(source):
        log = directory / f"{snapshot.parent.name}+{snapshot.name}+{buffer}"
        command = ["trc_pkt_lister", "-ss_dir", str(snapshot), "-src_name", buffer, "-decode", "-logfilename", str(log)]
        subprocess.run(command, check=True, capture_output=True)
        with log.open("rb") as text, log.with_name(f"{log.name}.zst").open("wb") as packed:
            zstandard.ZstdCompressor(3).copy_stream(text, packed)
        log.unlink()


def _buffers(source: Path) -> Iterator[tuple[Path, str]]:
    for settings in sorted(source.glob("snapshots*/*/trace.ini")):
        yield from ((settings.parent, name) for name in _BUFFER.findall(settings.read_text(errors="replace")))
