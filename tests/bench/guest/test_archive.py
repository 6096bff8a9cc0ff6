"""Where packages come from: derived from the machine's apt, never from our own list."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue_bench.errors import BenchError
from prologue_bench.guest.archive import archive_of, sources_list

_MAIN = "http://mirror.test/debian/"
_SECURITY = "http://mirror.test/debian-security/"
_KEYS = Path("/keys/debian.gpg")


def test_labels_decide_where_lists_were_fetched() -> None:
    targets = [
        "https://vendor.test/|Vendor|bookworm|main",
        f"{_MAIN}|Debian|bookworm|contrib",
        f"{_MAIN}|Debian|bookworm|main",
        "http://mirror.test/updates/|Debian|bookworm-updates|main",
        f"{_SECURITY}|Debian-Security|bookworm-security|main",
    ]
    assert archive_of(targets) == _MAIN


def test_release_names_decide_where_there_are_no_labels() -> None:
    targets = [
        "https://vendor.test/||nodistro|main",
        "https://vendor.test/||bookworm-pgdg|main",
        f"{_MAIN}||stable|main",
        f"{_SECURITY}||stable/updates|main",
    ]
    assert archive_of(targets) == _MAIN


@pytest.mark.parametrize(
    "targets", [[], [f"{_SECURITY}|Debian-Security|bookworm-security|main"], ["u|Ubuntu|noble|main"]]
)
def test_no_archive(targets: list[str]) -> None:
    assert archive_of(targets) is None


def test_only_the_main_archive_is_read() -> None:
    line = f"deb [signed-by=/keys/debian.gpg target=Packages] {_MAIN} bookworm main\n"
    assert sources_list(_MAIN, "bookworm", _KEYS) == line


@pytest.mark.parametrize("suite", ["", "../etc", "book worm", "trixie\ndeb evil"])
def test_odd_suites_are_refused(suite: str) -> None:
    with pytest.raises(BenchError, match="not the name of a Debian suite"):
        sources_list(_MAIN, suite, _KEYS)
