"""Binaries of processes: files with the build-id that the trace has, found as perf finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id, matches_perf
from prologue.errors import InputError
from prologue.perf.address_spaces import FileMap
from prologue.trace.path.binary_names import BinaryNames


class UserBinary(NamedTuple):
    """A file that processes execute. ``is_checked``: its build-id is that of the trace, which may have none."""

    image: ElfImage
    symbols: BinaryNames
    is_checked: bool


class BinaryFiles:
    """The files of this machine that may be what ran.

    A file is below ``--symfs``, in perf's cache (``$PERF_BUILDID_DIR``, ``~/.debug``), or at its own path. Without a
    build-id in the trace only the first of these is taken, since a user named it.
    """

    def __init__(self, symfs: Path | None) -> None:
        self._symfs = symfs
        self._known: dict[tuple[str, str], UserBinary | str] = {}
        self._cache = Path(os.environ.get("PERF_BUILDID_DIR") or Path.home() / ".debug")

    def open(self, mapped: FileMap) -> UserBinary | str:
        """Return the binary of a map, or why there is none."""
        key = mapped.path, mapped.build_id
        if key not in self._known:
            self._known[key] = self._find(mapped) if mapped.is_file else "not a file"
        return self._known[key]

    def _find(self, mapped: FileMap) -> UserBinary | str:
        why = "" if mapped.build_id or self._symfs else "the trace has no build-id of it, see --symfs"
        for path in self._candidates(mapped):
            if not path.is_file():
                continue
            try:
                image = ElfImage(path)
                own = gnu_build_id(image)
                if not mapped.build_id or matches_perf(own, mapped.build_id):
                    return UserBinary(image, BinaryNames(image), is_checked=bool(mapped.build_id))
                why = why or f"{path} has build-id {own or 'none'}, {mapped.build_id} ran"
            except InputError as error:
                why = why or str(error)
        return why or "not on this machine, see --symfs"

    def _candidates(self, mapped: FileMap) -> Iterator[Path]:
        if self._symfs is not None:
            yield self._symfs / mapped.path.lstrip("/")
        if mapped.build_id:
            kept = self._cache / ".build-id" / mapped.build_id[:2] / mapped.build_id[2:]
            yield from (kept / "elf", kept)
            yield Path(mapped.path)
