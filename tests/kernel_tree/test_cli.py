"""``prologue kernel`` as its users run it: words and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel_tree.patches import all_series, load_patch
from prologue.kernel_tree.source import OPTION, KernelTree
from tests.kernel_tree.test_mail import TESTER, mbox
from tests.support.tool import Tool
from tests.support.trees import made_tree, untouched

POSTLINK = "arch/arm64/Makefile.postlink"


@pytest.mark.thorough
def test_from_install_to_uninstall(tree: Path, tool: Tool) -> None:
    series = KernelTree(tree).series
    head = f"{tree}: Linux {series}.99"
    lines = tool("kernel", "install", tree, "--dry-run").out.splitlines()
    assert lines[0] == f"{head}, with the patch for {series}, mode build"
    assert f"  would create  {POSTLINK}" in lines
    assert "  would patch   arch/arm64/Kconfig" in lines
    assert len(lines) == 1 + len(load_patch(series).changes)

    said = tool("kernel", "install", tree).out
    assert f"  created       {POSTLINK}\n" in said
    assert "  patched       arch/arm64/Kconfig\n" in said
    assert f"next: select CONFIG_{OPTION}, build as always, then:\n  prologue kernel check {tree}\n" in said
    assert f"{head}: the patch is installed already, nothing to do\n" in tool("kernel", "install", tree).out
    (tree / POSTLINK).unlink()
    assert "  was in        arch/arm64/Kconfig\n" in tool("kernel", "install", tree).out

    assert f"  would remove  {POSTLINK}\n" in tool("kernel", "install", tree, "--uninstall", "--dry-run").out
    said = tool("kernel", "install", tree, "--uninstall").out
    assert f"  removed       {POSTLINK}\n" in said
    assert "  restored      arch/arm64/Kconfig\n" in said
    assert "next:" not in said
    said = tool("kernel", "install", tree, "--uninstall").out
    assert f"{head}: the patch is not installed, nothing to do\n" in said


@pytest.mark.thorough
def test_quiet_says_what_fails_and_no_more(
    tree: Path, tmp_path: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("NAME", TESTER.name), ("EMAIL", TESTER.email)):
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    said = []
    for words in (["install", tree, "--dry-run"], ["install", tree], ["install", tree],
                  ["patch", tree, "-o", tmp_path / "mails", "--mode", "boot"]):  # fmt: skip
        said.append(tool("kernel", *words, "-q").out)
    assert said == [""] * 4
    assert KernelTree(tree).mode == "build"
    assert {line[:2] for line in tool("kernel", "check", tree, "-q", status=1).out.splitlines()} == {"no", "  "}
    assert tool("kernel", "install", tree, "--uninstall", "-q").out == ""


def test_a_refusal_is_one_line(tree: Path, tool: Tool) -> None:
    (tree / POSTLINK).write_text("# somebody else's\n")
    said = tool("kernel", "install", tree, status=2)
    assert said.out == ""
    assert said.err.startswith(f"prologue: {tree}: other changes are in the way: {POSTLINK} (")
    assert said.err.count("\n") == 1


def test_without_git(tree: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setenv("PATH", "")
    state = untouched(tree)
    for arguments in (["install", tree], ["install", tree, "--dry-run"], ["patch", tree]):
        said = tool("kernel", *arguments, status=2)
        assert said.out == ""
        assert "install the package git" in said.err
    assert untouched(tree) == state


def test_without_room_for_copies(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    for name, value in {"NAME": TESTER.name, "EMAIL": TESTER.email}.items():
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    state = untouched(tree)
    for arguments in (["install", tree], ["patch", tree]):
        assert "copies cannot be made: No such file or directory" in tool("kernel", *arguments, status=2).err
    assert untouched(tree) == state


@pytest.mark.thorough
def test_patch_prints_the_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    series = all_series()[0]
    for name, value in {"NAME": TESTER.name, "EMAIL": TESTER.email, "DATE": "2026-01-02T03:04:05+0000"}.items():
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    mails = mbox(load_patch(series))  # that release has no mode sorttable
    tree = made_tree(series, tmp_path / "linux")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "7.99").symlink_to(tree)
    for release in (series, f"v{series}", f"{series}.42", f"{series}.42-1-arm64", f"{series}-rc1", tree, "./7.99"):
        assert main(["kernel", "patch", str(release)]) == 0
        assert capfdbinary.readouterr() == (mails, b""), release


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("5.4", "there is no patch for Linux 5.4, only for "),
        ("6.120", "there is no patch for Linux 6.120, only for "),
        ("linux-6.12", "linux-6.12: is neither a kernel tree nor a release; there are patches for "),
        (".", ".: is not a kernel tree: it has no Makefile"),
    ],
)
def test_patch_of_what_there_is_none_for(
    release: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.chdir(tmp_path)
    said = tool("kernel", "patch", release, status=2)
    assert said.out == ""
    assert said.err.startswith(f"prologue: {message}")


@pytest.mark.parametrize("arguments", [["install"], ["check"], ["patch"], ["remove", "linux"], ["check", "--json"]])
def test_usage(arguments: list[str], tool: Tool) -> None:
    assert "usage: prologue kernel" in tool("kernel", *arguments, status=2).err
