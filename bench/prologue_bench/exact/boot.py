"""Guest instructions and text writes of one boot, counted by a QEMU plugin of ours: ``exact`` evidence.

One CPU under icount, no KASLR, a fixed clock and seed, and an init that powers off at its first instructions: two runs
of one vmlinux then execute the same instructions, and every count is taken twice to show that. NOP and MOV both count
1, so nothing here can say what the MOV costs. What exactly is counted stands in ``plugin/count.c``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from elftools.elf.elffile import ELFFile

from prologue.elf.flat import flat_sections, write_flat
from prologue.elf.payload import is_flat
from prologue.insn import a64
from prologue.insn.decode import calls_to
from prologue.sites.kernel import Kernel
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.exact.build import build_guest, plugin_option
from prologue_bench.guest.initramfs import pack
from prologue_bench.guest.vm import Machine, run_console
from prologue_bench.host.events import tail

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

ONE_CPU: Final = Machine(cpus=1, accel="tcg,thread=single")
_RUNS: Final = 2
_STOP_BASE: Final = 0x400000
LAST_LINES: Final = 25  # of the console, shown when init is never reached: a panic with its trace
_RAM: Final = 0x40000000  # where RAM begins on QEMU's virt board
_BOOT_STUB: Final = 4096  # QEMU's boot loader lies at the start of RAM if the Image asks for less than this ...
_MOVED: Final = 2 << 20  # ... and the Image this much higher (hw/arm/boot.c, 7.2)
# The same time, the same random numbers (device tree, RNDR) in every run; a guest that waits does not wait for us.
_SAME: Final = (
    "-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1",
)  # fmt: skip
# The kernel's self-tests of its crypto draw keys from the timer's bits: deterministic, but tens of millions of
# instructions more or less when anything before them takes one tick longer.
COMMAND_LINE: Final = "console=ttyAMA0 loglevel=4 panic=-1 nokaslr cryptomgr.notests"
# enum class in plugin/count.c
_FIRST, _SECOND, _LITERAL, _OTHER = 1, 2, 3, 4
_INIT_MEMORY: Final = 0x80


@dataclass(frozen=True, slots=True)
class Words:
    """Kernel text written, in 4-byte words; a CALL_OPS literal is two of them. A word written twice counts twice."""

    first: int  # first slots
    second: int  # second slots
    literal: int
    other: int  # alternatives, jump labels, relocated data that lies in text

    @property
    def total(self) -> int:
        """All of them."""
        return self.first + self.second + self.literal + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one boot does, from reset to the first instruction of init.

    ``instructions`` and ``ftrace_init`` are guest instructions, the latter those of ``ftrace_init`` and all that it
    calls; ``words`` and ``ftrace_init_words`` the text written in the same two spans.
    """

    release: str
    layout: str
    sites: int
    instructions: int
    ftrace_init: int
    words: Words
    ftrace_init_words: Words

    @property
    def per_site(self) -> float:
        """Instructions in ``ftrace_init`` for each site."""
        return self.ftrace_init / self.sites


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What the plugin has to know of one kernel; virtual addresses are those of a boot without KASLR.

    ``classes`` describes the words from ``text`` on, one byte each. ``base`` is where the Image begins.
    """

    base: int
    begin: int
    end: int
    freed: int
    text: int
    classes: npt.NDArray[np.uint8]
    sites: int


def count_boot(
    vmlinux: Path, directory: Path, machine: Machine = ONE_CPU, *, append: str = "", timeout: float = 300
) -> Counts:
    """Boot a vmlinux twice and return what both boots counted.

    Args:
        vmlinux: a kernel with sites, processed or not, that can boot on QEMU's virt board with a PL011 console.
        directory: where Image, plugin files and console logs go; the logs and what each run counted stay there.
        machine: CPU and memory; it gets one CPU whatever it says. BTI and PAC kernels want ``max,pauth-impdef=on``.
        append: more words for the kernel's command line.
        timeout: seconds of wall time for one boot.

    Raises:
        BenchError: not a kernel that can be counted, or two runs that differ, or a guest that is not where we think.
        GuestLostError: init is never reached.
        MissingToolError: no QEMU or no compiler.

    """
    kernel = Kernel(vmlinux)
    places = find_places(kernel)
    init = build_guest("stop.S", _STOP_BASE)
    image, initramfs = directory / "Image", directory / "init.cpio"
    initramfs.write_bytes(pack({"init": init.read_bytes()}))
    command = boot_command(image, initramfs, machine, append)
    try:
        write_flat(kernel.image, image)
        numbers = boot_numbers(places, image, init)
        runs = [
            run_plugin(command, numbers, places.classes, stem=directory / f"run-{k}", timeout=timeout)
            for k in range(_RUNS)
        ]
        _require_equal(runs, vmlinux)
        return read_counts(kernel, places, image, runs[0])
    finally:
        image.unlink(missing_ok=True)


def boot_command(image: Path, initramfs: Path, machine: Machine, append: str) -> list[str]:
    """QEMU's command line for a boot on one CPU with nothing random in it."""
    one_cpu = replace(machine, cpus=1, accel=ONE_CPU.accel)
    return one_cpu.command(image, initramfs, f"{COMMAND_LINE} {append}".strip())


def boot_numbers(places: Places, image: Path, init: Path) -> dict[str, int]:
    """Numbers for ``plugin/count.c``: of a boot of that Image up to that init.

    Raises:
        BenchError: not a flat arm64 Image.

    """
    with image.open("rb") as stream:
        load = load_address(stream.read(64))
    with init.open("rb") as stream:
        stop = int(ELFFile(stream)["e_entry"])
    numbers = {"load": load, "begin": places.begin, "end": places.end, "freed": places.freed, "stop": stop}
    return numbers | {"text": load + places.text - places.base}


def read_counts(kernel: Kernel, places: Places, image: Path, seen: dict[str, Any]) -> Counts:
    """What the plugin counted, once it is sure that it looked at the right places.

    Raises:
        BenchError: the guest is not where we think.

    """
    _require_known_places(seen["places"], places, image)
    boot, inside = seen["boot"], seen["ftrace_init"]
    counts = Counts(
        release=kernel.release,
        layout=kernel.layout,
        sites=places.sites,
        instructions=boot["instructions"],
        ftrace_init=inside["instructions"],
        words=_words(boot),
        ftrace_init_words=_words(inside),
    )
    if not counts.words.total:
        raise BenchError(
            f"{image}: no write to kernel text seen, though every arm64 kernel replaces alternatives at boot: "
            "this QEMU's physical addresses are not what we take them for"
        )
    return counts


def _words(span: dict[str, int]) -> Words:
    return Words(**{field.name: span[field.name] for field in fields(Words)})


def _require_equal(runs: list[dict[str, Any]], vmlinux: Path) -> None:
    for span in ("boot", "ftrace_init", "places"):
        for name, value in runs[0][span].items():
            for other in (run[span][name] for run in runs[1:]):
                if other != value:
                    raise BenchError(
                        f"{vmlinux}: two runs differ ({span}, {name}: {value} and {other}): this is no exact evidence"
                    )


def _require_known_places(seen: dict[str, Any], places: Places, image: Path) -> None:
    """Whether the guest's code was where we think, virtually and physically."""
    for name, offset in (("load", 0), ("begin", places.begin - places.base), ("end", places.end - places.base)):
        with image.open("rb") as stream:
            stream.seek(offset)
            word = int.from_bytes(stream.read(4), "little")
        # Dynamic shadow call stacks rewrite this one before the boot gets there.
        words = (word, a64.SCS_PUSH) if word == a64.PACIASP else (word,)
        if seen[name] is None:
            raise BenchError(f"{image}: booted, but never executed what we take for {name}")
        if seen[name]["word"] not in words or seen[name]["offset"] != offset:
            raise BenchError(
                f"{image}: {name} executed {seen[name]['word']:08x} at {seen[name]['offset']:#x} of the Image in "
                f"memory, expected {word:08x} at {offset:#x}"
            )


def load_address(head: bytes) -> int:
    """Physical address to which QEMU's virt board loads the Image that begins with ``head``, 64 bytes.

    Raises:
        BenchError: not a flat arm64 Image.

    """
    if not is_flat(head):
        raise BenchError("the kernel does not begin with the header of an arm64 Image")
    text_offset = int.from_bytes(head[8:16], "little")
    return _RAM + text_offset + (_MOVED if text_offset < _BOOT_STUB else 0)


def find_places(kernel: Kernel) -> Places:
    """Look up what the plugin needs, and what each word of the text is.

    Raises:
        BenchError: no sites, or not the symbols of a kernel with ftrace.

    """
    sites, path = kernel.sites, kernel.path
    if sites is None or not len(sites):
        raise BenchError(f"{path}: has no ftrace sites")
    names = ("start_kernel", "ftrace_init", "free_initmem", "__init_begin", "__init_end")
    found = {name: kernel.symbols.find(name) for name in names}
    absent = [name for name, symbol in found.items() if symbol is None]
    if absent:
        raise BenchError(f"{path}: no symbol {', '.join(absent)}")
    caller, begin, freed, init_begin, init_end = (symbol for symbol in found.values() if symbol is not None)
    body = np.frombuffer(kernel.image.read_at(caller.vaddr, caller.size) or b"", "<u4")
    calls = calls_to(body, caller.vaddr, begin.vaddr)
    if len(calls) != 1:
        raise BenchError(f"{path}: start_kernel calls ftrace_init {len(calls)} times, not once")
    end = caller.vaddr + 4 * int(calls[0]) + 4

    text = sorted(kernel.image.text_sections, key=lambda section: section.addr)
    low, high = text[0].addr, max(section.addr + section.size for section in text)
    classes = np.zeros((high - low + 3) // 4, np.uint8)
    for section in text:
        classes[(section.addr - low) // 4 : (section.addr + section.size - low + 3) // 4] = _OTHER
    first = ((sites.first - np.uint64(low)) // np.uint64(4)).astype(np.int64)
    classes[first], classes[first + 1] = _FIRST, _SECOND
    if sites.layout == "4,2":
        entry = first - sites.bti
        classes[entry - 2] = classes[entry - 1] = _LITERAL
    given = classes[max(init_begin.vaddr - low, 0) // 4 : max(init_end.vaddr - low, 0) // 4]
    given[given != 0] |= _INIT_MEMORY

    flat = list(flat_sections(kernel.image))
    base = flat[0][1].addr - flat[0][0]
    if any(offset != section.addr - base for offset, section in flat if section in text):
        raise BenchError(f"{path}: its Image does not keep the distances between addresses")
    return Places(base=base, begin=begin.vaddr, end=end, freed=freed.vaddr, text=low, classes=classes, sites=len(sites))


def run_plugin(
    command: list[str], numbers: dict[str, int], classes: npt.NDArray[np.uint8], *, stem: Path, timeout: float
) -> dict[str, Any]:
    """Run a QEMU command under icount with ``plugin/count.c`` and return what it wrote.

    ``numbers`` are the plugin's arguments; files that begin with ``stem`` are made.

    Raises:
        GuestLostError: ``stop`` was never reached.

    """
    table, out, log = (stem.with_name(stem.name + suffix) for suffix in (".classes", ".json", ".log"))
    out.unlink(missing_ok=True)
    option = plugin_option("count", numbers, table, out)
    try:
        table.write_bytes(classes.tobytes())
        lines, seconds, ended = run_console([*command, *_SAME, *option], log, timeout)
    finally:
        table.unlink(missing_ok=True)
    result: dict[str, Any] | None = json.loads(out.read_text()) if out.exists() else None
    if result is None or result["places"]["stop"] is None:
        end = f"the machine ended after {seconds:.0f} s" if ended else f"stopped after {timeout:.0f} s"
        seen = [name for name, place in (result or {"places": {}})["places"].items() if place is not None]
        reached = f", reached only {', '.join(seen)}" if seen else ""
        raise GuestLostError(
            f"init was never reached: {end}{reached}; console in {log}, its end:\n  {tail(lines, LAST_LINES)}"
        )
    return result
