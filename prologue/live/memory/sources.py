"""Opens whatever a user names as the memory of a kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import NOTE, Capture
from prologue.live.memory.core import NO_PADDR, CoreFile, PlainCore, core_of, open_core
from prologue.live.memory.kcore import KCORE, Kcore, RemoteKcore
from prologue.live.memory.perf import PerfData
from prologue.live.memory.vmcore import KDUMP_MAGICS, Vmcore


def open_kcore(source: str, ssh_options: Sequence[str] = (), patience: int | None = None) -> Kcore | RemoteKcore:
    """Open the kernel that runs here (``/proc/kcore``) or at ``ssh:HOST``, which may be silent ``patience`` seconds.

    Raises:
        InputError: it is neither, or cannot be read.

    """
    if source.startswith("ssh:"):
        return RemoteKcore(source.removeprefix("ssh:"), ssh_options, patience)
    if source == KCORE:
        return Kcore()
    raise InputError(f"is not a running kernel: expected {KCORE} or {_host_meant(source)}", path=source)


def open_memory(source: str, ssh_options: Sequence[str] = (), patience: int | None = None) -> Memory:
    """Open a running kernel, perf's data or its ``kcore_dir``, a capture, a dump, or a copy of kcore.

    Raises:
        InputError: it is none of these, is damaged, or cannot be read.

    """
    if source.startswith("ssh:") or source == KCORE:
        return open_kcore(source, ssh_options, patience)
    path = Path(source)
    if "@" in source and not path.exists():
        raise InputError(f"there is no such file: a machine is named as {_host_meant(source)}", path=source)
    if path.is_dir():
        return PerfData(_kcore_dir(path))
    with open_regular(path) as (fd, _):
        head = os.pread(fd, 64, 0)
    if head.startswith(KDUMP_MAGICS):
        return Vmcore(path, None)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        from prologue.elf.compressed import decompress

        content = decompress(path.read_bytes(), path)
        return _of_core(path, core_of(source, content, len(content)))
    return _of_core(path, open_core(path))


def _host_meant(source: str) -> str:
    """Write the form of a machine's name, which a source without ``ssh:`` may have meant."""
    return f"ssh:{source}" if "@" in source else "ssh:HOST"


def _of_core(path: Path, core: CoreFile) -> Memory:
    if core.note(NOTE) is not None:
        return Capture(core)
    # Every segment of a machine's whole memory has its physical address; vmalloc has none.
    everything = core.note("VMCOREINFO") is not None and all(segment.paddr != NO_PADDR for segment in core.loads)
    return Vmcore(path, core) if everything or not core.is_virtual else PlainCore(core)


def _kcore_dir(directory: Path) -> Path:
    for candidate in (directory, directory / "kcore_dir"):
        if (candidate / "kcore").exists():
            return candidate
    raise InputError("holds no kcore_dir/kcore: was it recorded with perf record --kcore?", path=directory)
