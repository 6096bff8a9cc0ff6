"""``prologue bench run``: its part of the grammar."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prologue.cli.arguments import number_from

# What is not said in a campaign's own command because it goes without saying.
DEFAULTS: Final = MappingProxyType({
    "accel": "tcg", "cpu": None, "smp": 2, "memory": 1024, "modules": None, "install": "kexec",
    "reboot": "reboot", "ssh_options": "", "governor": None, "no_control": False, "retries": 2, "timeout": 600,
})  # fmt: skip

HANDLER: Final = "prologue_bench.cli.run:run"
TEXTS: Final = (
    "boot variants of one link in random order, and record what they take",
    "  prologue bench run --vmlinux vmlinux --variants nop-nop,boot,build --boots 10 --runs 3 --seed 7 \\\n"
    "      --workload hackbench:process,sockets,g=10,l=1000 --target ssh:root@board -o campaign/\n"
    "  prologue bench run --vmlinux vmlinux --workload hackbench:g=1,l=100 --modules /lib/modules/6.1 -o smoke/\n"
    "  prologue bench run --vmlinux vmlinux --workload hackbench:g=1,l=20 --target icount -o exact/\n"
    "The same command goes on with a campaign that was stopped, wherever it was.\n"
    "Exit codes: 0 every boot of the plan counts; 1 some stayed void; 2 bad input or another plan; 4 machine lost.",
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options of ``bench run``."""
    added.add_argument("--vmlinux", type=Path, required=True, help="the link, as linked: every variant is made of it")
    added.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                       help="the result set: made, or gone on with")  # fmt: skip
    added.add_argument("--variants", default="nop-nop,boot,build", metavar="KIND,...",
                       help="nop-nop, boot, build; the first is the base (default: %(default)s)")  # fmt: skip
    added.add_argument(
        "--workload", action="append", required=True, metavar="SPEC",
        help="what to run, may be repeated: hackbench:process,sockets,g=10,l=1000; perf-messaging:thread,pipes; "
        "kernel-build:TREE,j=8; time:COMMAND; or FILE.toml with name, command, unit, direction, pattern",
    )  # fmt: skip
    added.add_argument(
        "--boots", type=number_from(1), metavar="N", help="of each variant, fixed beforehand (default: 10)"
    )
    added.add_argument("--runs", type=number_from(1), metavar="N", help="of each workload in a boot (default: 3)")
    added.add_argument("--seed", type=number_from(0), default=1, metavar="N", help="of the order of boots (default: 1)")
    added.add_argument("--no-control", action="store_true", help="no A/A control: then differences have no floor")
    added.add_argument("--retries", type=number_from(0), default=DEFAULTS["retries"], metavar="N",
                       help="of a boot that was lost or void (default: %(default)s)")  # fmt: skip
    added.add_argument("--timeout", type=number_from(1), default=DEFAULTS["timeout"], metavar="SECONDS",
                       help="for one boot with all its runs (default: %(default)s)")  # fmt: skip
    added.add_argument("--governor", metavar="NAME", help="cpufreq governor for the time of the runs; put back after")
    add_target_options(added)


def add_target_options(added: argparse.ArgumentParser) -> None:
    """What chooses and describes the machine."""
    target = added.add_argument_group("the machine")
    target.add_argument(
        "--target", default="qemu", metavar="TARGET",
        help="qemu (default), icount (exact counts), ssh:HOST, labgrid:ENVIRONMENT.yaml[:TARGET]",
    )  # fmt: skip
    target.add_argument("--accel", choices=("tcg", "tcg-single", "kvm"), default=DEFAULTS["accel"],
                        help="of qemu (default: %(default)s)")  # fmt: skip
    target.add_argument("--cpu", help="of qemu and icount (default: host with kvm, else cortex-a57)")
    target.add_argument("--smp", type=number_from(1), default=DEFAULTS["smp"], metavar="N",
                        help="CPUs of qemu (default: %(default)s)")  # fmt: skip
    target.add_argument("--memory", type=number_from(1), default=DEFAULTS["memory"], metavar="MIB",
                        help="of qemu and icount (default: %(default)s)")  # fmt: skip
    target.add_argument("--modules", type=Path, metavar="DIR",
                        help="modules of that kernel, for qemu, if virtio is not built in")  # fmt: skip
    target.add_argument(
        "--install", default=DEFAULTS["install"], metavar="HOW",
        help="how ssh:HOST gets an Image: kexec (default), or a command run as COMMAND IMAGE HOST",
    )  # fmt: skip
    target.add_argument("--reboot", default=DEFAULTS["reboot"], metavar="COMMAND",
                        help="run on ssh:HOST behind that command; none if it reboots by itself")  # fmt: skip
    target.add_argument("--ssh-options", default="", metavar="WORDS", help="for ssh: --ssh-options='-p 2222'")
