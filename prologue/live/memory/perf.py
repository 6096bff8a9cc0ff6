"""Reads ``DATA/kcore_dir``, which ``perf record --kcore`` keeps: kcore, kallsyms and modules.

perf copies the kernel's text, one range with all modules, and no notes (``tools/perf/util/symbol-elf.c``, "kcore_copy",
6.12): no VMCOREINFO, so the slide follows from kallsyms, and where modules have their sections is not known. The
build-id is in ``DATA/data``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from prologue.errors import InputError
from prologue.live.memory.base import KernelInfo
from prologue.live.memory.core import PlainCore, open_core
from prologue.live.memory.state import KernelState, parse_kallsyms, parse_modules
from prologue.perf.container import open_perf_data


class PerfData(PlainCore):
    """A ``kcore_dir``; ``kallsyms`` is the text of its file of that name.

    Raises:
        InputError: a file is missing, damaged, or hides addresses.

    """

    def __init__(self, directory: Path) -> None:
        super().__init__(open_core(directory / "kcore"))
        try:
            self.kallsyms = (directory / "kallsyms").read_text(errors="replace")
            symbols = parse_kallsyms(self.kallsyms)
            listed = directory / "modules"
            modules = parse_modules(listed.read_text(errors="replace"), "", str(listed))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=error.filename) from error
        self._state = KernelState(release="", boot_id="", modules=modules, symbols=symbols, kprobes=())
        anchors = self._state.anchors()
        if not anchors.get("_stext"):
            raise InputError(
                "has no address of _stext: recorded while kptr_restrict hid it?", path=directory / "kallsyms"
            )
        self._anchors = anchors
        self._build_id = _build_id(directory.parent / "data")

    @property
    def info(self) -> KernelInfo:
        """Place of the kernel by kallsyms, and its build-id as perf recorded it."""
        return KernelInfo(anchors=self._anchors, build_id=self._build_id)

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and symbols at the time of the recording."""
        return self._state


def _build_id(data: Path) -> str:
    """Return the kernel's build-id in a file of ``perf record``; empty if there is none, or no such file."""
    with suppress(InputError), open_perf_data(data) as file:
        for _ in file.records():
            if file.build_id:
                break
        return file.build_id
    return ""
