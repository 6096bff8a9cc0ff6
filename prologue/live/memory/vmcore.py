"""Dumps of a whole machine's memory, by drgn: it walks the kernel's page tables, and reads compressed dumps.

ELF dumps of kdump, of QEMU's ``dump-guest-memory`` and of libvirt; kdump-compressed ones of makedumpfile. What the page
tables do not map (freed init text) is not there, although the dump has some page at its old place.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.elf.files import open_regular
from prologue.errors import InputError, PrologueError
from prologue.installation import check_installation, how_to_install
from prologue.live.memory.base import KernelInfo, read_vmcoreinfo
from prologue.live.memory.core import CoreFile, kernel_pcs, walk_notes
from prologue.live.memory.kdump import FLATTENED, MAGIC, CompressedDump
from prologue.live.memory.ranges import Range, UnmappedError
from prologue.live.memory.state import KernelState, KernelTask, LoadedModule

if TYPE_CHECKING:
    from prologue.live.memory.processes import DumpedProcess

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
        compressed = CompressedDump(path) if core is None else None
        self._compressed = compressed if compressed is not None and _needs_ours(compressed) else None
        noted = core.note("VMCOREINFO") if core is not None else compressed.vmcoreinfo if compressed else None
        if noted:
            self._program = self._open(noted)
            self.info = read_vmcoreinfo(noted, self.name)
        else:
            notes = core.notes if core is not None else walk_notes(compressed.notes) if compressed else ()
            self._program, self.info = self._open_by_scan(kernel_pcs(notes))

    def _open(self, vmcoreinfo: bytes) -> Any:
        drgn = self._drgn
        # Without a platform drgn asks the notes of the CPUs, which not every dump has.
        try:
            program = drgn.Program(drgn.Platform(drgn.Architecture.AARCH64), vmcoreinfo=vmcoreinfo)
            if self._compressed is None:
                program.set_core_dump(str(self._path))
            else:
                for piece in self._compressed.ranges:
                    program.add_memory_segment(*piece, self._read_compressed, physical=True)
                program.set_linux_kernel_custom(vmcoreinfo, is_live=False)
        except Exception as error:  # drgn raises plain Exception for what its libraries say
            raise InputError(f"drgn cannot read it: {_first_line(error)}", path=self.name) from error
        return program

    def _read_compressed(self, paddr: int, size: int, _offset: int, _physical: bool) -> bytes:
        assert self._compressed is not None  # noqa: S101 - only then drgn calls this
        return self._compressed.read(paddr, size)

    def _open_by_scan(self, pcs: tuple[int, ...]) -> tuple[Any, KernelInfo]:
        """Find VMCOREINFO in memory; kernels that were there before may have left others, and their page tables.

        The tables of the one that runs map all code that CPUs execute (``pcs``).
        """
        seen, mapped = set(), list[tuple[Any, KernelInfo]]()
        memories: Iterable[bytes | mmap.mmap] = (
            _mapped(self._path) if self._compressed is None else self._compressed.blocks
        )
        for text in chain.from_iterable(map(_texts, memories)):  # it lies in one page, and so in one block
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
        self._load_types(vmlinux, "modules")
        try:
            modules = tuple(
                sorted(_loaded(module) for module, _ in self._program.loaded_modules() if _is_loadable(module))
            )
        except (self._drgn.MissingDebugInfoError, LookupError, self._drgn.FaultError) as error:
            reason = f"modules cannot be found ({_first_line(error)}): needs the vmlinux with its DWARF"
            raise InputError(reason, path=self.name) from error
        return KernelState(release=self.info.release, boot_id="", modules=modules, symbols=(), kprobes=())

    def tasks(self, vmlinux: Path) -> tuple[KernelTask, ...]:
        """Return every task that there was.

        Raises:
            InputError: the vmlinux has no DWARF, or the list of tasks cannot be read.

        """
        from drgn.helpers.linux.pid import for_each_task

        self._load_types(vmlinux, "tasks")
        try:
            return tuple(
                KernelTask(
                    int(task.pid),
                    int(task.tgid),
                    task.comm.string_().decode(errors="replace"),
                    int(task.real_parent.tgid),
                )
                for task in for_each_task(self._program)
            )
        except (LookupError, ValueError, self._drgn.FaultError) as error:
            raise InputError(f"tasks cannot be found ({_first_line(error)})", path=self.name) from error

    def processes(self, vmlinux: Path) -> dict[int, DumpedProcess]:
        """Return the code of every process of 64 bits that there was, by its number.

        Raises:
            InputError: the vmlinux has no DWARF, or what processes have mapped cannot be read.

        """
        from prologue.live.memory.processes import read_processes

        self._load_types(vmlinux, "processes")
        try:
            return read_processes(self._program)
        except (AttributeError, LookupError, ValueError, self._drgn.FaultError) as error:
            check_installation()
            raise InputError(f"maps of processes cannot be read ({_first_line(error)})", path=self.name) from error

    def _load_types(self, vmlinux: Path, wanted: str) -> None:
        try:
            self._program.load_debug_info([str(vmlinux)])
            _ = self._program["modules"]  # without DWARF it finds none, and says nothing
        except (self._drgn.MissingDebugInfoError, LookupError, self._drgn.FaultError) as error:
            reason = f"{wanted} cannot be found ({_first_line(error)}): needs the vmlinux with its DWARF"
            raise InputError(reason, path=self.name) from error


def _import_drgn(name: str) -> Any:
    try:
        import drgn
    except ImportError as error:
        raise InputError(
            f"dumps of a machine's memory are read by drgn: {how_to_install('live', 'drgn')}", path=name
        ) from error
    # It complains of flattened dumps on standard error; they are slower, nothing else.
    logging.getLogger("drgn").setLevel(logging.ERROR)
    return drgn


def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with open_regular(path) as (fd, _), mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        yield data


def _texts(data: bytes | mmap.mmap) -> Iterator[bytes]:
    """Find every text in memory that looks like VMCOREINFO."""
    at = data.find(_BEGIN)
    while at >= 0:
        text = data[at : at + _LONGEST].partition(b"\0")[0]
        if all(key in text for key in _NEEDED):
            yield text
        at = data.find(_BEGIN, at + 1)


def _needs_ours(dump: CompressedDump) -> bool:
    """Return whether we read the blocks: libkdumpfile maps the file, and damage kills the process (SIGBUS).

    It alone knows LZO and snappy, and finds memory only if blocks are the kernel's pages.
    """
    return dump.is_known or f"\nPAGESIZE={dump.block}\n".encode() not in dump.vmcoreinfo


def _is_loadable(module: Any) -> bool:
    """Return whether it is a module and not the kernel itself."""
    return hasattr(module, "section_addresses")


def _loaded(module: Any) -> LoadedModule:
    ranges = sorted(module.address_ranges or [])
    base = ranges[0][0] if ranges else 0
    return LoadedModule(module.name, sum(end - start for start, end in ranges), base, dict(module.section_addresses))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
