"""``prologue kernel`` as its users run it: words and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel_tree.patches import all_series, load_patch
from prologue.kernel_tree.source import OPTION, KernelTree
from tests.kernel_tree.test_mail import TESTER, mbox
from tests.support.trees import fingerprint, made_tree, untouched

Said = pytest.CaptureFixture[str]
POSTLINK = "arch/arm64/Makefile.postlink"


def kernel(*arguments: object) -> int:
    return main(["kernel", *map(str, arguments)])


@pytest.mark.thorough
def test_from_install_to_uninstall(tree: Path, capsys: Said) -> None:
    series, before = KernelTree(tree).series, fingerprint(tree)
    head = f"{tree}: Linux {series}.99"

    state = untouched(tree)
    assert kernel("install", tree, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert untouched(tree) == state
    assert lines[0] == f"{head}, with the patch for {series}, mode build"
    assert f"  would create  {POSTLINK}" in lines
    assert "  would patch   arch/arm64/Kconfig" in lines
    assert len(lines) == 1 + len(load_patch(series).changes)

    assert kernel("install", tree) == 0
    said = capsys.readouterr().out
    assert f"  created       {POSTLINK}\n" in said
    assert "  patched       arch/arm64/Kconfig\n" in said
    assert f"next: select CONFIG_{OPTION}, build as always, then:\n  prologue kernel check {tree}\n" in said

    state = untouched(tree)
    assert kernel("install", tree) == 0
    assert f"{head}: the patch is installed already, nothing to do\n" in capsys.readouterr().out
    assert untouched(tree) == state

    (tree / POSTLINK).unlink()
    assert kernel("install", tree) == 0
    said = capsys.readouterr().out
    assert f"  created       {POSTLINK}\n" in said
    assert "  was in        arch/arm64/Kconfig\n" in said

    state = untouched(tree)
    assert kernel("install", tree, "--uninstall", "--dry-run") == 0
    assert f"  would remove  {POSTLINK}\n" in capsys.readouterr().out
    assert untouched(tree) == state
    assert kernel("install", tree, "--uninstall") == 0
    said = capsys.readouterr().out
    assert f"  removed       {POSTLINK}\n" in said
    assert "  restored      arch/arm64/Kconfig\n" in said
    assert "next:" not in said
    assert fingerprint(tree) == before
    assert kernel("install", tree, "--uninstall") == 0
    assert f"{head}: the patch is not installed, nothing to do\n" in capsys.readouterr().out


@pytest.mark.thorough
def test_quiet_says_what_fails_and_no_more(
    tree: Path, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("NAME", TESTER.name), ("EMAIL", TESTER.email)):
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    said = []
    for words in (["install", tree, "--dry-run"], ["install", tree], ["install", tree],
                  ["patch", tree, "-o", tmp_path / "mails", "--mode", "boot"]):  # fmt: skip
        assert kernel(*words, "-q") == 0
        said.append(capsys.readouterr().out)
    assert said == [""] * 4
    assert KernelTree(tree).mode == "build"
    assert kernel("check", tree, "-q") == 1
    assert {line[:2] for line in capsys.readouterr().out.splitlines()} == {"no", "  "}
    assert kernel("install", tree, "--uninstall", "-q") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_refusal_is_one_line(tree: Path, options: list[str], capsys: Said) -> None:
    (tree / POSTLINK).write_text("# somebody else's\n")
    state = untouched(tree)
    assert kernel("install", tree, *options) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"prologue: {tree}: other changes are in the way: {POSTLINK} (")
    assert said.err.count("\n") == 1
    assert untouched(tree) == state


def test_without_git(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setenv("PATH", "")
    state = untouched(tree)
    for arguments in (["install", tree], ["install", tree, "--dry-run"], ["patch", tree]):
        assert kernel(*arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "install the package git" in said.err
    assert untouched(tree) == state


def test_without_room_for_copies(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    for name, value in {"NAME": TESTER.name, "EMAIL": TESTER.email}.items():
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    state = untouched(tree)
    for arguments in (["install", tree], ["patch", tree]):
        assert kernel(*arguments) == 2
        assert "copies cannot be made: No such file or directory" in capsys.readouterr().err
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
        done = subprocess.run(
            [sys.executable, "-m", "prologue", "kernel", "patch", str(release)], capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, mails, b""), release
    assert kernel("patch", series) == 0
    assert capfdbinary.readouterr().out == mails


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
    release: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kernel("patch", release) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"prologue: {message}")


@pytest.mark.parametrize("arguments", [["install"], ["check"], ["patch"], ["remove", "linux"], ["check", "--json"]])
def test_usage(arguments: list[str], capsys: Said) -> None:
    with pytest.raises(SystemExit) as done:
        kernel(*arguments)
    assert done.value.code == 2
    assert "usage: prologue kernel" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["install", "check", "patch"])
def test_help_has_examples(command: str, capsys: Said) -> None:
    with pytest.raises(SystemExit) as done:
        kernel(command, "--help")
    assert done.value.code == 0
    assert f"prologue kernel {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_a_tree_that_is_none(tmp_path: Path, capsys: Said) -> None:
    for command in ("install", "check", "patch"):
        assert kernel(command, tmp_path) == 2
        assert f"prologue: {tmp_path}: is not a kernel tree: it has no Makefile\n" == capsys.readouterr().err
