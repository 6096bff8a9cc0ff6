"""The ssh target without a board: what it refuses, and its own scripts run by an ssh that reaches this host only."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, GuestLostError, MissingToolError
from prologue_bench.recorder.gate import evidence, evidence_of
from prologue_bench.recorder.task import Task
from prologue_bench.targets import session, ssh
from prologue_bench.targets.base import Attempt
from prologue_bench.targets.board_facts import FACTS, TYPED_FACTS, read_board, read_typed_facts
from prologue_bench.targets.install import Hook, Kexec, parse_install
from prologue_bench.targets.remote import Remote, Transcript, execute
from prologue_bench.targets.ssh import SshTarget
from tests.support.processes import until_gone
from tests.support.tool import Tool

PATIENCE = 600  # seconds for what takes a moment on an idle machine
SAID = ("arch aarch64", "model Some board", "online 0-5", "memory 3914212", "midr 0x00000000410fd034")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Runs what it is asked to run here, after a greeting as some users' profiles print it.
SSH = """#!/bin/sh
for word; do command=$word; done
echo 'Welcome, 12 updates'
exec sh -c "$command"
"""


def place(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is first on PATH and has that ssh."""
    directory = tmp_path / "bin"
    directory.mkdir()
    place(directory, "ssh", SSH)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return directory


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    image = tmp_path / "Image"
    image.write_bytes(b"not a kernel")
    return Attempt(image=image, log=tmp_path / "log", timeout=PATIENCE, label="base")


class Clock:
    """Stands for ``time``: it goes on only while somebody sleeps, so that a busy machine is as fast as any other."""

    def __init__(self, each: float) -> None:
        self._now, self._each = 0.0, each

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _seconds: float) -> None:
        self._now += self._each


def slept(monkeypatch: pytest.MonkeyPatch, each: float) -> None:
    """Let each pause between two questions take so long, and everything else no time at all."""
    clock = Clock(each)
    monkeypatch.setattr(ssh, "time", clock)
    monkeypatch.setattr(session, "time", clock)
    monkeypatch.setattr(session, "PROBE", PATIENCE)


def lost(target: SshTarget, attempt: Attempt) -> str:
    with pytest.raises(GuestLostError) as caught:
        target.boot(attempt, Task(workloads=(), runs=1))
    return caught.value.message


def test_installs() -> None:
    assert parse_install("kexec", "reboot") == Kexec(())
    assert parse_install("kexec --initrd='/a b' -s", "none") == Kexec(("--initrd=/a b", "-s"))
    assert parse_install("sh -e hook", "reboot -f") == Hook(("sh", "-e", "hook"), "reboot -f")
    assert parse_install("sh", "none") == Hook(("sh",), None)


@pytest.mark.parametrize("install", ["", "/no/such/program --here", "'unfinished"])
def test_install_that_is_no_command(install: str) -> None:
    with pytest.raises(BenchError, match=r"^install "):
        parse_install(install, "reboot")


@pytest.mark.parametrize("host", ["", "-oProxyCommand=true"])
def test_host_that_is_none(host: str) -> None:
    with pytest.raises(BenchError, match="is not a host"):
        Remote(host)


def test_no_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="openssh-client"):
        Remote("board")


def test_facts() -> None:
    assert read_board((*SAID, *SAID[-1:], "midr 0x00000000410fd082"), "board") == {
        "target": "ssh", "host": "board", "arch": "aarch64", "model": "Some board", "cpu": "410fd034 x2, 410fd082 x1",
        "cpus": "6", "memory": "4096 MiB", "virtual": "no",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((), "timing"),
        (("vendor QEMU", "kvm yes"), "timing"),
        (("compatible linux,dummy-virt",), "smoke"),
        (("vendor VMware, Inc.", "model VMware20,1"), "smoke"),
        (("hypervisor xen",), "smoke"),
    ],
)
def test_a_machine_has_one_class_of_evidence(said: tuple[str, ...], expected: str) -> None:
    """Whether it is recorded by hand, over ssh or by labgrid."""
    lines = (*SAID, *said)
    assert evidence_of(read_board(lines, "board")["virtual"]) == expected
    machine = {"kvm": "no"} | {name: value for name, _, value in (line.partition(" ") for line in lines)}
    assert evidence(machine) == expected
    facts = read_typed_facts([f"@fact {name}={value}" for name, value in machine.items()], "board")
    assert evidence_of(facts["virtual"]) == expected


def test_what_this_machine_says_of_itself() -> None:
    """The scripts for boards ask for the same."""
    over_ssh, typed = (
        subprocess.run(["sh", "-c", text], stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
        for text in (FACTS, TYPED_FACTS)
    )
    facts = read_board(["arch aarch64", *over_ssh[1:]], "here")
    assert facts["virtual"] == read_typed_facts(typed, "here")["virtual"]


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ((), "board is no Linux machine, not an arm64 one"),
        (("arch x86_64",), "board is x86_64, not an arm64 one"),
        ((*SAID, "kexec kernel.kexec_load_disabled is set"), "by kexec: kernel.kexec_load_disabled is set; fix that"),
    ],
)
def test_boards_that_cannot_be_used(lines: tuple[str, ...], what: str) -> None:
    with pytest.raises(BenchError, match=what):
        read_board(lines, "board")


# A board whose kernel cannot do kexec, where the recorder prints nothing.
NO_KEXEC = """#!/bin/sh
text=$(cat)
printf '%s\\n' 'arch aarch64' 'online 0-5' 'memory 3914212' 01234567-89ab-cdef-0123-456789abcdef
case $text in *kexec_loaded*) echo 'kexec its kernel is built without CONFIG_KEXEC' ;; esac
"""


def test_the_doctor_of_a_board_that_needs_no_kexec(bin_path: Path, tool: Tool) -> None:
    """It is installed by a command: what kexec lacks there says nothing."""
    place(bin_path, "ssh", NO_KEXEC)
    printed = tool("bench", "doctor", "--target", "ssh:board", status=2)
    assert "board cannot start an Image by kexec: its kernel is built without CONFIG_KEXEC" in printed.err
    said = tool("bench", "doctor", "--target", "ssh:board", "--install", "true --slot b", status=4).err
    assert "kexec" not in said
    assert "the recorder's output is not complete: no begin" in said


def test_facts_of_this_host(bin_path: Path) -> None:
    """Whatever it is, the script says the truth about it."""
    assert (bin_path / "ssh").exists()
    target = SshTarget("board", "true")
    if os.uname().machine == "aarch64":
        assert target.facts()["arch"] == "aarch64"
    else:
        with pytest.raises(BenchError, match=f"board is {os.uname().machine}, not an arm64 one"):
            target.facts()


def test_a_hook_that_fails(bin_path: Path, attempt: Attempt, tmp_path: Path) -> None:
    place(bin_path, "hook", 'echo "$PROLOGUE_LABEL for $2"; echo "no room on $PROLOGUE_HOST" >&2; exit 7\n')
    message = lost(SshTarget("board", f"sh {bin_path / 'hook'}", "none"), attempt)
    assert "the hook failed with status 7: no room on board" in message
    assert f"log in {tmp_path / 'log'}" in message
    assert "base for board" in (tmp_path / "log").read_text()


def test_a_hook_that_hangs(bin_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.Session, "wait", lambda _: "the boot before")
    slow = replace(attempt, timeout=1)
    place(bin_path, "hook", "#!/bin/sh\nsleep 1000 | cat\n")
    assert "the hook did not end within " in lost(SshTarget("board", "hook", "none"), slow)


def test_an_image_damaged_on_the_way(bin_path: Path, attempt: Attempt) -> None:
    place(bin_path, "kexec", "#!/bin/sh\nexit 0\n")
    place(bin_path, "sha256sum", "#!/bin/sh\necho '12ab  -'\n")
    message = lost(SshTarget("board"), attempt)
    assert "the Image could not be loaded: the Image arrived damaged: 12 bytes, sha256 12ab" in message


@pytest.mark.thorough  # it waits until the board has not gone
def test_kexec_gets_the_image_and_its_options(bin_path: Path, attempt: Attempt, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    place(bin_path, "kexec", f'#!/bin/sh\necho "$@" >>{seen}\n[ "$1" = -l ] && cat "$2" >>{seen} || exit 3\n')
    message = lost(SshTarget("board", "kexec '--append=a b' --initrd=/i"), attempt)
    load, trigger = seen.read_text().splitlines()
    path = Path(load.split()[1])
    assert load.split(maxsplit=2)[2] == "--reuse-cmdline --append=a b --initrd=/i"
    assert trigger == "not a kernel-e"
    assert not path.exists()  # nothing of ours fills the board's disk
    assert "the reboot failed: status 3" in message


def test_the_same_boot(bin_path: Path, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (bin_path / "ssh").exists()
    slept(monkeypatch, PATIENCE / 2)
    message = lost(SshTarget("board", "true", "none"), attempt)
    assert f"never went down, it is the same boot {BOOT_ID.read_text().strip()}" in message


def test_a_question_cut_short_by_the_deadline_says_nothing(
    bin_path: Path, attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board under load needs some seconds to answer, and the last of its answers comes when the time is over."""
    asked = tmp_path / "asked"
    count = f"echo >>{asked}; [ $(wc -l <{asked}) = 3 ] && sleep 1000\nexec sh"
    place(bin_path, "ssh", SSH.replace("exec sh", count))
    slept(monkeypatch, PATIENCE - 1)  # a second is left for the question after the first pause
    message = lost(SshTarget("board", "true", "none"), attempt)
    assert f"never went down, it is the same boot {BOOT_ID.read_text().strip()}" in message
    assert len(asked.read_text().splitlines()) == 4


def test_it_answers_when_its_time_is_over(bin_path: Path, attempt: Attempt, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    place(bin_path, "ssh", SSH.replace("exec sh", f"[ -e {asked} ] || {{ :>{asked}; sleep 1000; }}\nexec sh"))
    quick = replace(attempt, timeout=1)
    message = lost(SshTarget("board", "true", "none"), quick)
    assert f"it answered only after the timeout: boot {BOOT_ID.read_text().strip()}" in message


def test_it_comes_back_as_the_same_boot(
    bin_path: Path, attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    place(bin_path, "ssh", SSH.replace("exec sh", f"[ -e {away} ] && rm {away} && exit 255\nexec sh"))
    slept(monkeypatch, PATIENCE / 4)
    assert "it came back as the same boot" in lost(SshTarget("board", f"sh -c 'touch {away}'", "none"), attempt)


def test_it_never_comes_back(bin_path: Path, attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = tmp_path / "away"
    place(bin_path, "ssh", SSH.replace("exec sh", f"[ -e {away} ] && echo Connection refused >&2 && exit 255\nexec sh"))
    slept(monkeypatch, PATIENCE / 3)
    message = lost(SshTarget("board", f"sh -c 'touch {away}'", "none"), attempt)
    assert f"it never came back: Connection refused; its last boot_id was {BOOT_ID.read_text().strip()}" in message


def test_reboots_do_not_fill_a_directory_of_the_board(bin_path: Path, attempt: Attempt, tmp_path: Path) -> None:
    assert (bin_path / "ssh").exists()
    for _ in range(2):
        assert "the reboot failed: status 1" in lost(SshTarget("board", "true", "false"), attempt)
    assert len(list(tmp_path.glob("prologue-reboot.*"))) == 1


def test_a_script_that_fails(bin_path: Path, tmp_path: Path) -> None:
    assert (bin_path / "ssh").exists()
    with Transcript(tmp_path / "log") as log, pytest.raises(GuestLostError) as caught:
        SshTarget("board").session(log, PATIENCE).run("echo one; nonsense --now; exit 9")
    assert "the script ended with status 9: " in caught.value.message
    assert "nonsense" in caught.value.message


def test_commands_of_a_script_cannot_eat_it(bin_path: Path) -> None:
    assert (bin_path / "ssh").exists()
    said = Remote("board").run('cat\necho "it\'s whole"', PATIENCE)
    assert said.lines == ("Welcome, 12 updates", "it's whole")


def test_a_greeting_is_no_part_of_a_kernels_notes(bin_path: Path, attempt: Attempt) -> None:
    place(bin_path, "ssh", SSH.replace("Welcome", "@ the bench"))
    attempt.image.write_bytes(b"begin" + Path("/sys/kernel/notes").read_bytes() + b"end")
    with Transcript(attempt.log) as log:
        SshTarget("board").session(log, PATIENCE).require_kernel(attempt.image)
        with pytest.raises(GuestLostError, match="it came back with another kernel"):
            SshTarget("board").session(log, PATIENCE).require_kernel(bin_path / "ssh")


def test_nothing_outlives_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pid"
    really = subprocess.Popen.wait

    def wait(process: subprocess.Popen[str], timeout: float | None = None) -> int:
        """Let the time be over when the command has begun."""
        while timeout and not (path.exists() and path.read_text()):
            time.sleep(0.02)
        return really(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    said = execute(["sh", "-c", f"echo begun; sleep 1000 & echo $! >{path}; wait"], 0.1)
    assert said.status is None
    assert said.lines == ("begun",)
    assert until_gone(int(path.read_text()))


def test_what_a_hook_leaves_running_may_speak_when_the_boot_is_over(tmp_path: Path) -> None:
    with Transcript(tmp_path / "log") as log:
        log.write("in time")
    log.write("late")  # otherwise the thread that reads its pipe ends, and the pipe with it
    assert [line.partition("] ")[2] for line in (tmp_path / "log").read_text().splitlines()] == ["in time"]


def test_a_board_that_crashes_is_asked_until_it_has_booted(
    bin_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its port may refuse for some seconds: the connection breaks when the new kernel's network is up, not its sshd."""
    asked, refused = tmp_path / "asked", "echo Connection reset >&2; exit 255"
    # The first question is answered, the script breaks off, two questions are refused.
    count = f"echo >>{asked}; case $(wc -l <{asked}) in 2|3|4) {refused};; esac\nexec sh"
    place(bin_path, "ssh", SSH.replace("exec sh", count))
    slept(monkeypatch, 1)
    with Transcript(tmp_path / "log") as log, pytest.raises(GuestLostError) as caught:
        SshTarget("board", "true", "none").session(log, PATIENCE).run("true")
    assert "the connection broke: the board is alive, still boot" in caught.value.message
    assert len(asked.read_text().splitlines()) == 5
