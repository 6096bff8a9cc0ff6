"""Commands that are measured, and bounds on what was measured."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from tabulate import tabulate

# An installed program has its bytecode; without this a developer's setting would time the compiler.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Used(NamedTuple):
    """Wall time and CPU time in seconds, peak memory in MB."""

    wall: float
    cpu: float
    peak: float


def run(command: Sequence[str], status: int | None = 0) -> Used:
    """Run a command, whose output goes nowhere; ``status`` is what it ends with, None if that depends on the file."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENVIRONMENT)
    _, ended, usage = os.wait4(process.pid, 0)
    wall, process.returncode = time.perf_counter() - begin, os.waitstatus_to_exitcode(ended)
    if status is not None and process.returncode != status:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Used(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


def print_table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> None:
    """Print a table of texts."""
    print(tabulate(rows, heads, tablefmt="plain", disable_numparse=True))


def judge(bounds: Sequence[tuple[str, float, str, float]]) -> int:
    """Print what was measured, and whether it is at most (``<=``) or at least its bound; return 1 if one is not."""
    holds = [value >= bound if sign == ">=" else value <= bound for _, value, sign, bound in bounds]
    rows = [
        (what, f"{value:,.2f}", f"{sign} {bound:,g}", "holds" if held else "DOES NOT HOLD")
        for (what, value, sign, bound), held in zip(bounds, holds, strict=True)
    ]
    print_table(rows, ("what", "measured", "bound", ""))
    return 0 if all(holds) else 1
