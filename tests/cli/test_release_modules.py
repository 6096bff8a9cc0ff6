"""``verify --release`` and modules: each is checked against its kernel, and that is released with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.module import Module
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules import pl201
from tests.support.built import Mini
from tests.support.elf_edit import edit

Said = pytest.CaptureFixture[str]


def release(*arguments: object) -> int:
    return main(["verify", *map(str, arguments), "--release"])


@pytest.fixture
def native(mini: Mini, capsys: Said) -> Path:
    """A kernel that may be released."""
    vmlinux = mini(Spec())
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    capsys.readouterr()
    return vmlinux


@pytest.mark.thorough
def test_modules_are_checked_against_their_kernel(mini: Mini, native: Path, tmp_path: Path, capsys: Said) -> None:
    ko = mini(ModuleSpec())
    assert release(ko) == 1
    assert "no kernel to check it against" in capsys.readouterr().out
    other = Path(shutil.copy(ko, tmp_path / "other.ko"))
    assert main(["patch", str(other), "--in-place", "--vmlinux", str(native)]) == 0
    capsys.readouterr()
    # In any mix, and the kernel may be one of the files, or named, or both; it is verified once.
    for arguments in ([native, ko, other], [ko, other, "--vmlinux", native], [ko, native, other, "--vmlinux", native]):
        assert release(*arguments) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("3 files: clean (")
        assert ", processed, native; " in line
        assert "1 module: 6 sites, untouched" in line
        assert "1 module: 6 sites, processed" in line
        assert line.endswith(f"; modules of {native})")
    nameless = tmp_path / "nameless"
    nameless.write_bytes(native.read_bytes().replace(b"Linux version ", b"Another texts "))
    assert release(nameless, ko) == 0
    note = f"note: {nameless}: names no kernel release: that of its modules was not compared\n"
    assert note in capsys.readouterr().out
    assert release(ko, "--vmlinux", native, "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(ko), str(native)]
    assert release(native, ko, other, "--require", "processed") == 1
    assert "REQUIRE" in capsys.readouterr().out


def test_the_kernel_of_modules_must_itself_be_releasable(
    mini: Mini, native: Path, tmp_path: Path, capsys: Said
) -> None:
    ko, unprocessed = mini(ModuleSpec()), tmp_path / "unprocessed"
    shutil.copy(native, unprocessed)
    assert main(["patch", str(unprocessed), "--in-place", "--reverse"]) == 0
    assert release(ko, "--vmlinux", unprocessed) == 1
    assert f"{unprocessed}: GATE" in capsys.readouterr().out
    with edit(Path(shutil.copy(native, tmp_path / "damaged"))) as elf:
        pl201.damage(elf)
    assert release(ko, "--vmlinux", tmp_path / "damaged") == 1
    assert "PL201" in capsys.readouterr().out
    assert main(["verify", str(ko), "--vmlinux", str(tmp_path / "damaged")]) == 0  # only compared with
    # Which of two kernels loads the module cannot be guessed.
    assert release(ko, native, shutil.copy(native, tmp_path / "second")) == 2
    assert f"{ko}: may be of more than one kernel" in capsys.readouterr().err
    assert release(ko, "--vmlinux", tmp_path / "absent") == 2


def test_a_module_of_another_kernel_is_not_verified(mini: Mini, native: Path, capsys: Said) -> None:
    other = mini(ModuleSpec(layout="4,2"))
    assert release(other, "--vmlinux", native) == 2
    said = capsys.readouterr()
    assert "layout 4,2" in said.err
    assert "is for modules" not in said.out  # it was one


def test_links_that_are_not_followed_are_named(mini: Mini, native: Path, tmp_path: Path, capsys: Said) -> None:
    modules, other = tmp_path / "modules", tmp_path / "other"
    modules.mkdir()
    other.mkdir()
    shutil.copy(mini(ModuleSpec()), modules / "a.ko")
    capsys.readouterr()
    assert release(modules, "--vmlinux", native) == 0
    assert "symbolic link" not in capsys.readouterr().out
    (modules / "b.ko").symlink_to(modules / "a.ko")
    (modules / "more").symlink_to(other)
    (modules / "source").symlink_to(tmp_path / "absent")
    (modules / "notes").symlink_to(native)
    assert release(modules, "--vmlinux", native) == 0
    assert f"note: {modules}: 2 symbolic links not followed: b.ko, more\n" in capsys.readouterr().out


def test_moved_records_of_a_module_are_no_release(mini: Mini, native: Path, capsys: Said) -> None:
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
    capsys.readouterr()
    assert main(["verify", str(ko)]) == 1  # whatever kernel it is for
    assert "PL401" in capsys.readouterr().out
    assert main(["patch", str(ko), "--in-place", "--vmlinux", str(native)]) == 2
    assert ko.read_bytes() == content
    capsys.readouterr()
    assert release(ko, "--vmlinux", native) == 1
    assert "its records point at second slots" in capsys.readouterr().out
