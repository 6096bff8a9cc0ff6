"""Files that processes had mapped as code: MMAP, MMAP2, FORK and COMM records of perf.data.

perf records no unmapping. So a child has all that its parent had mapped and nothing else was put over, until it
executes another program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

_PAGE: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMap:
    """Code of a file in memory: addresses, the offset of ``start`` in the file, its path, its build-id in hex or ''."""

    start: int
    end: int
    offset: int
    path: str
    build_id: str = ""

    @property
    def is_file(self) -> bool:
        """False for anonymous memory, and for what the kernel itself maps (vdso)."""
        return self.path.startswith("/") and not self.path.startswith(("//", "/memfd:", "/dev/", "/SYSV"))

    def same_code(self, other: FileMap) -> bool:
        """Return whether another map has the same bytes at the same addresses, as far as both reach."""
        base, other_base = self.start - self.offset, other.start - other.offset
        return self.is_file and (self.path, self.build_id, base) == (other.path, other.build_id, other_base)


class _Event(NamedTuple):
    time: int
    pid: int
    map: FileMap | None = None
    parent: int | None = None  # of a new process; an event with neither is an execve


@dataclass(slots=True)
class _Epoch:
    """The life of a process until it executes another program: maps of its parent, and its own, in order of time."""

    inherited: tuple[FileMap, ...] = ()
    added: list[FileMap] = field(default_factory=list)
    _now: tuple[FileMap, ...] | None = None

    def add(self, mapped: FileMap) -> None:
        self.added.append(mapped)
        self._now = None

    def now(self) -> tuple[FileMap, ...]:
        """Return the maps of this moment; a later one hides what it overlaps."""
        if self._now is None:
            kept: list[FileMap] = []
            for mapped in reversed([*self.inherited, *self.added]):
                if all(mapped.end <= later.start or later.end <= mapped.start for later in kept):
                    kept.append(mapped)
            self._now = tuple(reversed(kept))
        return self._now

    def within(self, page: int) -> Iterator[FileMap]:
        """Yield the maps that have something of a page, which is its number."""
        first, end = page << _PAGE, page + 1 << _PAGE
        return (mapped for mapped in (*self.inherited, *self.added) if mapped.start < end and first < mapped.end)


class AddressSpaces:
    """The maps of all processes. Records may come in any order until the first question."""

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._epochs: dict[int, list[_Epoch]] | None = None
        self._pages: dict[tuple[int, int], FileMap | None] = {}

    def mapped(self, pid: int, mapped: FileMap, time: int) -> None:
        """Record a map of code; ``time`` in ns, 0 if it was there before the recording."""
        self._events.append(_Event(time, pid, map=mapped))

    def forked(self, pid: int, parent: int, time: int) -> None:
        """Record a new process, which has its parent's maps."""
        self._events.append(_Event(time, pid, parent=parent))

    def executed(self, pid: int, time: int) -> None:
        """Record an execve: nothing is mapped any more."""
        self._events.append(_Event(time, pid))

    def set_build_ids(self, ids: dict[str, str]) -> None:
        """Give maps the build-ids of their files that the file's header has, if their own records have none."""
        for row, event in enumerate(self._events):
            if event.map is not None and not event.map.build_id and event.map.path in ids:
                self._events[row] = event._replace(map=replace(event.map, build_id=ids[event.map.path]))

    def maps(self) -> set[FileMap]:
        """Return what any process had mapped at any time, as its own."""
        return {event.map for event in self._events if event.map is not None}

    def __bool__(self) -> bool:
        """Return whether anything is mapped."""
        return any(event.map is not None for event in self._events)

    def at(self, pid: int, vaddr: int) -> FileMap | None:
        """Return the file that a process had at an address, or None if it had none or several there.

        Which of several is not decided by time: a decoder asks for code before the trace has said its time.
        """
        key = pid, vaddr >> _PAGE
        if key not in self._pages:
            maps = [mapped for epoch in self._processes().get(pid, ()) for mapped in epoch.within(key[1])]
            self._pages[key] = maps[-1] if maps and all(mapped.same_code(maps[-1]) for mapped in maps) else None
        mapped = self._pages[key]
        return mapped if mapped is not None and mapped.start <= vaddr < mapped.end else None

    def _processes(self) -> dict[int, list[_Epoch]]:
        """Return the epochs of each process, in the order of time; perf writes records of several CPUs in no order."""
        if self._epochs is not None:
            return self._epochs
        epochs: dict[int, list[_Epoch]] = {}
        for event in sorted(self._events, key=lambda event: event.time):
            of_pid = epochs.setdefault(event.pid, [])
            if event.map is not None:
                if not of_pid:
                    of_pid.append(_Epoch())
                of_pid[-1].add(event.map)
            else:
                parents = epochs.get(event.parent, []) if event.parent is not None else []
                of_pid.append(_Epoch(parents[-1].now() if parents else ()))
        self._epochs = epochs
        return epochs
