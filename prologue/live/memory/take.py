"""Takes a capture of a running kernel: which memory it has, and how it is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import Bool, spans_of
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.core import NO_PADDR, CoreSegment
from prologue.live.memory.kallsyms import BPF_FILLER, MOST_UNSIZED
from prologue.live.memory.kcore import Kcore, RemoteKcore
from prologue.live.memory.ranges import PAGE, Range
from prologue.live.memory.reading import StableReading, read_until_stable, zero_pages
from prologue.live.memory.state import FREED, KernelState, is_module_text

_TRIES: Final = 2  # of reading everything, if the text came to rest and what follow finds did not


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSummary:
    """Content of a capture; ``file_size`` and ``memory`` in bytes.

    ``unstable`` are addresses of text words that still changed when they had been read several times. ``whole`` says
    whether all structures are there that were wanted.
    """

    file_size: int
    memory: int
    modules: int
    unstable: tuple[int, ...]
    whole: bool


class Structures(NamedTuple):
    """Wanted parts of the heap: addresses and bytes, ascending and apart; ``whole`` if all could be read.

    ``deciding`` is what of it goes with the text: other bytes may change at any time. ``called`` are addresses that it
    sends calls of the text to.
    """

    pieces: Sequence[tuple[int, bytes]]
    whole: bool
    deciding: tuple[object, ...]
    called: frozenset[int] = frozenset()


Follow = Callable[[Memory], Structures]
"""Finds structures in memory of now."""
FollowMore = Callable[[Memory], Sequence[tuple[int, bytes]]]
"""Finds more of the heap in memory of now, which may take long: addresses and bytes, ascending and apart."""


class _Start(NamedTuple):
    """Start of a symbol or section, the most bytes that it may have (0: not known), and whether it is text."""

    vaddr: int
    most: int
    is_text: bool


def take_capture(
    source: Kcore | RemoteKcore, out: Path, follow: Follow, follow_more: FollowMore | None = None
) -> CaptureSummary:
    """Save the kernel's image, its modules' memory, what is followed, and what the kernel says of itself.

    Data are read between two readings of the text, again and again until these agree: then text and data belong
    together, however long it took. What ``follow_more`` finds is read after that, and is then newer: also in the image,
    where its lists begin.

    Raises:
        InputError: something cannot be read.
        OutputError: ``out`` cannot be written.

    """
    state = source.state()
    segment, text, kept = _image_of(source, state)
    starts = tuple(_measured(source, _starts(state, range(segment.vaddr, segment.vaddr + segment.filesz))))
    ranges = list(_ranges(starts))
    first, *rest = kept
    matters = [np.ones(text.size // 4, np.bool_), *(_is_text(piece_range, starts) for piece_range in ranges)]
    data = [Range(text.end, first.end - text.end), *rest]
    (kernel, *others), contents, structures, more, one_moment = _read(
        source, [text, *ranges], matters, data, follow, follow_more or (lambda _: ())
    )
    state = _with_later(source, state, structures, segment)
    pieces = [_piece(segment, first.vaddr, kernel.data + contents[0], kernel.unstable)]
    for piece, plain in zip(rest, contents[1:], strict=True):
        # If kallsyms has no data symbols (6.1 without KALLSYMS_ALL), init's end is where its zeros end.
        lead = 0 if "__init_end" in state.anchors() else len(plain) - len(plain.lstrip(b"\0"))
        skipped = lead // PAGE * PAGE
        pieces += [_piece(segment, piece.vaddr + skipped, plain[skipped:])] if skipped < len(plain) else []
    for piece, reading in zip(ranges, others, strict=True):
        pieces += _present(piece.vaddr, reading, starts)
    pieces += list(_structures(source, structures, pieces))
    pieces = _overlaid(source, pieces, more)
    note = source.core.note("VMCOREINFO") or b""
    size = write_capture(out, source.name, state, note, pieces, one_moment=one_moment)
    unstable = tuple(vaddr for piece in pieces for vaddr in piece.unstable)
    memory = sum(len(piece.data) for piece in pieces)
    return CaptureSummary(
        file_size=size, memory=memory, modules=len(state.modules), unstable=unstable, whole=structures.whole
    )


def _with_later(
    source: Kcore | RemoteKcore, state: KernelState, structures: Structures, image: CoreSegment
) -> KernelState:
    """Return the state, asked before the text was read, with what was attached since, if it may be in the text.

    These are names of what is called, and kprobes, of which the structures may have no list.
    """
    inside = range(image.vaddr, image.vaddr + image.filesz)
    if structures.whole and all(vaddr in inside or state.code_owner(vaddr) for vaddr in structures.called):
        return state
    source.forget_state()
    later = source.state()
    symbols = tuple(dict.fromkeys((*state.symbols, *later.symbols)))
    return replace(state, symbols=symbols, kprobes=tuple(dict.fromkeys((*state.kprobes, *later.kprobes))))


def _read(  # noqa: PLR0913, PLR0917 - what is read, and what finds more
    source: Kcore | RemoteKcore, text: list[Range], matters: list[Bool], data: list[Range], follow: Follow,
    follow_more: FollowMore,
) -> tuple[list[StableReading], list[bytes], Structures, Sequence[tuple[int, bytes]], bool]:  # fmt: skip
    """Return text, data of the image and structures from between two readings of the text that agree; and more.

    ``follow_more`` finds that after the text. The last is true if the structures were the same after that.
    """
    readings: list[tuple[list[bytes], Structures]] = []

    def between() -> None:
        readings.append((source.read_many(data), follow(source)))

    for _ in range(_TRIES):
        steady = read_until_stable(source, text, between, matters)
        more = follow_more(source)
        # A tracer that is switched on and off again leaves the text as it was, but not what was read in between.
        unstable = any(reading.unstable for reading in steady)
        one_moment = not unstable and follow(source).deciding == readings[-1][1].deciding
        if one_moment or unstable:
            break
    return steady, *readings[-1], more, one_moment


def _structures(source: Kcore | RemoteKcore, structures: Structures, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the structures that are not in the capture already."""
    spans = [range(piece.vaddr, piece.vaddr + len(piece.data)) for piece in pieces]
    for vaddr, data in structures.pieces:
        segment = source.core.segment_of(vaddr, len(data))
        if segment is not None and not any(vaddr in span for span in spans):
            yield _piece(segment, vaddr, data)


def _overlaid(source: Kcore | RemoteKcore, pieces: Sequence[Piece], more: Sequence[tuple[int, bytes]]) -> list[Piece]:
    """Put what was read later over the pieces; what they lack is pieces of its own."""
    pieces = sorted(pieces)
    starts, contents = [piece.vaddr for piece in pieces], [bytearray(piece.data) for piece in pieces]
    lacking: list[Piece] = []
    for start, data in more:
        vaddr, end = start, start + len(data)
        while vaddr < end:
            k = bisect_right(starts, vaddr) - 1
            left = starts[k] + len(contents[k]) - vaddr if k >= 0 else 0
            following = starts[k + 1] if k + 1 < len(starts) else end
            stop = min(end, vaddr + left if left > 0 else following)
            part = data[vaddr - start : stop - start]
            if left > 0:
                contents[k][vaddr - starts[k] : stop - starts[k]] = part
            elif (segment := source.core.segment_of(vaddr, len(part))) is not None:
                lacking.append(_piece(segment, vaddr, part))
            vaddr = stop
    kept = [piece._replace(data=bytes(content)) for piece, content in zip(pieces, contents, strict=True)]
    return [*kept, *lacking]


def _image_of(source: Kcore | RemoteKcore, state: KernelState) -> tuple[CoreSegment, Range, tuple[Range, ...]]:
    """Return the segment with the kernel's image, its text in whole words, and the parts of it that are kept.

    Addresses before _stext (6.1 does not map them) and those of init are given away after boot: vmalloc may have put
    stacks of tasks there, which are no business of ours. If kallsyms does not say where init ends, all after its start
    is named: what was init is unmapped there, and kept from others (free_initmem, arch/arm64/mm/init.c, 6.1-6.12).
    """
    anchors = state.anchors()
    start, end = anchors.get("_stext", 0), anchors.get("_etext", 0) & ~3
    if source.info.anchors.get("_stext", start) != start:
        raise InputError("its kernel moved between two questions: it rebooted; try again", path=source.name)
    segment = source.core.segment_of(start, end - start) if start < end else None
    if segment is None:
        raise InputError("no segment for the kernel's text, which kallsyms has from _stext to _etext", path=source.name)
    stop = segment.vaddr + segment.filesz
    init = anchors.get("__init_begin", stop)
    after = anchors.get("__init_end", init)
    if not end <= init <= after <= stop:
        raise InputError("kallsyms has _etext, __init_begin and __init_end in another order", path=source.name)
    kept = (Range(start, init - start), Range(after, stop - after))
    return segment, Range(start, end - start), tuple(piece for piece in kept if piece.size)


def _piece(segment: CoreSegment, vaddr: int, data: bytes, unstable: tuple[int, ...] = ()) -> Piece:
    paddr = NO_PADDR if segment.paddr == NO_PADDR else segment.paddr + vaddr - segment.vaddr
    return Piece(vaddr, paddr, data, unstable)


def _starts(state: KernelState, image: range) -> tuple[_Start, ...]:
    """Return the starts outside of the image that belong to the text, ascending.

    Sections of modules, and what has symbols but is no module: BPF programs, and pages of kprobes and of ftrace.
    """
    starts = {}
    modules = {module.name for module in state.modules}
    for symbol in state.symbols:
        if symbol.owner and symbol.owner not in modules:
            starts[symbol.vaddr] = _Start(symbol.vaddr, 0, is_text=True)
    for module in state.modules:
        starts[module.base] = _Start(module.base, module.size, is_text=True)
        for name, vaddr in module.sections.items():
            if not name.startswith(FREED):
                starts[vaddr] = _Start(vaddr, module.size, is_module_text(name))
    return tuple(start for vaddr, start in sorted(starts.items()) if vaddr and vaddr not in image)


def _measured(source: Kcore | RemoteKcore, starts: tuple[_Start, ...]) -> Iterator[_Start]:
    """Yield the starts with sizes for BPF's: kallsyms has none, and a program may be as long as a module.

    Each goes on to the page of the next start, or to one that is not mapped, or that has BPF's filler only.
    """
    stops = [*(-(-start.vaddr // PAGE) * PAGE for start in starts[1:]), 1 << 64][: len(starts)]
    windows = {}
    for start, stop in zip(starts, stops, strict=True):
        segment = source.core.segment_of(start.vaddr)
        if not start.most and segment is not None:
            low = start.vaddr // PAGE * PAGE
            end = min(stop, low + MOST_UNSIZED + PAGE, segment.vaddr + segment.filesz)
            windows[start.vaddr] = Range(low, end - low)
    contents = dict(zip(windows, source.read_many(list(windows.values())), strict=True))
    for start in starts:
        if start.most:
            yield start
            continue
        data, filler = contents.get(start.vaddr, b""), BPF_FILLER * (PAGE // len(BPF_FILLER))
        ends = (at for at in range(0, len(data), PAGE) if data[at : at + PAGE] in {filler, bytes(PAGE)})
        size = next(ends, len(data)) - start.vaddr % PAGE
        yield start._replace(most=max(size, 1))


def _ranges(starts: tuple[_Start, ...]) -> Iterator[Range]:
    """Yield ranges of whole pages, ascending and apart, that hold everything from its start to its end."""
    first = last = 0
    for start in starts:
        low, high = start.vaddr // PAGE * PAGE, -(-(start.vaddr + start.most) // PAGE) * PAGE
        if low > last:
            if last:
                yield Range(first, last - first)
            first = low
        last = max(last, high)
    if last:
        yield Range(first, last - first)


def _is_text(where: Range, starts: tuple[_Start, ...]) -> Bool:
    """Return which words of the range belong to something that begins with text."""
    edges = [max(start.vaddr - where.vaddr, 0) // 4 for start in starts] + [where.size // 4]
    is_text = np.zeros(where.size // 4, np.bool_)
    for k, start in enumerate(starts):
        is_text[edges[k] : edges[k + 1]] = start.is_text
    return is_text


def _present(vaddr: int, reading: StableReading, starts: tuple[_Start, ...]) -> Iterator[Piece]:
    """Yield the runs of mapped pages in which something begins.

    Between two allocations a page is unmapped: a run without a start belongs to others, and is left out.
    """
    addresses = [start.vaddr for start in starts]
    # /proc/kcore gives zeros for what is not mapped.
    for low, high in spans_of(~zero_pages(reading.data, vaddr)):
        run = range(vaddr + low * PAGE, vaddr + high * PAGE)
        if bisect_right(addresses, run.stop - 1) == bisect_right(addresses, run.start - 1):
            continue
        unstable = tuple(word for word in reading.unstable if word in run)
        yield Piece(run.start, NO_PADDR, reading.data[low * PAGE : high * PAGE], unstable)
