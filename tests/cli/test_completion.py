"""Completion scripts, asked as their shells ask them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from prologue.cli.parser import GROUPS, SHELLS
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL

# What stands before the cursor, and what may be completed to.
ASKED = [
    ("scan vml", {"vmlinux"}),
    ("verify vmlinux --against vml", {"vmlinux"}),
    ("patch vmlinux --reverse vml", {"vmlinux"}),
    ("explain PL30", {f"PL3{number:02}" for number in range(1, 10)}),
    ("explain site-n", {"site-not-pair"}),
    ("explain GA", {"GATE"}),
    ("verify vmlinux --select PL40", {f"PL40{number}" for number in range(1, 10)}),
    ("verify vmlinux --ignore mcount-b", {"mcount-bounds-missing"}),
    ("transition n", {"nop"}),
    ("transition nop b.", {"b.cond"}),
    ("bench compare exa", {"example:2019-a53", "example:2019-a57"}),
    ("bench table vml", {"vmlinux"}),
    ("verify exa", {"example:broken", "example:good", "example:hooked"}),
    ("live audit vml", {"vmlinux"}),
    ("trace check example:h", {"example:hooked"}),
    ("verify --format s", {"sarif"}),
    ("protocol explain call-ops/freed", {"call-ops/freed-at-once"}),
    ("bench run vmlinux --target ic", {"icount"}),
    ("bench run vmlinux --variants no", {"nop-nop"}),
    ("kernel patch 6.1", {"6.1", "6.12", "6.18"}),
    ("trace stats run.ptrace --vmlinux made --symbols vfs", {"vfs_read"}),
    ("trace record made --begin vfs", {"vfs_read"}),
    ("probe made read_", {"read_zero"}),
]


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vmlinux").touch()
    KERNEL.write(tmp_path / "made")
    command = tmp_path / "bin" / "prologue"
    command.parent.mkdir()
    packages = shlex.quote(":".join(sys.path))
    command.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {shlex.quote(sys.executable)} -m prologue "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    said = tool("--print-completion", request.param).out
    path = tmp_path / "script"
    path.write_text(said)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        *ASKED,
        ("bench compare example :", {"2019-a53", "2019-a57"}),
        ("bench plot example : 2019-a57", {"2019-a57"}),
        ("verify example : b", {"broken"}),
    ],
)  # bash takes the colon for a word
def test_bash(script: Path, before: str, expected: set[str]) -> None:
    words = " ".join(f"'{word}'" for word in ("prologue", *before.split()))
    program = (
        f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        "$(complete -p prologue | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd=script.parent)
    assert set(done.stdout.split()) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish(script: Path) -> None:
    needs_tools("fish")
    asked = "; ".join(f"echo '? {before}'; complete -C 'prologue {before}'" for before, _ in ASKED)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; {asked}"],
        capture_output=True, text=True, check=True, cwd=script.parent,
    )  # fmt: skip
    answers = {
        answer.splitlines()[0].removeprefix("? "): {line.split("\t")[0] for line in answer.splitlines()[1:]}
        for answer in done.stdout.replace("? ", "\0? ").split("\0")[1:]
    }
    assert answers == dict(ASKED)


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh(script: Path) -> None:
    """In a terminal of its own: zsh completes in no other."""
    needs_tools("zsh")
    program = f"""
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; eval "$(<{script})"; echo READ''Y'
        zpty -r shell answer '*READY*'
        zpty -n -w shell $'prologue explain site-n\\t'
        zpty -r shell answer '*site-not-pair*'
        print -r -- "$answer"
        zpty -n -w shell $'\\Cuprologue transition paci\\t'
        zpty -r shell answer '*paciasp*'
        zpty -n -w shell $'\\Cuprologue bench compare exam\\t'
        zpty -r shell answer '*example:2019-a5*'
        zpty -n -w shell $'\\Cuprologue scan vml\\t'
        zpty -r shell answer '*vmlinux*'
        zpty -n -w shell $'\\Cuprologue trace record made --begin vfs_\\t'
        zpty -r shell answer '*vfs_read*'
        print COMPLETE
    """
    done = subprocess.run(
        ["zsh", "-f", "-c", program], capture_output=True, text=True, check=True, cwd=script.parent, timeout=600
    )
    assert done.stdout.endswith("COMPLETE\n")


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_a_line_that_names_no_kernel_completes_to_nothing(script: Path, tool: Tool) -> None:
    made = str(script.parent / "made")
    for words in ((), ("", made), ("vfs", "/", "-q", "--vmlinux=", str(script.parent / "vmlinux")), ("vfz", made)):
        assert tool("--print-functions", *words) == ("", "", 0)


@pytest.mark.parametrize("script", SHELLS, indirect=True)
def test_every_command_is_in_every_script(script: Path) -> None:
    text = script.read_text()
    assert [name for _, names, _ in GROUPS for name in (*names, "overlay", "compare") if name not in text] == []
