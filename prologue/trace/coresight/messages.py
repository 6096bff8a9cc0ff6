"""Messages of the child that decodes to its parent, in a pipe: ``_HEAD``, which is kind and size, then the bytes."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np

from prologue.trace.coresight.elements import ELEMENT, Elements

_HEAD: Final = Struct("<BxxxI")
_BEGIN, _ELEMENTS, _TEXT, _FAILED, _COUNTS, _END = range(6)
_NUMBER: Final = Struct("<I")
_COUNT: Final = Struct("<BQQ")
_LONGEST_TEXT: Final = 1 << 12


class Begin(NamedTuple):
    """The start of a part: its row in the job."""

    part: int


class DecoderText(NamedTuple):
    """A message of the library, after the elements that came before it."""

    line: bytes


class Failed(NamedTuple):
    """The end of decoding in the middle of a part: the child crashed, or the library refuses to go on."""

    part: int
    why: str


class ByteCounts(NamedTuple):
    """The bytes of a part that were decoded by now: by trace ID all of them, and those before an A-Sync."""

    rows: tuple[tuple[int, int, int], ...]


Decoded = Begin | Elements | DecoderText | Failed | ByteCounts


def read_messages(stream: Any, *, indexed: bool) -> Iterator[Decoded | None]:
    """Yield the messages in the pipe; None at last, if the child came to its end."""
    while True:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        kind, size = _HEAD.unpack(head)
        body = stream.read(size)
        if len(body) < size:
            return
        if kind == _BEGIN:
            yield Begin(*_NUMBER.unpack(body))
        elif kind == _ELEMENTS:
            count = size // (ELEMENT.itemsize + (9 if indexed else 1))
            places = count if indexed else 0
            rows = np.frombuffer(body, ELEMENT, count)
            indexes = np.frombuffer(body, np.uint64, places, count * ELEMENT.itemsize)
            ids = np.frombuffer(body, np.uint8, count, count * ELEMENT.itemsize + 8 * places)
            yield Elements(rows, ids, indexes)
        elif kind == _TEXT:
            yield DecoderText(body)
        elif kind == _COUNTS:
            yield ByteCounts(tuple(_COUNT.iter_unpack(body)))
        elif kind == _FAILED:
            (part,) = _NUMBER.unpack_from(body)
            yield Failed(part, body[_NUMBER.size :].decode(errors="replace"))
        else:
            yield None


class MessageWriter:
    """The child's end of the pipe; elements wait in it for one message."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self.elements, self.ids, self.indexes = bytearray(), bytearray(), array("Q")

    def send(self, message: Begin | DecoderText | Failed | ByteCounts | None) -> None:
        """Write a message after the elements that wait; None: all parts are done."""
        self.flush()
        if isinstance(message, Begin):
            self._write(_BEGIN, _NUMBER.pack(message.part))
        elif isinstance(message, DecoderText):
            self._write(_TEXT, message.line[:_LONGEST_TEXT])
        elif isinstance(message, ByteCounts):
            self._write(_COUNTS, *(_COUNT.pack(*row) for row in message.rows))
        elif isinstance(message, Failed):
            self._write(_FAILED, _NUMBER.pack(message.part), message.why.encode())
        else:
            self._write(_END)

    def flush(self) -> None:
        """Write the elements that wait."""
        if self.ids:
            self._write(_ELEMENTS, self.elements, self.indexes.tobytes(), self.ids)
            del self.elements[:], self.ids[:], self.indexes[:]

    def _write(self, kind: int, *parts: bytes | bytearray) -> None:
        view = memoryview(_HEAD.pack(kind, sum(map(len, parts))) + b"".join(parts))
        while view:
            view = view[os.write(self._writing, view) :]
