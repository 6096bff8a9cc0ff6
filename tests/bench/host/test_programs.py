"""Programs that are not there: which package to install."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from prologue_bench.errors import MissingToolError
from prologue_bench.host import programs
from tests.support.debian.kbuild import Recipe


@pytest.mark.parametrize(
    ("name", "package"),
    [("llvm-nm", "llvm"), ("llvm-nm-19", "llvm-19"), ("ld.lld-19", "lld-19"), ("clang-19", "clang-19"), ("bc", "bc")],
)
def test_the_package_of_a_missing_program(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingToolError, match=rf"^{name} is not installed \(Debian package {package}\)$"):
        programs.find(name)


def test_a_toolchain_with_a_version() -> None:
    recipe = Recipe(suite="trixie", source="linux-source-6.12", toolchain="llvm-19")
    assert recipe.compilers[:2] == ("clang-19", "ld.lld-19")
    assert recipe.make_arguments == ("LLVM=-19",)
    plain = Recipe(suite="trixie", source="linux-source-6.12", toolchain="llvm")
    assert plain.compilers[:2] == ("clang", "ld.lld")
    assert plain.make_arguments == ("LLVM=1",)


def test_an_arm64_machine_has_a_compiler_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"^ld is not installed \(Debian package binutils\)$"):
        programs.find("aarch64-linux-gnu-ld")
    for name in ("gcc", "ld"):
        (tmp_path / name).touch(0o755)
    assert (programs.cross_prefix(), programs.find("aarch64-linux-gnu-ld")) == ("", str(tmp_path / "ld"))
    for name in ("gcc", "ld"):
        (tmp_path / f"aarch64-linux-gnu-{name}").touch(0o755)
    assert programs.find("aarch64-linux-gnu-ld") == str(tmp_path / "aarch64-linux-gnu-ld")
    assert programs.cross_prefix() == "aarch64-linux-gnu-"
