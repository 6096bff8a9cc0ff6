"""``prologue bench run``: its part of the grammar, and its defaults."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from prologue.cli.arguments import number_from
from prologue.cli.bench_defaults import ACCEL, CPU, CPUS, MEMORY, TIMEOUT

HELP: Final = "boot variants of one link in random order, and measure them"
EXAMPLES: Final = (
    "  prologue bench run --vmlinux vmlinux --variants nop-nop,boot,build --boots 10 --runs 3 --seed 7 \\\n"
    "      --workload hackbench:process,sockets,g=10,l=1000 --target ssh:root@board -o campaign/\n"
    "  prologue bench run --vmlinux vmlinux --workload hackbench:g=1,l=100 --modules /lib/modules/6.1 -o smoke/\n"
    "  prologue bench run --vmlinux vmlinux --workload hackbench:g=1,l=20 --target icount -o exact/\n"
    "  prologue bench run --vmlinux vmlinux --workload hackbench:g=10,l=1000 --target labgrid:farm.yaml \\\n"
    "      --reserve board=rpi4 -o campaign/\n"
    "The same command resumes a campaign that was stopped, at whatever point.\n"
    "Exit codes: 0 every boot of the plan counts; 1 some stayed void; 2 bad input or another plan; 4 machine lost."
)

# Every default of the command; which CPU depends on the accelerator.
DEFAULTS: Final[MappingProxyType[str, Any]] = MappingProxyType({
    "target": "qemu", "variants": "nop-nop,boot,build", "boots": 10, "runs": 3, "seed": 1,
    "accel": ACCEL, "cpu": None, "smp": CPUS, "memory": MEMORY, "modules": None, "install": "kexec",
    "reboot": "reboot", "ssh_options": "", "reserve": None, "governor": None, "no_control": False, "retries": 2,
    "timeout": TIMEOUT, "kaslr": False,
})  # fmt: skip
# The number of boots with --target icount: a second one shows that counts agree.
EXACT_BOOTS: Final = 2
# They depend on the target, so the parser leaves them None.
_LEFT_OPEN: Final = ("boots", "runs")


def add_options(added: argparse.ArgumentParser) -> None:
    """All options of ``bench run``."""
    added.add_argument("--vmlinux", type=Path, required=True, help="vmlinux as linked; every variant is made from it")
    added.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="result set, created or resumed"
    )  # fmt: skip
    added.add_argument(
        "--variants", metavar="KIND,...", help="nop-nop, boot, build; the first is the base (default: %(default)s)"
    )
    added.add_argument(
        "--workload", action="append", default=[], metavar="SPEC",
        help="what to run (icount counts the boot even without one); may be repeated: "
        "hackbench:process,sockets,g=10,l=1000; perf-messaging:thread,pipes; "
        "kernel-build:TREE,j=8; time:COMMAND; FILE.toml with name, command, unit, direction, pattern; "
        "or boot (qemu: seconds from its start to init)",
    )  # fmt: skip
    added.add_argument(
        "--boots", type=number_from(1), metavar="N",
        help=f"of each variant, fixed beforehand (default: {DEFAULTS['boots']}; icount: {EXACT_BOOTS})",
    )  # fmt: skip
    added.add_argument(
        "--runs", type=number_from(1), metavar="N",
        help=f"of each workload in a boot (default: {DEFAULTS['runs']}; icount: always 1)",
    )  # fmt: skip
    added.add_argument(
        "--seed", type=number_from(0), metavar="N", help="for the order of boots (default: %(default)s)"
    )  # fmt: skip
    added.add_argument("--no-control", action="store_true", help="no A/A control; differences then have no noise floor")
    added.add_argument(
        "--retries", type=number_from(0), metavar="N", help="attempts after a lost or void boot (default: %(default)s)"
    )
    added.add_argument(
        "--timeout", type=number_from(1), metavar="SECONDS",
        help="for one boot with all its runs (default: %(default)s)",
    )  # fmt: skip
    added.add_argument("--governor", metavar="NAME", help="cpufreq governor during the runs; restored afterwards")
    _add_target_options(added.add_argument_group("target machine"))
    added.set_defaults(**{name: value for name, value in DEFAULTS.items() if name not in _LEFT_OPEN})


def _add_target_options(target: argparse._ArgumentGroup) -> None:
    """What chooses and describes the machine."""
    target.add_argument(
        "--target", metavar="TARGET",
        help="qemu, icount (exact counts), ssh:HOST, labgrid:ENVIRONMENT.yaml[:TARGET] (default: %(default)s)",
    )  # fmt: skip
    target.add_argument("--accel", choices=("tcg", "tcg-single", "kvm"), help="of qemu (default: %(default)s)")
    target.add_argument("--cpu", help=f"of qemu and icount (default: host with kvm, else {CPU})")
    target.add_argument(
        "--kaslr", action="store_true", help="icount: boot with KASLR, always moved by the same distance"
    )
    target.add_argument("--smp", type=number_from(1), metavar="N", help="CPUs of qemu (default: %(default)s)")
    target.add_argument(
        "--memory", type=number_from(1), metavar="MIB", help="of qemu and icount (default: %(default)s)"
    )  # fmt: skip
    target.add_argument(
        "--modules", type=Path, metavar="DIR", help="modules of that kernel, for qemu, if virtio is not built in"
    )
    target.add_argument(
        "--install", metavar="HOW",
        help="how ssh:HOST gets an Image: kexec, or a command run here as COMMAND IMAGE HOST (default: %(default)s)",
    )  # fmt: skip
    target.add_argument(
        "--reboot", metavar="COMMAND",
        help="run on ssh:HOST after that command; none if it reboots the board itself (default: %(default)s)",
    )  # fmt: skip
    target.add_argument(
        "--reserve", metavar="TAG=VALUE,...",
        help="of labgrid: any place of the coordinator with these tags, and another one if its board dies",
    )  # fmt: skip
    target.add_argument("--ssh-options", metavar="WORDS", help="for ssh, as in --ssh-options='-p 2222'")
