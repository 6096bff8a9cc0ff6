"""Processes in a dump: the files that they have mapped as code, and the words that are there in memory (drgn)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import drgn
from drgn.helpers.linux.fs import d_path, inode_for_each_page
from drgn.helpers.linux.mm import access_remote_vm, for_each_vma, page_to_virt
from drgn.helpers.linux.pid import for_each_task

from prologue.elf.notes import build_id_in_head
from prologue.perf.address_spaces import FileMap

_VM_EXEC: Final = 4  # include/linux/mm.h, 6.12
_END_32: Final = 1 << 32  # TASK_SIZE of a program of 32 bits is at most that (arch/arm64/include/asm/processor.h, 6.12)


@dataclass(frozen=True, slots=True)
class DumpedProcess:
    """A process in a dump: its maps of files, and its ``mm``, through which memory is read."""

    maps: tuple[FileMap, ...]
    _mm: Any

    def read(self, vaddr: int, size: int) -> bytes | None:
        """Read memory of the process; None if some of it is not there."""
        try:
            return bytes(access_remote_vm(self._mm, vaddr, size))
        except drgn.FaultError:
            return None


def read_processes(program: Any) -> dict[int, DumpedProcess]:
    """Read all processes of 64 bits, by number; kernel threads, and what ended, have no memory of their own.

    Args:
        program: drgn's, of the dump, with the kernel's types.

    Raises:
        LookupError, drgn.FaultError: a list of the kernel cannot be read.

    """
    processes, build_ids = dict[int, DumpedProcess](), dict[int, str]()
    for task in for_each_task(program):
        pid, mm = int(task.tgid), task.mm.read_()
        if pid not in processes and mm and int(mm.task_size) > _END_32:
            processes[pid] = DumpedProcess(tuple(_maps(mm, build_ids)), mm)
    return processes


def _maps(mm: Any, build_ids: dict[int, str]) -> Iterator[FileMap]:
    """Yield what is mapped executable of files; ``build_ids`` has those of inodes that are known already."""
    page = int(mm.prog_["PAGE_SIZE"])
    for vma in for_each_vma(mm):
        if not int(vma.vm_flags) & _VM_EXEC or not vma.vm_file:
            continue
        inode = vma.vm_file.f_inode
        if inode.value_() not in build_ids:
            build_ids[inode.value_()] = build_id_in_head(_first_page(inode))
        path = vma.vm_file.f_path
        unlinked = not path.dentry.d_hash.pprev and path.dentry != path.dentry.d_parent
        mapped = FileMap(
            start=int(vma.vm_start),
            end=int(vma.vm_end),
            offset=int(vma.vm_pgoff) * page,
            # As the kernel names it to perf (d_path, fs/d_path.c, 6.12).
            path=bytes(d_path(path)).decode(errors="replace") + " (deleted)" * bool(unlinked),
            build_id=build_ids[inode.value_()],
        )
        if mapped.is_file:
            yield mapped


def _first_page(inode: Any) -> bytes:
    """Read the first page of a file from the page cache; empty if it is not there."""
    for index, page in inode_for_each_page(inode):
        if index == 0:
            try:
                return bytes(inode.prog_.read(page_to_virt(page).value_(), int(inode.prog_["PAGE_SIZE"])))
            except drgn.FaultError:
                break
        break
    return b""
