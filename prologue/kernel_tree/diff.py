"""Unified diffs as data: which lines each hunk expects, and where a file has them.

``git apply`` applies them. But if a hunk does not fit at its line, git takes the nearest place that looks the same,
and lines of C look alike. So each hunk is located here first, or refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from prologue.errors import InternalError

_FILE: Final = re.compile(rb"diff --git a/(\S+) b/(\S+)")
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")


class NoPlaceError(Exception):
    """A hunk's lines are not in the file, or in more places than one."""

    def __init__(self, hunk: Hunk) -> None:
        super().__init__(hunk)
        self.hunk = hunk


@dataclass(frozen=True, slots=True)
class Hunk:
    """Consecutive lines, each with its mark and without its newline."""

    old_start: int
    new_start: int
    heading: bytes  # of the function around it, for the reader only
    lines: tuple[bytes, ...]

    @property
    def old(self) -> list[bytes]:
        """The lines before the change."""
        return [line[1:] for line in self.lines if line[:1] in (b" ", b"-")]

    @property
    def new(self) -> list[bytes]:
        """The lines after it."""
        return [line[1:] for line in self.lines if line[:1] in (b" ", b"+")]

    @property
    def text(self) -> bytes:
        """The hunk as a diff has it."""
        numbers = b"-%d,%d +%d,%d" % (self.old_start, len(self.old), self.new_start, len(self.new))
        return b"@@ %b @@%b\n" % (numbers, self.heading) + b"".join(line + b"\n" for line in self.lines)


@dataclass(frozen=True, slots=True)
class FileChange:
    """Change of one file by a patch: an edit, or its creation."""

    path: str
    header: tuple[bytes, ...]
    hunks: tuple[Hunk, ...]

    @property
    def creates(self) -> bool:
        """True if the file is new."""
        return any(line.startswith(b"new file mode ") for line in self.header)

    @property
    def created(self) -> bytes:
        """The whole content of a new file."""
        return b"".join(line + b"\n" for hunk in self.hunks for line in hunk.new)

    @property
    def text(self) -> bytes:
        """The change as a diff has it."""
        return b"".join(line + b"\n" for line in self.header) + b"".join(hunk.text for hunk in self.hunks)


def parse_changes(diff: bytes, source: object) -> tuple[FileChange, ...]:
    """Read a diff that ends with its last hunk.

    Raises:
        InternalError: it is damaged, or does what prologue's patches never do (renames, deletions); ``source`` is
            the diff's name, for the message.

    """
    changes: list[FileChange] = []
    lines = iter(diff.removesuffix(b"\n").split(b"\n"))
    for line in lines:
        if match := _FILE.fullmatch(line):
            if match[1] != match[2]:
                raise InternalError(f"renames a file: {line.decode(errors='replace')}", path=source)
            changes.append(FileChange(match[1].decode(), (line,), ()))
        elif not changes:
            raise InternalError(f"is not a diff: {line.decode(errors='replace')!r}", path=source)
        elif match := _HUNK.fullmatch(line):
            old, new = int(match[2] or 1), int(match[4] or 1)
            hunk = Hunk(int(match[1]), int(match[3]), match[5], tuple(_body(lines, old, new)))
            if len(hunk.old) != old or len(hunk.new) != new:
                raise InternalError(f"a hunk is incomplete: {line.decode(errors='replace')}", path=source)
            changes[-1] = replace(changes[-1], hunks=(*changes[-1].hunks, hunk))
        elif changes[-1].hunks:
            raise InternalError(f"is not a diff: {line.decode(errors='replace')!r}", path=source)
        else:
            changes[-1] = replace(changes[-1], header=(*changes[-1].header, line))
    return tuple(changes)


def _body(lines: Iterator[bytes], old: int, new: int) -> Iterator[bytes]:
    """Read the lines of a hunk: as many as its header says, since a line may look like another header."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None or line[:1] not in (b" ", b"-", b"+"):
            return
        old -= line[:1] != b"+"
        new -= line[:1] != b"-"
        yield line


def new_file(path: str, content: bytes) -> FileChange:
    """Make the change that creates a text file."""
    name, blob = path.encode(), b"blob %d\0" % len(content) + content
    header = (
        b"diff --git a/%b b/%b" % (name, name),
        b"new file mode 100644",
        b"index 0000000..%b" % hashlib.sha1(blob, usedforsecurity=False).hexdigest()[:7].encode(),
        b"--- /dev/null",
        b"+++ b/" + name,
    )
    lines = tuple(b"+" + line for line in content.removesuffix(b"\n").split(b"\n"))
    return FileChange(path, header, (Hunk(0, 1, b"", lines),))


def locate(change: FileChange, content: bytes, *, reverse: bool = False) -> FileChange:
    """Give the change the line numbers that it has in this content; ``reverse``: in content that has the change.

    A hunk may have moved with the lines above it. If several places match, only the one at the patch's own distance
    from the hunk before is taken.

    Raises:
        NoPlaceError: a hunk does not fit, or its place is ambiguous.

    """
    lines = content.split(b"\n")
    moved = grown = end = 0
    located: list[Hunk] = []
    for hunk in change.hunks:
        have, other = (hunk.new, hunk.old) if reverse else (hunk.old, hunk.new)
        stated = (hunk.new_start if reverse else hunk.old_start) - 1
        places = [k for k in range(len(lines) - len(have) + 1) if lines[k : k + len(have)] == have]
        place = places[0] if len(places) == 1 else stated + moved
        if place not in places or place < end:
            raise NoPlaceError(hunk)
        starts = (place + 1, place + 1 + grown)
        old_start, new_start = reversed(starts) if reverse else starts
        located.append(replace(hunk, old_start=old_start, new_start=new_start))
        moved, end = place - stated, place + len(have)
        grown += len(other) - len(have)
    return replace(change, hunks=tuple(located))
