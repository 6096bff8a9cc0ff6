"""Places of one kernel that the plugins must know: where it boots to and from, and what each word of its text is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from prologue.elf.flat import flat_sections
from prologue.elf.payload import is_flat
from prologue.insn.decode import branches, calls_to, matches
from prologue.insn.table import pattern
from prologue.kernel.kernel import Kernel
from prologue_bench.errors import BenchError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from prologue.elf.symbols import Symbol
    from prologue.kernel.sites import Sites

_RAM: Final = 0x40000000  # where RAM begins on QEMU's virt board
_BOOT_STUB: Final = 4096  # QEMU's boot loader lies at the start of RAM if the Image asks for less than this ...
_MOVED: Final = 2 << 20  # ... and the Image this much higher (hw/arm/boot.c, 7.2)
# enum class in plugin/classes.h
_FIRST, _SECOND, _LITERAL, _OTHER = 1, 2, 3, 4
_INIT_MEMORY: Final = 0x80
_RELOCATIONS: Final = (".rela.dyn", ".rela", ".relr.dyn")
# Since 6.9 (arch/arm64/kernel/pi/relocate.c), and before (arch/arm64/kernel/head.S).
_RELOCATE: Final = ("__pi_relocate_kernel", "__relocate_kernel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places of one kernel; virtual addresses are those of a boot without KASLR.

    ``classes`` describes the words from ``text`` on, one byte each. ``base`` is where the Image begins. ``relocation``
    are the start and the end of the code that applies the Image's relocations; both are ``base`` if there is none.
    """

    base: int
    begin: int
    end: int
    freed: int
    relocation: tuple[int, int]
    text: int
    classes: npt.NDArray[np.uint8]
    sites: int


def find_places(kernel: Kernel) -> Places:
    """Look up what the plugin needs, and what each word of the text is.

    Raises:
        BenchError: no sites, or not the symbols of a kernel with ftrace.

    """
    path = kernel.path
    if kernel.sites is None or not len(kernel.sites):
        raise BenchError(f"{path}: has no ftrace sites")
    names = ("start_kernel", "ftrace_init", "free_initmem", "__init_begin", "__init_end")
    symbols = {name: kernel.symbols.find(name) for name in names}
    if absent := [name for name, symbol in symbols.items() if symbol is None]:
        raise BenchError(f"{path}: no symbol {', '.join(absent)}")
    caller, begin, freed, init_begin, init_end = (symbol for symbol in symbols.values() if symbol is not None)
    text = min(section.addr for section in kernel.image.text_sections)
    classes = _classes(kernel, kernel.sites, text)
    given = classes[max(init_begin.vaddr - text, 0) // 4 : max(init_end.vaddr - text, 0) // 4]
    given[given != 0] |= _INIT_MEMORY
    return Places(
        base=image_base(kernel),
        begin=begin.vaddr,
        end=_return_address(kernel, caller, begin),
        freed=freed.vaddr,
        relocation=_relocation(kernel),
        text=text,
        classes=classes,
        sites=len(kernel.sites),
    )


def _relocation(kernel: Kernel) -> tuple[int, int]:
    """Find the function that applies the Image's relocations at boot.

    Raises:
        BenchError: there are relocations and no such function, or it calls another one, which would not be counted.

    """
    if not any(section.size for section in kernel.image.sections if section.name in _RELOCATIONS):
        return (base := image_base(kernel)), base
    symbol = next((symbol for symbol in map(kernel.symbols.find, _RELOCATE) if symbol is not None), None)
    if symbol is None or not symbol.size:
        raise BenchError(f"{kernel.path}: no symbol {' or '.join(_RELOCATE)} with a size")
    words = np.frombuffer(kernel.image.read_at(symbol.vaddr, symbol.size) or b"", "<u4")
    _, targets = branches(words, symbol.vaddr)
    left = (targets < symbol.vaddr) | (targets >= symbol.vaddr + symbol.size)
    if left.any() or matches(words, pattern("BLR")).any() or len(words) != symbol.size // 4:
        raise BenchError(f"{kernel.path}: {symbol.name} calls other functions: its instructions cannot be counted")
    return symbol.vaddr, symbol.vaddr + symbol.size


def _return_address(kernel: Kernel, caller: Symbol, callee: Symbol) -> int:
    """Return the return address of the one call that a function makes to another."""
    body = np.frombuffer(kernel.image.read_at(caller.vaddr, caller.size) or b"", "<u4")
    calls = calls_to(body, caller.vaddr, callee.vaddr)
    if len(calls) != 1:
        raise BenchError(f"{kernel.path}: start_kernel calls ftrace_init {len(calls)} times, not once")
    return caller.vaddr + 4 * int(calls[0]) + 4


def _classes(kernel: Kernel, sites: Sites, low: int) -> npt.NDArray[np.uint8]:
    """Classify each word from ``low`` to the end of the text."""
    high = max(section.addr + section.size for section in kernel.image.text_sections)
    classes = np.zeros((high - low + 3) // 4, np.uint8)
    for section in kernel.image.text_sections:
        classes[(section.addr - low) // 4 : (section.addr + section.size - low + 3) // 4] = _OTHER
    first = ((sites.first - np.uint64(low)) // np.uint64(4)).astype(np.int64)
    classes[first], classes[first + 1] = _FIRST, _SECOND
    if sites.layout == "4,2":
        entry = first - sites.bti
        classes[entry - 2] = classes[entry - 1] = _LITERAL
    return classes


def image_base(kernel: Kernel) -> int:
    """Return the link-time address at which the Image begins.

    Raises:
        BenchError: from there on, the Image does not keep the distances between addresses of text.

    """
    flat = list(flat_sections(kernel.image))
    base = flat[0][1].addr - flat[0][0]
    if any(offset != section.addr - base for offset, section in flat if section in kernel.image.text_sections):
        raise BenchError(f"{kernel.path}: its Image does not keep the distances between addresses")
    return base


def boot_numbers(places: Places, image: Path, init: Path) -> dict[str, int]:
    """Return the numbers for ``plugin/count.c``: of a boot of that Image up to that init.

    Raises:
        BenchError: not a flat arm64 Image.

    """
    from elftools.elf.elffile import ELFFile

    with image.open("rb") as stream:
        load = load_address(stream.read(64))
    with init.open("rb") as stream:
        stop = int(ELFFile(stream)["e_entry"])
    vaddrs = {"begin": places.begin, "end": places.end, "freed": places.freed, "text": places.text}
    vaddrs["relocate"], vaddrs["relocated"] = places.relocation
    return {"load": load, "stop": stop} | {name: vaddr - places.base for name, vaddr in vaddrs.items()}


def load_address(head: bytes) -> int:
    """Return the physical address to which QEMU's virt board loads the Image that begins with ``head``, 64 bytes.

    Raises:
        BenchError: not a flat arm64 Image.

    """
    if not is_flat(head):
        raise BenchError("the kernel does not begin with the header of an arm64 Image")
    text_offset = int.from_bytes(head[8:16], "little")
    return _RAM + text_offset + (_MOVED if text_offset < _BOOT_STUB else 0)
