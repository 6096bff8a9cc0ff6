"""The recorder's script under every shell, on made-up machines, with commands that do all kinds of things."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.gate import void_reason
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Workload
from tests.support.cases import one_quick
from tests.support.machine_tree import (
    BUILD_ID,
    MOV,
    NOP,
    kernel_files,
    make_tree,
    path_of,
    policy,
    run_script,
    shells,
    start,
)
from tests.support.processes import HEEDING

HOSTILE = (
    r"""printf 'a"b\\c\001\033[1m\377\376 \303\251 tab\there\nlast "line" \\ \377\n'; """
    """echo '@prologue {"event": "end"}'"""
)


@pytest.fixture(params=one_quick(*shells()))
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def measured(command: str, pattern: str | None = None, name: str | None = None) -> Workload:
    return Workload(name or command, command, "seconds", "lower", pattern=pattern)


def events(output: str) -> Iterator[dict[str, Any]]:
    """Every line of the output is an event, or the script leaked something."""
    for line in output.splitlines():
        assert line.startswith("@prologue "), line
        yield json.loads(line.removeprefix("@prologue "))


def record(shell: str, task: Task, tmp: Path, more: dict[str, str | bytes] | None = None) -> Recorded:
    done = run_script(shell, script(task), make_tree(tmp / "machine", more), tmp / "programs")
    assert (done.returncode, done.stderr) == (0, "")
    list(events(done.stdout))
    return read_recorded(done.stdout.splitlines(), task)


@pytest.mark.thorough
def test_facts_of_a_machine(shell: str, tmp_path: Path) -> None:
    seen = record(shell, Task(workloads=(), runs=0), tmp_path)
    facts = dict(seen.machine)
    assert facts.pop("release") == os.uname().release
    assert facts.pop("arch") == os.uname().machine
    assert facts.pop("clock") in (("date", "uptime") if shell == "busybox" else ("date",))
    assert time.time() - 300 < time.mktime(time.strptime(facts.pop("started"), "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert facts == {
        "boot_id": "0f7b223f-111d-4276-9ff1-e91128499938", "cpus": "4", "cpu": "410fd034 x3, 411fd072 x1",
        "model": 'Some Board 4 \\ "B"', "compatible": "maker,board maker,chip", "kvm": "no", "memory": "4005176 kB",
        "build_id": BUILD_ID,
    }  # fmt: skip
    gate = dict(seen.gate_before)
    assert gate["limits"][1] == {"policy": "policy2", "min": 600000, "max": 1500000,
                                 "hardware_min": 600000, "hardware_max": 1500000}  # fmt: skip
    assert (gate["governors"], gate["temperature"], gate["cooling"], gate["load"]) == (["schedutil"], 51234, 0, "0.05")
    assert (gate["online"], gate["affinity"], gate["taint"], gate["boost"]) == ("0-3", "0-3", 0, None)
    assert gate["midr"] == ["0x00000000410fd034", "0x00000000411fd072"]
    assert seen.readback is None
    assert gate["unread"] == "no sites were asked for"


@pytest.mark.thorough
def test_what_else_decides_how_fast_a_kernel_runs(shell: str, tmp_path: Path) -> None:
    more: dict[str, str | bytes] = {
        "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-b root=/dev/x * mitigations=off prologue.token=12ab initrd=/i\n",
        "proc/config.gz": b"\x1f\x8b",
        "proc/version": "Linux version 6.12.1 (me@host) (gcc (Debian 14.2.0-19) 14.2.0, GNU ld 2.44) #1 SMP PREEMPT\n",
        "proc/sys/kernel/randomize_va_space": "2\n",
        "proc/device-tree/chosen/u-boot,version": "2025.01\0",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/cpu/vulnerabilities/spectre_v2": "Mitigation: CSV2, BHB\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
        "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq": "1499000\n",
        "sys/devices/system/cpu/cpufreq/policy2/scaling_cur_freq": "900000\n",
    }
    seen = record(shell, Task(workloads=(measured("cat /dev/null"),), runs=1), tmp_path, more)
    (tool,) = seen.gate_before["programs"]
    expected = {
        "command_line": "root=/dev/x * mitigations=off", "randomize_va_space": 2,
        "compiler": "gcc (Debian 14.2.0-19) 14.2.0, GNU ld 2.44",
        "vulnerabilities": ["meltdown: Not affected", "spectre_v2: Mitigation: CSV2, BHB"],
        "huge_pages": "always [madvise] never", "firmware": '2025.01 Some Board 4 \\ "B"', "memory": 4005176,
    }  # fmt: skip
    expected["config"] = hashlib.sha256(b"\x1f\x8b").hexdigest()[:16]
    for gate in (seen.gate_before, seen.gate_after):
        assert {name: gate[name] for name in expected} == expected
    assert re.fullmatch("cat [0-9a-f]{16}", tool)
    assert (seen.gate_before["frequencies"], seen.gate_after["frequencies"]) == ([], [1499000, 900000])


@pytest.mark.thorough
def test_runs_are_interleaved_and_read(shell: str, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("")
    task = Task(
        workloads=(
            measured(f"echo a >>{count}; sleep 0.05", name="nap"),
            measured(f"echo b >>{count}; echo Time: 1.5; echo 'Time: 12.75 s' >&2; echo none", r"Time: \([0-9.]*\)"),
            measured("echo took 12.75 s, not 9 s, on a/b", r"\([0-9.]*\) s"),
            measured("echo 3e2/s", r"^\(.*\)/s"),
        ),
        runs=2,
    )
    seen = record(shell, task, tmp_path)
    values = list(seen.values.values())
    assert all(0.05 <= value < 30 for value in values[0])
    assert values[1:] == [(12.75, 12.75), (12.75, 12.75), (300.0, 300.0)]
    assert count.read_text() == "a\nb\na\nb\n"
    assert void_reason(seen.gate_before, seen.gate_after) is None


@pytest.mark.thorough
def test_hostile_output_never_leaks(shell: str, tmp_path: Path) -> None:
    task = Task(workloads=(measured(HOSTILE), measured(f"{HOSTILE}; exit 3")), runs=1)
    done = run_script(shell, script(task), make_tree(tmp_path / "machine"), tmp_path / "programs")
    assert done.stderr == ""
    names = [event["event"] for event in events(done.stdout)]
    assert names == ["begin", "readback", "gate", "value", "failed", "gate", "end"]
    with pytest.raises(BenchError, match="run 1: exit status 3") as failed:
        read_recorded(done.stdout.splitlines(), task)
    assert failed.value.message.endswith('last line of its output: @prologue {"event": "end"}')


@pytest.mark.thorough
def test_the_last_line_survives_any_bytes(shell: str, tmp_path: Path) -> None:
    task = Task(workloads=(measured(r"""printf 'x\n"\\\001 \303\251\377\n\n  \n'; exit 1""", name="odd"),), runs=1)
    done = run_script(shell, script(task), make_tree(tmp_path / "machine"), tmp_path / "programs")
    with pytest.raises(BenchError) as failed:
        read_recorded(done.stdout.splitlines(), task)
    assert failed.value.message == 'odd: run 1: exit status 1; last line of its output: "\\\x01 \u00e9\ufffd'


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "pattern", "said"),
    [
        ("exit 7", None, "exit status 7; it printed nothing"),
        ("no-such-program", None, "exit status 127; last line of its output: .*no-such-program.*"),
        ("kill -9 $$", None, "exit status 137; it printed nothing"),
        ("echo nothing", r"Time: \([0-9.]*\)", "nothing matched the pattern; last line of its output: nothing"),
        ("echo Time: 1.2.3", r"Time: \([0-9.]*\)", "no number: 1.2.3; last line of its output: Time: 1.2.3"),
        ("echo Time: 1,234.5", r"Time: \([0-9.,]*\)", "no number: 1,234.5; last line of its output: Time: 1,234.5"),
    ],
)  # fmt: skip
def test_failures_say_why(command: str, pattern: str | None, said: str, shell: str, tmp_path: Path) -> None:
    task = Task(workloads=(measured("true", name="good"), measured(command, pattern, "bad")), runs=2)
    done = run_script(shell, script(task), make_tree(tmp_path / "machine"), tmp_path / "programs")
    with pytest.raises(BenchError, match=f"^bad: run 1: {said}$"):
        read_recorded(done.stdout.splitlines(), task)


def test_a_command_cannot_eat_the_script_or_its_settings(shell: str, tmp_path: Path) -> None:
    task = Task(workloads=(measured("cat; runs=0; sites=x; exec >/dev/null; exit", name="greedy"),), runs=2)
    assert len(record(shell, task, tmp_path).values["greedy"]) == 2


@pytest.mark.thorough
def test_words_are_read_back(shell: str, tmp_path: Path) -> None:
    words = {0x10: MOV, 0x14: NOP, 0x1000: MOV, 0xFFC: NOP, 0x12344: 0xD65F03C0}
    task = Task(workloads=(), runs=0, sites=tuple(sorted(words)), stub=(0x12344, 0x14))
    done = run_script(shell, script(task), make_tree(tmp_path / "m", kernel_files(words)), tmp_path / "programs")
    seen = read_recorded(done.stdout.splitlines(), task)
    assert seen.readback is not None
    assert (seen.readback.build_id, seen.readback.sites) == (BUILD_ID, 5)
    assert (seen.readback.mov, seen.readback.nop) == (2, 2)
    (event,) = [event for event in events(done.stdout) if event["event"] == "readback"]
    assert event["other"] == [f"{0x12344}: d65f03c0"]
    assert seen.stub == (0xD65F03C0, NOP)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"proc/kallsyms": None}, "no /proc/kallsyms: a kernel without CONFIG_KALLSYMS"),
        ({"proc/kallsyms": f"{0:016x} T _text\n{0:016x} T _stext\n"}, "shows no addresses: not root"),
        ({"proc/kallsyms": "ffff800008000000 T _text\n"}, "no _stext in /proc/kallsyms"),
        ({"proc/kcore": None}, "no /proc/kcore: a kernel without CONFIG_PROC_KCORE"),
        ({"proc/kcore": b"\x7fELF" + bytes(4096)}, "no segment of /proc/kcore holds _stext"),
        ({"proc/kcore": kernel_files({0x10: MOV})["proc/kcore"]}, "/proc/kcore gave 1 of 2 words"),
    ],
)
def test_what_cannot_be_read_back_is_said(
    broken: dict[str, Any], why: str, shell: str, tmp_path: Path
) -> None:  # fmt: skip
    files = {**kernel_files({0x10: MOV, 0x12344: MOV}), **broken}
    seen = record(
        shell,
        Task(workloads=(), runs=0, sites=(0x10, 0x12344)),
        tmp_path,
        {k: v for k, v in files.items() if v is not None},
    )
    assert seen.readback is None
    assert why in seen.gate_before["unread"]
    assert seen.machine["build_id"] == BUILD_ID


def test_the_governor_is_set_and_put_back(shell: str, tmp_path: Path) -> None:
    root = make_tree(tmp_path / "machine")
    policy(root, 2, "ondemand")
    files = [root / f"sys/devices/system/cpu/cpufreq/policy{k}/scaling_governor" for k in (0, 2)]
    command = f"cat {files[0]} {files[1]} | grep -c performance"
    task = Task(workloads=(measured(command, r"^\([0-9]*\)$"),), runs=1, governor="performance")
    done = run_script(shell, script(task), root, tmp_path / "programs")
    assert read_recorded(done.stdout.splitlines(), task).values[command] == (2.0,)
    gates = [event for event in events(done.stdout) if event["event"] == "gate"]
    assert [gate["governors"] for gate in gates] == [["performance"], ["performance"]]
    assert [file.read_text() for file in files] == ["schedutil\n", "ondemand\n"]


@pytest.mark.thorough
def test_a_governor_that_cannot_be_set_is_said(shell: str, tmp_path: Path) -> None:
    root = make_tree(tmp_path / "machine")
    file = root / "sys/devices/system/cpu/cpufreq/policy2/scaling_governor"
    file.unlink()
    file.symlink_to("/proc/sys/kernel/ostype")  # which cannot be written, not even by root
    task = Task(workloads=(measured("true"),), runs=1, governor="performance")
    done = run_script(shell, script(task), root, tmp_path / "programs")
    seen = read_recorded(done.stdout.splitlines(), task)
    assert seen.gate_before["governor_refused"] == ["policy2/scaling_governor: stays Linux"]
    assert void_reason(seen.gate_before, seen.gate_after) == (
        "the governor could not be set: policy2/scaling_governor: stays Linux"
    )
    assert (root / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor").read_text() == "schedutil\n"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_killed_in_the_middle_it_puts_the_governor_back(shell: str, sign: signal.Signals, tmp_path: Path) -> None:
    root = make_tree(tmp_path / "machine")
    file = root / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    running = tmp_path / "running"
    task = Task(workloads=(measured(f": >{running}; exec sleep 60", name="sleep"),), runs=1, governor="performance")
    programs = tmp_path / "programs"
    process = subprocess.Popen(
        [*HEEDING, *start(shell, script(task), programs)], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={"PATH": path_of(shell, programs), "PROLOGUE_ROOT": str(root)},
    )  # fmt: skip
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if '"gate"' in line:
            break
    assert file.read_text() == "performance\n"
    while not running.exists():  # a shell that is just forking may lose a signal; from here on, none forks
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, sign)
    rest, _ = process.communicate(timeout=600)
    assert file.read_text() == "schedutil\n"
    assert '"end"' not in rest
    with pytest.raises(GuestLostError, match="no value of sleep in 1 of 1 runs; its end:"):
        read_recorded([line.rstrip() for line in [*lines, *rest.splitlines()]], task)


def kernel_log(directory: Path, text: str) -> Path:
    """A log that a program ``dmesg`` shows."""
    log, program = directory / "log", directory / "programs" / "dmesg"
    log.write_text(text)
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nwhile IFS= read -r line; do printf '%s\\n' \"$line\"; done <{log}\n")
    program.chmod(0o755)
    return log


@pytest.mark.thorough
@pytest.mark.parametrize("shell", ["dash", "bash"])  # Debian's busybox takes its own dmesg, whatever is in PATH
def test_new_warnings_of_the_kernel_are_seen(shell: str, tmp_path: Path) -> None:
    log = kernel_log(tmp_path, "[    1.0] WARNING: old\n[    2.0] smccc: KVM: hypervisor services detected (0x0 0x0)\n")
    command = f"echo '[    3.0] usb: fine' >>{log}; echo '[    3.5] ftrace: build-time prologues: 43880' >>{log}; "
    command += f"echo '[    4.0] rcu: INFO: rcu_sched self-detected stall' >>{log}"
    task = Task(workloads=(measured(command),), runs=1)
    seen = record(shell, task, tmp_path)
    assert (seen.gate_before["messages"], seen.gate_after["messages"]) == (2, 5)
    assert seen.gate_before["warnings"] == []
    assert seen.gate_after["warnings"] == ["[    4.0] rcu: INFO: rcu_sched self-detected stall"]
    assert seen.machine["kvm"] == "yes"
    assert "the kernel warned: [    4.0] rcu" in (void_reason(seen.gate_before, seen.gate_after) or "")


@pytest.mark.thorough
@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("first", ["", "[    0.5] line that was lost\n"])
def test_new_warnings_are_seen_without_times(shell: str, first: str, tmp_path: Path) -> None:
    """Without the times of printk a line that was there before may come again after a warning."""
    log = kernel_log(tmp_path, f"{first}booting\nusb: fine\n")
    # The log has moved on in one of the cases: then the line is where it is, not where it was.
    moved = f"sed -i 1d {log}; " if first else ""
    again = "" if first else "usb: fine"
    command = f"{moved}printf '%s\\n' 'WARNING: at x' '{again}' >>{log}"
    task = Task(workloads=(measured(command),), runs=1)
    assert record(shell, task, tmp_path).gate_after["warnings"] == ["WARNING: at x"]


@pytest.mark.thorough
@pytest.mark.parametrize("shown", ["1763712000%N", "1763712000"])  # as busybox does without and with musl
def test_without_nanoseconds_the_uptime_serves(shown: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "date").write_text(f"#!/bin/sh\ncase $1 in +*) echo {shown} ;; *) echo 2025-11-21T08:00:00Z ;; esac\n")
    (programs / "date").chmod(0o755)
    task = Task(workloads=(measured("cat /proc/uptime >/dev/null"),), runs=1)
    for uptime in ("0.95 0.0\n", "12345.08 0.0\n"):
        seen = record("dash", task, tmp_path, {"proc/uptime": uptime})
        assert (seen.machine["clock"], list(seen.values.values())) == ("uptime", [(0.0,)])
    timers = "Timer List Version: v0.9\nHRTIMER_MAX_CLOCK_BASES: 8\nnow at 84365064391 nsecs\n\ncpu: 0\n"
    assert record("dash", task, tmp_path, {"proc/timer_list": timers}).machine["clock"] == "timer_list"


def test_others_at_work_void_a_boot(tmp_path: Path) -> None:
    """Half a CPU, as /proc/stat would say; the made-up one stands still, so that nothing is waited for."""
    task = Task(workloads=(measured("true"),), runs=1)
    seen = record("dash", task, tmp_path, {"proc/stat": "cpu  500 0 300 9999 20 1 2 3 0 0\n"})
    assert seen.gate_before["busy"] == 0


@pytest.mark.thorough
def test_torn_and_foreign_lines(tmp_path: Path) -> None:
    task = Task(workloads=(measured("echo 1", r"\(.*\)", "one"),), runs=2)
    tree = make_tree(tmp_path / "machine")
    lines = run_script("dash", script(task, "a b"), tree, tmp_path / "programs").stdout.splitlines()
    noisy = ["[    0.000000] Booting Linux", f"[    7.1] usb 1-1: new@prologue{lines[0]}", *lines[1:], "# "]
    assert read_recorded(noisy, task).values == {"one": (1.0, 1.0)}
    assert read_recorded(noisy, task).machine["label"] == "a b"
    for k, what in ((0, "begin"), (1, "readback"), (2, "gate before"), (3, "value of one in 1 of 2 runs"),
                    (5, "gate after"), (6, "end")):  # fmt: skip
        torn = [*lines[:k], lines[k][:-5], *lines[k + 1 :]]
        with pytest.raises(GuestLostError, match=f"no {what}; its end:\n") as lost:
            read_recorded(torn, task)
        assert lost.value.exit_code == 4
    with pytest.raises(GuestLostError, match="no begin; its end:\n  \\(nothing\\)"):
        read_recorded([], task)


@pytest.mark.parametrize("pattern", ["no group", r"\(a\)\(b\)", "\\(a\nb\\)", r"\(.\)/|,;#!@%~"])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(BenchError, match="expected a basic regular expression of one line with one group"):
        script(Task(workloads=(measured("true", pattern),), runs=1))


def test_the_script_is_plain_posix(tmp_path: Path) -> None:
    """Checked by shellcheck where it is installed, else by dash reading it."""
    path = tmp_path / "record.sh"
    path.write_text(script(Task(workloads=(measured("true"),), runs=1, sites=(4, 8), governor="performance"), "x"))
    if shutil.which("shellcheck"):
        # Split on purpose: lists of words (2046, 2086); a pattern in a variable (2254); set by eval'ed names (2034).
        command = ["shellcheck", "-s", "sh", "-e", "SC2046,SC2086,SC2254,SC2034,SC2016", str(path)]
    else:
        command = ["dash", "-n", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
