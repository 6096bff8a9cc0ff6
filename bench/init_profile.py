"""Where the instructions of ``ftrace_init`` go: each function, how many, and how many for each site.

    .venv/bin/python bench/init_profile.py VMLINUX [--cpu-model MODEL] [--top N]

Instructions under QEMU's icount, as in bench/exact_counts.py. A function that is inlined counts with its caller.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from prologue.errors import PrologueError
from prologue_bench.exact.boot import Profile, profile_ftrace_init
from prologue_bench.exact.emulator import ONE_CPU


def table(profile: Profile, top: int) -> str:
    """Return the functions with most instructions, the rest as one, and the sum."""
    rest = profile.functions[top:]
    rows = [*profile.functions[:top], *([(f"{len(rest)} others", sum(n for _, n in rest))] if rest else [])]
    cells = [(name, f"{n:,}", f"{n / profile.sites:.2f}") for name, n in [*rows, ("ftrace_init", profile.total)]]
    head = ("function", "instructions", "a site")
    return tabulate(cells, head, disable_numparse=True, colalign=("left", "right", "right"))


def main() -> int:
    """Parse, boot, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", type=Path)
    parser.add_argument("--cpu-model", default=ONE_CPU.cpu, help="QEMU's CPU model (default: %(default)s)")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="functions (default: %(default)s)")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="init-profile-") as directory:
            profile = profile_ftrace_init(args.vmlinux, Path(directory), replace(ONE_CPU, cpu=args.cpu_model))
    except PrologueError as error:
        print(f"init_profile: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{args.vmlinux}: {profile.sites:,} sites\n\n{table(profile, args.top)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
