"""What the commands of ``prologue trace`` read: the images and the filters that their options name."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

from prologue.cli.trace_progress import progress_on_terminal
from prologue.elf.notes import gnu_build_id
from prologue.errors import InputError, UsageError
from prologue.live.memory.sources import open_memory
from prologue.live.pokes.convert import ARM64
from prologue.live.pokes.sources import read_any
from prologue.outputs import require_other
from prologue.trace.path.assign import GuestKernel, Kernels
from prologue.trace.path.filters import Filters
from prologue.trace.path.history import TextHistory
from prologue.trace.path.host_mode import find_host_level
from prologue.trace.path.merging import GuestTrace, merged, one_after_the_other, timed
from prologue.trace.path.programs import Program, decoder_text, linked_program, running_program, slide_by_symbols
from prologue.trace.readers.decoding import DecodedTrace
from prologue.trace.readers.opencsd import Counter
from prologue.trace.readers.sources import Trace, open_trace
from prologue.trace.readers.streams import STDIN

_SKEW: Final = 10  # ms
_HIGHEST_GUEST: Final = (1 << 31) - 1
_FASTEST: Final = 10**12  # Hz
_LATEST: Final = Decimal((1 << 64) - 1) / 10**9  # s
_STDIN: Final = Path("/dev/stdin")  # leads to the file that a shell redirected from


def require_no_input(out: Path | None, args: Namespace) -> None:
    """Refuse an output that would replace one of the files that are read.

    Raises:
        OutputError: it would.

    """
    if out is not None:
        require_other(out, *_input_files(args))


def _input_files(args: Namespace) -> Iterator[Path]:
    """Every file that the options name; not all need to be there."""
    for text in (*args.trace, *map(_without_id, args.guest_trace), *args.guest_trace):
        yield _STDIN if text == STDIN else Path(text)
        if Path(text).is_dir():  # perf's data, or a snapshot
            yield from (*Path(text).glob("*"), *Path(text).glob("kcore_dir/*"))
    yield args.vmlinux
    yield from map(Path, (*map(_without_id, args.guest_vmlinux), *args.guest_vmlinux))
    if args.writes is not None:
        yield args.writes
    if args.memory is not None:
        memory = Path(args.memory)
        yield memory
        for directory in (memory, memory / "kcore_dir"):  # perf's data
            yield from directory.glob("*")
    if args.memory is not None and args.modules is not None and args.modules.is_dir():
        from prologue.kernel.load import find_modules

        yield from find_modules(args.modules)


def _without_id(text: str) -> str:
    """The file of TRACE@ID or VMLINUX@ID; the text itself where there is no ID."""
    path, at, _ = text.rpartition("@")
    return path if at else text


@contextmanager
def open_traces(args: Namespace) -> Iterator[Trace]:
    """The traces one after the other, with those of ``--guest-trace`` merged into them.

    Raises:
        InputError: one cannot be opened, or is damaged from the start; its batches raise it, too.
        UsageError: options that cannot be.

    """
    named = [_guest_trace(text) for text in args.guest_trace]
    if [*args.trace, *(path for path, _, _ in named)].count(STDIN) > 1:
        raise UsageError(f"{STDIN} is named for more than one trace: standard input has one")
    counter = None if args.timestamps is None else _counter(args.timestamps)
    with ExitStack() as stack:
        trace = stack.enter_context(open_trace(args.trace[0], None, counter))
        more = [stack.enter_context(open_trace(path, trace.account, counter)) for path in args.trace[1:]]
        if more:
            for each in (trace, *more):
                _require_no_decoding(each)
            trace = one_after_the_other([trace, *more])
        kinds, guests = {trace.kind}, []
        for path, number, behind in named:
            one = stack.enter_context(open_trace(path, trace.account.apart(), counter))
            guests.append(GuestTrace(timed(one), number, behind, one.header is not None))
            _require_no_decoding(one)
            trace.guests.append((number, one))
            kinds.add(one.kind)
            if one.kind == "perf":  # says of no step whether it is an exception
                trace.kind = one.kind
        if guests:
            trace.batches = merged(timed(trace), guests)
        if counter is not None and kinds.isdisjoint(("opencsd", "coresight")):
            raise UsageError("--timestamps is for what OpenCSD decodes: the times of other traces are ns")
        if counter is None and "opencsd" in kinds and (guests or args.writes):
            trace.account.add("trace of OpenCSD whose timestamps are taken as ns of that clock: see --timestamps")
        yield trace


def _counter(text: str) -> Counter:
    frequency, sign, start = text.partition("-" if "-" in text else "+")
    ticks = number("--timestamps", frequency)
    if not 0 < ticks <= _FASTEST:
        raise UsageError(f"--timestamps {text}: expected HZ, HZ+NS or HZ-NS, HZ from 1 to {_FASTEST:,}")
    return Counter(ticks, number("--timestamps", f"{sign}{start}") if sign else 0)


def _guest_trace(text: str) -> tuple[str, int, int]:
    path, _, rest = text.rpartition("@")
    name, sign, behind = rest.partition("-" if "-" in rest else "+")
    own = _guest_number(name)
    if not path or own is None:
        raise UsageError(f"--guest-trace {text}: expected TRACE@ID, TRACE@ID+NS or TRACE@ID-NS")
    return path, own, number("--guest-trace", f"{sign}{behind}") if sign else 0


def _guest_number(text: str) -> int | None:
    """A VMID or a process, which has at most 31 bits; None if it is neither."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_HIGHEST_GUEST)):
        return None
    own = int(text)
    return own if own <= _HIGHEST_GUEST else None


def open_kernels(args: Namespace, trace: Trace, slide: int | None = None) -> Kernels:
    """The host's and the guests' kernels; ``slide`` is the host's where another input says it.

    Raises:
        InputError: a file that is none, or another kernel than memory's.
        UsageError: options that do not go together.

    """
    hyp = None if args.hyp_text is None else number("--hyp-text", args.hyp_text)
    _require_decodable(args, trace)
    if args.memory is None and args.slide is None and trace.decoded is not None and trace.decoded.kcore is not None:
        args.memory = str(trace.decoded.kcore)
    if args.memory is not None:
        if args.slide is not None or hyp is not None:
            raise UsageError("--slide and --hyp-text are for --vmlinux without --memory, which says where it is")
        host = running_program(args.vmlinux, open_memory(args.memory), args.modules)
        _require_same_boot(trace, host.kernel.slide, args.memory)
    elif args.modules is not None:
        raise UsageError("--modules needs --memory: only memory says where modules were loaded")
    else:
        if slide is not None and args.slide is None:
            _require_same_boot(trace, slide, args.explain)
        said = slide if slide is not None else _slide_said(args.vmlinux, trace)
        slide = (said or 0) if args.slide is None else number("--slide", args.slide)
        host = linked_program(args.vmlinux, slide, hyp)
    _require_same_build(trace, host)
    if trace.decoded is not None:
        memory = open_memory(args.memory) if args.memory is not None else None
        if isinstance(trace.decoded, DecodedTrace):
            trace.decoded.progress = progress_on_terminal()
        trace.decoded.follow(decoder_text(host, memory), args.vmlinux)
    if host.missing:
        without = f"without a file in {args.modules}, of no image here: {', '.join(host.missing)}"
        trace.account.add(f"loaded modules {without}", len(host.missing), singular=f"loaded module {without}")
    for what, count in host.doubts:
        trace.account.add(what, count)
    guests = tuple(_guest(text, trace) for text in args.guest_vmlinux)
    if len(guests) > 1 and (
        any(guest.number is None for guest in guests) or len({guest.number for guest in guests}) < len(guests)
    ):
        raise UsageError("several guests need an ID each: --guest-vmlinux VMLINUX@VMID")
    level, unnumbered = args.host_el, trace.header is not None
    # In recordings without guests' images, VMIDs alone tell.
    if level is None and (guests or not unnumbered):
        level, trace.batches = find_host_level(trace.batches, host, unnumbered=unnumbered)
    return Kernels(host, guests, level, unnumbered)


def _require_no_decoding(trace: Trace) -> None:
    """Refuse one of several traces that would have to be decoded: each decoder follows a program of its own."""
    if trace.decoded is not None:
        raise UsageError(f"{trace.name}: perf.data and snapshots are read one at a time, and without --guest-trace")


def _require_decodable(args: Namespace, trace: Trace) -> None:
    """Refuse what a decoder in this process does not do."""
    if trace.decoded is None:
        return
    if args.guest_vmlinux or args.guest_trace:
        raise UsageError(
            "guests in perf.data and snapshots are not decoded: decode with perf script, and give its text"
        )


def _slide_said(vmlinux: Path, trace: Trace) -> int | None:
    """The slide as a recording's header, or perf's map of the kernel, has it."""
    if trace.header is not None:
        return trace.header.slide
    known = trace.decoded.kernel_symbols if trace.decoded is not None else {}
    return slide_by_symbols(vmlinux, known) if known else None


def _require_same_boot(trace: Trace, slide: int, memory: str) -> None:
    own = trace.header.slide if trace.header else None
    if own is not None and own != slide:
        raise InputError(f"has the kernel at slide {slide:#x}, {trace.name} at {own:#x}: another boot", path=memory)


def _require_same_build(trace: Trace, program: Program) -> None:
    own, header = gnu_build_id(program.kernel.image), trace.header
    if own and header and not header.may_be_of(own):
        said = header.build_id.hex()
        raise InputError(f"was recorded of another kernel: build-id {said}, {program.name} has {own}", path=trace.name)
    said = trace.decoded.build_id if trace.decoded is not None else ""
    if own and said and own[: len(said)] != said:
        raise InputError(f"was recorded of another kernel: build-id {said}, {program.name} has {own}", path=trace.name)


def open_history(args: Namespace, trace: Trace, kernels: Kernels) -> TextHistory | None:
    """The writes to the host's text that ``--writes`` names.

    Raises:
        InputError: no recorded writes, of another kernel, of another boot, or of other text.

    """
    if args.writes is None:
        if args.skew is not None:
            raise UsageError("--skew is for --writes, which is not given")
        return None
    recording = read_any(args.writes)
    if recording.origin.machine != ARM64:
        raise InputError(f"has no words of arm64 text: its machine is {recording.origin.machine}", path=args.writes)
    image = kernels.host.kernel
    own, theirs = gnu_build_id(image.image), recording.origin.build_id
    if own and theirs and own != theirs:
        raise InputError(f"was recorded of another kernel: build-id {theirs}, the vmlinux has {own}", path=args.writes)
    slide = recording.ending.slide
    if slide is not None and slide != image.slide:
        raise InputError(
            f"was recorded of a kernel that ran at slide {slide:#x}, the trace's is at {image.slide:#x}: another boot?",
            path=args.writes,
        )
    history = TextHistory(
        recording,
        kernels.host,
        (_SKEW if args.skew is None else args.skew) * 1_000_000,
        says_exceptions=trace.kind != "perf",
    )
    if not history.count:
        raise InputError(f"has no write to text of {kernels.host.name}", path=args.writes)
    return history


def _guest(text: str, trace: Trace) -> GuestKernel:
    guest = _linked_guest(text, trace)
    for own, one in trace.guests:
        if guest.number in (None, own):
            _require_same_build(one, guest.program)
    return guest


def _linked_guest(text: str, trace: Trace) -> GuestKernel:
    path, at, rest = text.rpartition("@")
    if not at or Path(text).exists():
        return GuestKernel(linked_program(Path(text), 0), None)
    name, plus, slide = rest.partition("+")
    own = _guest_number(name)
    if own is None and name:
        raise UsageError(f"--guest-vmlinux {text}: expected VMLINUX, VMLINUX@ID or VMLINUX@ID+SLIDE")
    headers = [one.header for each, one in trace.guests if each == own and one.header is not None]
    said = next((header.slide for header in reversed(headers) if header.slide is not None), 0)
    return GuestKernel(linked_program(Path(path), number("--guest-vmlinux", slide) if plus else said), own)


def number(option: str, text: str) -> int:
    """A number of 64 bits, decimal or with 0x; also negative.

    Raises:
        UsageError: it is none.

    """
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a number, as 0x1234") from None
    if abs(value) >> 64:
        raise UsageError(f"{option} {text}: has more than 64 bits")
    return value


def make_filters(args: Namespace, kernels: Kernels) -> Filters:
    """What of the trace to look at.

    Raises:
        InputError: a function that no image has.
        UsageError: times that are none.

    """
    places = find_symbols(args.symbols, args.vmlinux, kernels)
    return Filters(
        places=tuple(places),
        cpus=frozenset(args.cpu or ()),
        times=_times(args.time),
        levels=frozenset(args.level or ()),
        pids=frozenset(args.pid or ()),
        comms=frozenset(args.comm),
    )


def find_symbols(names: Sequence[str], vmlinux: Path, kernels: Kernels) -> list[tuple[int, int]]:
    """Every place of these symbols: row of the program, address.

    Raises:
        InputError: no image has one of them.

    """
    places = []
    for name in names:
        found = [(row, place) for row, one in enumerate(kernels.programs) for place in one.find(name)]
        if not found:
            raise InputError(f"has no symbol {name}", path=vmlinux)
        places += found
    return places


def _times(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    begin, comma, end = text.partition(",")
    try:
        first, last = _nanoseconds(begin.strip() or "0"), _nanoseconds(end.strip() or "Infinity")
    except ArithmeticError:
        comma = ""
        first = last = 0
    if not comma:
        raise UsageError(f"--time {text}: expected FROM,TO in seconds")
    if first > last:
        raise UsageError(f"--time {text}: ends before it begins")
    return first, last


def _nanoseconds(seconds: str) -> int:
    """The nearest time that a trace can have: 64 bits, and exact, which a float of seconds since 1970 is not."""
    return int(min(max(Decimal(seconds), Decimal(0)), _LATEST) * 10**9)
