"""Boots one kernel, visits every state, and audits memory in each: ``python -m tests.real_kernels.visit_states``.

The tests visit few of these states on two kernels; this is for all of them, on any kernel and CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prologue.cli.main import main as prologue
from prologue.errors import UNDECIDED
from tests.real_kernels.states import LATER, programs, states, swung, visit
from tests.support.debian.kernels import fetch_kernel, fetch_modules
from tests.support.live_guest import Guest, live_guest


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
