"""``prologue kernel check`` finds each thing that may be missing between a tree and a processed kernel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prologue import __version__
from prologue.cli.main import main
from prologue.kernel.marker import SYMBOL
from prologue.kernel_tree.source import KCONFIG, OPTION
from prologue.kernel_tree.tree import install
from tests.mini_kernel.build import Spec
from tests.support.elf_edit import edit
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]
POSTLINK = "arch/arm64/Makefile.postlink"
NEEDED = (
    "CONFIG_ARM64=y\nCONFIG_DYNAMIC_FTRACE=y\nCONFIG_DYNAMIC_FTRACE_WITH_ARGS=y\nCONFIG_DYNAMIC_FTRACE_WITH_REGS=y\n"
    "CONFIG_BUILDTIME_MCOUNT_SORT=y\n"
)
LITTLE = "CONFIG_ARM64=y\nCONFIG_CPU_LITTLE_ENDIAN=y\n"
SELECTED = f"{NEEDED}{LITTLE}CONFIG_{OPTION}=y\n"


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in PATH with a ``prologue`` of this version."""
    path = tmp_path / "bin"
    path.mkdir()
    program(path / "prologue", f"echo prologue {__version__}")
    monkeypatch.setenv("PATH", str(path), prepend=os.pathsep)
    return path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def ready(tree: Path, bin_: Path) -> Path:
    """The patch is in, its option selected, and the tool there."""
    assert bin_.is_dir()
    install(tree)
    (tree / ".config").write_text(SELECTED)
    return tree


def check(tool: Tool, tree: Path, *options: object) -> dict[str, dict[str, Any]]:
    """Both forms agree; each check by its name."""
    printed = tool("kernel", "check", tree, *options, "--json", status=None)
    data = printed.json
    assert data["schema"] == "prologue.kernel-check/1"
    assert data["ok"] is (printed.status == 0)
    checks: dict[str, dict[str, Any]] = {row["name"]: row for row in data["checks"]}
    assert printed.status == int(any(row["status"] == "no" for row in checks.values()))
    lines = tool("kernel", "check", tree, *options, status=printed.status).out.splitlines()
    assert lines[0] == f"{tree}: Linux {data['release']}"
    width = max(map(len, checks))
    for name, row in checks.items():
        assert f"{row['status']:<2}  {name:<{width}}  {row['message']}" in lines
        assert row["status"] == "no" or row["to_do"] is None
        if row["status"] == "no":
            assert f"    {'':<{width}}  -> {row['to_do']}" in lines
    return checks


def test_nothing_is_well_before_the_build(ready: Path, bin_: Path, tool: Tool) -> None:
    checks = check(tool, ready)
    assert {name: row["status"] for name, row in checks.items()} == {
        "patch": "ok", "config": "ok", "tool": "ok", "vmlinux": "no",
    }  # fmt: skip
    assert checks["tool"] | {"path": str(bin_ / "prologue"), "version": __version__} == checks["tool"]
    assert set(checks["patch"]["files"].values()) == {"in"}
    assert checks["vmlinux"]["message"] == "not built: no kernel was checked"


@pytest.mark.thorough
def test_the_patch(tree: Path, bin_: Path, tool: Tool) -> None:
    assert bin_.is_dir()
    checks = check(tool, tree)
    assert checks["patch"]["message"] == "not installed"
    assert checks["patch"]["to_do"] == f"prologue kernel install {tree}"
    assert checks["config"]["status"] == "-"
    (tree / POSTLINK).write_text("# somebody else's\n")
    assert check(tool, tree)["patch"]["message"] == "not installed"
    (tree / POSTLINK).unlink()
    install(tree)
    assert check(tool, tree)["patch"]["status"] == "ok"
    (tree / POSTLINK).unlink()
    assert check(tool, tree)["patch"]["message"] == f"installed in part: {POSTLINK} missing"
    (tree / POSTLINK).write_text("# an older one\n")
    row = check(tool, tree)["patch"]
    assert row["message"].startswith(f"differs from this prologue's: {POSTLINK} (")
    assert row["files"][POSTLINK] == "differs"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("config", "message", "to_do"),
    [
        (None, ".config does not exist", "--objtree"),
        (NEEDED.replace("ARM64", "X86"), "CONFIG_ARM64 is off", "ARCH=arm64"),
        (f"{NEEDED}CONFIG_CPU_BIG_ENDIAN=y\n", "CONFIG_CPU_BIG_ENDIAN is on", "CONFIG_CPU_LITTLE_ENDIAN"),
        (LITTLE, "CONFIG_DYNAMIC_FTRACE is off", "CONFIG_FUNCTION_TRACER"),
        (f"{LITTLE}# CONFIG_DYNAMIC_FTRACE is not set\n", "CONFIG_DYNAMIC_FTRACE is off", "CONFIG_FUNCTION_TRACER"),
        (f"{LITTLE}CONFIG_DYNAMIC_FTRACE=y\n", "CONFIG_DYNAMIC_FTRACE_WITH_", "needs"),
        (f"{NEEDED}{LITTLE}# CONFIG_{OPTION} is not set\n", "it is not selected", "scripts/config --file "),
        (f"{NEEDED}{LITTLE}", "this configuration is older than the patch", "make oldconfig"),
    ],
)
def test_the_configuration(ready: Path, config: str | None, message: str, to_do: str, tool: Tool) -> None:
    if config is None:
        (ready / ".config").unlink()
    else:
        (ready / ".config").write_text(config)
    row = check(tool, ready)["config"]
    assert row["status"] == "no"
    assert message in row["message"]
    assert to_do in row["to_do"]


PADS = "CONFIG_ARM64_BTI_KERNEL=y\nCONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS=y\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("config", "warns"),
    [
        (f"{PADS}CONFIG_CLANG_VERSION=210102\n", True),
        (f"{PADS}CONFIG_CLANG_VERSION=210000\n", True),
        (f"{PADS}CONFIG_CLANG_VERSION=200108\n", False),
        (f"{PADS}CONFIG_CLANG_VERSION=\n", False),
        (f"{PADS}CONFIG_CLANG_VERSION=0\nCONFIG_GCC_VERSION=150000\n", False),
        (f"{PADS.splitlines()[0]}\nCONFIG_CLANG_VERSION=210102\n", False),
        (f"{PADS.splitlines()[1]}\nCONFIG_CLANG_VERSION=210102\n", False),
    ],
)
def test_warnings_about_modules_are_told_before(tree: Path, bin_: Path, config: str, warns: bool, tool: Tool) -> None:
    """Of a kernel without the patch; with it, the MOV is accepted."""
    assert bin_.is_dir()
    (tree / ".config").write_text(SELECTED + config)
    checks = check(tool, tree)
    assert ("modules" in checks) is warns
    if warns:
        assert checks["modules"]["status"] == "no"
        assert "ftrace_call_adjust() would warn" in checks["modules"]["message"]
        assert checks["modules"]["to_do"].startswith(f"prologue kernel install {tree} ")
    install(tree)
    assert "modules" not in check(tool, tree)
    shutil.move(tree / ".config", bin_ / ".config")
    assert "modules" not in check(tool, tree)


def test_the_boot_mode(tree: Path, tool: Tool) -> None:
    """Nothing is said of processed modules, because it takes none."""
    (tree / ".config").write_text(f"{PADS}CONFIG_CLANG_VERSION=210102\n")
    assert "leave out --mode" in tool("kernel", "install", tree, "--mode", "boot", "--uninstall", status=2).err
    out = tool("kernel", "install", tree, "--mode", "boot").out
    assert ", mode boot\n" in out
    assert "next: build as always, then:\n" in out
    assert OPTION not in out
    checks = check(tool, tree)
    assert {name: row["status"] for name, row in checks.items()} == {"patch": "ok", "vmlinux": "no"}
    assert checks["patch"]["mode"] == "boot"
    assert ", mode boot, " in checks["patch"]["message"]


@pytest.mark.thorough
def test_a_build_directory(ready: Path, tmp_path: Path, mini: Mini, tool: Tool) -> None:
    out = tmp_path / "out"
    out.mkdir()
    row = check(tool, ready, "--objtree", out)["config"]
    assert row["message"] == f"{out}/.config does not exist"
    assert "--objtree" not in row["to_do"]
    shutil.move(ready / ".config", out / ".config")
    (out / "source").symlink_to(ready)
    shutil.copy(mini(Spec()), out / "vmlinux")
    assert main(["patch", "--in-place", str(out / "vmlinux")]) == 0
    assert {row["status"] for row in check(tool, ready, "--objtree", out).values()} == {"ok"}
    assert check(tool, ready)["config"]["status"] == "no"
    (out / "source").unlink()
    (out / "source").symlink_to(tmp_path)
    said = tool("kernel", "check", ready, "--objtree", out, status=2).err
    assert f"is a build directory of {tmp_path.resolve()}, not of {ready}" in said
    assert "no such directory" in tool("kernel", "check", ready, "--objtree", tmp_path / "absent", status=2).err


@pytest.mark.thorough
def test_the_tool(ready: Path, bin_: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bin_ / "prologue", "echo prologue 0.0.1")
    row = check(tool, ready)["tool"]
    assert (row["status"], row["version"]) == ("ok", "0.0.1")
    assert f"warning: this one is {__version__}" in row["message"]
    program(bin_ / "prologue", "echo no module named prologue >&2; exit 1")
    assert "is not a working prologue: no module named prologue" in check(tool, ready)["tool"]["message"]
    program(bin_ / "prologue", "echo prolog 9")
    assert check(tool, ready)["tool"]["status"] == "no"
    monkeypatch.setenv("PATH", str(bin_))  # there may be a real one elsewhere
    (bin_ / "prologue").write_text("no program")
    assert "does not run" in check(tool, ready)["tool"]["message"]
    (bin_ / "prologue").unlink()
    row = check(tool, ready)["tool"]
    assert "no prologue in PATH" in row["message"]
    assert row["path"] is None
    program(bin_ / "other", f"test $1 = and && echo prologue {__version__}")
    monkeypatch.setenv("PROLOGUE", "other and")
    assert check(tool, ready)["tool"]["path"] == str(bin_ / "other")
    blank = bin_ / "my tools" / "prologue"
    blank.parent.mkdir()
    program(blank, f"echo prologue {__version__}")
    monkeypatch.setenv("PROLOGUE", f"'{blank}'")
    assert check(tool, ready)["tool"]["path"] == str(blank)
    monkeypatch.setenv("PROLOGUE", "'absent and")
    assert "PROLOGUE='absent (environment) does not exist" in check(tool, ready)["tool"]["message"]
    monkeypatch.setenv("PROLOGUE", "absent and")
    assert "PROLOGUE=absent (environment) does not exist" in check(tool, ready)["tool"]["message"]


@pytest.mark.thorough
def test_no_tool_is_needed_where_sorttable_does_the_step(
    tree: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tree, mode="sorttable")
    (tree / ".config").write_text(SELECTED)
    monkeypatch.setenv("PATH", "")
    checks = check(tool, tree)
    assert (checks["tool"]["status"], "scripts/sorttable" in checks["tool"]["message"]) == ("-", True)
    assert checks["patch"]["mode"] == "sorttable"
    assert checks["config"]["status"] == "ok"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["vmlinux", "vmlinux.unstripped"])
def test_the_kernel(ready: Path, mini: Mini, name: str, tool: Tool) -> None:
    vmlinux = ready / name
    shutil.copy(mini(Spec()), vmlinux)
    row = check(tool, ready)[name]
    assert (row["status"], row["state"]) == ("no", "untouched")
    assert "not processed" in row["message"]
    assert row["to_do"].startswith(f"remove {vmlinux} and build again, or ")  # make links nothing that is there
    assert main(["patch", "--in-place", str(vmlinux)]) == 0
    row = check(tool, ready)[name]
    assert (row["status"], row["marker"]) == ("ok", {"flags": 1, "sites": 15})
    assert row["message"] == "processed: the marker is set, 15 sites"
    with edit(vmlinux) as elf:
        elf.set_word(elf.value("work_leaf") + 4, 0)
    row = check(tool, ready)[name]
    assert (row["status"], row["state"]) == ("no", "mixed")
    assert row["to_do"] == f"prologue verify {vmlinux}"
    shutil.copy(mini(Spec(ignores_marker=True)), vmlinux)
    row = check(tool, ready)[name]
    assert (row["status"], row["to_do"]) == ("no", f"prologue verify {vmlinux}")
    assert "it does not read its marker: no function that ftrace_init reaches loads its flags" in row["message"]
    shutil.copy(mini(Spec(contract="stock")), vmlinux)
    assert check(tool, ready)[name]["message"] == "has no marker"
    vmlinux.write_text("no kernel\n")
    assert "a text file" in check(tool, ready)[name]["message"]


@pytest.mark.thorough
def test_both_kernels_are_looked_at(ready: Path, mini: Mini, tool: Tool) -> None:
    for name in ("vmlinux", "vmlinux.unstripped"):
        shutil.copy(mini(Spec()), ready / name)
    assert main(["patch", "--in-place", str(ready / "vmlinux.unstripped")]) == 0
    checks = check(tool, ready)
    assert checks["vmlinux.unstripped"]["status"] == "ok"
    assert checks["vmlinux"]["status"] == "no"
    assert checks["vmlinux"]["to_do"].startswith(f"remove {ready / 'vmlinux.unstripped'} and build again, or ")


def test_a_kernel_that_a_kill_left_unfinished(ready: Path, mini: Mini, tool: Tool) -> None:
    vmlinux = Path(shutil.copy(mini(Spec()), ready / "vmlinux"))
    assert main(["patch", "--in-place", str(vmlinux)]) == 0
    with edit(vmlinux) as elf:
        elf.set_word(elf.value(SYMBOL) + 12, 0)  # flags
        elf.set_word(elf.value(SYMBOL) + 16, 0)  # sites
    row = check(tool, ready)["vmlinux"]
    assert (row["state"], row["message"]) == ("unfinished", "not finished")


def test_no_release_of_ours(ready: Path, tool: Tool) -> None:
    (ready / "Makefile").write_text("VERSION = 5\nPATCHLEVEL = 4\nSUBLEVEL = 1\n")
    assert "there is no patch for Linux 5.4, only for " in tool("kernel", "check", ready, status=2).err
    (ready / KCONFIG).unlink()
    assert main(["kernel", "check", str(ready)]) == 2
