"""Records every write to kernel text of one run in QEMU, from reset to power-off, by a plugin of ours.

``plugin/writes.c`` says what is seen and how. Any number of CPUs, each in a thread of its own; KASLR as QEMU has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from prologue.documents import parse_json
from prologue.elf.flat import flat_sections
from prologue.insn import a64
from prologue.insn.decode import branches
from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recording import CAPABILITIES, WRITE, Capability, Header, Trailer
from prologue.live.pokes.recording_file import recording_file
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.build import build_plugin
from prologue_bench.exact.places import image_base, load_address
from prologue_bench.exact.seen import AddressNames, PluginReport, completed
from prologue_bench.guest.vm import Machine, qemu_value, qemu_version, run_console
from prologue_bench.host.events import WITH_TRACE, console_end

if TYPE_CHECKING:
    from pathlib import Path

_AT_ONCE: Final = 1 << 15  # rows that are converted at a time
# Functions that write and then flush: a write's maintenance is what comes before they return. Names of 5.5 to 7.2,
# arch/arm64/kernel/{patching,insn,alternative}.c, arch/arm64/net/bpf_jit_comp.c.
_WRITERS: Final = (
    "aarch64_insn_patch_text_nosync", "aarch64_insn_write_literal_u64", "aarch64_insn_copy", "aarch64_insn_set",
    "__text_poke", "aarch64_insn_write", "__aarch64_insn_write", "__apply_alternatives", "apply_alternatives_all",
    "apply_alternatives_module",
    "aarch64_insn_write_literals_u64", "arch_ftrace_make_records",  # with our patch
)  # fmt: skip
# Where exceptions are taken to (arch/arm64/kernel/entry.S, 5.5 to 7.3): that synchronises a CPU.
_VECTORS: Final = ("vectors", "tramp_vectors", "__bp_harden_el1_vectors")
_PLACES: Final = (
    "swapper_pg_dir", "multi_cpu_stop", "modules", "_stext", "_end", "free_initmem", "__init_begin", "__init_end",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesRun:
    """A run to make: a flat Image of ``vmlinux``, an initramfs, words for the kernel's command line, a machine."""

    vmlinux: Path
    image: Path
    initramfs: Path
    append: str
    machine: Machine
    timeout: float  # seconds of wall time for everything


def record_writes(run: WritesRun, out: Path, directory: Path, log: Path) -> PluginReport:
    """Boot, wait for the power-off, and write the recording to ``out``.

    ``directory`` is for what the plugin writes; ``log`` gets the console.

    Raises:
        BenchError: not a kernel that can be recorded.
        GuestLostError: no power-off within the time.
        OutputError: ``out`` cannot be written.

    """
    kernel = Kernel(run.vmlinux)
    plugin = WritesPlugin(kernel, run.image, run.machine, directory)
    command = [*run.machine.command(run.image, run.initramfs, run.append), *plugin.options()]
    try:
        lines, seconds, ended = run_console(command, log, run.timeout)
        if not ended or not plugin.has_ended():
            problem = f"ended after {seconds:.0f} s without a word of the plugin" if ended else "no power-off within "
            problem += "" if ended else f"{run.timeout:.0f} s"
            raise GuestLostError(f"guest lost: {problem}; {console_end(lines, log, WITH_TRACE)}")
        return plugin.convert(out)
    finally:
        plugin.remove()


class WritesPlugin:
    """``plugin/writes.c`` in a machine: how it is started, and the recording that is made of its rows.

    ``nanoseconds``: times are those of this machine's monotonic clock, as in recordings of executed instructions.
    """

    def __init__(
        self, kernel: Kernel, image: Path, machine: Machine, directory: Path, *, nanoseconds: bool = False
    ) -> None:
        self._kernel, self._image, self._machine = kernel, image, machine
        self._rows, self._said = directory / "rows", directory / "said"
        self._clock: Literal["instructions", "ns"] = "ns" if nanoseconds else "instructions"
        self._said.unlink(missing_ok=True)

    def options(self) -> list[str]:
        """Return QEMU's options.

        Raises:
            BenchError: not a kernel that can be recorded.

        """
        words = [qemu_value(build_plugin("writes")), *plugin_numbers(self._kernel, self._image, self._machine)]
        words += [f"rows={qemu_value(self._rows)}", f"out={qemu_value(self._said)}", f"ns={self._clock == 'ns':d}"]
        return ["-plugin", ",".join(words)]

    def has_ended(self) -> bool:
        """Return whether the machine ended in order, so that the plugin said what it saw."""
        return self._said.exists()

    def convert(self, out: Path) -> PluginReport:
        """Write the recording.

        Raises:
            OutputError: ``out`` cannot be written.

        """
        seen = PluginReport.read(parse_json(self._said.read_text()), self._kernel, self._image)
        self._write(seen, out)
        return seen

    def _write(self, seen: PluginReport, out: Path) -> None:
        """Write the recording: addresses of the Image's words, and the names of all functions that rows name."""
        version = qemu_version()
        origin = Header(
            source=f"QEMU {version}, plugin",
            machine="aarch64",
            clock=self._clock,
            sees=self._sights(),
            release=self._kernel.release,
            build_id=self._kernel.build_id,
            cpus=self._machine.cpus,
        )
        raw = np.memmap(self._rows, WRITE, "r") if self._rows.stat().st_size else np.zeros(0, WRITE)
        with recording_file(out, origin) as writer:
            names = AddressNames(self._kernel, seen)
            for start in range(0, len(raw), _AT_ONCE):
                writer.add(completed(raw[start : start + _AT_ONCE], seen, names))
            writer.end(
                Trailer(
                    slide=seen.slide,
                    functions=names.used(),
                    lost=seen.losses(),
                    notes=seen.notes(),
                    ctr=seen.ctr,
                )
            )

    def _sights(self) -> tuple[Capability, ...]:
        vectors = self._kernel.symbols.find(_VECTORS[0])
        hidden = {"unreachable"} if vectors is not None and vectors.size else {"unreachable", "first_runs"}
        return tuple(sight for sight in CAPABILITIES if sight not in hidden)

    def remove(self) -> None:
        """Remove what the plugin wrote."""
        self._rows.unlink(missing_ok=True)
        self._said.unlink(missing_ok=True)


def plugin_numbers(kernel: Kernel, image: Path, machine: Machine) -> list[str]:
    """Return the plugin's arguments that say what and where the kernel is.

    Raises:
        BenchError: a symbol that it needs is not there, or the Image is not this kernel's.

    """
    base, head = image_base(kernel), require_image(kernel, image)
    places = {name: kernel.symbols.find(name) for name in _PLACES}
    if absent := [name for name, place in places.items() if place is None]:
        raise BenchError(f"{kernel.path}: no symbol {', '.join(absent)}")
    offset = {name: place.vaddr - base for name, place in places.items() if place is not None}
    ctr, graph = kernel.symbols.find("arm64_ftr_reg_ctrel0"), kernel.symbols.find("return_to_handler")
    numbers = {
        "load": load_address(head), "ram": machine.memory << 20, "size": offset["_end"], "page": page_bits(head),
        "root": offset["swapper_pg_dir"], "modules": offset["modules"], "freed": offset["free_initmem"],
        "stext": offset["_stext"],
        # struct arm64_ftr_reg (arch/arm64/include/asm/cpufeature.h, 5.5 to 7.2): sys_val after a pointer and two masks
        "ctr": ctr.vaddr - base + 24 if ctr else 0,
        "graph": graph.vaddr - base if graph else 0,
    }  # fmt: skip
    ranges = [("text", section.addr, section.size) for section in kernel.image.text_sections]
    for kind, names in (("writer", _WRITERS), ("vectors", _VECTORS)):
        symbols = [kernel.symbols.find(name) for name in names]
        ranges += [(kind, symbol.vaddr, symbol.size) for symbol in symbols if symbol is not None and symbol.size]
    ranges += [("stop", stop.vaddr, stop.size) for stop in (places["multi_cpu_stop"],) if stop is not None]
    _require_returns(kernel, *ranges[-1][1:])
    ranges.append(("init", base + offset["__init_begin"], offset["__init_end"] - offset["__init_begin"]))
    words = [f"{name}={value:x}" for name, value in numbers.items()]
    return words + [f"{name}={start - base:x}:{start - base + size:x}" for name, start, size in ranges]


def _require_returns(kernel: Kernel, start: int, size: int) -> None:
    """Check that a function is left by its RETs only: the plugin looks at these.

    Raises:
        BenchError: it is not.

    """
    words = np.frombuffer(kernel.image.read_at(start, size) or b"", "<u4")
    sources, targets = branches(words, start)
    outside = (targets < start) | (targets >= start + size)
    calls = words[sources] >> np.uint32(26) == np.uint32(0b100101)
    if a64.RET not in words.tolist() or (outside & ~calls).any():
        raise BenchError(f"{kernel.path}: multi_cpu_stop is not left by RET alone: stop_machine cannot be followed")


def require_image(kernel: Kernel, image: Path) -> bytes:
    """Return the first 64 bytes of the flat Image that was made of a kernel.

    Raises:
        BenchError: it is not flat, or another kernel's.

    """
    try:
        with image.open("rb") as stream:
            head = stream.read(64)
            load_address(head)
            for offset, section in flat_sections(kernel.image):
                if section.name == ".notes":
                    stream.seek(offset)
                    if stream.read(section.size) != kernel.image.data(section):
                        raise BenchError(f"is not the Image of {kernel.path}: another build-id")
    except OSError as error:
        raise BenchError(f"{image}: cannot be read: {error.strerror}") from error
    except BenchError as error:
        raise BenchError(f"{image}: {error.message}") from error
    return head


def page_bits(head: bytes) -> int:
    """Return the bits of a page's size: bits 1 and 2 of the Image's flags (Documentation/arch/arm64/booting.rst)."""
    granule = head[24] >> 1 & 3
    return {1: 12, 2: 14, 3: 16}.get(granule, 12)
