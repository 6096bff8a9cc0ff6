"""How fast the tool is, beside its peers, in one run: ratios of medians, and peak memory.

    .venv/bin/python bench/tool_speed.py [--runs 7] [VMLINUX]

Without VMLINUX it takes Debian's 6.12 cloud kernel, and then shows on two more kernels, one of them small, that the
cost of verifying is linear; the small one is built if it is not cached. Whole processes, warm page cache, runs
interleaved so that a noisy neighbour hits all of them alike. The bounds are the design's: patching in place no
slower than `nm -S`, verifying at least five times as fast as `objdump -d` of .text, neither above 250 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

from prologue_bench.guest.kernels import fetch_kernel
from prologue_bench.host import programs

MEMORY_BOUND = 250  # MB
# An installed program has its bytecode; without this a developer's setting would time the compiler.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(slots=True)
class Tool:
    """One command, its wall times in seconds, and its peak memory in MB."""

    name: str
    command: list[str]
    seconds: list[float] = field(default_factory=list)
    peak: float = 0.0

    @property
    def median(self) -> float:
        """Median wall time in seconds."""
        return statistics.median(self.seconds)

    def run(self) -> None:
        """Run once; output goes nowhere."""
        begin = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, env=_ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        self.seconds.append(time.perf_counter() - begin)
        self.peak = max(self.peak, usage.ru_maxrss * 1024 / 1e6)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(self.command)} ended with {process.returncode}")


def main() -> int:
    """Measure, print, and say which bounds hold; 1 if one does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    vmlinux = args.vmlinux or fetch_kernel("trixie").vmlinux
    with tempfile.TemporaryDirectory(prefix="tool-speed-") as directory:
        work = Path(directory) / "vmlinux"
        program = [sys.executable, "-m", "prologue"]
        binutils = "aarch64-linux-gnu-"
        nm = Tool("nm -S", [programs.find(f"{binutils}nm"), "-S", str(work)])
        patch = Tool("prologue patch --in-place", [*program, "patch", str(work), "--in-place", "--contract", "stock"])
        verify = Tool("prologue verify", [*program, "verify", str(work)])
        objdump = Tool("objdump -d -j .text", [programs.find(f"{binutils}objdump"), "-d", "-j", ".text", str(work)])
        for tool in (verify, patch, nm):
            shutil.copyfile(vmlinux, work)
            tool.run()
            tool.seconds.clear()  # the first run warms the caches
        for number in range(args.runs):
            shutil.copyfile(vmlinux, work)
            for tool in (nm, patch, verify):
                tool.run()
            if number < 3:  # it takes many seconds and varies little
                objdump.run()
            print(f"\rrun {number + 1} of {args.runs}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    tried = (nm, patch, objdump, verify)
    rows = [(t.name, f"{t.median:.2f} s", f"{min(t.seconds):.2f} s", f"{t.peak:.0f} MB") for t in tried]
    print(f"{vmlinux.name}, {vmlinux.stat().st_size / 1e6:.0f} MB, medians of {args.runs} runs, warm cache")
    print(tabulate(rows, ("command", "median", "fastest", "peak"), tablefmt="plain", disable_numparse=True))
    bounds = [
        ("patch / nm", patch.median / nm.median, "at most 1", patch.median <= nm.median),
        ("objdump / verify", objdump.median / verify.median, "at least 5", objdump.median >= 5 * verify.median),
        ("peak of patch, MB", patch.peak, f"at most {MEMORY_BOUND}", patch.peak <= MEMORY_BOUND),
        ("peak of verify, MB", verify.peak, f"at most {MEMORY_BOUND}", verify.peak <= MEMORY_BOUND),
    ]
    print()
    print(
        tabulate(
            [(what, f"{value:.2f}", bound, "holds" if ok else "DOES NOT HOLD") for what, value, bound, ok in bounds],
            ("what", "measured", "bound", ""), tablefmt="plain", disable_numparse=True,
        )
    )  # fmt: skip
    if args.vmlinux is None:
        print()
        print(by_size(args.runs))
    print()
    print(by_rule(vmlinux))
    return 0 if all(good for *_, good in bounds) else 1


def by_rule(vmlinux: Path, repeats: int = 5) -> str:
    """Milliseconds of each rule on a kernel that has been read; the first rule pays for what all of them share."""
    from prologue.rules.base import Subject
    from prologue.rules.engine import run_rules
    from prologue.rules.registry import RULES
    from prologue.sites.kernel import Kernel

    seconds: dict[str, list[float]] = {"reading": []}
    for _ in range(repeats):
        begin = time.perf_counter()
        kernel = Kernel(vmlinux)
        _ = kernel.sites, kernel.symbols.function_starts, kernel.pointers, kernel.state
        seconds["reading"].append(time.perf_counter() - begin)
        for rule in RULES:
            if "V" in rule.inputs:
                begin = time.perf_counter()
                run_rules(Subject(kernel), (rule,))
                seconds.setdefault(f"{rule.code} {rule.slug}", []).append(time.perf_counter() - begin)
    rows = sorted(((statistics.median(times), name) for name, times in seconds.items()), reverse=True)
    return tabulate(
        [(name, f"{1000 * median:.1f}") for median, name in rows if median >= 0.0005],
        ("verify, by rule", "ms"), tablefmt="plain", disable_numparse=True,
    )  # fmt: skip


def by_size(runs: int) -> str:
    """Time and memory of verifying kernels of three sizes: linear in the text."""
    from prologue.sites.kernel import Kernel
    from prologue_bench.guest.kbuild import Recipe, build_kernel

    # All runs come first: a child's peak begins with the memory of its parent, which grows when it reads kernels.
    verified: list[tuple[Tool, Path]] = []
    small = build_kernel(Recipe(suite="trixie", source="linux-source-6.12")).vmlinux
    for name, vmlinux in (
        ("6.12 minimal", small), ("Debian 6.1 cloud", fetch_kernel("bookworm").vmlinux),
        ("Debian 6.12 cloud", fetch_kernel("trixie").vmlinux),
    ):  # fmt: skip
        verify = Tool(name, [sys.executable, "-m", "prologue", "verify", str(vmlinux)])
        for _ in range(runs + 1):
            verify.run()
        verified.append((verify, vmlinux))
    rows = []
    for verify, vmlinux in verified:
        kernel = Kernel(vmlinux)
        text = sum(section.size for section in kernel.image.text_sections) / 1e6
        sites = len(kernel.sites) if kernel.sites is not None else 0
        median = statistics.median(verify.seconds[1:])
        rows.append(
            (
                verify.name,
                f"{kernel.image.size / 1e6:.0f}",
                f"{text:.1f}",
                f"{sites:,}",
                f"{median:.2f}",
                f"{verify.peak:.0f}",
            )
        )
    return tabulate(
        rows,
        ("verify", "file, MB", "text, MB", "sites", "median, s", "peak, MB"),
        tablefmt="plain",
        disable_numparse=True,
    )


if __name__ == "__main__":
    sys.exit(main())
