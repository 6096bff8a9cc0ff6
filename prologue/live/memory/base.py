"""The interface of every source of memory, and the kernel's own words in VMCOREINFO."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from prologue.errors import InputError
from prologue.live.memory.ranges import Range
from prologue.live.memory.state import KernelState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """The kernel whose memory it is; ``build_id`` and ``release`` are empty, ``slide`` is None if it does not say.

    ``slide`` is what KASLR added to each link-time address, in bytes; ``anchors`` are run-time addresses of symbols.
    ``numbers`` are ``PAGESIZE`` in bytes and what is called ``NUMBER(...)``, such as ``VA_BITS``.
    """

    release: str = ""
    build_id: str = ""
    slide: int | None = None
    anchors: Mapping[str, int] = field(default_factory=dict)
    _: KW_ONLY
    numbers: Mapping[str, int] = field(default_factory=dict)


class Memory(Protocol):
    """Memory by the kernel's virtual addresses."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def live(self) -> bool:
        """True if the kernel may be changing it while it is read."""

    @property
    def info(self) -> KernelInfo:
        """Facts about the kernel."""

    def read(self, vaddr: int, size: int) -> bytes:
        """Read all ``size`` bytes; zeros for pages that /proc/kcore lacks.

        Raises:
            UnmappedError: not all of them are there.
            InputError: they cannot be read.

        """

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Read several ranges at once: if each reading costs a login, all of them cost one.

        Raises:
            UnmappedError, InputError: as ``read``, for any of them.

        """

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and symbols that were loaded, and what else the kernel said.

        A dump says so only with the DWARF of its ``vmlinux``, and then has modules only; other sources do without it.

        Raises:
            InputError: this source does not say, or hides addresses.

        """


def read_vmcoreinfo(text: bytes, name: str) -> KernelInfo:
    """Take from a VMCOREINFO note what is in it (lines ``KEY=VALUE``); ``name`` is the memory's.

    Old kernels give no ``BUILD-ID`` (``include/linux/crash_core.h``, 6.1; ``vmcore_info.h``, 6.12). ``KERNELOFFSET`` is
    hexadecimal (``arch_crash_save_vmcoreinfo``, ``arch/arm64/kernel/crash_core.c``, 6.1; ``vmcore_info.c``, 6.12).

    Raises:
        InputError: a value that is not a hexadecimal address.

    """
    fields = dict(line.split("=", 1) for line in text.decode("ascii", "replace").splitlines() if "=" in line)
    try:
        offset = fields.get("KERNELOFFSET")
        anchors = {key[7:-1]: int(value, 16) for key, value in fields.items() if key.startswith("SYMBOL(")}
        slide = int(offset, 16) if offset else None
    except ValueError as error:
        raise InputError(f"damaged VMCOREINFO ({error})", path=name) from error
    build_id = fields.get("BUILD-ID", "").strip().lower()
    return KernelInfo(fields.get("OSRELEASE", ""), build_id, slide, anchors, numbers=dict(_numbers(fields)))


def _numbers(fields: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield the fields that are decimal or hexadecimal numbers, by their names without ``NUMBER()``."""
    for key, value in fields.items():
        if key == "PAGESIZE" or key.startswith("NUMBER("):
            with suppress(ValueError):
                yield key.removeprefix("NUMBER(").removesuffix(")"), int(value, 0)
