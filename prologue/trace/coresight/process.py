"""Decoding in a child process: input that crashes OpenCSD's library takes nothing else with it.

The child is forked, so it has the program's text without a copy.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from ctypes import c_char
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from prologue.perf.coresight import TraceUnit
from prologue.signals import held_signals
from prologue.trace.coresight.code import ChangingText, TextChanges, UserCode, UserMemory
from prologue.trace.coresight.elements import ELEMENT, TICKS, ElementKind, Elements
from prologue.trace.coresight.library import (
    DATA,
    END,
    FIRST_FATAL,
    FIRST_WAIT,
    FLUSH,
    RESET,
    DecodeTree,
    LibraryVersion,
    OnElement,
    OnText,
    load_library,
)

_CHUNK: Final = 1 << 14  # bytes of trace that are decoded at once; an atom is a fourth of a bit at least
_FLUSH_AT: Final = 1 << 20  # bytes of elements
_LONGEST_TEXT: Final = 1 << 12
_MOST_ADDRESSES: Final = 1 << 12
_MOST_WAITS: Final = 1 << 10
_INDEX_MASK: Final = 0xFFFFFFFF  # an index has 32 bits unless the library was built otherwise


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


class CodeMemory(NamedTuple):
    """A piece of memory at an address. ``space`` are bits of ``ocsd_mem_space_acc_t``; None: all of them."""

    vaddr: int
    data: Any  # a buffer
    space: int | None = None


class TraceSource(NamedTuple):
    """A stream of bytes: of one trace unit, or frames of several. ``flags`` are the deformatter's."""

    units: tuple[TraceUnit, ...]
    framed: bool
    flags: int = 0
    architecture: int | None = None  # of the cores; None: as the units show


class TracePart(NamedTuple):
    """Bytes of the file that are one recording; ``source`` is its row in the job."""

    source: int
    at: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeJob:
    """The parts that a child decodes, and how.

    ``checks``: let the library compare the trace with the memory, as far as it can. ``indexed``: give each element the
    offset of its packet in the part. ``changes`` are of ``memory`` while it was traced. ``user`` has processes' code.
    ``mixed``: frames may have bytes of other sources (STM), which are no part of the trace of instructions.
    """

    path: Path
    sources: tuple[TraceSource, ...]
    parts: tuple[TracePart, ...]
    memory: tuple[CodeMemory, ...]
    checks: bool = True
    indexed: bool = False
    changes: TextChanges | None = None
    user: UserCode | None = None
    mixed: bool = False


def decode(job: DecodeJob, version: LibraryVersion) -> Iterator[Decoded]:
    """Yield all that the library makes of the parts, in their order; after a crash it goes on with the next part."""
    first = 0
    while first < len(job.parts):
        last, why = first - 1, ""
        for message in _child(job, version, first):
            if isinstance(message, Begin):
                last = message.part
            if isinstance(message, str):
                why = message
            else:
                yield message
        if not why:
            return
        last = max(last, first)
        yield Failed(last, why)
        first = last + 1


def _child(job: DecodeJob, version: LibraryVersion, first: int) -> Iterator[Decoded | str]:
    """Yield the messages of one child, which begins with part ``first``; at last why it ended, if before its time."""
    reading, writing = os.pipe()
    with held_signals():
        child = os.fork()
        if not child:
            _be_child(job, version, first, reading, writing)
    os.close(writing)
    whole = False
    try:
        # Without its last message it ended early, perhaps in the middle of one.
        with os.fdopen(reading, "rb", _FLUSH_AT) as stream, suppress(EOFError, pickle.UnpicklingError):
            while (message := pickle.load(stream)) is not None:  # noqa: S301 - of our own child
                yield message
            whole = True
    finally:
        if not whole:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not whole:
        yield _describe_end(status)


def _describe_end(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(ValueError):
            return f"the decoder crashed ({signal.Signals(number).name})"
        return f"the decoder crashed (signal {number})"
    return "the decoder ended early"


def _be_child(job: DecodeJob, version: LibraryVersion, first: int, reading: int, writing: int) -> None:
    """Decode, and never return. Messages of the library on standard error are of no use to a user."""
    code = 1
    try:
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ending, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(reading)
        faulthandler.disable()  # a crash is reported by the parent
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        _Child(job, version, writing).run(first)
        code = 0
    finally:
        os._exit(code)


class _Messages:
    """The child's end of the pipe; elements wait in it for one message."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self.elements, self.ids, self.indexes = bytearray(), bytearray(), array("Q")

    def send(self, message: Decoded | None) -> None:
        """Write a message after the elements that wait; None: all parts are done."""
        if self.ids:
            rows, ids = np.frombuffer(bytes(self.elements), ELEMENT), np.frombuffer(bytes(self.ids), np.uint8)
            self._write(Elements(rows, ids, np.array(self.indexes, np.uint64)))
            del self.elements[:], self.ids[:], self.indexes[:]
        self._write(message)

    def _write(self, message: Decoded | None) -> None:
        view = memoryview(pickle.dumps(message))
        while view:
            view = view[os.write(self._writing, view) :]


class _Child:
    def __init__(self, job: DecodeJob, version: LibraryVersion, writing: int) -> None:
        self._job, self._out = job, _Messages(writing)
        self._library, self._version = load_library(), version
        self._trees: list[DecodeTree | None] = [None] * len(job.sources)
        self._users: list[UserMemory | None] = [None] * len(job.sources)
        self._user: UserMemory | None = None  # of the part that is decoded
        self._guests: set[int] = set()
        pieces = [(piece.vaddr, piece.data) for piece in job.memory]
        self._text = None if job.changes is None else ChangingText(job.changes, pieces)
        self._memory = [piece._replace(data=data) for piece, (_, data) in zip(job.memory, pieces, strict=True)]
        self._on_element, self._on_text = OnElement(self._element()), OnText(self._message)

    def run(self, first: int) -> None:
        if not self._job.path.stat().st_size:
            self._out.send(None)
            return
        with self._job.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            address = np.frombuffer(data, np.uint8)
            for number in range(first, len(self._job.parts)):
                self._out.send(Begin(number))
                part = self._job.parts[number]
                try:
                    why = self._decode(part, address.ctypes.data)
                except OSError as error:
                    why = str(error)
                if why:
                    self._out.send(Failed(number, why))
                    # A tree decodes nothing after a fatal error: the next part gets a new one.
                    tree, self._trees[part.source] = self._trees[part.source], None
                    if tree is not None:
                        tree.close()
            del address
        self._out.send(None)

    def _decode(self, part: TracePart, base: int) -> str:
        """Decode a part; return why decoding stopped, empty at the end of the part."""
        tree = self._tree(part.source)
        tree.reset_counts()
        self._user = self._users[part.source]
        if self._user is not None:
            self._user.begin()
        at, index, waits = part.at, 0, 0
        stop = part.at + part.size
        response = 0
        while at < stop:
            if response >= FIRST_WAIT:
                response, _ = tree.process(FLUSH)
                waits += 1
            else:
                response, used = tree.process(DATA, index, base + at, min(_CHUNK, stop - at))
                at, index, waits = at + used, index + used, 0 if used else waits + 1
            if response >= FIRST_FATAL:
                return "a fatal error of the decoder"
            if waits > _MOST_WAITS:
                return "the decoder takes no more of it"
            if len(self._out.elements) >= _FLUSH_AT:
                self._out.send(ByteCounts(tuple(tree.counts())))
        tree.process(END)
        self._out.send(ByteCounts(tuple(tree.counts())))
        tree.process(RESET)
        return ""

    def _tree(self, number: int) -> DecodeTree:
        tree = self._trees[number]
        if not self._job.memory:
            raise OSError("there is no text that it could follow")
        if tree is None:
            source = self._job.sources[number]
            callbacks = self._on_element, self._on_text
            tree = DecodeTree(
                self._library, self._version, framed=source.framed, flags=source.flags, callbacks=callbacks
            )
            self._trees[number] = tree
            for unit in source.units:
                tree.add_decoder(unit, source.architecture, checks=self._job.checks)
            for memory in self._memory:
                with suppress(OSError):  # another piece covers this address already
                    tree.add_memory(*memory)
            if self._job.user is None:
                tree.read_directly()
            else:
                in_vmid = any(unit.process_in_vmid for unit in source.units)
                self._users[number] = UserMemory(self._job.user, tree, self._guests, in_vmid=in_vmid)
        return tree

    def _element(self) -> Any:
        """Return the callback for elements. It runs for each of them, so it only copies where nothing asks for more."""
        views: dict[int, memoryview] = {}  # by address; decoders have a few elements, which they use again
        add, add_id, add_index = self._out.elements.extend, self._out.ids.append, self._out.indexes.append
        followed, indexed = self._followed(), self._job.indexed

        def view_of(element: int) -> memoryview:
            if len(views) >= _MOST_ADDRESSES:
                views.clear()
            view = views[element] = memoryview((c_char * ELEMENT.itemsize).from_address(element)).cast("B")
            return view

        def on_element(_context: int, _index: int, number: int, element: int) -> int:
            try:  # costs less than a dict with __missing__
                view = views[element]
            except KeyError:
                view = view_of(element)
            add(view)
            add_id(number)
            return 0

        def on_followed(_context: int, _index: int, number: int, element: int) -> int:
            try:
                view = views[element]
            except KeyError:
                view = view_of(element)
            add(view)
            add_id(number)
            if view[0] in followed:
                followed[view[0]](number, view)
            return 0

        def on_indexed(context: int, index: int, number: int, element: int) -> int:
            add_index(index & _INDEX_MASK)
            return on_followed(context, index, number, element)

        if indexed:
            return on_indexed
        return on_followed if followed else on_element

    def _followed(self) -> dict[int, Callable[[int, memoryview], None]]:
        """Return what follows elements of a kind: the processes that run, and text that changes."""
        followed: dict[int, Callable[[int, memoryview], None]] = {}
        if self._text is not None:
            followed[ElementKind.TIMESTAMP] = self._on_timestamp
        if self._job.user is not None:
            followed[ElementKind.PE_CONTEXT] = self._on_context
        return followed

    def _on_timestamp(self, _number: int, element: memoryview) -> None:
        if self._text is not None and self._text.move_to(int.from_bytes(element[TICKS], "little")):
            for tree in filter(None, self._trees):
                tree.text_changed()

    def _on_context(self, number: int, element: memoryview) -> None:
        if self._user is not None:
            self._user.take(number, element)

    def _message(self, _context: int, text: bytes | None, _size: int) -> None:
        self._out.send(DecoderText((text or b"")[:_LONGEST_TEXT]))
