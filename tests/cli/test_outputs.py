"""What the tool writes: never over what it reads, and never half in silence."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.elf.compressed import compress
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.code import read_x9
from tests.rules.sites import call_in_second_slot
from tests.support.elf_edit import edit
from tests.support.machine_tree import make_tree
from tests.support.processes import HEEDING, until_gone
from tests.support.tool import Tool, as_format

Mini = Callable[[Spec | ModuleSpec], Path]
PROGRAM = (sys.executable, "-m", "prologue")


def run(*arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **settings})


@pytest.mark.parametrize(
    "arguments",
    [
        ("image", "{}", "-o", "{}"),
        ("patch", "{}", "--dry-run", "--save-plan", "{}"),
        ("patch", "{}", "--in-place", "--save-plan", "{}"),
        ("patch", "{}", "-o", "{}.out", "--save-plan", "{}.out"),
        ("verify", "{}", "-o", "{}"),
        ("verify", "{0}", "--against", "{0}.before", "-o", "{0}.before"),
        ("verify", "{}", "--save-baseline", "{}"),
        ("verify", "{0}", "--baseline", "{0}.before", "-o", "{0}.before"),
        ("patch", "{0}", "--contract", "auto", "--vmlinux", "{0}.before", "-o", "{0}.before"),
        ("patch", "{0}", "--reverse", "{0}.before", "-o", "{0}.before"),
    ],
)
def test_what_is_read_is_never_written_over(mini: Mini, arguments: tuple[str, ...], tool: Tool) -> None:
    vmlinux = mini(Spec())
    shutil.copy(vmlinux, f"{vmlinux}.before")
    content = vmlinux.read_bytes()
    said = tool(*(argument.replace("{}", "{0}").format(vmlinux) for argument in arguments), status=2).err
    assert re.search("is also an input of this command|name the same file", said)
    assert vmlinux.read_bytes() == content == Path(f"{vmlinux}.before").read_bytes()
    assert not Path(f"{vmlinux}.out").exists()


def test_reasons_and_owners_are_not_lost(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, baseline = mini(Spec()), tmp_path / "known.toml"
    with edit(vmlinux) as elf:
        read_x9(elf)
    baseline.write_text('[[known]]\nrule = "PL304"\nreason = "hand-written"\nowner = "a maintainer"\n')
    arguments = ["verify", str(vmlinux), "--baseline", str(baseline)]
    assert "its reasons and owners would be lost" in tool(*arguments, "--save-baseline", baseline, status=2).err
    assert main(arguments) == 0


@pytest.mark.thorough
def test_a_reader_that_goes_away_does_not_make_it_clean(mini: Mini) -> None:
    vmlinux = mini(Spec())
    for unbuffered in ("", "1"):
        process = subprocess.Popen(
            [*PROGRAM, "verify", str(vmlinux)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 128 + signal.SIGPIPE
        process.stderr.close()


@pytest.mark.thorough
def test_a_report_that_cannot_be_printed_is_an_error(mini: Mini) -> None:
    vmlinux = mini(Spec())
    for arguments in (["scan", str(vmlinux)], ["rules", "--json"]):  # one fits into the buffer, the other does not
        for unbuffered in ("", "1"):
            with Path("/dev/full").open("w") as full:
                done = subprocess.run(
                    [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                    env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                )  # fmt: skip
            assert done.returncode == 2
            assert done.stderr == "prologue: input or output: No space left on device\n"


@pytest.mark.thorough
def test_names_that_are_no_text(mini: Mini, tmp_path: Path) -> None:
    vmlinux = Path(os.fsdecode(os.fsencode(tmp_path) + b"/na\xffme"))
    shutil.copy(mini(Spec()), vmlinux)
    for arguments in (["scan"], ["patch", "--in-place"], ["verify"]):
        done = run(arguments[0], vmlinux, *arguments[1:], PYTHONIOENCODING="utf-8:strict")
        assert (done.returncode, done.stderr) == (0, "")
    done = run("verify", vmlinux, "--format", "junit", PYTHONIOENCODING="utf-8:strict")
    assert ET.fromstring(done.stdout).get("failures") == "0"  # noqa: S314 - ours


def test_names_that_cannot_be(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    name = vmlinux.with_name("x" * 300)
    for arguments in (["verify", name], ["patch", name, "--in-place"], ["patch", vmlinux, "-o", name], ["scan", name]):
        assert tool(*arguments, status=2).err.endswith(": File name too long\n")


def as_others(closed: Path) -> list[str]:
    """Close a directory; returns what goes before a command that shall meet it closed."""
    if os.geteuid():
        closed.chmod(0)
        return []
    os.chown(closed, 65534, 65534)
    closed.chmod(0o700)
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]  # or root may read everything
    if subprocess.run([*without, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this root may not give capabilities up")
    return without


@pytest.mark.thorough
def test_what_may_not_be_read_is_not_passed_over(mini: Mini, tmp_path: Path) -> None:
    """A directory of modules of which one part is closed is not clean, and nor is a closed vmlinux our failure."""
    modules, closed = tmp_path / "modules", tmp_path / "modules" / "closed"
    closed.mkdir(parents=True)
    ko = mini(ModuleSpec())
    shutil.copy(ko, modules / "open.ko")
    shutil.copy(ko, closed / "closed.ko")
    before = as_others(closed)
    try:
        for arguments in (["verify"], ["patch", "--in-place", "--contract", "stock"]):
            for path in (modules, closed / "closed.ko"):
                command = [*before, *PROGRAM, arguments[0], str(path), *arguments[1:]]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 2
                assert "Permission denied" in done.stderr
                assert str(closed) in done.stderr
    finally:
        closed.chmod(0o700)


def test_a_summary_is_not_clean_where_nothing_was_verified(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    said = tool("verify", tmp_path / "a.ko", tmp_path / "b.ko", status=2).out
    assert said.splitlines() == [
        f"could not be verified: {tmp_path / 'a.ko'}: cannot be opened: No such file or directory",
        f"could not be verified: {tmp_path / 'b.ko'}: cannot be opened: No such file or directory",
        "2 files: 2 could not be verified",
    ]
    stock = mini(Spec(contract="stock"))
    assert main(["patch", str(stock), "--in-place", "--contract", "stock"]) == 0
    said = tool("verify", stock, "--release", status=1).out
    assert re.search(r"^1 file: 1 fatal \(\d+ sites, processed, stock\)$", said, re.MULTILINE)
    (finding,) = tool("verify", stock, "--release", "--json", status=1).json["findings"]
    assert (finding["code"], finding["severity"]) == ("GATE", "fatal")
    assert "nothing would be checked" in tool("verify", stock, "--select", "PL201", "--ignore", "PL2", status=2).err


@pytest.mark.parametrize("kind", ["json", "sarif", "junit"])
def test_a_single_file_that_cannot_be_read_has_a_report(tmp_path: Path, kind: str) -> None:
    report = tmp_path / "report"
    report.write_text("stale")
    assert main(["verify", str(tmp_path / "absent"), *as_format(kind), "-o", str(report)]) == 2
    assert "No such file" in report.read_text()


def test_a_report_does_not_replace_the_baseline_of_the_same_run(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    said = tool("verify", vmlinux, "-o", out, "--save-baseline", f"{tmp_path}/./out", status=2).err
    assert "is named for two outputs of this command" in said
    assert not out.exists()


def test_a_terminal_gets_no_commands_from_a_symbol(mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        call_in_second_slot(elf)
    (symbol, *_) = {finding["symbol"] for finding in tool("verify", vmlinux, "--json", status=1).json["findings"]}
    evil = b"\x1b[2J" + symbol.encode()[4:]
    vmlinux.write_bytes(vmlinux.read_bytes().replace(b"\0" + symbol.encode() + b"\0", b"\0" + evil + b"\0"))
    said = tool("verify", vmlinux, status=1).out
    assert "\x1b" not in said
    assert r"\x1b[2J" in said


def test_a_compressed_result_is_reread_when_it_is_asked_for(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    ko = mini(ModuleSpec())
    stored = ko.with_name("mini.ko.xz")
    stored.write_bytes(compress(ko.read_bytes(), "xz"))
    asked = []
    monkeypatch.setattr("prologue.patching.readback._compare", lambda *_, **__: asked.append(1))
    patch = ["patch", str(stored), "--in-place", "--contract", "stock"]
    assert main(patch) == 0
    assert asked == []
    assert main([*patch, "--reverse", "--reread"]) == 0
    assert asked == [1]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_the_second_reader_loads_leaves_nothing(mini: Mini, number: signal.Signals) -> None:
    vmlinux = mini(Spec())
    directory = vmlinux.parent / "out"
    directory.mkdir()
    for delay in (0.02, 0.1, 0.25):
        process = subprocess.Popen(
            [*HEEDING, *PROGRAM, "patch", str(vmlinux), "-o", str(directory / "vmlinux")],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not any(directory.iterdir()) and process.poll() is None:
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(number)
        _, errors = process.communicate(timeout=600)
        assert process.returncode in (0, 130)
        assert errors in ("", "prologue: interrupted\n")
        assert {path.name for path in directory.iterdir()} <= {"vmlinux"}
        for path in directory.iterdir():
            path.unlink()


@pytest.mark.thorough
def test_a_terminal_that_hangs_up_is_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when nothing can be printed any more."""
    monkeypatch.setenv("PROLOGUE_ROOT", str(make_tree(tmp_path / "machine")))  # a busy one would be waited for
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    main_end, their_end = pty.openpty()
    command = [*HEEDING, *PROGRAM, "bench", "record", "--label", "x", "-o", str(tmp_path / "a.jsonl"), "--command",
               f"echo $$ >{fifo}; exec sleep 300"]  # fmt: skip
    process = subprocess.Popen(command, stdin=their_end, stdout=their_end, stderr=their_end, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # noqa: PLW1509 - one call  # fmt: skip
    os.close(their_end)
    started = int(fifo.read_text())
    os.close(main_end)
    assert process.wait(600) == 130
    assert until_gone(started)
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.thorough
def test_what_a_killed_run_left_goes_with_the_next_one(mini: Mini, tmp_path: Path) -> None:
    """And nothing else does: not the file of a run that lives, and not what others named nearly so."""
    vmlinux, out = mini(Spec()), tmp_path / "out" / ("n" * 200)
    out.parent.mkdir()
    killed = """
import os, signal, sys
import prologue.patching.apply as apply
from prologue.cli.main import main
apply.copy_file = lambda source, target: os.kill(os.getpid(), int(sys.argv[1]))
main(["patch", sys.argv[2], "-o", sys.argv[3]])
"""
    begin = [sys.executable, "-c", killed]
    assert subprocess.run([*begin, "9", str(vmlinux), str(out)], check=False).returncode == -signal.SIGKILL
    (left,) = out.parent.iterdir()
    stem = left.name.partition(".prologue.tmp")[0]
    others = {f"{stem}.tmp", f"{stem}x.prologue.tmp", f".other{stem}.prologue.tmp", f"{stem[:-8]}directry.prologue.tmp"}
    for name in others:
        (out.parent / name).mkdir() if "directry" in name else (out.parent / name).touch()
    stopped = subprocess.Popen([*begin, str(int(signal.SIGSTOP)), str(vmlinux), str(out)])
    try:
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
        (living,) = {path.name for path in out.parent.iterdir()} - others
        assert living != left.name
        assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
        assert {path.name for path in out.parent.iterdir()} == others | {living, out.name}
    finally:
        stopped.kill()
        stopped.wait()
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    assert {path.name for path in out.parent.iterdir()} == others | {out.name}


def test_a_temporary_file_of_another_user_stays(mini: Mini, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a file of another user")
    vmlinux = mini(Spec())
    theirs = tmp_path / ".out.abcdefgh.prologue.tmp"
    theirs.touch()
    os.chown(theirs, 65534, 65534)
    assert main(["patch", str(vmlinux), "-o", str(tmp_path / "out")]) == 0
    assert theirs.exists()
    os.chown(theirs, os.geteuid(), -1)
    assert main(["patch", str(vmlinux), "-o", str(tmp_path / "out")]) == 0
    assert not theirs.exists()
