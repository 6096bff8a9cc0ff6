"""Finds the Debian archive that this machine uses, and writes the sources.list that reads another suite of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)

# Suites whose kernels come through the security archive: long-term support has no point releases. The others are
# read from the main suite alone, which changes a few times a year, so that results stay comparable; bullseye is, too:
# its support has ended, and the security archive lists packages that it does not have any more.
_WITH_SECURITY = frozenset({"bookworm"})

_NAMES = r"(?:bullseye|bookworm|trixie|forky|duke|sid|(?:old)*stable|testing|unstable)"
_MAIN = re.compile(_NAMES)
_SECURITY = re.compile(_NAMES + r"(?:-security|/updates)")
_SUITE = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Archive:
    """Addresses of the Debian archive; `security` is None if the machine does not use it."""

    main: str
    security: str | None


def archive_of(targets: Iterable[str]) -> Archive | None:
    """Find the Debian archive in lines `address|label|release|component`, or None.

    The label comes from downloaded Release files. It is empty on a machine that never ran `apt-get update`; the
    release's name then has to do, and the first one listed wins.
    """
    main = security = None
    for line in targets:
        address, label, release, component = line.split("|")
        if component != "main":
            continue
        if label in ("Debian", "") and _MAIN.fullmatch(release):
            main = main or address
        elif label in ("Debian-Security", "") and _SECURITY.fullmatch(release):
            security = security or address
    return None if main is None else Archive(main=main, security=security)


def sources_list(archive: Archive, suite: str, keyring: Path) -> str:
    """Return the text of a sources.list for `suite`; only package indexes are asked for."""
    if not _SUITE.fullmatch(suite):
        raise BenchError(f"not the name of a Debian suite: {suite!r}")
    options = f"[signed-by={keyring} target=Packages]"
    lines = [f"deb {options} {archive.main} {suite} main"]
    if archive.security is not None and suite in _WITH_SECURITY:
        lines.append(f"deb {options} {archive.security} {suite}-security main")
    return "\n".join(lines) + "\n"
