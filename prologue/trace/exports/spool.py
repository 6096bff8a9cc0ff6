"""Bytes of many tracks that become one after the other in a file, but are made side by side: on disk meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from tempfile import TemporaryFile
from typing import Final, Generic, TypeVar

_HELD: Final = 1 << 16
"""Bytes of each track in memory."""
SpoolKey = TypeVar("SpoolKey", bound=Hashable)


class Spool(Generic[SpoolKey]):
    """A temporary file with the bytes of each key in pieces."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._held: defaultdict[SpoolKey, list[bytes]] = defaultdict(list)
        self._sizes: defaultdict[SpoolKey, int] = defaultdict(int)
        self._pieces: defaultdict[SpoolKey, list[tuple[int, int]]] = defaultdict(list)

    def add(self, key: SpoolKey, data: bytes) -> None:
        """Put bytes at the end of a key's."""
        self._held[key].append(data)
        self._sizes[key] += len(data)
        if self._sizes[key] >= _HELD:
            whole = b"".join(self._held.pop(key))
            self._pieces[key].append((self._file.seek(0, 2), len(whole)))
            self._file.write(whole)
            self._sizes[key] = 0

    def read(self, key: SpoolKey) -> Iterator[bytes]:
        """Give the bytes of a key, in order."""
        for at, size in self._pieces[key]:
            self._file.seek(at)
            yield self._file.read(size)
        yield from self._held[key]
