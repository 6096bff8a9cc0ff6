"""The main job on a small kernel, then on a real one, to a traced boot: what `make demo` runs."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from tabulate import tabulate

from prologue.cli.main import main as prologue
from prologue.errors import InputError, PrologueError
from prologue.examples.listing import KernelListing
from prologue.insn.disasm import insn_text
from prologue.installation import how_to_install
from prologue.kernel.kernel import Kernel
from prologue.words import counted
from prologue_bench.errors import BenchError, GuestLostError, MissingToolError, UnreachableError
from prologue_bench.guest.apt import machine_archive
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.vm import QEMU, GuestRun, Job, Machine, boot, qemu_value, run_console
from prologue_bench.host.events import parse_line
from prologue_bench.trace.monitor import finish
from tests.support.debian.kernels import fetch_kernel, fetch_modules

SETUP = Path(__file__).parent.parent / ".ci" / "setup"
SMALL_SHOWN = "work_leaf"  # the function of the small kernel that is shown
SHOWN = "vfs_read"  # the function of the real one that is shown and traced
WORKLOAD = "hackbench:process,sockets,g=1,l=50"
RUNS = 3  # of it in each boot
ELSE = "it needs a Debian archive, or a kernel of your own: make demo VMLINUX=FILE MODULES=DIR"
SMALL_TIMEOUT = 600  # seconds: it takes one on an idle machine


class Steps:
    """Heads the steps of a part, numbered."""

    def __init__(self, count: int) -> None:
        self._count, self._number = count, 0

    def begin(self, title: str) -> None:
        """Head the next step."""
        self._number += 1
        print(f"\n[{self._number}/{self._count}] {title}", flush=True)


def leave_out(what: str, reason: object) -> None:
    """Say what the demo does not do on this machine."""
    print(f"\nleft out: {what}: {reason}", flush=True)


def run(*arguments: object) -> None:
    """Show and run a prologue command."""
    words = [str(word) for word in arguments]
    print(f"$ prologue {' '.join(words)}", flush=True)
    status = prologue(words)
    if status:
        raise SystemExit(status)


def show_function(name: str, kernels: dict[str, Path]) -> None:
    """Print the first words of a function in each of the files, disassembled."""
    opened = [Kernel(path) for path in kernels.values()]
    symbol = opened[0].symbols.find(name)
    if symbol is None:
        return
    start = symbol.vaddr - (8 if opened[0].layout == "4,2" else 0)
    rows = []
    for vaddr in range(start, symbol.vaddr + min(symbol.size, 24), 4):
        texts = []
        for kernel in opened:
            word = int.from_bytes(kernel.image.read_at(vaddr, 4) or b"", "little")
            texts.append(f"{word:08x}  {insn_text(word, vaddr)}")
        changed = "" if len(set(texts)) == 1 else "<- changed"
        rows.append((f"{name}{vaddr - symbol.vaddr:+d}", *texts, changed))
    print(tabulate(rows, ("", *kernels, ""), tablefmt="plain"))


def boot_for_dump(command: list[str], log: Path, timeout: float, is_moment: Callable[[str], bool], dump: Path) -> None:
    """Boot; at the first line that is the moment write the machine's memory, and end it."""
    dump.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory) / "monitor"

        def look(line: str) -> None:
            if not dump.exists() and is_moment(line):
                finish(socket, dump)

        run_console([*command, "-qmp", f"unix:{qemu_value(socket)},server=on,wait=off"], log, timeout, hear=look)
    if not dump.exists():
        raise GuestLostError(f"the kernel ended, or {timeout:.0f} s were over, before its memory was dumped: see {log}")


def boot_small(image: Path, log: Path, dump: Path | None = None) -> str:
    """Boot the small kernel, which swings every second slot 40 times while its other CPU runs; return its lines.

    With ``dump``, write its memory there when it has said that it is done: it ends with all functions traced.
    """
    command = Machine(memory=64).command(image, None, "")
    if dump is None:
        run_console(command, log, SMALL_TIMEOUT)
    else:
        is_end: Callable[[str], bool] = lambda line: line.startswith(("mini: PASS", "mini: FAIL"))  # noqa: E731
        boot_for_dump([*command, "-no-shutdown"], log, SMALL_TIMEOUT, is_end, dump)
    lines = log.read_text(encoding="utf-8").splitlines()
    if not lines or lines[-1] != "mini: PASS":
        raise GuestLostError(f"the small kernel did not pass: see {log}")
    return "\n".join(f"  {line}" for line in lines)


def small_kernel(out: Path) -> None:
    """The first part: a kernel that this repository has as a listing; nothing is downloaded."""
    steps, begin = Steps(6), time.monotonic()
    steps.begin("a small kernel, from prologue/examples/mini.lst")
    vmlinux, processed, dump = out / "vmlinux", out / "vmlinux.build", out / "memory"
    listing = KernelListing(files("prologue.examples").joinpath("mini.lst").read_text(encoding="utf-8"))
    vmlinux.write_bytes(listing.vmlinux())
    print(f"{vmlinux}: {counted(len(listing.insns), 'instruction')}")
    steps.begin("what is it?")
    run("scan", vmlinux)
    steps.begin("write the prologues, and the marker that says so (native contract)")
    run("patch", vmlinux, "-o", processed, "--contract", "native")
    steps.begin("verify: every rule, and every byte that differs")
    run("verify", processed, "--against", vmlinux)
    show_function(SMALL_SHOWN, {"as linked": vmlinux, "processed": processed})
    if shutil.which(QEMU) is None:
        leave_out("boots and the audit of memory", f"{QEMU} is not installed")
        return
    steps.begin("boot both in QEMU, two CPUs: how many instructions does boot write?")
    for name in (vmlinux, processed):
        image = name.with_suffix(".image") if name == vmlinux else out / "Image.build"
        run("image", name, "-o", image)
        print(boot_small(image, image.with_suffix(".log"), None if name == vmlinux else dump))
    steps.begin("every function was traced when it ended: what does its memory have?")
    if find_spec("drgn") is None:
        leave_out("the audit of memory", f"it is read by drgn: {how_to_install('live', 'drgn')}")
    else:
        run("live", "audit", processed, dump)
    dump.unlink()
    print(f"\nThe small kernel took {time.monotonic() - begin:.0f} s; its files are in {out}/.", flush=True)


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


def audit_running(vmlinux: Path, processed: Path, image: Path, out: Path) -> None:
    """The seventh step: what really runs, and why."""
    dump, live = out / "memory", out / "vmlinux.live"
    token, job = "audit", Job(names=("hold",), parameters=(("function", SHOWN),))
    command = Machine(memory=512).command(image, build_initramfs(), job.command_line(token))

    def is_held(line: str) -> bool:
        event = parse_line(line, token)
        return event is not None and event.name == "held"

    boot_for_dump(command, out / "audit.log", job.timeout, is_held, dump)
    run("live", "audit", processed, dump, "--plot", out / "text.png")
    run("live", "overlay", processed, dump, "-o", live, "-q")
    dump.unlink()
    print()
    show_function(SHOWN, {"as linked": vmlinux, "processed": processed, "running": live})


def why_no_guest(given: Path | None) -> str:
    """Return why this machine can make no guest for a kernel, which is Debian's if none is given; empty if it can."""
    try:
        machine_archive()
    except BenchError as error:
        return f"{error}; {ELSE}" if given is None else str(error)
    if subprocess.run([str(SETUP), "demo"], check=False).returncode:
        return "packages are missing"
    return "" if shutil.which(QEMU) is not None else f"{QEMU} is not installed"


def real_kernel(args: argparse.Namespace, out: Path) -> None:
    """The second part: the same on Debian's kernel, or on one of the user's; everything is left in ``out``."""
    steps, begin = Steps(7), time.monotonic()
    no_guest = why_no_guest(args.vmlinux)
    if no_guest and args.vmlinux is None:
        leave_out("the same on a real kernel", no_guest)
        return
    title = f"get Debian's arm64 cloud kernel of {args.suite} (about 300 MB the first time)"
    steps.begin(title if args.vmlinux is None else "the kernel that was given")
    kernel = fetch_kernel(args.suite) if args.vmlinux is None else None
    if kernel is not None:
        print(f"{kernel.package} {kernel.package_version}, kept in {kernel.vmlinux.parent}")
    vmlinux, processed = out / "vmlinux", out / "vmlinux.build"
    vmlinux.unlink(missing_ok=True)
    vmlinux.symlink_to(args.vmlinux.resolve() if kernel is None else kernel.vmlinux)
    steps.begin("what is it?")
    run("scan", vmlinux)
    contract = "stock" if Kernel(vmlinux).marker is None else "native"
    reason = "this kernel is as it was built" if contract == "stock" else "this kernel reads the marker"
    steps.begin(f"write the prologues ({contract} contract: {reason})")
    run("patch", vmlinux, "-o", processed, "--contract", contract, "--save-plan", out / "plan.json")
    steps.begin("verify: every rule, and every byte that differs")
    run("verify", processed, "--against", vmlinux)
    print()
    show_function(SHOWN, {"as linked": vmlinux, "processed": processed})
    image = out / "Image.build"
    run("image", processed, "-o", image)
    if no_guest:
        leave_out("its boot, the campaign and the audit, whose guests have programs of Debian's", no_guest)
        return
    steps.begin("boot the processed kernel in QEMU, two CPUs, KASLR on, and trace it")
    traced = trace(image, build_initramfs(), out)
    steps.begin("a campaign: hackbench on variants of this one link, in random order")
    modules = args.modules if kernel is None else fetch_modules(kernel)
    plan = ("--variants", "boot,build", "--workload", WORKLOAD, "--boots", 1, "--runs", RUNS, "--seed", 7)
    shutil.rmtree(out / "campaign", ignore_errors=True)
    run("bench", "run", vmlinux, *(("--modules", modules) if modules else ()), *plan, "-o", out / "campaign")
    run("bench", "plot", out / "campaign", "-o", out / "campaign.png")
    steps.begin(f"the kernel that runs: {SHOWN} is traced, and every word of text is explained")
    audit_running(vmlinux, processed, image, out)
    print(f"\nleft in {out}/: vmlinux.build, plan.json (undo: `prologue patch --reverse`), Image.build, a console log,")
    print("campaign/ and its picture, vmlinux.live (what ran), and text.png (where the kernel patches its text).")
    print(f"All of it took {time.monotonic() - begin:.0f} s. To boot the processed kernel again:")
    print(f"  {traced.command}")


def demo(args: argparse.Namespace) -> None:
    """Both parts; what is downloaded is downloaded after the first."""
    for given, is_there in ((args.vmlinux, Path.is_file), (args.modules, Path.is_dir)):
        if given is not None and not is_there(given):
            raise InputError("no such file or directory", path=given)
    small = args.out / "small"
    small.mkdir(parents=True, exist_ok=True)
    small_kernel(small)
    try:
        real_kernel(args, args.out)
    except (MissingToolError, UnreachableError) as error:
        leave_out("what would follow", error)


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="Debian suite: bookworm (6.1) or trixie (6.12)")
    parser.add_argument("--vmlinux", type=Path, metavar="FILE", help="a kernel of your own instead of Debian's")
    parser.add_argument("--modules", type=Path, metavar="DIR", help="its modules, if virtio is not built in")
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    args = parser.parse_args()
    try:
        demo(args)
    except PrologueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"demo: {error.filename or args.out}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
