"""A vmlinux among the files is the kernel of the modules among them, in every command that takes both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mini_kernel.build import Contract, Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.records import set_release
from tests.support.built import Mini
from tests.support.elf_edit import edit
from tests.support.tool import Tool


def kernel(mini: Mini, path: Path, release: str, contract: Contract = "native") -> Path:
    """Make a mini kernel of some release."""
    shutil.copy(mini(Spec(contract=contract)), path)
    with edit(path) as elf:
        set_release(elf, release)
    return path


@pytest.fixture
def right(mini: Mini, tmp_path: Path) -> Path:
    return kernel(mini, tmp_path / "vmlinux-6.10", "6.10.0")


@pytest.fixture
def wrong(mini: Mini, tmp_path: Path) -> Path:
    return kernel(mini, tmp_path / "vmlinux-6.12", "6.12.0")


@pytest.fixture
def modules(mini: Mini, tmp_path: Path) -> Path:
    directory = tmp_path / "modules"
    directory.mkdir()
    shutil.copy(mini(ModuleSpec(release="6.10.0")), directory / "a.ko")
    return directory


@pytest.mark.parametrize("turned", [False, True])
def test_it_is_their_kernel_in_any_order(right: Path, modules: Path, turned: bool, tool: Tool) -> None:
    files = [modules, right] if turned else [right, modules]
    assert tool("verify", *files).out.endswith(f"; modules of {right})\n")


@pytest.mark.parametrize("command", [("verify",), ("verify", "--release"), ("scan",), ("patch", "--in-place")])
def test_the_wrong_kernel_is_an_error_that_names_both(
    wrong: Path, modules: Path, command: tuple[str, ...], tool: Tool
) -> None:
    said = tool(command[0], wrong, modules, *command[1:], status=2).err
    assert f"a.ko: built for 6.10.0, but {wrong} is 6.12.0: that is not its kernel" in said


@pytest.mark.thorough
def test_each_module_goes_to_its_own_of_several(
    right: Path, wrong: Path, modules: Path, mini: Mini, tool: Tool
) -> None:
    new = Path(shutil.copy(mini(ModuleSpec(release="6.12.0")), right.with_name("new.ko")))
    checked = tool("verify", right, wrong, modules, new, "--json").json["checked"]
    assert [one["vmlinux"] for one in checked] == [None, None, str(right), str(wrong)]
    other = mini(ModuleSpec(release="6.6.0"))
    assert "none of these is its kernel" in tool("verify", right, wrong, other, status=2).err
    twin = shutil.copy(right, right.with_name("twin"))
    assert "may be of more than one kernel" in tool("verify", right, twin, modules, status=2).err
    assert tool("verify", right, twin, modules, "--vmlinux", twin).out.endswith(f"modules of {twin})\n")


def test_the_one_that_is_named_comes_before_one_among_the_files(
    right: Path, wrong: Path, modules: Path, tool: Tool
) -> None:
    assert tool("verify", wrong, modules, "--vmlinux", right).out.endswith(f"; modules of {right})\n")
    tool("verify", right, modules, "--vmlinux", wrong, status=2)


def test_patch_processes_the_kernel_and_then_its_modules(mini: Mini, tmp_path: Path, modules: Path, tool: Tool) -> None:
    vmlinux = kernel(mini, tmp_path / "vmlinux-6.10", "6.10.0", "stock")
    tool("patch", modules, vmlinux, "--contract", "stock", "--dry-run")
    tool("patch", modules, vmlinux, "--contract", "stock", "--in-place")
    tool("verify", modules, vmlinux, "--require", "processed")


def test_a_native_kernel_among_the_files_says_what_its_modules_expect(right: Path, modules: Path, tool: Tool) -> None:
    tool("patch", right, modules, "--in-place")
    tool("verify", right, modules, "--require", "processed", "--release")
