"""``verify --release`` and modules: each is checked against its kernel, and that is released with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.module import Module
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.sites import call_in_second_slot
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.tool import Tool


def release(*arguments: object) -> int:
    return main(["verify", *map(str, arguments), "--release"])


@pytest.fixture
def native(mini: Mini) -> Path:
    """A kernel that may be released."""
    vmlinux = mini(Spec())
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    return vmlinux


@pytest.mark.thorough
def test_modules_are_checked_against_their_kernel(mini: Mini, native: Path, tmp_path: Path, tool: Tool) -> None:
    ko = mini(ModuleSpec())
    assert "no kernel to check it against" in tool("verify", ko, "--release", status=1).out
    other = Path(shutil.copy(ko, tmp_path / "other.ko"))
    assert main(["patch", str(other), "--in-place", "--vmlinux", str(native)]) == 0
    # In any mix, and the kernel may be one of the files, or named, or both; it is verified once.
    for arguments in ([native, ko, other], [ko, other, "--vmlinux", native], [ko, native, other, "--vmlinux", native]):
        (line,) = tool("verify", *arguments, "--release").out.splitlines()
        assert line.startswith("3 files: clean (")
        assert ", processed, native; " in line
        assert "1 module: 6 sites, untouched" in line
        assert "1 module: 6 sites, processed" in line
        assert line.endswith(f"; modules of {native})")
    nameless = tmp_path / "nameless"
    nameless.write_bytes(native.read_bytes().replace(b"Linux version ", b"Another texts "))
    said = tool("verify", nameless, ko, "--release").out
    note = f"note: {nameless}: names no kernel release: that of its modules was not compared\n"
    assert note in said
    assert tool("verify", ko, "--vmlinux", native, "--json", "--release").json["files"] == [str(ko), str(native)]
    assert "REQUIRE" in tool("verify", native, ko, other, "--require", "processed", "--release", status=1).out


def test_the_kernel_of_modules_must_itself_be_releasable(mini: Mini, native: Path, tmp_path: Path, tool: Tool) -> None:
    ko, unprocessed = mini(ModuleSpec()), tmp_path / "unprocessed"
    shutil.copy(native, unprocessed)
    assert main(["patch", str(unprocessed), "--in-place", "--reverse"]) == 0
    assert f"{unprocessed}: GATE" in tool("verify", ko, "--vmlinux", unprocessed, "--release", status=1).out
    with edit(Path(shutil.copy(native, tmp_path / "damaged"))) as elf:
        call_in_second_slot(elf)
    assert "PL201" in tool("verify", ko, "--vmlinux", tmp_path / "damaged", "--release", status=1).out
    assert main(["verify", str(ko), "--vmlinux", str(tmp_path / "damaged")]) == 0  # only compared with
    # Which of two kernels loads the module cannot be guessed.
    said = tool("verify", ko, native, shutil.copy(native, tmp_path / "second"), "--release", status=2).err
    assert f"{ko}: may be of more than one kernel" in said
    assert release(ko, "--vmlinux", tmp_path / "absent") == 2


def test_a_module_of_another_kernel_is_not_verified(mini: Mini, native: Path, tool: Tool) -> None:
    other = mini(ModuleSpec(layout="4,2"))
    said = tool("verify", other, "--vmlinux", native, "--release", status=2)
    assert "layout 4,2" in said.err
    assert "is for modules" not in said.out  # it was one


def test_links_that_are_not_followed_are_named(mini: Mini, native: Path, tmp_path: Path, tool: Tool) -> None:
    modules, other = tmp_path / "modules", tmp_path / "other"
    modules.mkdir()
    other.mkdir()
    shutil.copy(mini(ModuleSpec()), modules / "a.ko")
    assert "symbolic link" not in tool("verify", modules, "--vmlinux", native, "--release").out
    (modules / "b.ko").symlink_to(modules / "a.ko")
    (modules / "more").symlink_to(other)
    (modules / "source").symlink_to(tmp_path / "absent")
    (modules / "notes").symlink_to(native)
    said = tool("verify", modules, "--vmlinux", native, "--release").out
    assert f"note: {modules}: 2 symbolic links not followed: b.ko, more\n" in said


def test_moved_records_of_a_module_are_no_release(mini: Mini, native: Path, tool: Tool) -> None:
    """A native kernel adjusts the records of a module once more."""
    ko = mini(ModuleSpec())
    assert main(["patch", str(ko), "--in-place", "--vmlinux", str(native)]) == 0
    module = Module(ko)
    assert module.records is not None
    content = bytearray(ko.read_bytes())
    for home in module.records.homes.tolist():
        addend = int.from_bytes(content[home : home + 8], "little")
        content[home : home + 8] = (addend + 4).to_bytes(8, "little")
    ko.write_bytes(content)
    # whatever kernel it is for
    assert "PL401" in tool("verify", ko, status=1).out
    assert main(["patch", str(ko), "--in-place", "--vmlinux", str(native)]) == 2
    assert ko.read_bytes() == content
    assert "its records point at second slots" in tool("verify", ko, "--vmlinux", native, "--release", status=1).out
