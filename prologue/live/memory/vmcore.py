"""Dumps of a whole machine's memory, by drgn: it walks the kernel's page tables, and reads compressed dumps.

ELF dumps of kdump, of QEMU's ``dump-guest-memory`` and of libvirt; kdump-compressed ones of makedumpfile. What the page
tables do not map (freed init text) is not there, although the dump has some page at its old place.

Headers of compressed dumps are checked before libkdumpfile, by which drgn reads them, maps the file: it dies of SIGBUS
where a block is not in the file, and finds no memory where blocks are not the kernel's pages. Headers and page
descriptors are those of makedumpfile (its ``IMPLEMENTATION``, "The kdump-compressed format", and ``diskdump_mod.h``).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from prologue.elf.files import open_regular
from prologue.errors import InputError, PrologueError
from prologue.installation import check_installation, how_to_install
from prologue.live.memory.base import KernelInfo, read_vmcoreinfo
from prologue.live.memory.core import CoreFile, kernel_pcs
from prologue.live.memory.ranges import Range, UnmappedError
from prologue.live.memory.state import KernelState, KernelTask, LoadedModule

if TYPE_CHECKING:
    from prologue.live.memory.processes import DumpedProcess

MAGIC: Final = b"KDUMP   "
FLATTENED: Final = b"makedumpfile\0\0\0\0"
# Of struct disk_dump_header, from block_size on: block_size, sub_hdr_size, bitmap_blocks.
_SIZES_AT, _SIZES = 428, struct.Struct("<III")
# Of kdump_sub_header: whether pages are in several files; offset and size of VMCOREINFO.
_SPLIT_AT, _INFO_AT, _SPAN = 12, 32, struct.Struct("<QQ")
_PAGE: Final = np.dtype([("offset", "<u8"), ("size", "<u4"), ("flags", "<u4"), ("page_flags", "<u8")])
_LARGEST: Final = 1 << 20  # bytes of a block
_AS_ELF: Final = "dump it as ELF (QEMU: dump-guest-memory without -z; libvirt: --format elf)"


def read_kdump_header(path: Path) -> bytes:
    """Check that a dump is whole, and that its blocks are the kernel's pages; return its VMCOREINFO.

    Raises:
        InputError: it is flattened, split, damaged or cut off, has no VMCOREINFO, or other blocks, as those of QEMU.

    """
    with open_regular(path) as (fd, _), mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        if data[:16] == FLATTENED:
            raise InputError(f"is flattened: first run `makedumpfile -R NEW <{path.name}`, or {_AS_ELF}", path=path)
        block, subs, bitmaps = _SIZES.unpack(_part(data, _SIZES_AT, _SIZES.size, path))
        if not 0 < block <= _LARGEST or subs * block > len(data):
            raise InputError(f"damaged dump: blocks of {block} bytes", path=path)
        if any(_part(data, block + _SPLIT_AT, 4, path)):
            raise InputError("is one file of a split dump: join them with makedumpfile --reassemble", path=path)
        at, size = _SPAN.unpack(_part(data, block + _INFO_AT, _SPAN.size, path))
        info = _part(data, at, size, path)
        if f"\nPAGESIZE={block}\n".encode() not in info:
            what = f"has no VMCOREINFO, or blocks of {block:,} bytes, which are not the kernel's pages"
            raise InputError(f"{what}: {_AS_ELF}", path=path)
        half = bitmaps * block // 2
        count = int.from_bytes(_part(data, (1 + subs) * block + half, half, path), "little").bit_count()
        pages = np.frombuffer(_part(data, (1 + subs + bitmaps) * block, count * _PAGE.itemsize, path), _PAGE)
        room, start = len(data), pages["offset"]
        beyond = int(((start > room) | (pages["size"] > room - np.minimum(start, room))).sum())
        if beyond:
            raise InputError(f"{beyond:,} of its {count:,} blocks are not in the file: truncated", path=path)
        return info


def _part(data: mmap.mmap, offset: int, size: int, path: Path) -> bytes:
    part = data[offset : offset + size]
    if len(part) < size:
        raise InputError(f"{len(part)} of {size} bytes at {offset:#x} of the dump: truncated", path=path)
    return part


KDUMP_MAGICS: Final = (MAGIC, FLATTENED)
"""First bytes of a kdump-compressed dump, and of a flattened one (makedumpfile's ``diskdump_mod.h``, its README)."""

_NO_VMCOREINFO: Final = "no VMCOREINFO in this dump: the kernel needs CONFIG_VMCORE_INFO (6.1: CRASH_CORE)"
_BEGIN: Final = b"OSRELEASE="
_NEEDED: Final = (b"\nKERNELOFFSET=", b"\nSYMBOL(swapper_pg_dir)=", b"\nSYMBOL(_stext)=")
_LONGEST: Final = 1 << 14  # VMCOREINFO_BYTES is a page; pages have up to 64 KiB, the text has some 3 KiB


class Vmcore:
    """A dump.

    Args:
        path: the file.
        core: its headers, if it is an ELF core; None if it is compressed.

    Raises:
        InputError: drgn is not installed or cannot read it, or there is no VMCOREINFO.

    """

    live = False

    def __init__(self, path: Path, core: CoreFile | None) -> None:
        self.name = str(path)
        self._path = path
        self._drgn = _import_drgn(self.name)
        noted = read_kdump_header(path) if core is None else core.note("VMCOREINFO")
        if noted:
            self._program = self._open(noted)
            self.info = read_vmcoreinfo(noted, self.name)
        else:
            self._program, self.info = self._open_by_scan(kernel_pcs(core.notes if core is not None else ()))

    def _open(self, vmcoreinfo: bytes) -> Any:
        drgn = self._drgn
        # Without a platform drgn asks the notes of the CPUs, which not every dump has.
        try:
            program = drgn.Program(drgn.Platform(drgn.Architecture.AARCH64), vmcoreinfo=vmcoreinfo)
            program.set_core_dump(str(self._path))
        except Exception as error:  # drgn raises plain Exception for what its libraries say
            raise InputError(f"drgn cannot read it: {_first_line(error)}", path=self.name) from error
        return program

    def _open_by_scan(self, pcs: tuple[int, ...]) -> tuple[Any, KernelInfo]:
        """Find VMCOREINFO in memory; kernels that were there before may have left others, and their page tables.

        The tables of the one that runs map all code that CPUs execute (``pcs``).
        """
        seen, mapped = set(), list[tuple[Any, KernelInfo]]()
        for text in _texts(self._path):
            if text in seen:
                continue
            seen.add(text)
            try:
                info, program = read_vmcoreinfo(text, self.name), self._open(text)
                program.read(info.anchors["_stext"], 4)
                mapped.append((program, info))
                for pc in pcs:
                    program.read(pc, 4)
            except Exception:  # noqa: S112 - as in _open; the next text may be the right one
                continue
            return program, info
        if mapped:
            return mapped[0]
        check_installation()
        raise InputError(_NO_VMCOREINFO, path=self.name)

    def read(self, vaddr: int, size: int) -> bytes:
        """Read memory at the time of the dump."""
        try:
            return bytes(self._program.read(vaddr, size))
        except self._drgn.FaultError as error:
            raise UnmappedError(f"no memory at {vaddr:#x}-{vaddr + size:#x}: {error}", path=self.name) from error
        except PrologueError:
            raise
        except Exception as error:  # as in _open; what libkdumpfile says of damage need not even be text
            reason = "" if isinstance(error, UnicodeDecodeError) else f": {_first_line(error)}"
            raise InputError(f"drgn cannot read {vaddr:#x}-{vaddr + size:#x}{reason}", path=self.name) from error

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Read several ranges, one after the other."""
        return [self.read(*piece) for piece in ranges]

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and their sections: drgn walks the kernel's list, and needs the DWARF for that."""
        if vmlinux is None:
            raise InputError("a dump needs its vmlinux to be searched for modules", path=self.name)
        with self._looking_for("modules", vmlinux):
            loaded = (module for module, _ in self._program.loaded_modules())
            # The kernel itself has no addresses of sections.
            modules = tuple(sorted(_loaded(module) for module in loaded if hasattr(module, "section_addresses")))
        return KernelState(release=self.info.release, boot_id="", modules=modules, symbols=(), kprobes=())

    def tasks(self, vmlinux: Path) -> tuple[KernelTask, ...]:
        """Return every task that there was.

        Raises:
            InputError: the vmlinux has no DWARF, or the list of tasks cannot be read.

        """
        from drgn.helpers.linux.pid import for_each_task

        with self._looking_for("tasks", vmlinux):
            return tuple(
                KernelTask(
                    int(task.pid), int(task.tgid), task.comm.string_().decode(errors="replace"),
                    int(task.real_parent.tgid),
                )
                for task in for_each_task(self._program)
            )  # fmt: skip

    def processes(self, vmlinux: Path) -> dict[int, DumpedProcess]:
        """Return the code of every process of 64 bits that there was, by its number.

        Raises:
            InputError: the vmlinux has no DWARF, or what processes have mapped cannot be read.

        """
        from prologue.live.memory.processes import read_processes

        with self._looking_for("maps of processes", vmlinux):
            return read_processes(self._program)

    @contextmanager
    def _looking_for(self, wanted: str, vmlinux: Path) -> Iterator[None]:
        """Load the kernel's types, and say of what cannot be found that it may be for lack of those."""
        try:
            self._program.load_debug_info([str(vmlinux)])
            _ = self._program["modules"]  # without DWARF it finds none, and says nothing
            yield
        except (
            self._drgn.MissingDebugInfoError,
            LookupError,
            ValueError,
            AttributeError,
            self._drgn.FaultError,
        ) as error:
            check_installation()
            reason = f"{wanted} cannot be found ({_first_line(error)}): needs the vmlinux with its DWARF"
            raise InputError(reason, path=self.name) from error


def _import_drgn(name: str) -> Any:
    os.environ.setdefault("DRGN_DISABLE_PLUGINS", "*")  # those of its command line take a third of a second
    try:
        import drgn
    except ImportError as error:
        raise InputError(
            f"dumps of a machine's memory are read by drgn: {how_to_install('live', 'drgn')}", path=name
        ) from error
    return drgn


def _texts(path: Path) -> Iterator[bytes]:
    """Find every text in a dump that looks like VMCOREINFO."""
    with open_regular(path) as (fd, _), mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_BEGIN)
        while at >= 0:
            text = data[at : at + _LONGEST].partition(b"\0")[0]
            if all(key in text for key in _NEEDED):
                yield text
            at = data.find(_BEGIN, at + 1)


def _loaded(module: Any) -> LoadedModule:
    ranges = sorted(module.address_ranges or [])
    base = ranges[0][0] if ranges else 0
    return LoadedModule(module.name, sum(end - start for start, end in ranges), base, dict(module.section_addresses))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
