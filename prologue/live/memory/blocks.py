"""Shell commands that read or sum up pages of /proc/kcore: for a POSIX shell with dd, and for busybox."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from prologue.live.memory.ranges import PAGE, Range

KCORE: Final = "/proc/kcore"
BLOCK: Final = 1 << 16
"""Bytes that dd hands on at once: what a pipe holds. In pages, a small sshd takes longer to send them."""
CHUNK: Final = 1 << 20
"""Bytes under one checksum."""
_WORTH: Final = 1 << 18  # bytes: a checksum takes two processes there, and less than this is sent in that time
# What dd says at its end goes away; if it fails, that is said again. (POSIX has no status=none.)
GET: Final = f"""exec 3>&1
get() {{
	said=$(dd if={KCORE} bs="$1" skip="$2" count="$3" 2>&1 >&3) && return
	echo "$said" | head -n 1 >&2
	exit 1
}}
"""
# Where dd fails, the sum is that of less, and what is read then says why.
SUM: Final = f"""part() {{ dd if={KCORE} bs="$1" skip="$2" count="$3" 2>/dev/null; }}
for sum in md5sum sha1sum sha256sum none; do command -v "$sum" >/dev/null 2>&1 && break; done
echo "$sum"
[ "$sum" = none ] && sum=:
"""
SUMMED: Final = b"==== summed\n"
SUMS: Final = {"md5sum": "md5", "sha1sum": "sha1", "sha256sum": "sha256"}
"""Programs, and what hashlib calls their checksums."""


def parts(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield block size, blocks to skip, and blocks that read these pages and no others: dd skips whole blocks only."""
    pages_per_block = BLOCK // PAGE
    begin, end = -(-first // pages_per_block), (first + count) // pages_per_block
    if begin >= end:
        yield PAGE, first, count
        return
    for size, skip, blocks in (
        (PAGE, first, begin * pages_per_block - first),
        (BLOCK, begin, end - begin),
        (PAGE, end * pages_per_block, first + count - end * pages_per_block),
    ):
        if blocks:
            yield size, skip, blocks


def get_commands(first: int, count: int) -> str:
    """Make lines for ``GET`` that print the pages."""
    return "".join(f"get {size} {skip} {blocks}\n" for size, skip, blocks in parts(first, count))


def chunks(offset: int, size: int) -> Iterator[Range]:
    """Cut these bytes of the file to whole pages, in pieces that end where a chunk ends; nothing if they are few."""
    if size < _WORTH:
        return
    at, end = -(-offset // PAGE) * PAGE, (offset + size) // PAGE * PAGE
    while at < end:
        stop = min(end, (at // CHUNK + 1) * CHUNK)
        yield Range(at, stop - at)
        at = stop


def sum_command(piece: Range) -> str:
    """Make a line for ``SUM`` that prints the checksum of a chunk."""
    reads = "".join(f"part {' '.join(map(str, part))}; " for part in parts(piece.vaddr // PAGE, piece.size // PAGE))
    return f'{{ {reads}}} | "$sum"\n'


def is_sum(output: str, tool: str, data: bytes) -> bool:
    """Return whether that line of the tool, one of ``SUMS``, is the checksum of the bytes.

    It has to notice what a kernel does to its text, not what an attacker does, who could forge the bytes as well.
    """
    return output.split(" ", maxsplit=1)[0] == hashlib.new(SUMS[tool], data, usedforsecurity=False).hexdigest()
