"""The recorder's script where it cannot record, and what the command says of it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.live.pokes.recorder_output import record, script
from tests.live.memory.test_running import fake_ssh
from tests.live.pokes.test_recorder_output import SAID
from tests.support.tool import Tool


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox sh"])
def test_the_script_is_for_every_shell(shell: str) -> None:
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]}")
    done = subprocess.run([*words, "-n"], input=script(), capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("signed", ["61af", "00ff", "0080", "0fef"])
def test_return_addresses_are_named_whatever_their_signature(signed: str, tmp_path: Path) -> None:
    """The kernel prints no leading zeros: those of a signature make a short number."""
    (tmp_path / "kallsyms").write_text(
        "ffff980225800000 T first\nffff980225800100 T second\nffff980225800200 T third\n"
    )
    number = f"{int(signed + '980225800138', 16):#x}"
    (tmp_path / "events").write_text(
        f"sh-1 [001] d.. 6.4: fixmap: addr=0xffff980225800004 c1={number} c2=0xaaaad5f20138\n"
    )
    text = script().replace("/proc/kallsyms", str(tmp_path / "kallsyms"))
    numbers = text[text.index("numbers='") : text.index("found=$(awk")]
    part = text[text.index("part names") : text.index("part end\n")]
    shell = f"part() {{ echo; }}\nscratch={tmp_path}; voffset=ffff000000000000\n{numbers}{part}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "ffff980225800000", "ffff980225800100", "first", "ffff980225800100", "ffff980225800200", "second",
    ]  # fmt: skip


@pytest.mark.parametrize("awk", ["mawk", "gawk", "original-awk", "busybox awk"])
def test_words_are_compared_as_text(awk: str, tmp_path: Path) -> None:
    """121e7668 reads as a number that is infinite, and 1e003 as 10e002."""
    if shutil.which(awk.split(maxsplit=1)[0]) is None:
        pytest.skip(f"no {awk}")
    before = [0x121E7668, 0x0001E003, 0x00000777]
    after = [0x121E7668, 0x0010E002, 0x00000778]
    for name, words in (("before", before), ("after", after)):
        content = b"".join(word.to_bytes(4, "little") for word in words)
        (tmp_path / name).write_bytes(content.ljust(4096, b"\0"))
    text = script()
    part = text[text.index("part changed") : text.index("part names")]
    shell = f'part() {{ :; }}\nawk() {{ command {awk} "$@"; }}\ncompare=yes; pages=1; scratch={tmp_path}\n{part}'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["compared 1024 words", "1 0001e003 0010e002", "2 00000777 00000778"]


@pytest.mark.thorough
@pytest.mark.parametrize("shell", ["sh", "bash", "busybox sh"])
def test_the_shell_that_has_background_processes_prints_nothing_itself(shell: str, tmp_path: Path) -> None:
    """On a terminal it loses what it writes when one of them ends: 6 of 3,000 lines with busybox."""
    if shutil.which(shell.split(maxsplit=1)[0]) is None:
        pytest.skip(f"no {shell}")
    (tmp_path / "uname").write_text("#!/bin/sh\necho $PPID\n")
    (tmp_path / "uname").chmod(0o755)
    printing = script()[script().index("\npart() {") :]
    found = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "scratch": str(tmp_path), "instance": str(tmp_path)}
    done = subprocess.run(
        [*shell.split(), "-c", f"echo $$\n{printing}"], capture_output=True, text=True, check=True, env=found
    )
    own, start, machine, parent, *_ = done.stdout.splitlines()
    assert (start, machine) == ("==== prologue writes record 1", "==== machine")
    assert parent != own
    assert done.stdout.endswith("\n==== end\n")


def test_the_script_is_printed(tool: Tool) -> None:
    assert tool("writes", "record", "--script").out == script()


@pytest.mark.parametrize(
    "options", [["ssh:root@board"], ["-o", "out"], ["--seconds", "60"], ["--buffer", "64"], ["--command", "true"],
                ["--json"]], ids=" ".join
)  # fmt: skip
def test_the_script_takes_its_options_there(tool: Tool, options: list[str]) -> None:
    said = tool("writes", "record", "--script", *options, status=2)
    assert f"{options[0]} has no effect on the script" in said.err
    assert said.out == ""


@pytest.mark.parametrize("options", [["--command", " "], ["--command", "true", "--seconds", "5"]], ids=" ".join)
def test_how_long_is_said_once(tmp_path: Path, tool: Tool, options: list[str]) -> None:
    assert "--command" in tool("writes", "record", "-o", tmp_path / "out", *options, status=2).err
    assert not list(tmp_path.iterdir())


def test_another_machine(tmp_path: Path, tool: Tool) -> None:
    """It says why, and leaves nothing, neither there nor here."""
    if platform.machine() == "aarch64":
        pytest.skip("this is an arm64 machine")
    out = tmp_path / "board.writes"
    said = tool("writes", "record", "-o", out, status=2).err
    assert said == f"prologue: local: cannot be recorded: is for arm64 machines: this is {platform.machine()}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "-o FILE"),
        (["board", "-o", "out"], "is not a machine: expected local, or ssh:HOST"),
        (["ssh:", "-o", "out"], "is not a machine"),
        (["ssh:-oProxyCommand=x", "-o", "out"], "is not a machine"),
        (["-o", "out", "--command", "'"], "--command"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    tool: Tool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert message in tool("writes", "record", *arguments, status=2).err
    assert not list(tmp_path.iterdir())


def test_what_comes_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """The command line survives any shell's reading; the text is kept as it came."""
    body = f"print({SAID!r}, end=''); open({str(tmp_path / 'asked')!r}, 'w').write(sys.argv[-1])"
    fake_ssh(tmp_path, monkeypatch, body)
    out = tmp_path / "board.writes"
    said = tool("writes", "record", "ssh:root@board", "-o", out, "--command", "sh -c 'sleep 1; date'").out
    assert out.read_text() == SAID
    assert "6.12.107+deb13-cloud-arm64, 16 words of text were written" in said
    assert said.count("no probe on") == 2  # one line for each reason
    assert (tmp_path / "asked").read_text().endswith("record.sh -e -t 10 -b 8192 -- sh -c 'sleep 1; date'")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('Permission denied (publickey).', file=sys.stderr); sys.exit(255)", "ssh failed: Permission denied"),
        ("print('sh: dd: not found', file=sys.stderr); sys.exit(127)", "record failed: sh: dd: not found"),
        ("print('x\\nrecord.sh: needs root', file=sys.stderr); sys.exit(2)", "cannot be recorded: needs root"),
        ("sys.exit(7)", "status 7"),
    ],
)
def test_what_ssh_may_answer(body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ssh(tmp_path, monkeypatch, body)
    with pytest.raises(InputError, match=message) as caught:
        record("ssh:root@board", [])
    assert "\n" not in str(caught.value)


def test_an_answer_that_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    fake_ssh(tmp_path, monkeypatch, f"print({SAID[:3000]!r})")
    assert "is cut off in part" in tool("writes", "record", "ssh:board", "-o", tmp_path / "out", status=2).err
    assert not (tmp_path / "out").exists()
