"""Reading packages, on packages built here."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from prologue_bench.errors import BenchError
from prologue_bench.guest import deb
from tests.support.debian.kernels import extract_first
from tests.support.needs import needs_common_tools

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    needs_common_tools("dpkg-deb")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN").chmod(0o755)  # whatever the umask is: dpkg-deb insists
    (tree / "DEBIAN/control").write_text(
        "Package: sample\nVersion: 1\nArchitecture: arm64\nMaintainer: nobody <n@example.org>\nDescription: a sample\n"
    )
    modules = tree / "usr/lib/debug/lib/modules/6.12"
    modules.mkdir(parents=True)
    (modules / "vmlinux").write_bytes(b"kernel" * 1000)
    (tree / "usr/lib/debug/boot").mkdir()
    (tree / "usr/lib/debug/boot/vmlinux-6.12").symlink_to("../lib/modules/6.12/vmlinux")
    (tree / "usr/lib/libx.so.1").symlink_to("libx.so.1.2")
    (tree / "usr/lib/libx.so.1.2").write_bytes(b"library")
    (tree / "usr/lib/loop").symlink_to("loop")
    path = tmp_path / "sample.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(path)], check=True, capture_output=True)
    return path


def test_first_regular_file_is_taken_and_links_are_not(package: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    target = tmp_path / "vmlinux"
    assert extract_first(package, lambda name: "/vmlinux" in name, target, steps.append)
    assert target.read_bytes() == b"kernel" * 1000
    assert steps == sorted(steps)
    assert not extract_first(package, lambda name: name == "nix", tmp_path / "out", lambda _: None)
    assert not (tmp_path / "out").exists()


def test_files_by_name_with_links_followed(package: Path) -> None:
    files = deb.PackageFiles(package)
    assert files.find("libx.so.1") == b"library"
    assert files.find("nix") is None
    assert files.find("loop") is None


def test_truncated_package(package: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.deb"
    short.write_bytes(package.read_bytes()[:-200])
    with pytest.raises(BenchError, match=r"short\.deb: "):
        extract_first(short, lambda _: False, tmp_path / "out", lambda _: None)
