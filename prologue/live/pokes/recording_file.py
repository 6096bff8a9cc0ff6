"""The file of a recording: written while it goes on, read with every block checked.

8 bytes of magic, then blocks: u32 kind, u32 CRC-32 of the payload, u64 size of the payload, the payload; all
little-endian. The first is a ``Header`` (JSON), then come rows of ``recording.WRITE`` (zlib), and last a ``Trailer``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from prologue.documents import parse_json
from prologue.errors import InputError, OutputError
from prologue.live.pokes.recording import (
    CAPABILITIES,
    WRITE,
    Flag,
    Function,
    Header,
    Loss,
    Maintenance,
    Recording,
    Rows,
    Trailer,
    empty_rows,
)
from prologue.outputs import new_file

SCHEMA: Final = "prologue.writes/3"
MAGIC: Final = b"PROLWRT1"
_BLOCK: Final = struct.Struct("<IIQ")
_ORIGIN, _ROWS, _ENDING = 1, 2, 3
_AT_ONCE: Final = 1 << 15  # rows in a block
_STEPS: Final = (0, *Maintenance)  # digits of ``maintenance``
_MOST_CPUS: Final = 1 << 16  # numbers that a row has room for
_LARGEST: Final = 1 << 28  # bytes of a block, unpacked


class Writer:
    """The writer of a recording; ``recording_file`` makes one."""

    def __init__(self, stream: BinaryIO, origin: Header) -> None:
        self._stream = stream
        self.ended = False  # True once ``end`` was called
        stream.write(MAGIC)
        self._block(_ORIGIN, _json({"schema": SCHEMA, **asdict(origin)}))

    def add(self, rows: Rows) -> None:
        """Add rows in the order of time."""
        for start in range(0, len(rows), _AT_ONCE):
            self._block(_ROWS, zlib.compress(rows[start : start + _AT_ONCE].astype(WRITE).tobytes(), 1))

    def end(self, ending: Trailer) -> None:
        """Say that this is all; a file without it reads as damaged."""
        self._block(_ENDING, _json(asdict(ending)))
        self.ended = True

    def _block(self, kind: int, payload: bytes) -> None:
        self._stream.write(_BLOCK.pack(kind, zlib.crc32(payload), len(payload)) + payload)


@contextmanager
def recording_file(out: Path, origin: Header) -> Iterator[Writer]:
    """Write a recording: ``out`` appears when the block succeeds, readable by its owner only (it holds addresses).

    Raises:
        OutputError: ``out`` cannot be written, or the block did not call ``end``.

    """
    with new_file(out, mode=0o600) as temporary, temporary.open("wb") as stream:
        writer = Writer(stream, origin)
        yield writer
        if not writer.ended:
            raise OutputError("the recording was not ended; nothing was left behind", path=out)


def read_recording(path: Path) -> Recording:
    """Read a whole recording.

    Raises:
        InputError: not a recording, or it is damaged or cut off.

    """
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise InputError("is not a recording of writes: `prologue writes boot` makes one", path=path)
            blocks = _blocks(stream, path)
            origin = _origin(_first(blocks, path), path)
            pieces: list[Rows] = []
            for kind, payload in blocks:
                if kind == _ENDING:
                    ending = _ending(_parsed(payload, path), path)
                    if stream.read(1):
                        raise _damaged(path, "there is more after its end")
                    rows = np.concatenate(pieces) if pieces else empty_rows(0)
                    _check(rows, path)
                    return Recording(str(path), origin, ending, rows)
                pieces.append(_rows(kind, payload, path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    count = sum(map(len, pieces))
    raise InputError(f"cut off after {count:,} writes: the recorder was interrupted; record again", path=path)


def _blocks(stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks until the file ends, or the first that is cut off."""
    while head := stream.read(_BLOCK.size):
        if len(head) < _BLOCK.size:
            return
        at = stream.tell()
        kind, checksum, size = _BLOCK.unpack(head)
        if kind not in (_ORIGIN, _ROWS, _ENDING) or size > _LARGEST:
            raise _damaged(path, f"no block at byte {at - _BLOCK.size:,}")
        payload = stream.read(size)
        if len(payload) < size:
            return
        if zlib.crc32(payload) != checksum:
            raise _damaged(path, f"the checksum of the block at byte {at - _BLOCK.size:,} is wrong")
        yield kind, payload


def _first(blocks: Iterator[tuple[int, bytes]], path: Path) -> dict[str, Any]:
    kind, payload = next(blocks, (0, b""))
    if kind != _ORIGIN:
        raise _damaged(path, "it does not say what was recorded")
    header = _parsed(payload, path)
    schema = header.pop("schema", None)
    if schema != SCHEMA:
        raise InputError(f"has schema {schema!r}, expected {SCHEMA!r}: another version of prologue wrote it", path=path)
    return header


def _parsed(payload: bytes, path: Path) -> dict[str, Any]:
    try:
        content = parse_json(payload)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"JSON that cannot be parsed ({error})") from error
    if not isinstance(content, dict):
        raise _damaged(path, "a block of JSON holds no object")
    return content


def _rows(kind: int, payload: bytes, path: Path) -> Rows:
    if kind != _ROWS:
        raise _damaged(path, f"a block of kind {kind} among the rows")
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(payload, _LARGEST)
    except zlib.error as error:
        raise _damaged(path, f"rows do not unpack ({error})") from error
    if len(data) % WRITE.itemsize or not unpack.eof or unpack.unused_data:
        raise _damaged(path, "a block does not hold whole rows")
    return np.frombuffer(data, WRITE)


def _check(rows: Rows, path: Path) -> None:
    """Refuse rows without the properties that every reader relies on."""
    if (rows["address"] % np.uint64(4)).any():
        raise _damaged(path, "an address that is not a multiple of 4")
    if (rows["time"][1:] < rows["time"][:-1]).any():
        raise _damaged(path, "time goes backwards")
    if (rows["flags"] & ~np.uint32(sum(Flag))).any():
        raise _damaged(path, "flags that are not known")
    for shift in range(0, 64, 4):
        if not np.isin(rows["maintenance"] >> np.uint64(shift) & np.uint64(15), _STEPS).all():
            raise _damaged(path, "maintenance that is not known")


def _origin(header: dict[str, Any], path: Path) -> Header:
    try:
        if header["clock"] not in ("instructions", "ns"):
            raise ValueError(f"clock {header['clock']!r}")
        bytes.fromhex(build_id := str(header["build_id"]))
        if not 0 <= (cpus := int(header["cpus"])) <= _MOST_CPUS:
            raise ValueError(f"{cpus} CPUs")
        return Header(
            source=str(header["source"]),
            machine=str(header["machine"]),
            clock=header["clock"],
            sees=tuple(sight for sight in CAPABILITIES if sight in list(header["sees"])),
            release=str(header["release"]),
            build_id=build_id,
            cpus=cpus,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"its header cannot be parsed ({error!r})") from error


def _ending(ending: dict[str, Any], path: Path) -> Trailer:
    try:
        return Trailer(
            slide=_number(ending["slide"]),
            complete=bool(ending["complete"]),
            functions=tuple(
                Function(
                    start=int(start), end=int(end), name=str(name), owner=str(owner), since=int(since), until=int(until)
                )
                for start, end, name, owner, since, until in ending["functions"]
            ),
            lost=tuple(Loss(str(what), _number(amount)) for what, amount in ending["lost"]),
            notes=tuple(map(str, ending["notes"])),
            ctr=_number(ending["ctr"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"its last block cannot be parsed ({error!r})") from error


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"damaged recording: {what}", path=path)
