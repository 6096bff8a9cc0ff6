"""States that a kernel's text can be in, and the program of tests that attaches to it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from prologue.elf.image import ElfImage
from tests.support.btf import type_ids
from tests.support.debian.kbuild import CROSS
from tests.support.live_guest import TRACING, Guest

PROBES: Final = 200
_TRACED: Final = ("vfs_read", "vfs_write", "do_sys_openat2", "ksys_read", "vfs_statx", "filp_close", "do_nanosleep")
_FENTRY_FLAGS: Final = ("-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib", "-static", "-no-pie",
                        "-fno-tree-loop-distribute-patterns", "-Wl,-z,max-page-size=65536")  # fmt: skip


class State(NamedTuple):
    """What a shell script does to enter a state, and to leave it; ``proof`` prints that it was reached."""

    name: str
    enter: str
    leave: str = ""
    proof: str = "echo reached"


_STOP: Final = f"echo nop >{TRACING}/current_tracer"
_PLACES: Final = (
    # Functions of the kernel, far from each other; the first words of most can be probed.
    f"grep -vE '[]]|[.]|ftrace|trace|kprobe|rcu|lock|irq|idle|sched' {TRACING}/available_filter_functions |"
    f" awk '!(NR % 97)' | head -n {PROBES + 100}"
)
_SET_PROBES: Final = f"""
set_all() {{
	n=0
	for name in $({_PLACES}); do
		[ $n -ge {PROBES} ] && break
		echo "$1:{{}}$1$n $name$2" >>{TRACING}/kprobe_events 2>/dev/null && n=$((n + 1))
	done
}}
set_all p +0x10
set_all r ''
for event in {TRACING}/events/kprobes/probe_*; do
	echo 1 >$event/enable 2>/dev/null  # the kernel takes some places as events, and refuses to arm them
done
true
""".replace("{}", "probe_")
_END_PROBES: Final = f"echo 0 >{TRACING}/events/kprobes/enable; echo >{TRACING}/kprobe_events"
_KEYS: Final = ("kernel/sched_schedstats", "kernel/bpf_stats_enabled", "net/ipv4/tcp_ecn", "kernel/task_delayacct")


def _each_key(value: int) -> str:
    return "; ".join(f"echo {value} >/proc/sys/{key} 2>/dev/null" for key in _KEYS)


def states(vmlinux: Path) -> tuple[State, ...]:
    """All of them, in the order to visit them; a kernel without BTF has no BPF state."""
    trace = f"{TRACING}/current_tracer"
    visited = [
        State("function_graph", f"echo function_graph >{trace}", _STOP, f"cat {trace}"),
        State("kprobes", _SET_PROBES, _END_PROBES, "grep -c . /sys/kernel/debug/kprobes/list"),
        State("keys", f"{_each_key(1)}; echo 1 >{TRACING}/events/enable",
              f"{_each_key(0)}; echo 0 >{TRACING}/events/enable", f"cat {TRACING}/events/enable"),
        State("instances", f"cd {TRACING}/instances && mkdir one two && echo 'vfs_*' >one/set_ftrace_filter &&"
              " echo function >one/current_tracer && echo 'do_*' >two/set_ftrace_filter &&"
              f" echo function >two/current_tracer; echo function_graph >{trace}",
              f"{_STOP}; rmdir {TRACING}/instances/*", f"cat {TRACING}/instances/*/current_tracer"),
    ]  # fmt: skip
    ids = _bpf_ids(vmlinux)
    if ids:
        words = " ".join(map(str, ids))
        visited.append(State("fentry", f"/more/fentry {words} >/tmp/fentry </dev/null 2>&1 & sleep 5",
                             "kill $(pidof fentry) 2>/dev/null; true", "cat /tmp/fentry"))  # fmt: skip
    return tuple(visited)


def _bpf_ids(vmlinux: Path) -> list[int]:
    image = ElfImage(vmlinux)
    section = image.section(".BTF")
    return [] if section is None else list(type_ids(image.data(section), set(_TRACED)).values())


def programs() -> dict[str, bytes]:
    """What the states need in the guest."""
    with TemporaryDirectory() as name:
        made = Path(name) / "fentry"
        source = Path(__file__).parents[1] / "support" / "fentry.c"
        subprocess.run([f"{CROSS}gcc", *_FENTRY_FLAGS, str(source), "-o", str(made)], check=True)
        return {"more/fentry": made.read_bytes()}


def visit(guest: Guest, chosen: Sequence[State]) -> Iterator[tuple[State, str]]:
    """Enter one state after the other; yields each with what its proof said, and leaves it."""
    for state in chosen:
        guest.shell(state.enter)
        yield state, guest.shell(state.proof).strip().replace("\n", " ")
        if state.leave:
            guest.shell(state.leave)
