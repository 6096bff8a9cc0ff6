"""How fast the tool is, beside its peers, in one run: ratios of medians, and peak memory.

    .venv/bin/python -m tests.speed.tool [--runs 10] [VMLINUX]

VMLINUX may have the marker, and must not be processed. Without it, this program takes Debian's 6.12 cloud kernel, and
verifies 7.2's, too. Whole processes, warm page cache, runs interleaved so that a noisy neighbour hits all of them
alike. What is not the tool's own work has a peer: `nm -S` reads the same symbols, `objdump -d` the same text. The tool
runs as it is installed for users: in an editable installation, the hook of setuptools that finds it takes a tenth of
the time of `prologue patch`.
The capture of 7.2 that is audited is of a kernel without listeners.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import sysconfig
import tempfile
import venv
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue_bench.host import programs
from tests.speed.measured import judge, print_table, run
from tests.support.debian.kernels import fetch_kernel

VERIFY_PEAK, AGAINST_PEAK = 200, 200  # MB; two vmlinux have 700
PROBE_PLACES, PROBE_SECONDS, PROBE_PEAK = 200, 5.0, 500  # MB
OVERLAY_PEAK = 400  # MB, of an audit, too


@dataclass(slots=True)
class Tool:
    """One command, its wall times in seconds, and its peak memory in MB."""

    name: str
    command: list[str]
    seconds: list[float] = field(default_factory=list)
    peak: float = 0.0
    status: int | None = 0  # what it ends with; None if that depends on the file

    @property
    def median(self) -> float:
        """Median wall time in seconds."""
        return statistics.median(self.seconds)

    def run(self) -> None:
        """Run once."""
        used = run(self.command, self.status)
        self.seconds.append(used.wall)
        self.peak = max(self.peak, used.peak)


def main() -> int:
    """Measure, print, and say which bounds hold; 1 if one does not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vmlinux", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    vmlinux = args.vmlinux or fetch_kernel("trixie").vmlinux
    newest = None if args.vmlinux else fetch_kernel("sid").vmlinux
    with tempfile.TemporaryDirectory(prefix="tool-speed-") as directory:
        python = _as_installed(Path(directory) / "venv")
        others = [] if newest is None else _of_newest([python, "-m", "prologue"], newest, Path(directory))
        tools = _measure(python, vmlinux, others, Path(directory), args.runs)
    rows = [(t.name, f"{t.median:.3f} s", f"{min(t.seconds):.3f} s", f"{t.peak:.0f} MB") for t in tools.values()]
    print(f"{vmlinux.name}, {vmlinux.stat().st_size / 1e6:.0f} MB, medians of {args.runs} runs, warm cache")
    print_table(rows, ("command", "median", "fastest", "peak"))
    print()
    return judge([(what, value, "<=", bound) for what, value, bound in _bounds(tools)])


def _as_installed(directory: Path) -> str:
    """Make an environment with this tree and its libraries as plain directories; return its interpreter."""
    venv.create(directory, with_pip=False)
    variables = {"base": str(directory), "platbase": str(directory)}
    tree = Path(__file__).resolve().parents[2]
    paths = (tree, tree / "bench", sysconfig.get_path("purelib"))
    Path(sysconfig.get_path("purelib", vars=variables), "prologue.pth").write_text(
        "".join(f"{path}\n" for path in paths), encoding="utf-8"
    )
    return str(directory / "bin" / "python")


def _of_newest(program: list[str], newest: Path, directory: Path) -> list[Tool]:
    """Commands about 7.2, and a kernel of that release that was just booted."""
    # In a process of its own: a child's peak begins with the memory of its parent.
    with ProcessPoolExecutor(1) as pool:
        source = pool.submit(_as_captured, newest, directory / "capture").result()
    live = {what: [*program, "live", what, str(newest), str(source), "-q"] for what in ("overlay", "audit")}
    return [
        Tool("prologue verify, 7.2", [*program, "verify", str(newest), "-q"]),
        Tool("prologue live overlay, 7.2", [*live["overlay"], "-o", str(directory / "live")]),
        Tool("prologue live audit, 7.2", [*live["audit"], "--allow-undecided"]),
    ]


def _measure(python: str, vmlinux: Path, others: list[Tool], directory: Path, runs: int) -> dict[str, Tool]:
    """Run all commands in turns; each finds its files as the one before it left them."""
    work, stale, good = directory / "vmlinux", directory / "Image.stale", directory / "Image"
    program = [python, "-m", "prologue"]
    nm, objdump = (programs.find(f"aarch64-linux-gnu-{name}") for name in ("nm", "objdump"))
    contract = "native" if Kernel(vmlinux).marker else "stock"
    patching = [*program, "patch", str(work), "--in-place", "--contract", contract]
    verifying = [*program, "verify", str(work), "-q"]
    tools = [
        Tool("nm -S", [nm, "-S", str(work)]),
        Tool("prologue scan", [*program, "scan", str(work)]),
        Tool("prologue patch --in-place", patching),
        Tool("prologue patch, again", patching),
        Tool("prologue verify", verifying),
        Tool("prologue verify --against", [*verifying, "--against", str(vmlinux)]),
        Tool("prologue verify --image", [*verifying, "--image", str(good)]),
        Tool("prologue verify --image, stale", [*verifying, "--image", str(stale)], status=1),
    ]
    tools += others
    # In a process of its own: a child's peak begins with the memory of its parent.
    with ProcessPoolExecutor(1) as pool:
        names = pool.submit(_functions, vmlinux, PROBE_PLACES).result()
    tools.append(Tool("prologue probe --event, 1 place", [*program, "probe", str(vmlinux), "--event", names[0]]))
    tools.append(Tool(_PROBES, [*program, "probe", str(vmlinux), "--event", *names], status=None))
    if shutil.which("perf"):
        tools.append(Tool("perf probe -D, 1 place", ["perf", "probe", "-k", str(vmlinux), "-D", f"{names[0]} $params"]))
    disassembling = Tool("objdump -d -j .text", [objdump, "-d", "-j", ".text", str(work)])
    shutil.copyfile(vmlinux, work)
    Tool("", [*program, "image", str(work), "-o", str(stale)]).run()
    Tool("", patching).run()
    Tool("", [*program, "image", str(work), "-o", str(good)]).run()
    for number in range(runs + 1):
        shutil.copyfile(vmlinux, work)
        for tool in tools:
            tool.run()
            if not number:
                tool.seconds.clear()  # the first run warms the caches
        if number in (1, 2, 3):  # it takes many seconds and varies little
            disassembling.run()
        print(f"\rrun {number} of {runs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {tool.name: tool for tool in (*tools, disassembling)}


_PROBES = f"prologue probe --event, {PROBE_PLACES} places"


def _functions(vmlinux: Path, count: int) -> list[str]:
    """Names of functions from the whole text that can be traced, each of one address; the first can be probed.

    With the inlined copies they are ``count`` places.
    """
    from prologue.probe.language import parse_request
    from prologue.probe.prober import Prober

    prober = Prober(Kernel(vmlinux))
    target = prober.kernel
    sites, known = target.binary.sites, target.names.by_name
    starts = [] if sites is None else sites.entry[:: max(len(sites) // (2 * count), 1)].tolist()
    symbols = [symbol for at in (*starts[::2], *starts[1::2]) if (symbol := target.binary.symbols.function_at(at))]
    names, places = [], 0
    for name in ("vfs_read", *(symbol.name for symbol in symbols)):
        more = 0 if "." in name or len(set(known.get(name, ()))) != 1 else len(prober.judge(parse_request(name)))
        if more and places + more <= count:
            names.append(name)
            places += more
    return names


def _as_captured(vmlinux: Path, out: Path) -> Path:
    """A capture of that kernel as if it had booted where it is linked: looking at it is the same work."""
    from prologue.elf.image import ElfImage
    from prologue.elf.notes import gnu_build_id
    from prologue.live.audit.audit_kernel import kernel_claims, read_facts
    from prologue.live.memory.capture import Piece, write_capture
    from prologue.live.memory.sources import open_memory
    from prologue.live.memory.state import KernelState
    from prologue.live.system.running_kernel import RunningKernel

    image = ElfImage(vmlinux)
    note = f"OSRELEASE=7.2\nBUILD-ID={gnu_build_id(image)}\nKERNELOFFSET=0\n".encode()
    memory = [bytearray(image.read(s.offset, s.filesz).ljust(s.memsz, b"\0")) for s in image.segments]

    def write() -> None:
        pieces = [Piece(s.vaddr, 0, bytes(data), ()) for s, data in zip(image.segments, memory, strict=True)]
        write_capture(
            out, "speed", KernelState(release="7.2", boot_id="", modules=(), symbols=(), kprobes=()), note, pieces
        )

    write()
    running = RunningKernel(image, open_memory(str(out)))
    for claims in kernel_claims(running, read_facts(running, None)):
        for segment, data in zip(image.segments, memory, strict=True):
            at = claims.vaddrs - np.uint64(segment.vaddr)
            inside = at < np.uint64(segment.memsz)
            np.frombuffer(data, "<u4")[(at[inside] // np.uint64(4)).astype(np.int64)] = claims.expected[inside]
    write()
    return out


def _bounds(tools: dict[str, Tool]) -> list[tuple[str, float, float]]:
    """What is bounded, what was measured, and the bound."""
    nm, verify = tools["nm -S"].median, tools["prologue verify"].median
    image, stale = tools["prologue verify --image"], tools["prologue verify --image, stale"]
    result = [
        ("patch / nm", tools["prologue patch --in-place"].median / nm, 1.5),
        ("patch again / nm", tools["prologue patch, again"].median / nm, 1.5),
        ("scan / nm", tools["prologue scan"].median / nm, 2.6),
        ("verify / objdump", verify / tools["objdump -d -j .text"].median, 0.2),
        ("stale image / good image", stale.median / image.median, 1.1),
        ("peak of patch, MB", tools["prologue patch --in-place"].peak, 100),
        ("peak of verify --against, MB", tools["prologue verify --against"].peak, AGAINST_PEAK),
    ]
    result += [
        (f"{_PROBES}, s", tools[_PROBES].median, PROBE_SECONDS),
        (f"peak of {_PROBES.removeprefix('prologue ')}, MB", tools[_PROBES].peak, PROBE_PEAK),
    ]
    if "prologue live overlay, 7.2" in tools:
        overlay, audit = (tools[f"prologue live {what}, 7.2"] for what in ("overlay", "audit"))
        result += [
            ("live overlay, 7.2 / verify, 7.2", overlay.median / tools["prologue verify, 7.2"].median, 2.0),
            ("peak of live overlay, 7.2, MB", overlay.peak, OVERLAY_PEAK),
            ("live audit, 7.2 / verify, 7.2", audit.median / tools["prologue verify, 7.2"].median, 2.0),
            ("peak of live audit, 7.2, MB", audit.peak, OVERLAY_PEAK),
        ]
    peaks = [("peak of " + name.removeprefix("prologue ") + ", MB", tool.peak, VERIFY_PEAK)
             for name, tool in tools.items() if name.startswith("prologue verify") and "--" not in name]  # fmt: skip
    return result + peaks


if __name__ == "__main__":
    sys.exit(main())
