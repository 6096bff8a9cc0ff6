"""A kernel whose vmlinux is not there, as an ELF file: what memory and kallsyms say of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prologue.live.memory.base import Memory
from prologue.live.system.bare_kernel import BareKernel, read_bare_kernel
from prologue.outputs import new_file, require_other


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaidBare:
    """A file that was written, and what it has."""

    path: Path
    release: str
    build_id: str
    kernel: BareKernel


def overlay_bare(memory: Memory, out: Path) -> OverlaidBare:
    """Write text and symbols of memory at run-time addresses, readable by its owner only: it says where the kernel is.

    Raises:
        InputError: memory has no symbols or no text, or cannot be read.
        OutputError: ``out`` is an input, a link or no regular file, or cannot be written.

    """
    require_other(out, Path(memory.name))
    kernel = read_bare_kernel(memory)
    with new_file(out, mode=0o600) as temporary:
        temporary.write_bytes(kernel.image.content)
    return OverlaidBare(path=out, release=memory.info.release, build_id=memory.info.build_id, kernel=kernel)
