"""The main job on a real kernel, from the package to a traced boot: what `make demo` runs."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.errors import PrologueError
from prologue.insn.disasm import insn_text
from prologue.kernel.kernel import Kernel
from prologue.words import counted
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.kernels import DebianKernel, fetch_kernel, fetch_modules
from prologue_bench.guest.vm import GuestRun, Job, Machine, boot
from prologue_bench.host.child import run_lines
from prologue_bench.host.events import parse_line
from prologue_bench.trace.monitor import finish

SHOWN = "vfs_read"  # the function that is shown and traced
WORKLOAD = "hackbench:process,sockets,g=1,l=50"
RUNS = 3  # of it in each boot


def step(number: int, title: str) -> None:
    """Head a step."""
    print(f"\n[{number}/7] {title}", flush=True)


def run(*arguments: object) -> None:
    """Show and run a prologue command."""
    words = [str(word) for word in arguments]
    print(f"$ prologue {' '.join(words)}", flush=True)
    status = prologue(words)
    if status:
        raise SystemExit(status)


def show_function(files: dict[str, Path]) -> None:
    """Print the first words of one function in each of the files, disassembled."""
    kernels = [Kernel(path) for path in files.values()]
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
        changed = "" if len(set(texts)) == 1 else "<- changed"
        rows.append((f"{SHOWN}{vaddr - symbol.vaddr:+d}", *texts, changed))
    print(tabulate(rows, ("", *files, ""), tablefmt="plain"))


def trace(image: Path, initramfs: Path, out: Path) -> GuestRun:
    """Boot the processed kernel, trace one function, swing all of them under load."""
    job = Job(names=("trace_one", "ftrace_cycle"), parameters=(("function", SHOWN), ("cycles", 1)))
    result = boot(image, initramfs, out / "build.log", job)
    start, end = result.one("start").data, result.one("end").data
    troubles = [event.data["line"] for event in result.all("dmesg")]
    print(
        f"booted {start['release']} on {counted(start['cpus'], 'CPU')}, {start['functions']:,} functions can be traced"
        f", taint {end['taint']}, {counted(len(troubles), 'warning')}, powered off after {result.seconds:.0f} s"
    )
    for line in troubles:
        print(f"  {line}")
    for event in result.all("traced"):
        print(f"{event.data['tracer']}: {counted(event.data['entries'], 'entry', plural='entries')} looked at")
    print(f"{SHOWN} as it was traced:")
    for event in result.all("entry"):
        print(f"  {event.data['line']}")
    return result


def dump_while_traced(image: Path, initramfs: Path, dump: Path) -> None:
    """Boot, trace one function, and write the machine's memory while that is so."""
    token, job = "audit", Job(names=("hold",), parameters=(("function", SHOWN),))
    dump.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory) / "monitor"
        command = Machine(memory=512).command(image, initramfs, job.command_line(token))

        def look(line: str) -> None:
            event = parse_line(line, token)
            if event is not None and event.name == "held":
                finish(socket, dump)

        run_lines([*command, "-qmp", f"unix:{socket},server=on,wait=off"], job.timeout, look)
    if not dump.exists():
        raise SystemExit("demo: the kernel ended before its memory was dumped")


def audit_running(vmlinux: Path, processed: Path, image: Path, out: Path) -> None:
    """The seventh step: what really runs, and why."""
    dump, live = out / "memory", out / "vmlinux.live"
    dump_while_traced(image, build_initramfs(), dump)
    run("live", "audit", processed, dump, "--plot", out / "text.png")
    run("live", "overlay", processed, dump, "-o", live, "-q")
    dump.unlink()
    print()
    show_function({"as linked": vmlinux, "processed": processed, "running": live})


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
    show_function({"as linked": vmlinux, "processed": processed})
    step(5, "boot the processed kernel in QEMU, two CPUs, KASLR on, and trace it")
    image = out / "Image.build"
    run("image", processed, "-o", image)
    traced = trace(image, build_initramfs(), out)
    step(6, "a campaign: hackbench on variants of this one link, in random order")
    modules = fetch_modules(kernel)
    plan = ("--variants", "boot,build", "--workload", WORKLOAD, "--boots", 1, "--runs", RUNS, "--seed", 7)
    shutil.rmtree(out / "campaign", ignore_errors=True)
    run("bench", "run", vmlinux, "--modules", modules, *plan, "-o", out / "campaign")
    run("bench", "plot", out / "campaign", "-o", out / "campaign.png")
    step(7, f"the kernel that runs: {SHOWN} is traced, and every word of text is explained")
    audit_running(vmlinux, processed, image, out)
    took = f"{time.monotonic() - begin:.0f} s"
    print(f"\nleft in {out}/: vmlinux.build, plan.json (undo: `prologue patch --reverse`), Image.build, a console log,")
    print("campaign/ and its picture, vmlinux.live (what ran), and text.png (where the kernel patches its text).")
    print(f"All of it took {took}. To boot the processed kernel again:")
    print(f"  {traced.command}")


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="Debian suite: bookworm (6.1) or trixie (6.12)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    args = parser.parse_args()
    try:
        demo(args.suite, args.out)
    except PrologueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
