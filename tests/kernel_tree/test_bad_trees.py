"""What is no kernel tree, and trees that cannot be read or written: an error, and nothing was changed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from prologue.errors import InputError, OutputError
from prologue.kernel_tree.source import KernelTree
from prologue.kernel_tree.tree import install
from tests.support.trees import fingerprint

FTRACE = "arch/arm64/kernel/ftrace.c"


@pytest.mark.parametrize("after", range(6))
def test_a_full_disk_changes_nothing(tree: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calls = fingerprint(tree), iter(range(after, -1, -1))

    def full(_: int) -> None:
        if next(calls) == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device; nothing was changed"):
        install(tree)
    assert fingerprint(tree) == before


def test_what_is_no_kernel_tree(tree: Path, tmp_path: Path) -> None:
    def error(path: Path) -> str:
        with pytest.raises(InputError) as raised:
            install(path)
        return str(raised.value)

    assert error(tmp_path / "absent") == f"{tmp_path / 'absent'}: no such directory"
    assert error(tree / "Makefile").endswith("Makefile: is not a directory")
    assert error(tmp_path).endswith("is not a kernel tree: it has no Makefile")
    (tmp_path / "source").symlink_to(tree)
    (tmp_path / "Makefile").write_text(f"# Automatically generated\ninclude {tree}/Makefile\n")
    assert error(tmp_path).endswith(f"gives no VERSION and PATCHLEVEL; it is a build directory of {tree.resolve()}")
    makefile = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(makefile.replace("VERSION = ", "VERSION = 9", 1))
    assert f"there is no patch for Linux 9{KernelTree(tree).series[1:]}, only for 6.1, " in error(tree)
    (tree / "Makefile").write_text(makefile)
    (tree / "arch/arm64").rename(tree / "arch/arm")
    assert error(tree) == f"{tree}: has no arch/arm64"
    (tree / "Makefile").unlink()
    (tree / "Makefile").mkdir()
    assert error(tree).endswith("Makefile: cannot be read: Is a directory")


def test_what_may_not_be_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read all, so it is Python that forbids it here."""
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tree / FTRACE))

    def read(path: Path) -> bytes:
        if path == tree / FTRACE:
            raise denied
        return real(path)

    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(InputError, match=f"{FTRACE}: cannot be read: Permission denied"):
        install(tree)


def test_the_release_is_what_the_makefile_says_first(tree: Path) -> None:
    assert KernelTree(tree).release == f"{KernelTree(tree).series}.99"
    makefile = (tree / "Makefile").read_text()
    (tree / "Makefile").write_text(makefile.replace("SUBLEVEL = 99\nEXTRAVERSION =", "SUBLEVEL =\nEXTRAVERSION = -rc3"))
    assert KernelTree(tree).release == f"{KernelTree(tree).series}.0-rc3"
