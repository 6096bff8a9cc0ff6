"""Running kernels without one: what the script says, what kcore's errors mean, and what ssh may answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.live.memory import kcore, session
from prologue.live.memory.kcore import Kcore, RemoteKcore, why_not
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import SCRIPT, LoadedModule, parse_state
from tests.support.processes import place_python_program

SAID = """Welcome to the board.
==== release
6.12.107
==== boot_id
dac90a52-e854-4eec-9b34-56dd3986e3fe
==== kptr_restrict
0
==== modules
loop 32768 1 brd, Live 0xffffcaf3a0f7c000
brd 12288 0 - Live 0xffffcaf3a0fa8000 (OE)
==== symbols
ffffcaf3c8800000 T _text
ffffcaf3a0f7c0d8 t lo_open	[loop]
==== sections
/sys/module/loop/sections/.text:0xffffcaf3a0f7c000
/sys/module/loop/sections/__bug_table:0xffffcaf3a0fb6000
==== kprobes
ffffcaf3c8c44128  k  vfs_read+0x10    [DISABLED]
==== end
"""


def test_what_the_script_prints_is_read() -> None:
    state = parse_state(SAID, "board")
    assert (state.release, state.boot_id) == ("6.12.107", "dac90a52-e854-4eec-9b34-56dd3986e3fe")
    places = {".text": 0xFFFFCAF3A0F7C000, "__bug_table": 0xFFFFCAF3A0FB6000}
    loop, brd = state.modules
    assert loop == LoadedModule("loop", 32768, 0xFFFFCAF3A0F7C000, places)
    assert brd == LoadedModule("brd", 12288, 0xFFFFCAF3A0FA8000, {})
    assert state.anchors() == {"_text": 0xFFFFCAF3C8800000}
    assert [(symbol.name, symbol.owner) for symbol in state.symbols] == [("_text", ""), ("lo_open", "loop")]
    assert state.kprobes == ("ffffcaf3c8c44128  k  vfs_read+0x10    [DISABLED]",)


@pytest.mark.parametrize(("state", "flags"), [("Loading", " (OE+)"), ("Unloading", " (E-)"), ("Unloading", "")])
def test_a_module_that_is_being_loaded_is_one(state: str, flags: str) -> None:
    said = SAID.replace("Live 0xffffcaf3a0fa8000 (OE)", f"{state} 0xffffcaf3a0fa8000{flags}")
    assert parse_state(said, "board").modules == parse_state(SAID, "board").modules


def test_a_line_that_is_no_module_is_not_left_out() -> None:
    with pytest.raises(InputError, match="board: expected a line of /proc/modules, found 'brd 12288'"):
        parse_state(SAID.replace(" 0 - Live 0xffffcaf3a0fa8000 (OE)", ""), "board")


@pytest.mark.parametrize("end", ["==== end\n", "==== kprobes\n", "==== sections\n"])
def test_an_answer_that_is_cut_off_is_refused(end: str) -> None:
    with pytest.raises(InputError, match="the answer is cut off"):
        parse_state(SAID.partition(end)[0], "board")


def test_hidden_addresses_are_refused() -> None:
    hidden = SAID.replace("ffffcaf3c8800000", "0" * 16).replace("ffffcaf3a0f7c0d8", "0" * 16)
    for said in (hidden, SAID.replace("0xffffcaf3a0fa8000", "0x0000000000000000")):
        with pytest.raises(InputError, match=r"hides its addresses \(kernel.kptr_restrict is 0\)"):
            parse_state(said, "board")


def test_the_script_runs_in_a_posix_shell() -> None:
    """On this machine, whatever it is: all parts come, and nothing else is said."""
    done = subprocess.run(["/bin/sh"], input=SCRIPT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    parts = [line[5:] for line in done.stdout.splitlines() if line.startswith("==== ")]
    assert parts == ["release", "boot_id", "kptr_restrict", "modules", "symbols", "sections", "kprobes", "end"]


@pytest.mark.parametrize(
    ("error", "uid", "lockdown", "message"),
    [
        (FileNotFoundError(2, "No such file"), 0, "", "CONFIG_PROC_KCORE"),
        (PermissionError(1, "Operation not permitted"), 0, "none integrity [confidentiality]", "locked down"),
        (PermissionError(1, "Operation not permitted"), 0, "[none] integrity", "CAP_SYS_RAWIO"),
        (PermissionError(13, "Permission denied"), 1000, "[none]", "run as root"),
        (OSError(5, "Input/output error"), 0, "", "Input/output error"),
    ],
)
def test_why_kcore_cannot_be_read(error: OSError, uid: int, lockdown: str, message: str) -> None:
    assert message in why_not(error, uid, lockdown)


def test_kcore_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kcore, "KCORE", str(tmp_path / "kcore"))
    with pytest.raises(InputError, match="no CONFIG_PROC_KCORE"):
        Kcore()


def fake_ssh(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A program ssh; after it the rest of PATH."""
    place_python_program(directory / "ssh", f"import subprocess, sys\n{body}\n")
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("print('Permission denied (publickey).', file=sys.stderr); sys.exit(255)", "ssh failed: Permission denied"),
        ("print('dd: /proc/kcore: Operation not permitted', file=sys.stderr); sys.exit(1)", "log in as root"),
        ("sys.exit(7)", "status 7"),
        ("sys.stdout.write('short')", "sent less than"),
        (
            "sys.stdin.readline(); print('==== ready', flush=True); sys.stdin.readline();"
            "sys.stdout.write('x' * 65536 + '==== done\\n')",
            "a text file, not ELF",
        ),
    ],
)
def test_what_ssh_may_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str) -> None:
    fake_ssh(tmp_path, monkeypatch, body)
    with pytest.raises(InputError, match=message) as caught:
        open_memory("ssh:root@board")
    assert str(caught.value).startswith("ssh:root@board: ")
    assert "\n" not in str(caught.value)


def test_one_login_for_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a login shell prints first is no answer; a shell that ends is followed by another."""
    monkeypatch.setattr(session, "_AFTER_ALL", 1)
    logins = tmp_path / "logins"
    fake_ssh(tmp_path, monkeypatch, f"open({str(logins)!r}, 'a').write('x'); subprocess.run('echo Welcome.; sh', "
             "shell=True, check=True)")  # fmt: skip
    shell = session.RemoteShell("board", "root@board", (), "see to it")
    assert [shell.ask("printf abc\n", 3), shell.ask("printf 'd\\0'; printf e\n", 3)] == [b"abc", b"d\0e"]
    assert shell.ask_until("echo one; printf end\n", b"end") == b"one\nend"
    assert logins.read_text() == "x"
    with pytest.raises(InputError, match="sent less than"):
        shell.ask("printf abc\n", 4)
    assert shell.ask("printf abc\n", 3) == b"abc"
    with pytest.raises(InputError, match="sent less than"):
        shell.ask("exit 0\n", 4)
    assert shell.ask("printf abc\n", 3) == b"abc"
    with pytest.raises(InputError, match="sent more than"):
        shell.ask("printf abcd\n", 3)
    assert shell.ask("printf abc\n", 3) == b"abc"
    assert logins.read_text() == "xxxx"


def test_no_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="openssh-client"):
        RemoteKcore("board")


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch x"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(InputError, match="is not a host"):
        open_memory(f"ssh:{host}")


PROTECTED = "runs with kvm-arm.mode=protected: a host that reads its hypervisor's memory by /proc/kcore may panic"


def test_a_host_whose_hypervisor_keeps_memory_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under pKVM nothing of kcore is read: Debian's 6.12 panics then."""
    line = tmp_path / "cmdline"
    line.write_text("console=ttyAMA0 kvm-arm.mode=protected\n")
    read = tmp_path / "read"
    monkeypatch.setattr(kcore, "_CMDLINE", str(line))
    monkeypatch.setattr(kcore, "_GUARD", kcore._GUARD.replace("/proc/cmdline", str(line)))
    monkeypatch.setattr(kcore, "GET", f"get() {{ touch {read}; }}\n")
    fake_ssh(tmp_path, monkeypatch, "sys.exit(subprocess.run('sh').returncode)")
    for make in (Kcore, lambda: RemoteKcore("board")):
        with pytest.raises(InputError, match="take a dump instead") as caught:
            make()
        assert PROTECTED in str(caught.value)
    assert not read.exists()
