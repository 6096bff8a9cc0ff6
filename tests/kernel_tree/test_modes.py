"""The boot mode: the first part of the series, which needs no tool in the build."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import RefusedError
from prologue.kernel_tree.patches import MODES, STEPS, Mode, all_series, load_patch
from prologue.kernel_tree.source import KCONFIG, OPTION, KernelTree
from prologue.kernel_tree.tree import install
from tests.kernel_tree.test_check import PADS
from tests.support.tool import Tool
from tests.support.trees import untouched


def test_the_boot_mode_is_the_beginning_of_the_series() -> None:
    assert {*MODES["build"], *MODES["sorttable"]} == set(STEPS)
    for mode in ("build", "sorttable"):
        assert MODES["boot"] == MODES[mode][: len(MODES["boot"])]


@pytest.mark.parametrize("series", all_series())
def test_it_needs_no_option_and_creates_nothing(series: str) -> None:
    boot, build = load_patch(series, mode="boot"), load_patch(series)
    assert boot.patches == build.patches[: len(boot.patches)]
    assert not any(change.creates for change in boot.changes)
    assert KCONFIG not in {change.path for change in boot.changes}
    assert OPTION.encode() not in boot.diff


@pytest.mark.parametrize(("there", "wanted"), [("boot", "build"), ("build", "boot")], ids=["boot first", "build first"])
def test_one_mode_at_a_time(tree: Path, there: Mode, wanted: str, tool: Tool) -> None:
    install(tree, mode=there)
    state = untouched(tree)
    message = tool("kernel", "install", tree, "--mode", wanted, status=2).err
    assert f"has the patch of mode {there}, not {wanted}; nothing was changed: " in message
    assert f"prologue kernel install --uninstall {tree}" in message
    assert message.count("\n") == 1
    assert untouched(tree) == state


def test_what_is_left_of_the_whole_series_is_no_boot_mode(tree: Path, tmp_path: Path) -> None:
    """Its Kconfig was put back; ftrace.c still has the marker."""
    kconfig = (tree / KCONFIG).read_bytes()
    install(tree)
    (tree / KCONFIG).write_bytes(kconfig)
    assert KernelTree(tree).installed == "build"
    with pytest.raises(RefusedError, match="has the patch of mode build, not boot"):
        install(tree, mode="boot")
    assert [path for _, path in install(tree).steps] == [KCONFIG]


def test_words_of_its_own(tree: Path, tool: Tool) -> None:
    """Clang 21 with CALL_OPS: check says nothing of processed modules, because this mode takes none."""
    (tree / ".config").write_text(f"{PADS}CONFIG_CLANG_VERSION=210102\n")
    assert "leave out --mode" in tool("kernel", "install", tree, "--mode", "boot", "--uninstall", status=2).err
    out = tool("kernel", "install", tree, "--mode", "boot").out
    assert ", mode boot\n" in out
    assert "next: build as always, then:\n" in out
    assert OPTION not in out
    data = tool("kernel", "check", tree, "--json", status=1).json
    assert [(row["name"], row["status"]) for row in data["checks"]] == [("patch", "ok"), ("vmlinux", "no")]
    assert data["checks"][0]["mode"] == "boot"
    series = KernelTree(tree).series
    assert data["checks"][0]["message"].startswith(f"installed ({series}, mode boot, ")
