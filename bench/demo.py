"""The main job on a real kernel, from the package to a traced boot: what `make demo` runs."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.disasm import insn_text
from prologue.sites.kernel import Kernel
from prologue_bench.debian import DebianKernel, fetch_kernel
from prologue_bench.errors import BenchError
from prologue_bench.initramfs import build_initramfs
from prologue_bench.qemu import Boot, Job, boot

SHOWN = "vfs_read"  # the function that is shown and traced
RUNS = 3  # of hackbench in each boot
HACKBENCH = "-g 1 -l 100"


def step(number: int, title: str) -> None:
    """Head a step."""
    print(f"\n[{number}/6] {title}", flush=True)


def run(*arguments: object) -> None:
    """Show and run a prologue command."""
    words = [str(word) for word in arguments]
    print(f"$ prologue {' '.join(words)}", flush=True)
    status = prologue(words)
    if status:
        raise SystemExit(status)


def show_function(before: Path, after: Path) -> None:
    """Print the first words of one function before and after, disassembled."""
    kernels = [Kernel(path) for path in (before, after)]
    symbol = kernels[0].symbols.find(SHOWN)
    if symbol is None:
        return
    start = symbol.vaddr - (8 if kernels[0].layout == "4,2" else 0)
    rows = []
    for vaddr in range(start, symbol.vaddr + 24, 4):
        texts = []
        for kernel in kernels:
            word = int.from_bytes(kernel.image.read_at(vaddr, 4) or b"", "little")
            texts.append(f"{word:08x}  {insn_text(word, vaddr)}")
        rows.append((f"{SHOWN}{vaddr - symbol.vaddr:+d}", *texts, "" if texts[0] == texts[1] else "<- changed"))
    print(tabulate(rows, ("", "as linked", "processed", ""), tablefmt="plain"))


def boot_variant(kind: str, image: Path, initramfs: Path, out: Path) -> Boot:
    """Boot, trace one function, swing all of them, run hackbench."""
    parameters = (("function", SHOWN), ("cycles", 1), ("runs", RUNS), ("args", HACKBENCH))
    result = boot(image, initramfs, out / f"{kind}.log", Job(("hackbench", "trace_one", "ftrace_cycle"), parameters))
    start, end = result.one("start").data, result.one("end").data
    troubles = [event.data["line"] for event in result.all("dmesg")]
    print(
        f"{kind}: booted {start['release']} on {start['cpus']} CPUs, {start['functions']:,} functions can be traced, "
        f"taint {end['taint']}, {len(troubles)} warnings, powered off after {result.seconds:.0f} s"
    )
    for line in troubles:
        print(f"  {line}")
    return result


def report(boots: dict[str, Boot]) -> None:
    """Print hackbench's times, as what they are."""
    rows = []
    for kind, result in boots.items():
        seconds = [float(event.data["seconds"]) for event in result.all("hackbench")]
        rows.append((kind, f"{statistics.median(seconds):.2f}", "  ".join(f"{s:.2f}" for s in seconds)))
    print(f"hackbench {HACKBENCH}, sockets, processes; seconds, lower is better")
    print(tabulate(rows, ("variant", "median", "runs"), tablefmt="plain", disable_numparse=True))
    print("evidence: smoke. QEMU translates instructions, so these times show that both kernels run; they cannot say")
    print("what a MOV costs, and no percentage is given. Measure on hardware for that.")


def demo(suite: str, out: Path) -> None:
    """All steps; everything is left in ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    step(1, f"get Debian's arm64 cloud kernel of {suite} (about 300 MB the first time)")
    kernel: DebianKernel = fetch_kernel(suite)
    vmlinux, processed = out / "vmlinux", out / "vmlinux.build"
    vmlinux.unlink(missing_ok=True)
    vmlinux.symlink_to(kernel.vmlinux)
    print(f"{kernel.package} {kernel.package_version}, kept in {kernel.vmlinux.parent}")
    step(2, "what is it?")
    run("scan", vmlinux)
    step(3, "write the prologues (stock contract: this kernel is as Debian built it)")
    run("patch", vmlinux, "-o", processed, "--contract", "stock", "--save-plan", out / "plan.json")
    step(4, "verify: every rule, and every byte that differs")
    run("verify", processed, "--against", vmlinux)
    print()
    show_function(vmlinux, processed)
    step(5, "boot both variants of this one link in QEMU, two CPUs, KASLR on")
    initramfs = build_initramfs()
    boots = {}
    for kind, path in (("boot", vmlinux), ("build", processed)):
        image = out / f"Image.{kind}"
        run("image", path, "-o", image)
        boots[kind] = boot_variant(kind, image, initramfs, out)
    print(f"\n{SHOWN} as the processed kernel traced it:")
    for event in boots["build"].all("entry"):
        print(f"  {event.data['line']}")
    step(6, "hackbench on both")
    report(boots)
    (out / "boots.json").write_text(
        json.dumps({kind: [{"event": e.name, **e.data} for e in b.events] for kind, b in boots.items()}, indent=2)
    )
    print(
        f"\nleft in {out}/: vmlinux.build, plan.json (undo with `prologue patch --reverse`), both Images, console logs,"
    )
    print(f"boots.json. All of it took {time.monotonic() - begin:.0f} s. To boot the processed kernel again:")
    print(f"  {boots['build'].command}")


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="Debian suite: bookworm (6.1) or trixie (6.12)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    args = parser.parse_args()
    try:
        demo(args.suite, args.out)
    except BenchError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
