"""States that a kernel's text can be in: one boot visits all of them, and memory is saved in each.

``python -m tests.real_kernels.states`` boots any kernel on any CPU, visits all, and audits memory in each; the tests
visit few of them on two kernels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from prologue.cli.main import main as prologue
from prologue.elf.image import ElfImage
from prologue.errors import UNDECIDED
from tests.support.btf import type_ids
from tests.support.debian.kbuild import CROSS
from tests.support.debian.kernels import fetch_kernel, fetch_modules
from tests.support.live_guest import TRACING, Guest, live_guest

PROBES: Final = 200
LATER: Final = (
    "dm-mod", "dm-crypt", "dm-snapshot", "raid1", "raid456", "ext4", "xfs", "btrfs", "vfat", "fuse", "isofs",
    "squashfs", "nfs", "cifs", "zram", "nbd", "tun", "veth", "bridge", "vxlan", "dummy", "bonding", "wireguard",
    "nf_tables", "ip_tables", "sctp", "tls", "algif_hash", "algif_skcipher", "sha512-arm64", "sm4_generic",
    "twofish_generic",
    "serpent_generic", "cmac", "xts", "configfs", "target_core_mod", "vsock", "ceph", "ocfs2_stackglue",
)  # fmt: skip
"""Modules that need no hardware, and what they need: more than thirty."""
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
    found = [
        State("idle", f"echo 0 >{TRACING}/tracing_on"),
        State("function", f"echo function >{trace}", _STOP, f"cat {trace}"),
        State("function_graph", f"echo function_graph >{trace}", _STOP, f"cat {trace}"),
        State("kprobes", _SET_PROBES, _END_PROBES, "grep -c . /sys/kernel/debug/kprobes/list"),
        State("keys", f"{_each_key(1)}; echo 1 >{TRACING}/events/enable",
              f"{_each_key(0)}; echo 0 >{TRACING}/events/enable", f"cat {TRACING}/events/enable"),
        State("modules", f"for m in /later/*.ko; do insmod $m 2>/dev/null; done; echo function >{trace}",
              proof="grep -c . /proc/modules"),
        State("unloaded", "for m in $(head -n 25 /proc/modules | cut -d' ' -f1); do rmmod $m 2>/dev/null; done; true",
              _STOP, "grep -c . /proc/modules"),
        State("instances", f"cd {TRACING}/instances && mkdir one two && echo 'vfs_*' >one/set_ftrace_filter &&"
              " echo function >one/current_tracer && echo 'do_*' >two/set_ftrace_filter &&"
              f" echo function >two/current_tracer; echo function_graph >{trace}",
              f"{_STOP}; rmdir {TRACING}/instances/*", f"cat {TRACING}/instances/*/current_tracer"),
    ]  # fmt: skip
    ids = _bpf_ids(vmlinux)
    if ids:
        words = " ".join(map(str, ids))
        found.append(State("fentry", f"/more/fentry {words} >/tmp/fentry </dev/null 2>&1 & sleep 5",
                           "kill $(pidof fentry) 2>/dev/null; true", "cat /tmp/fentry"))  # fmt: skip
    every = f"{_SET_PROBES}\n{_each_key(1)}; echo function >{trace}"
    found.append(State("all", every, f"{_STOP}; {_each_key(0)}; {_END_PROBES}", f"cat {trace}"))
    return tuple(found)


def swung(vmlinux: Path) -> State:
    """Under load and without a pause: tracers are switched, modules come and go, BPF programs are attached."""
    trace, events = f"{TRACING}/current_tracer", f"{TRACING}/events/sched/enable"
    loops = [
        f"echo function >{trace}; echo 1 >{events}; echo nop >{trace}; echo 0 >{events};"
        f" echo function_graph >{trace}; echo nop >{trace}; echo x >>/tmp/swing",
        "hackbench -g 2 -l 50",
        "for m in /later/*.ko; do insmod $m; done;"
        " for m in $(ls -r /later | sed 's/^[0-9]*-//; s/[.]ko$//; s/-/_/g'); do rmmod $m; done",
    ]
    if ids := _bpf_ids(vmlinux):
        loops.append(f"/more/fentry {' '.join(map(str, ids))} & sleep 2; kill $!; wait $!")
    started = " ".join(f"(while [ -e /tmp/swing ]; do {loop}; done) >/dev/null 2>&1 </dev/null &" for loop in loops)
    return State(
        "swung",
        f"touch /tmp/swing; {started} sleep 3",
        "rm /tmp/swing; sleep 5",
        "grep -c x /tmp/swing; true",
    )


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


def main() -> int:
    """Print a line for each state; reports with findings, and their dumps, stay in the directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", help="bookworm, trixie or sid")
    parser.add_argument("--flavour", default="cloud-arm64")
    parser.add_argument("--cpu-model", default="cortex-a57")
    parser.add_argument("--append", default="", help="for the kernel's command line")
    parser.add_argument("--processed", action="store_true", help="stock-process kernel and modules first")
    parser.add_argument("--capture", action="store_true", help="captures by ssh in place of dumps by QEMU")
    parser.add_argument("--only", help="states by name, with commas; swung: all of it changes meanwhile")
    parser.add_argument("--times", type=int, default=1, help="how often each state is audited")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    args.output.mkdir(parents=True)
    failed = 0
    with booted(args) as guest:
        known = (*states(guest.vmlinux), swung(guest.vmlinux))
        chosen = [
            state for state in known if (state.name in args.only.split(",") if args.only else state.name != "swung")
        ]
        for state, proof in visit(guest, chosen):
            for number in range(args.times):
                failed += not saved(args, guest, f"{state.name}-{number}" if args.times > 1 else state.name, proof)
    return int(failed > 0)


def saved(args: argparse.Namespace, guest: Guest, name: str, proof: str) -> bool:
    """Save and audit memory once; the source stays if something was found."""
    begin = time.monotonic()
    source = args.output / f"{name}.{'capture' if args.capture else 'dump'}"
    if args.capture:
        guest.capture(source.name)
    else:
        guest.dump().rename(source)
    taken = time.monotonic() - begin
    said, is_well = audited(guest, source, changing=name.startswith("swung"))
    print(f"{name:16}{taken:6.1f} s  {said}  ({proof[:60]})", flush=True)
    if is_well:
        source.unlink()
        return True
    return False


@contextmanager
def booted(args: argparse.Namespace) -> Iterator[Guest]:
    """The guest that was asked for."""
    kernel = fetch_kernel(args.suite, args.flavour)
    vmlinux, package = kernel.vmlinux, fetch_modules(kernel)
    if args.processed:
        vmlinux = args.output / "vmlinux"
        assert prologue(["patch", str(kernel.vmlinux), "-o", str(vmlinux), "--contract", "stock"]) == 0
    with live_guest(
        vmlinux, args.output, package=package, modules=(), later=LATER, files=programs(), cpu=args.cpu_model,
        append=args.append, processed=args.processed,
    ) as guest:  # fmt: skip
        yield guest


def audited(guest: Guest, source: Path, *, changing: bool) -> tuple[str, bool]:
    """Audit a source: exit status and findings by their codes, and whether nothing is wrong.

    Of a kernel that is ``changing`` all the time, PL504 and undecided words are true.
    """
    report = source.with_suffix(".json")
    command = ["live", "audit", str(guest.vmlinux), str(source), "--modules", str(guest.modules)]
    command += ["--json", "-o", str(report), "-q"]
    status = prologue(command)
    if not report.exists():
        return f"{status} (no report)", False
    data = json.loads(report.read_text(encoding="utf-8"))
    codes = Counter(finding["code"] for finding in data["findings"])
    said = ", ".join(f"{count} {code}" for code, count in sorted(codes.items())) or "no finding"
    return f"{status} {said}", status in {0, UNDECIDED * changing} and codes.keys() <= {"PL504"}


if __name__ == "__main__":
    sys.exit(main())
