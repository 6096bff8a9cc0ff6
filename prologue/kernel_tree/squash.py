"""Sums up a series of diffs: what it does to each file from before the first patch to after the last.

The kernel's files are not needed: a hunk of any patch changes lines that it shows, in context of lines that it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from prologue.errors import InternalError
from prologue.kernel_tree.diff import FileChange, Hunk, new_file

_CONTEXT: Final = 3


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the whole difference; ``text`` is None where no hunk shows it."""

    mark: bytes
    text: bytes | None


class _Lines:
    """A file whose lines are numbers in the file before the series or, if a patch added them, their text."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._now: list[int | bytes] = list(range(length))
        self._known: dict[int, bytes] = {}

    def apply(self, hunk: Hunk) -> bool:
        """Change the lines at the hunk's own place, and learn what it shows; False if other lines are there."""
        place = hunk.old_start - 1
        for line in hunk.lines:
            mark, text = line[:1], line[1:]
            if mark == b"+":
                self._now.insert(place, text)
            else:
                current = self._now[place]
                if (self._known.setdefault(current, text) if isinstance(current, int) else current) != text:
                    return False
            if mark == b"-":
                del self._now[place]
            else:
                place += 1
        return True

    def rows(self) -> Iterator[_Row]:
        """Yield the difference so far; what is removed comes before what is added in its place."""
        number = 0
        added: list[bytes] = []
        for line in (*self._now, self._length):
            if isinstance(line, bytes):
                added.append(line)
                continue
            yield from (_Row(b"-", self._known[removed]) for removed in range(number, line))
            yield from (_Row(b"+", text) for text in added)
            added.clear()
            if line < self._length:
                yield _Row(b" ", self._known.get(line))
            number = line + 1


def squash(series: Sequence[Sequence[FileChange]]) -> tuple[FileChange, ...]:
    """Return the changes of consecutive patches as one for each file, in order of path.

    Raises:
        InternalError: a patch does not fit the one before, or creates what is there.

    """
    by_path: dict[str, list[FileChange]] = {}
    for changes in series:
        for change in changes:
            by_path.setdefault(change.path, []).append(change)
    return tuple(_squash_file(by_path[path]) for path in sorted(by_path))


def _squash_file(changes: list[FileChange]) -> FileChange:
    first, last = changes[0], changes[-1]
    if len(changes) == 1:
        return first
    if any(change.creates for change in changes[1:]):
        raise InternalError("is created by a patch of the series, and is there before it", path=first.path)
    if first.creates:
        return _created(first, changes[1:])
    hunks = [hunk for change in changes for hunk in change.hunks]
    removed = sum(line.startswith(b"-") for hunk in hunks for line in hunk.lines)
    lines = _Lines(max(hunk.old_start - 1 + len(hunk.old) for hunk in hunks) + removed)
    for change in changes:
        # From the end: a hunk's line numbers are those before its patch.
        if not all(lines.apply(hunk) for hunk in reversed(change.hunks)):
            raise InternalError("a patch of the series does not fit the one before", path=first.path)
    # ``index OLD..NEW MODE`` is from before the first patch to after the last.
    ends = [line.partition(b"..")[2] for line in last.header if line.startswith(b"index ")]
    header = tuple(
        line.partition(b"..")[0] + b".." + ends[0] if line.startswith(b"index ") else line for line in first.header
    )
    return replace(first, header=header, hunks=tuple(_hunks([*lines.rows()], first.path)))


def _created(first: FileChange, changes: Sequence[FileChange]) -> FileChange:
    """Create a file as later patches leave it."""
    lines = first.created.split(b"\n")
    for change in changes:
        for hunk in reversed(change.hunks):
            place = slice(hunk.old_start - 1, hunk.old_start - 1 + len(hunk.old))
            if lines[place] != hunk.old:
                raise InternalError("a patch of the series does not fit the one before", path=first.path)
            lines[place] = hunk.new
    return new_file(first.path, b"\n".join(lines))


def _hunks(rows: list[_Row], path: str) -> Iterator[Hunk]:
    """Cut the difference into hunks, each with its context."""
    changed = [k for k, row in enumerate(rows) if row.mark != b" "]
    begin = least = 0
    while begin < len(changed):
        end = begin + 1
        while end < len(changed) and changed[end] - changed[end - 1] <= 2 * _CONTEXT + 1:
            end += 1
        start, stop = max(0, changed[begin] - _CONTEXT), changed[end - 1] + _CONTEXT + 1
        # A step shows more where less is in two places. The next hunk keeps its own context: git takes no line twice.
        most = changed[end] - _CONTEXT if end < len(changed) else len(rows)
        while start > least and rows[start - 1].text is not None:
            start -= 1
        while stop < most and rows[stop].text is not None:
            stop += 1
        texts = [row.mark + row.text for row in rows[start:stop] if row.text is not None]
        if len(texts) != len(rows[start:stop]):
            raise InternalError("a patch of the series takes back what another one did", path=path)
        old_start = 1 + sum(row.mark != b"+" for row in rows[:start])
        new_start = 1 + sum(row.mark != b"-" for row in rows[:start])
        yield Hunk(old_start, new_start, b"", tuple(texts))
        begin, least = end, stop
