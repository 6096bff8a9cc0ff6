"""The comparison at length, by hand; prints the table of docs/evidence/probe.md.

``python -m tests.real_kernels.kprobes --places 20500``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.probe.judge import Judge
from tests.real_kernels.kprobes.guest import DEPENDS, SLOTS_IN_PAGE, ask, compare
from tests.real_kernels.kprobes.places import batches, choose
from tests.support.debian.kernels import fetch_kernel


def main() -> int:
    """Exit status 1 if a kernel disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=20500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu-model", default="cortex-a57")
    parser.add_argument("--bare", action="store_true", help="ask kernels that do not ask about ftrace")
    args = parser.parse_args()
    print("| kernel | places | accepted | refused for ftrace | refused otherwise | alternatives: yes, no | disagree |")
    print("|---|---|---|---|---|---|---|")
    return min(sum(compared(suite, args) for suite in ("bookworm", "trixie", "sid")), 1)


def compared(suite: str, args: argparse.Namespace) -> int:
    """How many places of one kernel differ."""
    judge = Judge(Kernel(fetch_kernel(suite).vmlinux))
    asked = batches(judge, np.concatenate(list(choose(judge, args.places, args.seed).values())), bare=args.bare)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        answers = ask(judge, asked, Path(directory), cpu=args.cpu_model, bare=args.bare)
    seconds = time.monotonic() - start
    result = compare(judge, asked, answers, bare=args.bare)
    count = result.counts
    numbers = [sum(count.values()), count["+", "+"], count["n", "n"], count["e", "e"]]
    decided = f"{count[DEPENDS, '+']:,}, {count[DEPENDS, 'e']:,}"
    row = " | ".join([judge.kernel.release, *(f"{number:,}" for number in numbers), decided])
    print(f"| {row} | {len(result.disagreements)} |", flush=True)
    for place in result.disagreements:
        print(place, file=sys.stderr)
    slots = [(len(b.vaddrs), a.pages) for b, a in zip(asked, answers, strict=True) if b.count_pages]
    simulated = sum(size for size, pages in slots if not pages)
    telling = ((size, pages) for size, pages in slots if size % SLOTS_IN_PAGE == 1)
    stepped = sum(size for size, pages in telling if pages == -(-size // SLOTS_IN_PAGE))
    print(f"{seconds:.0f} s; seen simulated {simulated:,}, stepped {stepped:,}, of {slots}", file=sys.stderr)
    return len(result.disagreements)


if __name__ == "__main__":
    sys.exit(main())
