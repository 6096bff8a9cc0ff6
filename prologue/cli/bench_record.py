"""``prologue bench record`` and ``doctor``: their part of the grammar."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from prologue.cli.arguments import number_from
from prologue.cli.bench_run import DEFAULTS

RECORD_HELP: Final = "record this boot of this machine under a label, or write a script that does it elsewhere"
RECORD_EXAMPLES: Final = (
    "  prologue bench record --label nop-nop --vmlinux vmlinux --workload hackbench:g=10,l=1000 -o boots.jsonl\n"
    "  prologue bench record --label build --runs 5 -o boots.jsonl -- make -C /usr/src/linux -j8 clean vmlinux\n"
    "  prologue bench record --label boot -o boots.jsonl --pattern 'Throughput \\([0-9.]*\\)' --unit MB/s \\\n"
    "      --direction higher -- dbench -t 60 8\n"
    "  prologue bench record --label nop-nop --workload hackbench:g=10 --script record.sh\n"
    "  LABEL=build sh record.sh >> boots.log     # on the board, as root, once for each boot\n"
    "  prologue bench compare boots.jsonl boots.log"
)
DOCTOR_HELP: Final = "check this host, or the machine to be measured, and say what to fix"
DOCTOR_EXAMPLES: Final = "  prologue bench doctor\n  prologue bench doctor --vmlinux vmlinux --target ssh:root@board"


def add_record_options(added: argparse.ArgumentParser) -> None:
    """All options of ``bench record``."""
    added.add_argument("--label", type=_label, required=True, help="which variant this boot runs")
    added.add_argument(
        "--vmlinux", type=Path, help="of the running kernel: sampled sites are read back, which proves the variant"
    )
    added.add_argument(
        "--runs", type=number_from(1), default=DEFAULTS["runs"], metavar="N",
        help="of each workload (default: %(default)s)",
    )  # fmt: skip
    added.add_argument("--governor", metavar="NAME", help="cpufreq governor during the runs; restored afterwards")
    added.add_argument(
        "--workload", action="append", default=[], metavar="SPEC", help="as in bench run; may be repeated"
    )  # fmt: skip
    added.add_argument(
        "--pattern", metavar="RE",
        help="basic regular expression; its \\(group\\) is the number in the command's output",
    )  # fmt: skip
    added.add_argument("--unit", metavar="UNIT", help="of that number")
    added.add_argument("--direction", choices=("lower", "higher"), help="which is better")
    output = added.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "-o", "--output", type=Path, metavar="FILE.jsonl", help="record file; one line is appended"
    )  # fmt: skip
    output.add_argument(
        "--script", type=Path, metavar="OUT.sh",
        help="measure nothing; write a POSIX shell script that records the machine it runs on",
    )  # fmt: skip
    added.add_argument(
        "command", nargs="*", metavar="-- CMD", help="command to measure: its wall time, or see --pattern"
    )  # fmt: skip


def add_doctor_options(added: argparse.ArgumentParser) -> None:
    """All options of ``bench doctor``."""
    added.add_argument("--vmlinux", type=Path, help="of the kernel to measure: can it be measured, does it run there?")
    added.add_argument("--target", metavar="ssh:HOST", help="a board, as it runs now (default: this host)")
    added.add_argument(
        "--ssh-options", default=DEFAULTS["ssh_options"], metavar="WORDS", help="for ssh, as in --ssh-options='-p 2222'"
    )


def _label(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"not a label: {text!r}")
    return text
