"""Boots a kernel with our patch, and audits it in each state by the guest's own shell and /proc/kcore.

``python -m tests.real_kernels.visit_native 6.12``: by hand, because memory comes over a serial port, and that takes
minutes. Each state is audited in a capture, on the running kernel, and in a dump of QEMU's, there without modules.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from prologue.cli.main import main as prologue
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.debian.kbuild import build_kernel
from tests.support.live_guest import TRACING
from tests.support.serial_guest import HOST, SerialGuest, serial_guest

_STATES: Final = {
    "idle": "true",
    "modules": "for module in /*.ko; do insmod $module 2>/dev/null; done; cut -d' ' -f1 /proc/modules",
    "function": f"echo function >{TRACING}/current_tracer; cat {TRACING}/current_tracer",
    "kprobe": f"echo p:place vfs_write+0x20 >{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/enable;"
    " cat /sys/kernel/debug/kprobes/list",
    "function_graph": f"echo nop >{TRACING}/current_tracer; echo function_graph >{TRACING}/current_tracer;"
    f" cat {TRACING}/current_tracer",
}
"""What the shell does to enter each; none is left again. Loaded samples make direct calls."""


def main() -> int:
    """Print a line for each audit; 1 if one finds something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--processed", action="store_true", help="process kernel and modules first")
    parser.add_argument("--only", default=",".join(_STATES), help="states by name, with commas")
    args = parser.parse_args()
    built = build_kernel(RECIPES[args.name])
    failed = False
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        vmlinux, modules = Path(shutil.copy(built.vmlinux, directory)), directory / "modules"
        modules.mkdir()
        files = [Path(shutil.copy(path, modules)) for path in built.modules]
        if args.processed:
            assert prologue(["patch", str(vmlinux), "--in-place"]) == 0
            assert prologue(["patch", *map(str, files), "--in-place", "--contract", "native"]) == 0
        with serial_guest(vmlinux, directory, MACHINES[args.name], files) as guest:
            for state in args.only.split(","):
                print(f"{state}: {' '.join(guest.run(_STATES[state]).split())[:100]}", flush=True)
                failed |= _audit_all(guest, vmlinux, modules)
    return int(failed)


def _audit_all(guest: SerialGuest, vmlinux: Path, modules: Path) -> bool:
    """Whether anything was found, in a capture, live, or in a dump."""
    captured = guest.directory / "captured"
    assert _alone("live", "capture", HOST, "--vmlinux", str(vmlinux), "-o", str(captured), "-q") == 0
    failed = False
    for source, more in (
        (captured, ["--modules", str(modules)]),
        (HOST, ["--modules", str(modules)]),
        (guest.dump(), []),
    ):
        report, begin = guest.directory / "report", time.monotonic()
        report.unlink(missing_ok=True)
        command = ["live", "audit", str(vmlinux), str(source), *more, "--json", "-o", str(report), "-q"]
        failed |= _alone(*command) != 0
        data: dict[str, Any] = {"summary": "no report", "findings": []}
        data = json.loads(report.read_text()) if report.exists() else data
        print(f"  {time.monotonic() - begin:5.1f} s  {data['summary']}", flush=True)
        for finding in data["findings"][:3]:
            print(f"    {finding['code']} {finding['symbol']}: {finding['message']}", flush=True)
    return failed


def _alone(*arguments: str) -> int:
    """Exit status of a process of its own: only one at a time can have the line to the guest, until it has ended."""
    return subprocess.run([sys.executable, "-m", "prologue", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
