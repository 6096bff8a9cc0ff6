"""Finds the Debian archive that this machine uses, and writes the sources.list that reads another suite of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from prologue_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)

_NAMES = r"(?:bullseye|bookworm|trixie|forky|duke|sid|(?:old)*stable|testing|unstable)"
_MAIN = re.compile(_NAMES)
_SUITE = re.compile(r"[a-z][a-z0-9-]*")


def archive_of(targets: Iterable[str]) -> str | None:
    """Return the address of the Debian archive in lines `address|label|release|component`, or None.

    The label comes from downloaded Release files. It is empty on a machine that never ran `apt-get update`; the
    release's name then has to do, and the first one listed wins.
    """
    for line in targets:
        address, label, release, component = line.split("|")
        if component == "main" and label in ("Debian", "") and _MAIN.fullmatch(release):
            return address
    return None


def sources_list(archive: str, suite: str, keyring: Path) -> str:
    """Return the text of a sources.list for `suite`; only package indexes are asked for.

    The main archive alone, never the security archive: that changes every week, a part of a kernel at a time, and
    results have to stay comparable. Stable suites of the main archive change at point releases only.
    """
    if not _SUITE.fullmatch(suite):
        raise BenchError(f"not the name of a Debian suite: {suite!r}")
    return f"deb [signed-by={keyring} target=Packages] {archive} {suite} main\n"
