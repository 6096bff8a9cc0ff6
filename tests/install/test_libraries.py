"""A library that is missing, or of another version than prologue works with, is named with what to do."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

import pytest

from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.errors import InputError, InstallationError
from prologue.installation import check_installation, how_to_install
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.tool import Tool

REQUIRED = [
    "numpy>=1.26",
    "lief>=0.16",
    "prologue[live]; extra == 'all'",
    "pyelftools<0.34,>=0.32; extra == 'live'",
    "drgn>=0.0.31; (platform_machine != 'aarch64') and extra == 'live'",
    "shtab>=1.9; extra == 'reports'",
]
GOOD = {"numpy": "2.4.6", "lief": "0.16.0", "pyelftools": "0.33.post1", "drgn": "0.1"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions of what is installed, beside a prologue that requires these."""
    versions = dict(GOOD)

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRED)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return versions


def test_versions_within_the_bounds_pass(installed: dict[str, str]) -> None:
    check_installation()


@pytest.mark.parametrize(
    ("name", "version", "wanted"),
    [
        ("pyelftools", "0.31", "<0.34,>=0.32: pip install 'pyelftools<0.34,>=0.32'"),
        ("pyelftools", "0.34", "<0.34,>=0.32: pip install 'pyelftools<0.34,>=0.32'"),
        ("numpy", "1.9.3", ">=1.26: pip install 'numpy>=1.26'"),
    ],
    ids=["below", "at the upper bound", "fewer tens, more digits"],
)
def test_another_version_is_an_error(installed: dict[str, str], name: str, version: str, wanted: str) -> None:
    installed[name] = version
    with pytest.raises(InstallationError) as error:
        check_installation()
    assert str(error.value) == f"{name} {version} is installed, and prologue needs {wanted}"


def test_an_old_pyelftools_is_not_the_file_s_fault(installed: dict[str, str]) -> None:
    pytest.importorskip("elftools")

    def read() -> None:
        with readable_dwarf(Path("vmlinux"), "debug information"):
            raise TypeError("DWARFInfo.__init__() got an unexpected keyword argument 'debug_types_sec'")

    with pytest.raises(InputError, match=r"^vmlinux: debug information cannot be read \(DWARFInfo"):
        read()
    installed["pyelftools"] = "0.31"
    with pytest.raises(InstallationError, match=r"^pyelftools 0\.31 is installed"):
        read()


def test_an_old_lief_is_no_bug_of_ours(
    installed: dict[str, str], mini: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    tool: Tool,
) -> None:  # fmt: skip
    def changed(*_: object, **__: object) -> None:
        raise AttributeError("module 'lief.ELF' has no attribute 'ParserConfig'")

    monkeypatch.setattr("lief.ELF.parse", changed)
    command = ["patch", str(mini(Spec())), "-o", str(tmp_path / "out"), "--contract", "native"]
    assert "internal error (a bug in prologue): AttributeError: module 'lief.ELF'" in tool(*command, status=3).err
    installed["lief"] = "0.15.1"
    said = tool(*command, status=2).err
    error = "prologue: lief 0.15.1 is installed, and prologue needs >=0.16: pip install 'lief>=0.16'\n"
    assert said == error
    assert not (tmp_path / "out").exists()


def test_a_library_that_is_missing_is_named(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    said = tool("--print-completion", "bash", status=2).err
    error = "prologue: shtab, which this command needs, is not installed: pip install 'shtab>=1.9'\n"
    assert said == error


def test_a_library_that_cannot_be_loaded_is_no_bug_of_ours(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """numpy on a machine without libstdc++ says where to read on, and in its last line what is missing."""
    advice = "\n\nIMPORTANT: PLEASE READ THIS\n\nOriginal error was: libstdc++.so.6: cannot open shared object file\n"

    def load(*_: object) -> None:
        raise ImportError(advice)

    monkeypatch.setattr("prologue.cli.main.call", load)
    error = tool("scan", "vmlinux", status=2).err
    start = "prologue: a library that is installed cannot be loaded (Original error was: libstdc++.so.6: cannot open"
    assert error.startswith(start)
    assert error.count("\n") == 1


def test_arm64_has_another_way_to_drgn(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_to_install("live", "drgn") == "pip install 'drgn>=0.0.31'"
    assert how_to_install("live") == "pip install 'pyelftools<0.34,>=0.32' 'drgn>=0.0.31'"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert how_to_install("live", "drgn").startswith("drgn has no wheel for aarch64: apt-get install gcc")
    assert how_to_install("live").startswith("pip install 'pyelftools<0.34,>=0.32'; drgn has no wheel for aarch64: ")
    assert how_to_install("live", "pyelftools") == "pip install 'pyelftools<0.34,>=0.32'"
