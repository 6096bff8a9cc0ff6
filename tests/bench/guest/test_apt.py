"""What is read out of the answers of apt, and which archive it is asked about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, MissingToolError, UnreachableError
from prologue_bench.guest import apt
from prologue_bench.guest.apt import archive_of, sources_list

_SHOWN = """\
Package: linux-image-cloud-arm64-dbg
Source: linux-signed-arm64 (6.1.192+2)
Version: 6.1.192-2
Architecture: arm64
Depends: linux-image-6.1.0-56-cloud-arm64-dbg (= 6.1.192-2), python3:any (>= 3.9~), libc6 (>= 2.34) | musl
Size: 1324
Description-en: Debugging symbols
 over several lines, with
 .
 a blank one.

Package: another
Version: 1
Size: 1
"""


def test_paragraphs_of_show() -> None:
    package, another = apt.parse_packages(_SHOWN)
    assert (another.name, another.version, another.size, another.depends) == ("another", "1", 1, ())
    assert (package.name, package.version, package.size) == ("linux-image-cloud-arm64-dbg", "6.1.192-2", 1324)
    fixed = ("linux-image-6.1.0-56-cloud-arm64-dbg", "6.1.192-2")
    assert package.depends == (fixed, ("python3", None), ("libc6", None))
    assert apt.parse_packages("") == apt.parse_packages("\n") == []


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        ("E: Unable to locate package nix\n", BenchError, "no package nix for arm64 in trixie"),
        ("N: Unable to locate package nix\nE: No packages found\n", BenchError, "no package nix for arm64 in trixie"),
        (
            "Err:1 http://a\nE: Failed to fetch http://a  Temporary failure resolving 'a'\nE: Some index files\n",
            UnreachableError,
            "cannot fetch nix: Failed to fetch http://a  Temporary failure resolving 'a'",
        ),
        ("E: Failed to fetch http://a/b.deb  404  Not Found\n", UnreachableError, "cannot fetch nix: Failed to fetch"),
        (
            "E: Failed to fetch http://a/Packages  File has unexpected size (1 != 2). Mirror sync in progress?\n",
            UnreachableError,
            "cannot fetch nix: the archive of trixie is being updated; try again in an hour",
        ),
        ("E: write (28: No space left on device)\n", BenchError, "no space left for nix in "),
        ("Segmentation fault\n", BenchError, "apt failed on nix: Segmentation fault"),
        ("", BenchError, "apt failed on nix: no message"),
    ],
)
def test_apts_failures_become_one_line(output: str, kind: type[BenchError], message: str) -> None:
    error = apt._explained(output, "nix", "trixie")
    assert type(error) is kind
    assert str(error).startswith(message)
    assert "\n" not in str(error)


def test_no_apt_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="apt-get is not installed"):
        apt.machine_archive()


def test_what_another_process_may_be_reading_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(apt, "keyring", lambda: tmp_path / "keys")
    monkeypatch.setattr(apt, "machine_archive", lambda: "http://a/debian")
    home = apt.open_apt("trixie").home
    names = ("apt.conf", "sources.list", "status")
    before = [(home / name).stat().st_mtime_ns for name in names]
    (home / "updated").touch()
    assert apt.open_apt("trixie").home == home
    assert [(home / name).stat().st_mtime_ns for name in names] == before
    assert (home / "updated").exists()
    monkeypatch.setattr(apt, "machine_archive", lambda: "http://b/debian")
    apt.open_apt("trixie")
    assert "http://b/debian" in (home / "sources.list").read_text()
    assert not (home / "updated").exists()  # other lists


def test_apt_is_asked_once_for_each_of_its_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = apt.PrivateApt(suite="trixie", home=tmp_path)
    asked: list[str] = []

    def run(self: apt.PrivateApt, tool: str, *arguments: str, what: str) -> str:
        asked.append(what)
        if what == "nix":
            raise BenchError("no package nix")
        return f"Package: {what}\nVersion: {len(asked)}\nSize: 1\n"

    monkeypatch.setattr(apt.PrivateApt, "_run", run)
    (tmp_path / "updated").touch()
    assert [private.show(name).version for name in ("a", "b", "a", "b")] == ["1", "2", "1", "2"]
    for _ in range(2):
        with pytest.raises(BenchError):
            private.show("nix")
    assert asked == ["a", "b", "nix", "nix"]
    os.utime(tmp_path / "updated", ns=(1, 1))  # other lists, whatever the clock says
    assert private.show("a").version == "5"
    assert private.show("a").version == "5"
    # lists that are fetched while apt answers: the answer counts as one of the old ones

    def overtaken(self: apt.PrivateApt, *arguments: str, what: str) -> str:
        os.utime(tmp_path / "updated", ns=(2, 2))
        return run(self, *arguments, what=what)

    monkeypatch.setattr(apt.PrivateApt, "_run", overtaken)
    private.show("c")
    monkeypatch.setattr(apt.PrivateApt, "_run", run)
    assert [private.show("c").version for _ in range(2)] == ["7", "7"]
    (tmp_path / "updated").unlink()
    assert [private.show("a").version for _ in range(2)] == ["8", "9"]


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
